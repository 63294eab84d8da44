"""Packing: rows to frames, one for each core, in the tasks that read a side's input.

Rows that can never match, with a NULL key or no time, stay behind here. Each task sends every core
a frame to store, an empty one too, with what it has seen: rows, the latest time, a histogram of the
routing keys. So all cores learn the same about all rows, and work out the next routing alone.

Where rows are numbered, in count windows and for ordered results, all rows go to all cores: those
that cannot match count too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Cells, Histogram
from streamjoin.plans.batches import in_one_piece, split_by_bytes
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared, prepare
from streamjoin.spark.routing import hints
from streamjoin.spark.routing import parcels as frames
from streamjoin.spark.routing.parcels import Role
from streamjoin.spark.routing.table import RoutingTable, Shares
from streamjoin.spark.schemas import conform
from streamjoin.spark.spec import JoinSpec

# Of one round of packing, before compression: the JVM holds a frame several times over.
MOST_ROWS, MOST_BYTES = 1 << 19, 1 << 24
SAMPLE = 256  # keys of a round that are told, as long as hashes are spread evenly


@dataclass(frozen=True)
class StreamPacker:
    """The function that `mapInArrow` runs over one side of a stream."""

    spec: JoinSpec
    side: Side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one task."""
        return StreamPacker(self.spec.placed(), self.side)._envelopes(batches)

    def _envelopes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec = self.spec
        table = spec.first_table()
        if spec.adapts:
            moment = hints.Moment.current()
            table = hints.find(moment, spec.name)
            if table is None and spec.saved_table is not None:
                table = spec.saved_table.find(moment)
            if table is None and moment is not None and moment.batch == 0 and spec.is_hashed:
                table = RoutingTable.spread(spec.cores)  # there is no state with another one
        context = TaskContext.get()
        part, number = context.partitionId() if context else 0, 0
        # A task without rows says so: they may have moved the watermark before they were left out.
        nothing = in_one_piece([], spec.schemas[self.side])
        packed = rounds(batches, spec.schemas[self.side])
        for rows in chain([next(packed, nothing)], packed):
            for core, role, frame in self._frames(rows, table):
                row = (spec.labels[core], SIDES.index(self.side), role, part, number, frame)
                yield frames.envelope([row])
                number += 1

    def _frames(
        self, rows: pa.RecordBatch, table: RoutingTable | None
    ) -> Iterator[tuple[int, Role, bytes]]:
        spec = self.spec
        facts: dict[str, Any] = {"rows": rows.num_rows}
        if spec.numbered:  # rows that cannot match count too
            yield from self._to_all(rows, facts)
            return
        batch = prepare(spec.routing_plan(), self.side, rows)
        facts["null_times"] = batch.null_times
        if table is None:
            yield from self._to_all(batch.rows, facts)
            return
        keys = spec.route_keys(batch)
        cells = table.cells(keys)
        facts |= learn(spec, batch, table, keys, cells)
        owners = table.owners(cells, batch.rows)
        for core, rows in enumerate(split(batch, table.stored(owners))):
            yield core, Role.STORE, frames.pack(rows, facts)
        ranges = spec.route_ranges(batch, keys)
        for core, rows in enumerate(split(batch, table.probing(ranges, cells, owners))):
            if rows.num_rows:
                yield core, Role.PROBE, frames.pack(rows)

    def _to_all(
        self, rows: pa.RecordBatch, facts: dict[str, Any]
    ) -> Iterator[tuple[int, Role, bytes]]:
        frame = frames.pack(rows, facts)
        for core in range(self.spec.cores):
            yield core, Role.PICK, frame


def learn(
    spec: JoinSpec, batch: Prepared, table: RoutingTable, keys: Keys, cells: Cells
) -> dict[str, Any]:
    """Return what the cores need to know of rows that they do not all see."""
    times = batch.times
    facts: dict[str, Any] = {}
    if times is not None and times.size:
        facts["newest"] = int(times.max())
    if spec.adapts:
        histogram = Histogram.of_cells(keys, cells, table.splitters.size + 1)
        facts["histogram"] = [
            each.tolist() for each in (histogram.counts, histogram.least, histogram.greatest)
        ]
        facts["table"] = table.to_json()
        if spec.is_hashed and table.is_spread:
            stride = max(keys.size // SAMPLE, 1)
            facts["sample"], facts["stride"] = keys[::stride].tolist(), stride
    return facts


def split(batch: Prepared, shares: Shares) -> Iterator[pa.RecordBatch]:
    """Yield the share of each core."""
    ordered = batch.rows.take(pa.array(shares.rows))
    for first, last in pairwise(shares.starts.tolist()):
        yield ordered.slice(first, last - first)


def rounds(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Put Spark's small batches together, and cut large ones, up to a bound."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in (part for each in batches for part in split_by_bytes(each, MOST_BYTES)):
        if rows and (rows >= MOST_ROWS or size + batch.nbytes > MOST_BYTES):
            yield in_one_piece(waiting, schema)
            waiting, rows, size = [], 0, 0
        waiting.append(conform(batch, schema))
        rows += batch.num_rows
        size += batch.nbytes
    if rows:
        yield in_one_piece(waiting, schema)
