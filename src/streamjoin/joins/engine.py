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
from streamjoin.indexes.bi_sort import BISort
from streamjoin.indexes.protocol import Index
from streamjoin.indexes.scan import Scan
from streamjoin.joins.arrivals import Orders, number_step
from streamjoin.joins.candidates import Found
from streamjoin.joins.chain import Chain, Sizes
from streamjoin.joins.gather import Delivery, gather
from streamjoin.joins.plan import SIDES, JoinPlan, KeyColumns, choose_layout
from streamjoin.joins.prepared import Prepared, prepare
from streamjoin.joins.self_join import SelfJoin
from streamjoin.joins.sliding import SlidingJoin
from streamjoin.kernels import MIN_KEY, Flags, Keys
from streamjoin.keys.operands import Operands, Side
from streamjoin.keys.parts import validity
from streamjoin.keys.sort_keys import encode
from streamjoin.keys.sorting import sort_with_rows
from streamjoin.windows import CountWindow, TimeWindow, Window

INDEXES: dict[str, type[BISort] | type[Scan]] = {"bi_sort": BISort, "scan": Scan}

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
    ) -> None:
        self.plan, self.window, self.algorithm, self.order = plan, window, algorithm, order
        self.schema = joined_schema(plan.schemas["left"], plan.schemas["right"])
        self.counters = Counters()
        self.watermark: int | None = None  # in keys of the time part
        self.newest: dict[Side, int] = {}
        self.samples: dict[Side, KeyColumns] = {}
        self.seconds = {"keys": 0.0, "expire": 0.0}
        self.is_self_join = symmetric is not None and plan.same_keys
        chains = {side: self._make_chain(side) for side in SIDES}
        self.join: SlidingJoin[Delivery]
        if self.is_self_join:
            chains["right"] = chains["left"]
            self.join = SelfJoin(plan, chains, self._deliver, threads, bool(symmetric))
        else:
            self.join = SlidingJoin(plan, chains, self._deliver, threads)
        self._deliver_to = deliver

    def _make_chain(self, side: Side) -> Chain:
        counted = isinstance(self.window, CountWindow)
        sizes = sizes_of(self.window, self.plan, side)
        return Chain(self.plan, sizes, self._make_index, counted)

    def _make_index(self, capacity: int) -> Index:
        return INDEXES[self.algorithm](max(capacity, 1))

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
        begin = perf_counter()
        orders: Orders = {}
        prepared: dict[Side, Prepared] = {}
        for side, batch in batches.items():
            if self.order is not None:
                batch, orders[side] = sort_by(batch, self.order.values(side, batch))
            prepared[side] = prepare(self.plan, side, batch, self.watermark)
        arrived = self.counters.rows
        if isinstance(self.window, CountWindow):
            counts = {side: batch.num_rows for side, batch in batches.items()}
            number_step(self.window, prepared, counts, arrived, orders)
        self._choose_layouts(prepared)
        self.seconds["keys"] += perf_counter() - begin
        stored = None if choose is None else {s: choose(s, each) for s, each in prepared.items()}
        matches = 0
        for delivery in self.join.step(prepared, len(orders) == 2, stored):
            matches += delivery.matches
            yield from delivery.rows
        for side, rows in prepared.items():
            self.counters.rows[side] += batches[side].num_rows
            self.counters.late += rows.late.size
            self.counters.null_times += rows.null_times
            if rows.newest is not None:
                self.newest[side] = max(self.newest.get(side, rows.newest), rows.newest)
        self.counters.matches += matches
        if isinstance(self.window, CountWindow):
            self._expire(
                left=arrived["left"] - self.window.left, right=arrived["right"] - self.window.right
            )

    def restore(self, batches: Mapping[Side, Prepared]) -> None:
        """Take back rows that were stored before, without looking for matches."""
        self._choose_layouts(batches)
        for side, batch in batches.items():
            self.chains[side].insert(batch)

    def _expire(self, left: int, right: int) -> None:
        """Drop the subwindows whose rows all come before these ordinals or times."""
        begin = perf_counter()
        if self.is_self_join:
            left = right = min(left, right)
        self.chains["left"].expire(left)
        self.chains["right"].expire(right)
        self.seconds["expire"] += perf_counter() - begin

    def advance(self, watermark: int) -> None:
        """Note that rows before ``watermark`` come no more, and drop what they alone would meet."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        self._expire(**self.plan.needed_from(watermark))

    def follow(self, delay: int) -> None:
        """Move the watermark by Spark's rule: ``delay`` behind the slower side's newest time."""
        if len(self.newest) == 2:
            self.advance(min(self.newest.values()) - delay)

    def _choose_layouts(self, prepared: Mapping[Side, Prepared]) -> None:
        """Let a chain whose next subwindow is due look which layout is the most selective now."""
        for side, batch in prepared.items():
            if len(batch):
                self.samples[side] = batch.keys.sample()
        if len(self.samples) == 2:
            for side in prepared:
                if self.chains[side].is_full(len(prepared[side])):
                    self.chains[side].layout = choose_layout(self.plan, side, self.samples)


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
