"""The exchange: rows of a micro-batch, from the tasks that read them to the cores that join them.

::

    task of one side                      parcels                      core
      rows -> keys, cells, owners   --->  STORE, PROBE: its rows  ---> stored, probing
      the same without a table      --->  PICK: all rows          ---> the table; picks its own

**Packing.** Rows that can never match, with a NULL key or no time, stay behind. Each task sends
every core a parcel to store, even an empty one, with a summary of what the task has seen: rows, the
latest time, a histogram of the routing keys. So all cores learn the same about all rows, and work
out the next table alone. The latest time is that of rows which can match; where rows may be given
early, of all rows. Where rows are numbered, in count windows and for ordered results, all
rows go to all cores: those that cannot match count too. Where each row's end is told
(`joins.lives`), a row that cannot match goes to one core, in a parcel to store, and ends there.

**Receiving.** Parcels addressed to one core hold just its rows. From those that go to all cores, it
picks its own, by a table that every core works out alone, from the same parcels.

**Retries.** Which rows a core gets, and in which order it stores them, is the same in every attempt
of its task. Parcels are sorted, and rows stand where they would if they had come in parcels of the
other kind: a task that packs may find a hint (`hints`) at its first attempt, and none at the next.
Nor do a core's rows depend on the order of rows within a task, which may change if the input comes
out of a shuffle: the table is made from sorted keys, and rows are dealt by their contents (`lots`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from streamjoin.errors import StreamJoinError
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Cells, Histogram
from streamjoin.plans.batches import in_one_piece, split_by_bytes, take_rows
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.preparing import prepare
from streamjoin.spark.planning.schemas import conform
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing import hints
from streamjoin.spark.routing.parcels import Parcel, Role, address_parcel, pack_rows, unpack_rows
from streamjoin.spark.routing.table import RoutingTable, Shares
from streamjoin.spark.tasks import Moment

# Of one round of packing, before compression: the JVM holds a parcel several times over.
ROUND_ROWS, ROUND_BYTES = 1 << 19, 1 << 24
SUMMARY_KEYS = 256  # of a round, in its summary, as long as hashes are spread evenly
TABLE_KEYS = 1 << 16  # that the first routing table is made from, at most


@dataclass(frozen=True)
class StreamPacker:
    """The function that `mapInArrow` runs over one side of a stream."""

    spec: JoinSpec
    side: Side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one task."""
        return StreamPacker(self.spec.place(), self.side)._pack_task(batches)

    def _pack_task(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec, table = self.spec, find_table(self.spec)
        context = TaskContext.get()
        task, number = context.partitionId() if context else 0, 0
        # A task without rows says so: they may have moved the watermark before they were left out.
        nothing = in_one_piece([], spec.schemas[self.side])
        rounds = gather_rounds(batches, spec.schemas[self.side])
        for rows in chain([next(rounds, nothing)], rounds):
            for core, role, data in self._pack_round(rows, table):
                parcel = Parcel(SIDES.index(self.side), task, number, role, data)
                yield address_parcel(spec.labels[core], parcel)
                number += 1

    def _pack_round(
        self, rows: pa.RecordBatch, table: RoutingTable | None
    ) -> Iterator[tuple[int, Role, bytes]]:
        """Yield core, role and data of each parcel."""
        spec = self.spec
        summary: dict[str, Any] = {"rows": rows.num_rows}
        if spec.numbered:  # rows that cannot match count too
            yield from self._pack_for_all(rows, summary)
            return
        batch = prepare(spec.routing_plan(), self.side, rows)
        summary["null_times"] = batch.intake.null_times
        if spec.gives_early and batch.intake.newest is not None:
            summary["newest"] = batch.intake.newest
        yield from self._pack_able(batch, table, summary)
        if spec.observe is not None or spec.gives_unable(self.side):
            for core, data in pack_unable(spec, rows, batch):
                yield core, Role.STORE, data

    def _pack_able(
        self, batch: Prepared, table: RoutingTable | None, summary: dict[str, Any]
    ) -> Iterator[tuple[int, Role, bytes]]:
        """Pack the rows that can match."""
        spec = self.spec
        if table is None:
            yield from self._pack_for_all(batch.rows, summary)
            return
        keys = spec.route_keys(batch)
        cells = table.cells(keys)
        summary = summarize_rows(spec, batch, table, keys, cells) | summary
        owners = table.owners(cells, batch.rows)
        for core, rows in enumerate(split_rows(batch.rows, table.share_stored(owners))):
            yield core, Role.STORE, pack_rows(rows, summary)
        if self.side in spec.confined:
            return
        ranges = spec.route_ranges(batch, keys)
        shares = table.share_probing(ranges, cells, owners)
        for core, rows in enumerate(split_rows(batch.rows, shares)):
            if rows.num_rows:
                yield core, Role.PROBE, pack_rows(rows)

    def _pack_for_all(
        self, rows: pa.RecordBatch, summary: dict[str, Any]
    ) -> Iterator[tuple[int, Role, bytes]]:
        data = pack_rows(rows, summary)
        for core in range(self.spec.cores):
            yield core, Role.PICK, data


def find_table(spec: JoinSpec) -> RoutingTable | None:
    """Return the routing table of this micro-batch, if a packing task can know it."""
    if not spec.adapts:
        return spec.first_table()
    moment = Moment.current()
    table = hints.find(moment, spec.name)
    if table is None and spec.saved_table is not None:
        table = spec.saved_table.find(moment)
    if spec.keeps_table:  # cores that learn it have to see all rows
        return table if table is not None and table.is_learnt else None
    if table is None and moment is not None and moment.batch == 0 and spec.is_hashed:
        table = RoutingTable.spread(spec.cores)  # there is no state with another one
    return table


def gather_rounds(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Put Spark's small batches together, and cut large ones, up to the size of a round."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in (part for each in batches for part in split_by_bytes(each, ROUND_BYTES)):
        if rows and (rows >= ROUND_ROWS or size + batch.nbytes > ROUND_BYTES):
            yield in_one_piece(waiting, schema)
            waiting, rows, size = [], 0, 0
        waiting.append(conform(batch, schema))
        rows += batch.num_rows
        size += batch.nbytes
    if rows:
        yield in_one_piece(waiting, schema)


def pack_unable(
    spec: JoinSpec, rows: pa.RecordBatch, able: Prepared
) -> Iterator[tuple[int, bytes]]:
    """Pack the rows that cannot match, each for one core, which is to tell of their ends."""
    if len(able) == rows.num_rows:
        return
    is_unable = np.ones(rows.num_rows, np.bool_)
    is_unable[able.places] = False
    chosen = np.flatnonzero(is_unable)
    if chosen.size:
        unable, table = take_rows(rows, chosen), RoutingTable.split(spec.cores)
        owners = table.owners(np.zeros(chosen.size, np.int32), unable)
        for core, own in enumerate(split_rows(unable, table.share_stored(owners))):
            if own.num_rows:
                yield core, pack_rows(own)


def split_rows(rows: pa.RecordBatch, shares: Shares) -> Iterator[pa.RecordBatch]:
    """Yield each core's share of the rows."""
    ordered = rows.take(pa.array(shares.rows))
    for first, last in pairwise(shares.starts.tolist()):
        yield ordered.slice(first, last - first)


def summarize_rows(
    spec: JoinSpec, batch: Prepared, table: RoutingTable, keys: Keys, cells: Cells
) -> dict[str, Any]:
    """Return what the cores need to know of rows that not all of them see."""
    times = batch.times
    summary: dict[str, Any] = {}
    if times is not None and times.size:
        summary["newest"] = int(times.max())
    if spec.adapts:
        summary["table"] = table.to_json()
        if spec.keeps_table:
            return summary
        histogram = Histogram.of_cells(keys, cells, table.splitters.size + 1)
        summary["histogram"] = histogram.to_lists()
        if spec.is_hashed and table.is_spread:
            stride = max(keys.size // SUMMARY_KEYS, 1)
            summary["sample"], summary["stride"] = keys[::stride].tolist(), stride
    return summary


@dataclass
class ReceivedRows:
    """One side's rows for this core: those to store first, then those that only probe."""

    stored: list[pa.RecordBatch] = field(default_factory=list)
    probing: list[pa.RecordBatch] = field(default_factory=list)
    seen: int = 0  # rows of this side that all cores together got
    null_times: int = 0  # of these, rows without a time


@dataclass
class Received:
    """What a core got in a micro-batch."""

    sides: dict[Side, ReceivedRows] = field(
        default_factory=lambda: {side: ReceivedRows() for side in SIDES}
    )
    summaries: list[dict[str, Any]] = field(default_factory=list)  # of rows that any core got
    table: RoutingTable | None = None  # by which they were routed
    rows: int = 0  # that reached this core

    @property
    def histogram(self) -> Histogram | None:
        """The routing keys of all cores' rows."""
        every = [
            Histogram.from_lists(each["histogram"])
            for each in self.summaries
            if "histogram" in each
        ]
        return sum(every[1:], every[0]) if every else None

    @property
    def sample(self) -> Keys | None:
        """Some routing keys of all cores' rows, each repeated for the rows that it stands for."""
        every = [
            np.repeat(np.array(each["sample"], np.int64), each["stride"])
            for each in self.summaries
            if "sample" in each
        ]
        return np.concatenate(every) if every else None

    @property
    def newest(self) -> int | None:
        """The latest time of a row."""
        return max((each["newest"] for each in self.summaries if "newest" in each), default=None)


def receive(
    spec: JoinSpec, number: int, table: RoutingTable | None, parcels: Iterable[Parcel]
) -> Received:
    """Unpack the parcels, and pick the rows of core ``number`` from those that went to all.

    ``table`` is the one in the state, if there is one.
    """
    received = Received()
    unpacked: list[tuple[Side, int, pa.RecordBatch]] = []
    for parcel in sorted(parcels):
        side = SIDES[parcel.side]
        batch, summary = unpack_rows(parcel.data)
        if summary:
            received.summaries.append(summary)
            received.sides[side].seen += summary["rows"]
            received.sides[side].null_times += summary.get("null_times", 0)
        received.rows += batch.num_rows
        unpacked.append((side, Role.STORE if spec.numbered else parcel.role, batch))
    plan = spec.routing_plan()
    common = [prepare(plan, side, batch) for side, role, batch in unpacked if role == Role.PICK]
    if not spec.numbered:
        received.table = agree_on_table(spec, table, received.summaries, common)
    prepared = iter(common)
    for side, role, batch in unpacked:
        if role == Role.STORE:
            received.sides[side].stored.append(batch)
        elif role == Role.PROBE:
            received.sides[side].probing.append(batch)
        else:
            pick_rows(spec, number, received, side, next(prepared))
    return received


def agree_on_table(
    spec: JoinSpec,
    table: RoutingTable | None,
    summaries: list[dict[str, Any]],
    batches: list[Prepared],
) -> RoutingTable:
    """Return the routing table of this micro-batch, the same on every core."""
    used = [each["table"] for each in summaries if "table" in each]
    table = table or spec.first_table()
    if table is None and used:
        table = RoutingTable.from_json(used[0])
    is_kept = spec.adapts and spec.keeps_table
    if table is None or (is_kept and not table.is_learnt):
        keys = [spec.route_keys(batch) for batch in batches]
        every = np.sort(np.concatenate(keys)) if keys else np.empty(0, np.int64)
        sample = every[:: every.size // TABLE_KEYS + 1]
        if is_kept:
            table = RoutingTable.learn(table, sample, every.size, spec.cores)
        else:
            table = RoutingTable.from_sample(sample, spec.cores, more_comes=True)
    if any(each != table.to_json() for each in used):
        raise StreamJoinError(
            "rows were routed by another table than the one in the state; if join(checkpoint=...) "
            "names another checkpoint than the query's checkpointLocation, correct it, otherwise "
            "this should not happen: restart the query, which reads the table again, and report it"
        )
    return table


def pick_rows(spec: JoinSpec, number: int, received: Received, side: Side, rows: Prepared) -> None:
    """Take a core's rows from those that went to all."""
    table, own = received.table, received.sides[side]
    assert table is not None
    keys = spec.route_keys(rows)
    cells = table.cells(keys)
    received.summaries.append(summarize_rows(spec, rows, table, keys, cells))
    owners = table.owners(cells, rows.rows)
    stored = table.share_stored(owners).of(number)
    own.stored.append(rows.rows.take(pa.array(stored)))
    if side not in spec.confined:
        probing = table.share_probing(spec.route_ranges(rows, keys), cells, owners).of(number)
        own.probing.append(rows.rows.take(pa.array(probing)))
