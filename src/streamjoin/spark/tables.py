"""The join of two tables: the same cores, without state and without a bound on the result.

::

    stored side   -> pack by key   --+
                                     +-> one partition per core -> index, probe, joined rows
    probing side  -> pack by range --+

A sample of each side shows which is smaller, how many cores it takes to keep each core's part of it
in memory, and where to split. The smaller side is stored: a row goes to the core of its key. A row
of the other side goes to the cores that its ranges touch, and to no others. Within a core the
stored parcels come first; probing parcels then go through one by one, and need not be kept. Spark
sorts for this, but SQL does not promise that an order lasts through `mapInArrow`, and there are
engines that drop it: so the order is checked with every parcel.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from math import ceil

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamjoin.errors import StreamJoinError
from streamjoin.joins.sliding.static import choose_chain
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.batches import group_by_bytes, in_one_piece
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.preparing import prepare
from streamjoin.spark.cores.portions import PORTION_BYTES
from streamjoin.spark.planning.inputs import Inputs, backticks
from streamjoin.spark.planning.schemas import conform, name_plainly, plain_names
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing.exchange import gather_rounds, split_rows
from streamjoin.spark.routing.parcels import (
    COLUMNS,
    Parcel,
    Role,
    address_parcel,
    pack_rows,
    unpack_rows,
)
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.streams import resize_batches

SAMPLE_ROWS, ENOUGH_ROWS = 20_000, 4_000  # of a side: wanted, and enough
FIRST_SHARE = 0.02  # of a table, that a sample is drawn from first
CORE_ROWS = 1_000_000  # stored rows per core
ONE_CORE_ROWS = 20_000  # of either side: with no more, one core is enough
LEAST_CORES, MOST_CORES = 4, 512  # if there are several, and their number is not given
MOST_REPEATS = 16  # of a sampled key
DRAW = "__streamjoin_draw"  # the column of random numbers

RoleData = tuple[int, pa.Scalar]  # of a parcel


@dataclass(frozen=True)
class SideSample:
    """Rows drawn from a side, and how many it has."""

    rows: float  # estimated
    batch: Prepared


def draw_sample(frame: DataFrame, spec: JoinSpec, side: Side) -> SideSample:
    """Draw rows from all of a table, and estimate how many there are.

    The rows with the k smallest of n uniform numbers are a fair sample, and the largest of these
    numbers is about k / n. In a large table those are small numbers: only they are sorted.
    """
    names = spec.plan().key_columns(side) or spec.schemas[side].names[:1]
    plain = plain_names(len(names))
    numbered = frame.select(
        *(F.col(backticks(name)).alias(other) for name, other in zip(names, plain, strict=True)),
        F.rand(seed=SIDES.index(side)).alias(DRAW),
    )
    for share in (FIRST_SHARE, 1.0):
        drawn = numbered.where(F.col(DRAW) < share).orderBy(DRAW).limit(SAMPLE_ROWS).toArrow()
        if drawn.num_rows >= ENOUGH_ROWS:
            break
    rows = drawn.num_rows / share
    if drawn.num_rows == SAMPLE_ROWS:
        rows = SAMPLE_ROWS / max(drawn[DRAW].to_numpy().max(), 1e-12)
    schema = pa.schema([spec.schemas[side].field(name) for name in names])
    batches = drawn.select(plain).to_batches()
    batch = in_one_piece([conform(each, schema) for each in batches], schema)
    return SideSample(rows, prepare(spec.routing_plan(), side, batch))


@dataclass(frozen=True)
class Placement:
    """Where the rows of two tables go: which side is stored, and by what table it is spread."""

    stored: Side
    table: RoutingTable


def place_tables(spec: JoinSpec, samples: dict[Side, SideSample], cores: int | None) -> Placement:
    """Decide from samples which side is stored, and on how many cores if ``cores`` is None."""
    stored: Side = min(SIDES, key=lambda side: samples[side].rows)
    rows = samples[stored].rows
    if cores is None:
        cores = 1
        if max(each.rows for each in samples.values()) > ONE_CORE_ROWS:
            cores = min(max(ceil(rows / CORE_ROWS), LEAST_CORES), MOST_CORES)
    if spec.plan().longest_pause is not None:  # all rows that a session may have are in one core
        return Placement(stored, RoutingTable.even(cores if spec.routing == "hash" else 1))
    if spec.routing == "split" or cores == 1:
        return Placement(stored, RoutingTable.split(cores))
    # Probing rows are work too: where they crowd, cells should be small.
    keys = [weigh_keys(spec, each, rows) for each in samples.values()]
    return Placement(stored, RoutingTable.from_sample(np.concatenate(keys), cores))


def weigh_keys(spec: JoinSpec, sample: SideSample, rows: float) -> Keys:
    """Return a side's sampled keys, repeated if the side has more rows than the stored one."""
    repeats = round(sample.rows / max(rows, 1))
    return np.repeat(spec.route_keys(sample.batch), min(max(repeats, 1), MOST_REPEATS))


@dataclass(frozen=True)
class TablePacker:
    """The function that `mapInArrow` runs over one side of a table join."""

    spec: JoinSpec
    placement: Placement
    side: Side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one task."""
        context = TaskContext.get()
        task, number = context.partitionId() if context else 0, 0
        role = Role.STORE if self.side == self.placement.stored else Role.PROBE
        for rows in gather_rounds(batches, self.spec.schemas[self.side]):
            batch = prepare(self.spec.routing_plan(), self.side, rows)
            for core, data in self._pack_round(batch):
                parcel = Parcel(SIDES.index(self.side), task, number, role, data)
                yield address_parcel(self.spec.labels[core], parcel)
                number += 1

    def _pack_round(self, batch: Prepared) -> Iterator[tuple[int, bytes]]:
        table, keys = self.placement.table, self.spec.route_keys(batch)
        if self.side == self.placement.stored:
            shares = table.share_stored(table.owners(table.cells(keys), batch.rows))
        else:
            owners = np.full(len(batch), -1, np.int32)  # none: these rows are not stored
            ranges = self.spec.route_ranges(batch, keys)
            shares = table.share_probing(ranges, table.cells(keys), owners)
        for core, rows in enumerate(split_rows(batch, shares)):
            if rows.num_rows:
                yield core, pack_rows(rows)


@dataclass(frozen=True)
class TableCores:
    """The function that joins the parcels of a partition, core by core."""

    spec: JoinSpec
    stored: Side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join all cores of a partition; parcels come sorted by core, those to store first."""
        for _, parcels in groupby(self._check_order(batches), key=lambda row: row[0]):
            joined = self._join((role, data) for _, role, data in parcels)
            for rows in resize_batches(joined):
                yield rows.rename_columns(plain_names(rows.num_columns))

    def _check_order(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, *RoleData]]:
        """Yield core, role and data; refuse an order in which cores would miss rows."""
        stored, last = SIDES.index(self.stored), (-1, -1)
        for batch in batches:
            columns = (batch[name].to_pylist() for name in ("core", "role", "side"))
            for core, role, side, data in zip(*columns, batch["data"], strict=True):
                if (core, role) < last or (role == Role.STORE) != (side == stored):
                    raise StreamJoinError(
                        f"a parcel of role {role} and side {side} came to core {core} after one of "
                        f"role {last[1]} to core {last[0]}: this engine does not keep the order of "
                        "sortWithinPartitions below mapInArrow, which a join of tables needs; run "
                        "it on Apache Spark, or collect the tables and use streamjoin.join_tables"
                    )
                last = core, role
                yield core, role, data

    def _join(self, parcels: Iterator[RoleData]) -> Iterator[pa.RecordBatch]:
        if self.spec.plan().longest_pause is not None:
            return self._join_sessions(parcels)
        return self._join_stored(parcels)

    def _join_sessions(self, parcels: Iterator[RoleData]) -> Iterator[pa.RecordBatch]:
        """Join all rows of a core at once: any of them may make a session longer."""
        engine = self.spec.make_engine()
        assert engine.executor.closing is not None
        pieces: dict[Side, list[pa.RecordBatch]] = {}
        for role, data in parcels:
            side = self.stored if role == Role.STORE else OTHER[self.stored]
            pieces.setdefault(side, []).append(unpack_rows(data.as_buffer())[0])
        batches = {
            side: prepare(engine.plan, side, in_one_piece(rows, self.spec.schemas[side]))
            for side, rows in pieces.items()
        }
        for delivery in engine.executor.closing.join_all(batches):
            yield from delivery.rows

    def _join_stored(self, parcels: Iterator[RoleData]) -> Iterator[pa.RecordBatch]:
        """Sort the rows to store into indexes, and let the others probe them as they come.

        There is one index, unless the rows are more than fit into one batch of Arrow data.
        """
        pieces: list[pa.RecordBatch] = []
        for role, data in parcels:
            if role != Role.STORE:
                break
            pieces.append(unpack_rows(data.as_buffer())[0])
        else:
            return
        if not pieces:
            return
        plan, probing = self.spec.plan(), OTHER[self.stored]
        schema = self.spec.schemas[self.stored]
        groups = group_by_bytes(pieces, PORTION_BYTES)
        batches = [prepare(plan, self.stored, in_one_piece(group, schema)) for group in groups]
        batches = [stored for stored in batches if len(stored)]
        if not batches:
            return
        manager = self.spec.make_manager()
        windows: list[Subwindow] = []
        for _, each in chain([(role, data)], parcels):
            batch = prepare(plan, probing, unpack_rows(each.as_buffer())[0])
            if not len(batch):
                continue
            if not windows:
                own = choose_chain(manager, batches[0], batch)
                windows = [own.standalone_subwindow(stored) for stored in batches]
            manager.sort_batches([batch])
            for delivery in manager.probe_targets([(batch, windows)]):
                yield from delivery.rows


def join_tables(
    inputs: Inputs, make_spec: Callable[[int], JoinSpec], output: StructType, cores: int | None
) -> DataFrame:
    """Return the DataFrame of joined rows; samples are drawn right away.

    ``make_spec`` returns the spec for a number of cores.
    """
    draft = make_spec(1)
    samples = {side: draw_sample(frame, draft, side) for side, frame in inputs.frames.items()}
    placement = place_tables(draft, samples, cores)
    count = placement.table.cores
    spec = make_spec(count)
    packed = [
        frame.toDF(*plain_names(len(frame.columns))).mapInArrow(
            TablePacker(spec, placement, side), COLUMNS
        )
        for side, frame in inputs.frames.items()
    ]
    return (
        packed[0]
        .union(packed[1])
        .repartition(count, "core")
        .sortWithinPartitions("core", "role", "task", "number")
        .select("core", "role", "side", "data")
        .mapInArrow(TableCores(spec, placement.stored), name_plainly(output))
        .toDF(*output.names)
    )
