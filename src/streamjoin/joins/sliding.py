"""The sliding-window join: every row meets the rows of the other stream that its window shows it.

One step takes a batch of either stream or of both, in PanJoin's order (III-A): the batches come
prepared, are sorted, probe the other stream's chain, and are inserted into their own. A pair is
found once, by the row that comes later; where a step has both batches, right probes left too::

    step(left=L, right=R)     L -> right chain     R -> left chain     R -> L     insert L, R

Nothing is inserted before all matches are delivered, so a step that fails has changed nothing.

Probing is parallel over slices of the sorted batch: each thread works on a part of the key range,
in all subwindows, and kernels run without the GIL (III-G3). What a thread does with the matches is
up to the caller's ``deliver``: gather columns, count them, or leave them as ranges.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Generic, TypeVar

from streamjoin.joins.candidates import Check, Found, checks_of
from streamjoin.joins.chain import Chain
from streamjoin.joins.plan import JoinPlan, Layout
from streamjoin.joins.prepared import Prepared
from streamjoin.joins.subwindow import Subwindow
from streamjoin.kernels import Flags
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import OTHER, Side

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")
SLICE = 8192  # probes for a thread; with fewer, the threads mostly wait for the GIL


@dataclass(frozen=True)
class Probe:
    """A batch that looks for its matches in some subwindows of the other stream."""

    batch: Prepared
    subwindows: Iterable[Subwindow]
    mirrored: bool = False  # self-joins: each match (a, b) stands for (b, a) too


@dataclass(frozen=True)
class Slice:
    """A part of a probe, small enough for one thread: rows ``first`` to ``last`` in key order."""

    batch: Prepared
    targets: list[tuple[Subwindow, list[Check]]]
    mirrored: bool
    first: int
    last: int


class SlidingJoin(Generic[T]):
    """Two chains and the steps over them."""

    def __init__(
        self,
        plan: JoinPlan,
        chains: dict[Side, Chain],
        deliver: Callable[[Found], Iterator[T]],
        threads: int = 1,
    ) -> None:
        self.plan, self.chains, self.deliver, self.threads = plan, chains, deliver, threads
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.seconds = {"sort": 0.0, "probe": 0.0, "insert": 0.0}
        self.inserted: list[Prepared] = []  # by the last step

    def step(
        self,
        batches: Mapping[Side, Prepared],
        interleaved: bool = False,
        stored: Mapping[Side, Flags] | None = None,
    ) -> Iterator[T]:
        """Join one batch of either stream, or of both, and yield what ``deliver`` yields.

        ``interleaved`` tells that some rows of ``right`` arrived before some of ``left``. All rows
        probe; of a side in ``stored``, only those that it marks are kept. Matches are looked for as
        they are asked for, and rows are inserted after the last.
        """
        coming = {side: batch for side, batch in batches.items() if len(batch)}
        self.sort(list(coming.values()))
        flags = stored or {}
        kept = {
            side: batch.select(flags[side]) if side in flags else batch
            for side, batch in coming.items()
        }
        probes = [Probe(batch, self.chains[OTHER[side]]) for side, batch in coming.items()]
        if len(coming) == 2:
            probes.append(Probe(coming["right"], [self.chains["left"].alone(kept["left"])]))
            if interleaved:
                probes.append(Probe(coming["left"], [self.chains["right"].alone(kept["right"])]))
        yield from self.probe(probes)
        self.insert([batch for batch in kept.values() if len(batch)])

    def sort(self, batches: Sequence[Prepared]) -> None:
        """Sort each batch by the layout of the chain that it is going to probe."""
        begin = perf_counter()
        self._map(lambda batch: batch.ordered(self.chains[OTHER[batch.side]].layout), batches)
        self.seconds["sort"] += perf_counter() - begin

    def probe(self, probes: Sequence[Probe]) -> Iterator[T]:
        """Find the matches of all probes, and deliver them, in the order of the probes.

        With one thread nothing is found before it is asked for, so memory stays bounded.
        """
        begin = perf_counter()
        slices = [part for probe in probes for part in self._cut(probe)]
        if self.pool is None:
            for part in slices:
                for item in self._search(part):
                    self.seconds["probe"] += perf_counter() - begin
                    yield item
                    begin = perf_counter()
        else:
            parts = self._map(lambda part: list(self._search(part)), slices)
            self.seconds["probe"] += perf_counter() - begin
            yield from (item for part in parts for item in part)
            begin = perf_counter()
        self.seconds["probe"] += perf_counter() - begin

    def insert(self, batches: Sequence[Prepared]) -> None:
        """Store each batch in its chain."""
        begin = perf_counter()
        self._map(lambda batch: self.chains[batch.side].insert(batch), batches)
        self.inserted = list(batches)
        self.seconds["insert"] += perf_counter() - begin

    def _cut(self, probe: Probe) -> list[Slice]:
        """Cut a probe into slices, after what they share has been computed."""
        batch, targets = probe.batch, []
        for subwindow in probe.subwindows:
            if meets(batch, subwindow):
                batch.ordered(subwindow.layout)
                targets.append((subwindow, checks_of(batch, subwindow)))
        if not targets:
            return []
        count = min(self.threads, max(len(batch) // SLICE, 1))
        cuts = [len(batch) * number // count for number in range(count + 1)]
        return [
            Slice(batch, targets, probe.mirrored, first, last) for first, last in pairwise(cuts)
        ]

    def _search(self, part: Slice) -> Iterator[T]:
        batch, rows = part.batch, slice(part.first, part.last)
        ranges: dict[Layout, list[Range]] = {}
        for subwindow, checks in part.targets:
            layout = subwindow.layout
            order = batch.ordered(layout).order[rows]
            if layout not in ranges:
                ranges[layout] = batch.ranges(layout, rows)
            for lower, upper in ranges[layout]:
                for index in subwindow.indexes:
                    for matches in index.probe(lower, upper):
                        if len(matches):
                            yield from self.deliver(
                                Found(batch, subwindow, matches, order, checks, part.mirrored)
                            )

    def _map(self, function: Callable[[S], R], items: Sequence[S]) -> list[R]:
        """Apply a function to all items, side by side if there are threads for it."""
        if self.pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self.pool.map(function, items))


def meets(batch: Prepared, subwindow: Subwindow) -> bool:
    """Whether any row of the batch has any row of the subwindow in its window."""
    if batch.times is not None:
        lower, upper = batch.reach
        return lower <= subwindow.newest and upper >= subwindow.oldest
    if subwindow.ordinals is not None and batch.visible is not None:
        first, last = batch.visible
        ordinals = subwindow.ordinals
        return bool(first.min() <= ordinals.last and last.max() >= ordinals.first)
    return True
