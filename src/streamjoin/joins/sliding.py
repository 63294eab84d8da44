"""The sliding-window join: every row meets the rows of the other stream that its window shows it.

One step takes a batch of either stream or of both, in PanJoin's order (III-A): the batches come
prepared and sorted, probe the other stream's chain, then are inserted into their own. A pair is
found once, by the row that comes later; where a step has both batches, right probes left too::

    step(left=L, right=R)     L -> right chain     R -> left chain     R -> L     insert L, R

Nothing is inserted before all matches are delivered, so a step that fails has changed nothing.

Probing is parallel over slices of the sorted batch: each thread works on a part of the key range,
in all subwindows, and kernels run without the GIL (III-G3). What a thread does with the matches is
up to the caller's ``deliver``: gather columns, count them, or leave them as ranges.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Generic, TypeVar

from streamjoin.joins.candidates import Check, Found, checks_of
from streamjoin.joins.chain import Chain
from streamjoin.joins.plan import JoinPlan
from streamjoin.joins.prepared import Prepared
from streamjoin.joins.subwindow import Subwindow
from streamjoin.keys.operands import OTHER, Side

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")
SLICE = 2048  # fewer probes than this are not worth a second thread


class SlidingJoin(Generic[T]):
    """Two chains and the steps over them."""

    def __init__(
        self,
        plan: JoinPlan,
        chains: dict[Side, Chain],
        deliver: Callable[[Found], T],
        threads: int = 1,
    ) -> None:
        self.plan, self.chains, self.deliver, self.threads = plan, chains, deliver, threads
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.seconds = {"sort": 0.0, "probe": 0.0, "insert": 0.0}

    def step(
        self, left: Prepared | None, right: Prepared | None, interleaved: bool = False
    ) -> list[T]:
        """Join one batch of either stream, or of both, and return what ``deliver`` returned.

        ``interleaved`` tells that some rows of ``right`` arrived before some of ``left``.
        """
        batches = [batch for batch in (left, right) if batch is not None and len(batch)]
        self._sort(batches)
        delivered: list[T] = []
        for batch in batches:
            delivered += self.probe(batch, self.chains[OTHER[batch.side]])
        if len(batches) == 2:
            delivered += self.probe(batches[1], [self._alone(batches[0])])
            if interleaved:
                delivered += self.probe(batches[0], [self._alone(batches[1])])
        self._insert(batches)
        return delivered

    def _map(self, function: Callable[[S], R], items: Sequence[S]) -> list[R]:
        """Apply a function to all items, side by side if there are threads for it."""
        if self.pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self.pool.map(function, items))

    def _sort(self, batches: list[Prepared]) -> None:
        begin = perf_counter()
        self._map(lambda batch: batch.ranges(self.chains[OTHER[batch.side]].layout), batches)
        self.seconds["sort"] += perf_counter() - begin

    def _insert(self, batches: list[Prepared]) -> None:
        begin = perf_counter()
        self._map(lambda batch: self.chains[batch.side].insert(batch), batches)
        self.seconds["insert"] += perf_counter() - begin

    def _alone(self, batch: Prepared) -> Subwindow:
        """Return a subwindow of just one batch."""
        chain = self.chains[batch.side]
        subwindow = chain.create(len(batch))
        subwindow.insert(batch)
        return subwindow

    def probe(
        self, batch: Prepared, subwindows: Iterable[Subwindow], mirrored: bool = False
    ) -> list[T]:
        """Find a batch's matches in some subwindows of the other stream, and deliver them."""
        begin = perf_counter()
        targets = [held for held in subwindows if meets(batch, held)]
        for subwindow in targets:
            batch.ranges(subwindow.layout)
        sorted_at = perf_counter()
        self.seconds["sort"] += sorted_at - begin
        checked = [(subwindow, checks_of(batch, subwindow)) for subwindow in targets]
        workers = min(self.threads, max(len(batch) // SLICE, 1))
        cuts = [len(batch) * worker // workers for worker in range(workers + 1)]

        def work(worker: int) -> list[T]:
            return self._probe_slice(batch, checked, cuts[worker], cuts[worker + 1], mirrored)

        parts = self._map(work, range(workers))
        self.seconds["probe"] += perf_counter() - sorted_at
        return [item for part in parts for item in part]

    def _probe_slice(
        self,
        batch: Prepared,
        targets: list[tuple[Subwindow, list[Check]]],
        first: int,
        last: int,
        mirrored: bool,
    ) -> list[T]:
        delivered = []
        for subwindow, checks in targets:
            order = batch.ordered(subwindow.layout).order[first:last]
            for lower, upper in batch.ranges(subwindow.layout):
                for index in subwindow.indexes:
                    for matches in index.probe(lower[first:last], upper[first:last]):
                        if len(matches):
                            found = Found(batch, subwindow, matches, order, checks, mirrored)
                            delivered.append(self.deliver(found))
        return delivered


def meets(batch: Prepared, subwindow: Subwindow) -> bool:
    """Whether any row of the batch has any row of the subwindow in its window."""
    if batch.times is not None:
        lower, upper = batch.reach
        return lower <= subwindow.newest and upper >= subwindow.oldest
    if subwindow.ordinals is not None and batch.visible is not None:
        first, last = batch.visible
        ordinals = subwindow.ordinals.values
        return bool(first.min() <= ordinals[-1] and last.max() >= ordinals[0])
    return True
