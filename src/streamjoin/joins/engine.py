"""The engine of one join: a plan, two chains, a watermark, and what has been counted so far.

It takes record batches whose schemas are known and gives joined record batches. The public
`StreamJoin` stands above it and deals with what users may pass. ``symmetric`` is None unless both
sides are one stream; then it tells whether (a, b) matches whenever (b, a) does.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.batches import joined_schema
from streamjoin.errors import StreamJoinError
from streamjoin.indexes.protocol import Index
from streamjoin.indexes.registry import make_index
from streamjoin.joins.arrivals import Orders, number_step
from streamjoin.joins.candidates import Found
from streamjoin.joins.chain import Chain, Sizes
from streamjoin.joins.choosing import choose_layout, choose_structure
from streamjoin.joins.collector import Collector
from streamjoin.joins.gather import Delivery, gather
from streamjoin.joins.manager import Manager
from streamjoin.joins.plan import SIDES, JoinPlan, KeyColumns
from streamjoin.joins.prepared import Prepared, prepare
from streamjoin.joins.self_join import SelfJoin
from streamjoin.kernels import MIN_KEY, Flags, Keys
from streamjoin.keys.operands import Operands, Side
from streamjoin.keys.parts import validity
from streamjoin.keys.sort_keys import encode
from streamjoin.keys.sorting import sort_with_rows
from streamjoin.windows import CountWindow, TimeWindow, Window

SUBWINDOWS = 2  # in a window; few and large is best, since each costs every probe a search
FEW_ROWS, MOST_COUNTED = 1 << 10, 1 << 26  # rows in a subwindow of a count window
LEAST_ROWS, MOST_ROWS = 1 << 14, 1 << 23  # rows in a subwindow of a time window
LARGE_BATCH = 1 << 17  # rows

Choose = Callable[[Side, Prepared], Flags]  # which rows of a prepared batch are stored


@dataclass(frozen=True)
class Step:
    """Batches that are pushed together, and the watermark that is set after them."""

    batches: dict[Side, pa.RecordBatch]
    watermark: Any = None


@dataclass
class Counters:
    """What an engine has seen."""

    rows: dict[Side, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    matches: int = 0
    late: int = 0
    null_times: int = 0


@dataclass(frozen=True)
class Coming:
    """Batches that are pushed together, prepared."""

    prepared: dict[Side, Prepared]
    counts: dict[Side, int]  # rows that came, those too that cannot match
    interleaved: bool  # whether some rows of right came before some of left


class Engine:
    """Steps of one join over record batches; see the module docstring."""

    def __init__(
        self,
        plan: JoinPlan,
        window: Window | None,
        algorithm: str,
        order: Operands | None = None,
        threads: int = 1,
        symmetric: bool | None = None,
        deliver: Callable[[Found, pa.Schema], Iterator[Delivery]] = gather,
        collector: Collector | None = None,
    ) -> None:
        self.plan, self.window, self.algorithm, self.order = plan, window, algorithm, order
        self.threads = threads
        self.schema = joined_schema(plan.schemas["left"], plan.schemas["right"])
        self.counters = Counters()
        self.watermark: int | None = None  # in keys of the time part
        self.newest: dict[Side, int] = {}
        self.samples: dict[Side, KeyColumns] = {}
        self.seconds = {"keys": 0.0}
        self.is_self_join = symmetric is not None and plan.same_keys
        chains = {side: self._make_chain(side) for side in SIDES}
        self.join: Manager[Delivery]
        if self.is_self_join:
            chains["right"] = chains["left"]
            self.join = SelfJoin(plan, chains, self._deliver, threads, bool(symmetric))
        else:
            self.join = Manager(plan, chains, self._deliver, threads)
        self._deliver_to = deliver
        self.collector = Collector() if collector is None else collector
        self._unsettled: dict[Side, Prepared] | None = None

    def _make_chain(self, side: Side) -> Chain:
        counted = isinstance(self.window, CountWindow)
        sizes = sizes_of(self.window, self.plan, side)
        first = "bi_sort" if self.algorithm == "auto" else self.algorithm
        return Chain(self.plan, sizes, first, self._make_index, counted)

    def _make_index(self, structure: str, capacity: int) -> Index:
        return make_index(structure, capacity, self.threads)

    def _deliver(self, found: Found) -> Iterator[Delivery]:
        return self._deliver_to(found, self.schema)

    @property
    def chains(self) -> dict[Side, Chain]:
        """The stored rows of both sides."""
        return self.join.chains

    def push(self, batches: Mapping[Side, pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Join a batch of one side or of both; an error leaves everything as it was."""
        return list(self.flow(batches))

    def flow(
        self, batches: Mapping[Side, pa.RecordBatch], choose: Choose | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Join as `push` does, but give the joined rows as they are found.

        State changes when the last has been taken. Where a join is spread over cores, ``choose``
        tells which of the rows that probe are stored here.
        """
        self.settle()
        coming = self._preprocess(batches)
        if choose is not None:
            for side, batch in coming.prepared.items():
                batch.marks = choose(side, batch)
        yield from self._join(coming.prepared, coming.interleaved)
        self._count(coming)
        self._expire()

    def collect(self, batches: Mapping[Side, pa.RecordBatch]) -> None:
        """Let rows wait until `flush`, or until `find`."""
        self.settle()
        coming = self._preprocess(batches)
        self._count(coming)
        self.collector.add(coming.prepared)

    def flush(self) -> list[pa.RecordBatch]:
        """Join all rows that wait."""
        self.settle()
        waiting = self.collector.joined()
        try:
            return list(self._join(waiting, self._is_counted))
        except StreamJoinError as error:
            error.add_note(
                f"the {self.collector.count:,} rows that waited are dropped; push them again "
                "without the one that this is about"
            )
            raise
        finally:
            self.collector.clear()
            self._expire()

    def find(self, batches: Mapping[Side, pa.RecordBatch]) -> list[Found]:
        """Look for matches, and leave them where they are: they are good until `settle`."""
        self.collect(batches)
        coming = self.collector.joined()
        self._choose_layouts(coming)
        found = self.join.search(coming, self._is_counted, deliver=lambda each: iter([each]))
        matches, self._unsettled = list(found), coming
        return matches

    def settle(self) -> None:
        """Store the rows whose matches `find` has given; from now on they match others."""
        if self._unsettled is not None:
            self.join.store(self._unsettled)
            self._unsettled = None
            self.collector.clear()
            self._expire()

    @property
    def _is_counted(self) -> bool:
        return isinstance(self.window, CountWindow)

    def _preprocess(self, batches: Mapping[Side, pa.RecordBatch]) -> Coming:
        """Compute the keys of what comes, and number it; changes nothing."""
        begin = perf_counter()
        orders: Orders = {}
        prepared: dict[Side, Prepared] = {}
        for side, batch in batches.items():
            if self.order is not None:
                batch, orders[side] = sort_by(batch, self.order.values(side, batch))
            prepared[side] = prepare(self.plan, side, batch, self.watermark)
        counts = {side: batch.num_rows for side, batch in batches.items()}
        if isinstance(self.window, CountWindow):
            number_step(self.window, prepared, counts, self.counters.rows, orders)
        self.seconds["keys"] += perf_counter() - begin
        return Coming(prepared, counts, len(orders) == 2)

    def _join(self, prepared: dict[Side, Prepared], interleaved: bool) -> Iterator[pa.RecordBatch]:
        """Find matches, give their rows, and store what came."""
        self._choose_layouts(prepared)
        matches = 0
        for delivery in self.join.search(prepared, interleaved):
            matches += delivery.matches
            yield from delivery.rows
        self.join.store(prepared)
        self.counters.matches += matches

    def _count(self, coming: Coming) -> None:
        """Count what has come."""
        for side, rows in coming.prepared.items():
            self.counters.rows[side] += coming.counts[side]
            self.counters.late += rows.late.size
            self.counters.null_times += rows.null_times
            if rows.newest is not None:
                self.newest[side] = max(self.newest.get(side, rows.newest), rows.newest)

    def restore(self, batches: Mapping[Side, Prepared]) -> None:
        """Take back rows that were stored before, without looking for matches."""
        self._choose_layouts(batches)
        self.join.insert(list(batches.values()))
        self.join.inserted = []

    def advance(self, watermark: int) -> None:
        """Note that rows before ``watermark`` come no more, and drop what they alone would meet."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        self._expire()

    def _expire(self) -> None:
        """Drop the subwindows whose rows have all left the window, unless rows wait for them."""
        needed: dict[Side, int]
        if isinstance(self.window, CountWindow):
            arrived = self.counters.rows
            needed = {side: arrived[side] - getattr(self.window, side) for side in SIDES}
        elif self.watermark is not None:
            needed = self.plan.needed_from(self.watermark)
        else:
            return
        if self.collector.count:
            return
        if self.is_self_join:
            needed = {"left": min(needed.values())}
        self.join.expire(needed)

    def follow(self, delay: int) -> None:
        """Move the watermark by Spark's rule: ``delay`` behind the slower side's newest time."""
        if len(self.newest) == 2:
            self.advance(min(self.newest.values()) - delay)

    def _choose_layouts(self, prepared: Mapping[Side, Prepared]) -> None:
        """Let a chain whose next subwindow is due look which layout and structure are best now."""
        for side, batch in prepared.items():
            if len(batch):
                self.samples[side] = batch.keys.sample()
        if len(self.samples) == 2:
            for side, batch in prepared.items():
                chain = self.chains[side]
                if chain.begins_another(len(batch)):
                    chain.layout = choose_layout(self.plan, side, self.samples)
                    if self.algorithm == "auto":
                        structure = choose_structure(chain, side, self.samples, len(batch))
                        chain.structure = structure


def sizes_of(window: Window | None, plan: JoinPlan, side: Side) -> Sizes:
    """Return when a subwindow of this side is full."""
    if isinstance(window, CountWindow):
        rows = window.left if side == "left" else window.right
        return Sizes(most=min(max(-(-rows // SUBWINDOWS), FEW_ROWS), MOST_COUNTED))
    if isinstance(window, TimeWindow):
        assert plan.time_part is not None
        [(low, high)] = plan.ranges[plan.time_part].exact
        ticks = max(int(high - low) // SUBWINDOWS, 1)
        return Sizes(MOST_ROWS, LEAST_ROWS, ticks, LARGE_BATCH, at_once=LARGE_BATCH)
    return Sizes(most=np.iinfo(np.int32).max)


def sort_by(batch: pa.RecordBatch, values: pa.Array) -> tuple[pa.RecordBatch, Keys]:
    """Sort a batch by order values, NULL first, stably; return their keys too."""
    keys = encode(values)
    has_value = validity(values)
    if has_value is not None:
        keys = np.where(has_value, keys, MIN_KEY)
    keys, order = sort_with_rows(keys)
    return batch.take(pa.array(order)), keys
