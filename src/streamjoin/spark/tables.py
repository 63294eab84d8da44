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

A core knows of a row all that it matches if the row is at *home* there, at the core of its key, and
the rows of the other side came to all cores that their ranges touch. Pairs are found once where one
side is at home, whichever it is: the stored one. If rows count that match nothing, or something, or
the best of their matches, it is their side. In a full join both sides are at home somewhere and
guests elsewhere, and a pair is given where its left row is at home::

    how                 at home    everywhere they match    given when
    inner               stored     the other                found
    left, left_semi     left       right                    the last parcel has probed, if left is
    right, right_anti   right      left                     stored; else with their own parcel
    full                both       both                     the same, by side
    keep, aggregate     left       right                    left's parcel has probed

So stored rows may be guests (`Role.GUEST`), and probing ones at home (`Role.LIVE`). Rows that
cannot match anything are dealt to cores, if they are given at all.

Where the lives of rows are observed (`joins.lives`), all rows are at home somewhere, and go there
even if their ranges do not. All rows of a core end with it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamjoin.errors import StreamJoinError
from streamjoin.joins.engine import Engine, PreparedPush
from streamjoin.joins.executor import Clock
from streamjoin.joins.outcomes.outcome import Alone, leftovers
from streamjoin.joins.outcomes.reduction import Reduction, reduce_all
from streamjoin.joins.pairs.deliver import Delivery
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.sliding.static import choose_chain
from streamjoin.kernels.compile import Flags, Keys
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.batches import group_by_bytes, in_one_piece
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.preparing import prepare
from streamjoin.spark.cores.portions import PORTION_BYTES
from streamjoin.spark.planning.inputs import Inputs, backticks, find_homes
from streamjoin.spark.planning.schemas import conform, name_plainly, plain_names
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing.exchange import gather_rounds, pack_unable, split_rows
from streamjoin.spark.routing.parcels import (
    COLUMNS,
    Parcel,
    Role,
    address_parcel,
    pack_rows,
    unpack_rows,
)
from streamjoin.spark.routing.table import RoutingTable, Shares
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


def find_complete(config: JoinOptions, stored: Side) -> frozenset[Side]:
    """Return the sides whose rows are at home in one core, and have all their matches there."""
    return find_homes(config) or frozenset([stored])


@dataclass(frozen=True)
class Placement:
    """Where the rows of two tables go: which side is stored, and by what table it is spread."""

    stored: Side
    table: RoutingTable


def place_tables(spec: JoinSpec, samples: dict[Side, SideSample], cores: int | None) -> Placement:
    """Decide from samples which side is stored, and on how many cores if ``cores`` is None."""
    stored = choose_stored(spec, samples)
    rows = samples[stored].rows
    if cores is None:
        cores = 1
        if max(each.rows for each in samples.values()) > ONE_CORE_ROWS:
            cores = min(max(ceil(rows / CORE_ROWS), LEAST_CORES), MOST_CORES)
    if spec.plan().longest_pause is not None:  # all rows that a session may have are in one core
        return Placement(stored, RoutingTable.even(cores if spec.routing == "hash" else 1))
    if spec.config.reduces and "right" in spec.config.how.follows:
        # A right row that one core does not keep may be kept by another: all meet in one.
        return Placement(stored, RoutingTable.even(cores if spec.is_hashed else 1))
    if spec.routing == "split" or cores == 1:
        return Placement(stored, RoutingTable.split(cores))
    # Probing rows are work too: where they crowd, cells should be small.
    keys = [weigh_keys(spec, each, rows) for each in samples.values()]
    return Placement(stored, RoutingTable.from_sample(np.concatenate(keys), cores))


def choose_stored(spec: JoinSpec, samples: dict[Side, SideSample]) -> Side:
    """Return the smaller side, unless every core would have to store all of it, and it is large."""
    stored: Side = min(SIDES, key=lambda side: samples[side].rows)
    config = spec.config
    if config.reduces:
        return "right"  # a left row's matches are compared once it has probed them all
    is_everywhere = spec.routing == "split" and stored not in find_complete(config, stored)
    return OTHER[stored] if is_everywhere and samples[stored].rows > CORE_ROWS else stored


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
        for rows in gather_rounds(batches, self.spec.schemas[self.side]):
            for core, role, data in self._pack_round(rows):
                parcel = Parcel(SIDES.index(self.side), task, number, role, data)
                yield address_parcel(self.spec.labels[core], parcel)
                number += 1

    def _pack_round(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Role, bytes]]:
        """Yield core, role and data of each parcel."""
        batch = prepare(self.spec.routing_plan(), self.side, rows)
        for role, shares in self._share_rows(batch):
            for core, share in enumerate(split_rows(batch.rows, shares)):
                if share.num_rows:
                    yield core, role, pack_rows(share)
        if self.spec.observe is not None or self.side in self.spec.config.how.alone:
            for core, data in pack_unable(self.spec, rows, batch):
                yield core, self._roles[0], data

    @property
    def _roles(self) -> tuple[Role, Role]:
        """What rows are at home, and elsewhere."""
        is_stored = self.side == self.placement.stored
        return (Role.STORE, Role.GUEST) if is_stored else (Role.LIVE, Role.PROBE)

    def _share_rows(self, batch: Prepared) -> Iterator[tuple[Role, Shares]]:
        """Yield the rows that each core gets, by role."""
        home, guest = self._roles
        complete = find_complete(self.spec.config, self.placement.stored)
        table, keys = self.placement.table, self.spec.route_keys(batch)
        cells = table.cells(keys)
        owners = np.full(len(batch), -1, np.int32)  # none: these rows are not at home anywhere
        if self.side in complete or self.spec.observe is not None:
            owners = table.owners(cells, batch.rows)
            yield home, table.share_stored(owners)
        if OTHER[self.side] in complete:
            ranges = self.spec.route_ranges(batch, keys)
            yield guest, table.share_probing(ranges, cells, owners)


@dataclass(frozen=True)
class TableCores:
    """The function that joins the parcels of a partition, core by core."""

    spec: JoinSpec
    stored: Side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join all cores of a partition; parcels come sorted by core, those to store first."""
        for label, parcels in groupby(self._check_order(batches), key=lambda row: row[0]):
            joined = self._join(label, ((role, data) for _, role, data in parcels))
            for rows in resize_batches(joined):
                yield rows.rename_columns(plain_names(rows.num_columns))

    def _check_order(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, *RoleData]]:
        """Yield core, role and data; refuse an order in which cores would miss rows."""
        stored, last = SIDES.index(self.stored), (-1, -1)
        for batch in batches:
            columns = (batch[name].to_pylist() for name in ("core", "role", "side"))
            for core, role, side, data in zip(*columns, batch["data"], strict=True):
                if (core, role) < last or (role <= Role.STORE) != (side == stored):
                    raise StreamJoinError(
                        f"a parcel of role {role} and side {side} came to core {core} after one of "
                        f"role {last[1]} to core {last[0]}: this engine does not keep the order of "
                        "sortWithinPartitions below mapInArrow, which a join of tables needs; run "
                        "it on Apache Spark, or collect the tables and use streamjoin.join_tables"
                    )
                last = core, role
                yield core, role, data

    def _join(self, label: int, parcels: Iterator[RoleData]) -> Iterator[pa.RecordBatch]:
        number = self.spec.labels.index(label)
        engine = self.spec.make_engine(self.spec.make_observer(number), has_state=False)
        has_sessions = engine.plan.longest_pause is not None
        join = self._join_sessions if has_sessions else self._join_stored
        with engine.attempt_whole():
            for item in join(engine, parcels):
                yield from engine.take(item).rows
            engine.end_lives(Clock({}, is_over=True))

    def _admit(
        self, engine: Engine, side: Side, rows: Sequence[pa.RecordBatch], are_guests: bool = False
    ) -> PreparedPush:
        """Prepare rows and count them; tell of them, if anyone wants to know."""
        push = engine.prepare({side: in_one_piece(rows, self.spec.schemas[side])})
        push.prepared[side].arrival = None  # they meet all rows of the other side
        engine.arrive(push, mark_no_home if are_guests else None)
        engine.count(push)
        push.prepared.update(engine.follow_rows(push.prepared))
        return push

    def _join_sessions(
        self, engine: Engine, parcels: Iterator[RoleData]
    ) -> Iterator[Delivery | Alone]:
        """Join all rows of a core at once: any of them may make a session longer.

        None of them is a guest: rows of one group have one hash, and so one core.
        """
        assert engine.executor.closing is not None
        pieces: dict[Side, list[pa.RecordBatch]] = {}
        for role, data in parcels:
            side = self.stored if role <= Role.STORE else OTHER[self.stored]
            pieces.setdefault(side, []).append(unpack_rows(data.as_buffer())[0])
        batches: dict[Side, Prepared] = {}
        for side, rows in pieces.items():
            push = self._admit(engine, side, rows)
            yield from engine.give_left_out(push)
            batches |= push.prepared
        yield from engine.executor.closing.join_all(batches)
        yield from leftovers(batches)

    def _join_stored(
        self, engine: Engine, parcels: Iterator[RoleData]
    ) -> Iterator[Delivery | Alone]:
        """Sort the rows to store into indexes, and let the others probe them as they come.

        There is one index for those at home here and one for guests, unless they are more than fit
        into one batch of Arrow data.
        """
        pieces: dict[int, list[pa.RecordBatch]] = {Role.STORE: [], Role.GUEST: []}
        first: list[RoleData] = []  # that probes
        for role, data in parcels:
            if role > Role.STORE:
                first = [(role, data)]
                break
            pieces[role].append(unpack_rows(data.as_buffer())[0])
        follows, probing = engine.plan.follows, OTHER[self.stored]
        tells_all = engine.lives is not None or bool(follows)
        if not tells_all and not (any(pieces.values()) and first):
            return
        held: dict[int, list[Prepared]] = {}
        for role, own in pieces.items():
            held[role] = []
            for group in group_by_bytes(own, PORTION_BYTES):
                push = self._admit(engine, self.stored, group, role == Role.GUEST)
                yield from engine.give_left_out(push)
                held[role] += [each for each in push.prepared.values() if len(each)]
        windows: StoredRows | None = None
        for role, data in chain(first, parcels):
            rows, are_guests = unpack_rows(data.as_buffer())[0], role == Role.PROBE
            push = self._admit(engine, probing, [rows], are_guests)
            yield from engine.give_left_out(push)
            batch = push.prepared[probing]
            if len(batch) and any(held.values()):
                windows = windows or StoredRows(engine, self.spec.make_manager(engine), held, batch)
                if engine.reduction is None:
                    yield from windows.join(batch, are_guests)
                else:
                    yield from windows.reduce(batch, engine.reduction)
            if probing in follows and not are_guests:
                yield from leftovers({probing: batch})
        for batch in held[Role.STORE]:
            yield from leftovers({self.stored: batch})


class StoredRows:
    """The stored rows of a core in indexes, those at home there and guests."""

    def __init__(
        self,
        engine: Engine,
        manager: Manager,
        held: dict[int, list[Prepared]],
        batch: Prepared,
    ) -> None:
        self.outcome, self.manager = engine.outcome, manager
        self.is_full = len(engine.plan.follows) > 1
        every = [*held[Role.STORE], *held[Role.GUEST]]
        own = choose_chain(manager, every[0], batch)
        self.windows = {
            role: [own.standalone_subwindow(stored) for stored in batches]
            for role, batches in held.items()
        }

    def join(self, batch: Prepared, are_guests: bool) -> Iterator[Delivery]:
        """Let rows probe; two guests have no business with each other.

        In a full join, a pair is given where its left row is at home. Elsewhere it only tells its
        right row that there is one.
        """
        self.manager.sort_batches([batch])
        for role, windows in self.windows.items():
            if are_guests and role == Role.GUEST:
                continue
            is_left_guest = are_guests if batch.side == "left" else role == Role.GUEST
            deliver = self.outcome.claim if self.is_full and is_left_guest else None
            yield from self.manager.probe_targets([(batch, windows)], deliver)

    def reduce(self, batch: Prepared, reduction: Reduction) -> Iterator[Any]:
        """Let left rows probe, and give what becomes of all their matches: they are all here."""
        self.manager.sort_batches([batch])
        windows = [window for each in self.windows.values() for window in each]
        reducer = reduction.begin(batch)
        found = self.manager.probe_targets([(batch, windows)], reducer.reduce)
        yield from reduce_all(reducer, found).finish(self.manager.deliver)


def mark_no_home(_: Side, ordinals: Keys) -> Flags:
    """Tell that rows live at another core."""
    return np.zeros(ordinals.size, np.bool_)


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
