"""The join of two tables: the same cores, without state and without a bound on the result.

::

    stored side   -> pack by key   --+
                                     +-> one partition a core -> index, probe, joined rows
    probing side  -> pack by range --+

A sample of each side tells which is smaller, how many cores it takes to keep each core's part of it
in memory, and where to split. The smaller side is stored: a row goes to the core of its key. A row
of the other side goes to the cores that its ranges touch, so pairs of cores that cannot match never
meet. Within a core the stored frames come first; probing frames then go through one by one, and
need not be kept. Spark sorts for this, but SQL does not promise that an order lasts through
`mapInArrow`, and there are engines that drop it: whether it does is checked frame by frame.
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
from streamjoin.joins.sessions.join import SessionJoin
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.batches import in_one_piece
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared, prepare
from streamjoin.spark.planning import Inputs, backticks
from streamjoin.spark.routing import parcels as frames
from streamjoin.spark.routing.packing import rounds, split
from streamjoin.spark.routing.parcels import Role
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.schemas import conform, plain_names, plainly_named
from streamjoin.spark.spec import JoinSpec
from streamjoin.spark.streams import parcels

SAMPLE, ENOUGH = 20_000, 4_000  # rows of a side: wanted, and enough
FIRST = 0.02  # of a table: what a sample is drawn from first
CORE_ROWS = 1_000_000  # stored rows that a core is given
FEW_ROWS = 20_000  # below this, one core is enough
LEAST_CORES, MOST_CORES = 4, 512
DRAW = "__streamjoin_draw"

Frame = tuple[int, pa.Scalar]  # its role, and what is in it


@dataclass(frozen=True)
class Sampled:
    """What a sample tells of a side."""

    rows: float  # estimated
    batch: Prepared


def sample(frame: DataFrame, spec: JoinSpec, side: Side) -> Sampled:
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
    for part in (FIRST, 1.0):
        drawn = numbered.where(F.col(DRAW) < part).orderBy(DRAW).limit(SAMPLE).toArrow()
        if drawn.num_rows >= ENOUGH:
            break
    rows = drawn.num_rows / part
    if drawn.num_rows == SAMPLE:
        rows = SAMPLE / max(drawn[DRAW].to_numpy().max(), 1e-12)
    schema = pa.schema([spec.schemas[side].field(name) for name in names])
    batches = drawn.select(plain).to_batches()
    batch = in_one_piece([conform(each, schema) for each in batches], schema)
    return Sampled(rows, prepare(spec.routing_plan(), side, batch))


@dataclass(frozen=True)
class Layout:
    """How a join of tables is spread: which side is stored, and where its rows go."""

    stored: Side
    table: RoutingTable


def lay_out(spec: JoinSpec, samples: dict[Side, Sampled], cores: int | None) -> Layout:
    """Decide from the samples."""
    stored: Side = min(SIDES, key=lambda side: samples[side].rows)
    rows = samples[stored].rows
    if cores is None:
        cores = 1
        if max(each.rows for each in samples.values()) > FEW_ROWS:
            cores = min(max(ceil(rows / CORE_ROWS), LEAST_CORES), MOST_CORES)
    if spec.plan().longest_pause is not None:  # all rows that a session may have are in one core
        return Layout(stored, RoutingTable.even(cores if spec.routing == "hash" else 1))
    if spec.routing == "split" or cores == 1:
        return Layout(stored, RoutingTable.split(cores))
    # Probing rows are work too: where they crowd, cells should be small.
    keys = [weighted(spec, each, rows) for each in samples.values()]
    return Layout(stored, RoutingTable.from_sample(np.concatenate(keys), cores))


def weighted(spec: JoinSpec, sampled: Sampled, rows: float) -> Keys:
    """Return a side's sampled keys, each as often as its rows count beside the stored side's."""
    keys = spec.route_keys(sampled.batch)
    return np.repeat(keys, min(max(round(sampled.rows / max(rows, 1)), 1), 16))


@dataclass(frozen=True)
class TablePacker:
    """The function that `mapInArrow` runs over one side of a table join."""

    spec: JoinSpec
    layout: Layout
    side: Side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one task."""
        context = TaskContext.get()
        part, number = context.partitionId() if context else 0, 0
        role = Role.STORE if self.side == self.layout.stored else Role.PROBE
        for rows in rounds(batches, self.spec.schemas[self.side]):
            batch = prepare(self.spec.routing_plan(), self.side, rows)
            for core, frame in self._frames(batch):
                label = self.spec.labels[core]
                yield frames.envelope([(label, SIDES.index(self.side), role, part, number, frame)])
                number += 1

    def _frames(self, batch: Prepared) -> Iterator[tuple[int, bytes]]:
        table, keys = self.layout.table, self.spec.route_keys(batch)
        if self.side == self.layout.stored:
            shares = table.stored(table.owners(table.cells(keys), batch.rows))
        else:
            nobody = np.full(len(batch), -1, np.int32)
            shares = table.probing(self.spec.route_ranges(batch, keys), table.cells(keys), nobody)
        for core, rows in enumerate(split(batch, shares)):
            if rows.num_rows:
                yield core, frames.pack(rows)


@dataclass(frozen=True)
class TableCores:
    """The function that joins the frames of a partition, core by core."""

    spec: JoinSpec
    stored: Side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join all cores of a partition; frames come sorted by core, those to store first."""
        for _, arrived in groupby(self._frames(batches), key=lambda row: row[0]):
            joined = self._join((role, frame) for _, role, frame in arrived)
            for rows in parcels(joined):
                yield rows.rename_columns(plain_names(rows.num_columns))

    def _frames(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, *Frame]]:
        """Yield core, role and frame; refuse an order in which cores would miss rows."""
        stored, last = SIDES.index(self.stored), (-1, -1)
        for batch in batches:
            columns = (batch[name].to_pylist() for name in ("core", "role", "side"))
            for core, role, side, frame in zip(*columns, batch["frame"], strict=True):
                if (core, role) < last or (role == Role.STORE) != (side == stored):
                    raise StreamJoinError(
                        f"a frame of role {role} and side {side} came to core {core} after one of "
                        f"role {last[1]} to core {last[0]}: this engine does not keep the order of "
                        "sortWithinPartitions below mapInArrow, which a join of tables needs; run "
                        "it on Apache Spark, or collect the tables and use streamjoin.join_tables"
                    )
                last = core, role
                yield core, role, frame

    def _join(self, arrived: Iterator[Frame]) -> Iterator[pa.RecordBatch]:
        if self.spec.plan().longest_pause is not None:
            return self._join_sessions(arrived)
        return self._join_stored(arrived)

    def _join_sessions(self, arrived: Iterator[Frame]) -> Iterator[pa.RecordBatch]:
        """Join all rows of a core at once: any of them may make a session longer."""
        engine = self.spec.make_engine()
        assert isinstance(engine.join, SessionJoin)
        parts: dict[Side, list[pa.RecordBatch]] = {}
        for role, frame in arrived:
            side = self.stored if role == Role.STORE else OTHER[self.stored]
            parts.setdefault(side, []).append(frames.unpack(frame.as_buffer())[0])
        batches = {
            side: prepare(engine.plan, side, in_one_piece(rows, self.spec.schemas[side]))
            for side, rows in parts.items()
        }
        for delivery in engine.join.join_all(batches):
            yield from delivery.rows

    def _join_stored(self, arrived: Iterator[Frame]) -> Iterator[pa.RecordBatch]:
        """Sort the rows that are stored into an index, and let the others probe it as they come."""
        held: list[pa.RecordBatch] = []
        for role, frame in arrived:
            if role != Role.STORE:
                break
            held.append(frames.unpack(frame.as_buffer())[0])
        else:
            return
        if not held:
            return
        plan, probing = self.spec.plan(), OTHER[self.stored]
        stored = prepare(plan, self.stored, in_one_piece(held, self.spec.schemas[self.stored]))
        manager = self.spec.make_manager()
        window: Subwindow | None = None
        for _, each in chain([(role, frame)], arrived):
            batch = prepare(plan, probing, frames.unpack(each.as_buffer())[0])
            if not len(batch) or not len(stored):
                continue
            if window is None:
                samples = {self.stored: stored.keys.sample(), probing: batch.keys.sample()}
                keeper = manager.chains[self.stored]
                if manager.chooses:
                    keeper.choose(self.stored, samples, len(batch), len(stored))
                else:
                    keeper.choose_order(self.stored, samples)
                manager.chains[probing].layout = keeper.layout
                window = keeper.alone(stored)
            manager.sort([batch])
            for delivery in manager.probe([(batch, [window])]):
                yield from delivery.rows


def join_tables(
    inputs: Inputs, make_spec: Callable[[int], JoinSpec], output: StructType, cores: int | None
) -> DataFrame:
    """Return the DataFrame of joined rows; draws the samples at once.

    ``make_spec`` gives the spec for a number of cores.
    """
    draft = make_spec(1)
    samples = {side: sample(frame, draft, side) for side, frame in inputs.frames.items()}
    layout = lay_out(draft, samples, cores)
    count = layout.table.cores
    spec = make_spec(count)
    packed = [
        frame.toDF(*plain_names(len(frame.columns))).mapInArrow(
            TablePacker(spec, layout, side), frames.COLUMNS
        )
        for side, frame in inputs.frames.items()
    ]
    return (
        packed[0]
        .union(packed[1])
        .repartition(count, "core")
        .sortWithinPartitions("core", "role", "part", "number")
        .select("core", "role", "side", "frame")
        .mapInArrow(TableCores(spec, layout.stored), plainly_named(output))
        .toDF(*output.names)
    )
