"""A window as a chain of subwindows (PanJoin III-A): insert at one end, drop at the other.

Only the newest subwindow takes inserts, the middle ones never change, and the oldest is dropped
whole once all its rows have left the window; until then, probes skip its expired rows::

    time    ... ----------------------------------------------------> now
    chain   [ oldest: some expired ] [ sealed ] [ sealed ] [ newest: takes inserts ]
                                                    ^ late rows go to the side index of theirs

Rows arrive out of order within the watermark. A subwindow is responsible for the times from its
``start`` to the next one's; a row older than the newest's start goes into the side index of the
subwindow that is responsible for it (III-G2), which keeps the time ranges of subwindows apart, so
that expiry stays whole and probes can skip subwindows. A side index stays small, at most a quarter
of its subwindow: beyond that, rows go into the newest like any other. Which subwindow holds a row
never changes the result.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from streamjoin.indexes.protocol import Index
from streamjoin.joins.plan import JoinPlan, Layout
from streamjoin.joins.prepared import Prepared
from streamjoin.joins.subwindow import Subwindow
from streamjoin.kernels import MIN_KEY, Keys

MakeIndex = Callable[[int], Index]  # takes the capacity expected


@dataclass(frozen=True)
class Sizes:
    """When a subwindow is full: at ``most`` rows, or at ``least`` rows that span ``ticks``.

    Before a ``large`` batch, a large subwindow that spans a sixth of that is full too: to merge
    the two would cost more than to search both.
    """

    most: int
    least: int = 0
    ticks: int | None = None
    large: int = np.iinfo(np.int32).max
    at_once: int = np.iinfo(np.int32).max  # rows of one batch before it is asked again

    def room(self, newest: Subwindow, coming: int) -> int:
        """Return how many more rows fit into a subwindow, of so many that come."""
        left = self.most - len(newest)
        if self.ticks is None or len(newest) < self.least:
            return left
        enough = self.ticks // 6 if min(len(newest), coming) >= self.large else self.ticks
        return 0 if newest.newest - newest.oldest >= enough else left


class Chain:
    """The stored rows of one stream, oldest subwindow first."""

    def __init__(self, plan: JoinPlan, sizes: Sizes, make_index: MakeIndex, counted: bool) -> None:
        self.plan, self.sizes, self.make_index = plan, sizes, make_index
        self.counted = counted  # whether rows have ordinals
        self.layout: Layout = plan.layouts()[0]
        self.subwindows: list[Subwindow] = []

    def __iter__(self) -> Iterator[Subwindow]:
        return iter(self.subwindows)

    def __len__(self) -> int:
        """Count the rows held, expired ones included."""
        return sum(len(subwindow) for subwindow in self.subwindows)

    @property
    def nbytes(self) -> int:
        """Bytes that all subwindows hold."""
        return sum(subwindow.nbytes for subwindow in self.subwindows)

    def is_full(self, coming: int) -> bool:
        """Whether an insert of so many rows begins a new subwindow."""
        return not self.subwindows or self.sizes.room(self.subwindows[-1], coming) <= 0

    def insert(self, batch: Prepared) -> None:
        """Store a batch: late rows with their subwindow, the others in the newest."""
        if batch.times is not None and self.subwindows:
            batch = self._set_late_aside(batch, batch.times)
        first = 0
        while first < len(batch):
            rest = batch.take(slice(first, None)) if first else batch
            newest = self._newest(rest)
            last = first + min(self.sizes.room(newest, len(rest)), self.sizes.at_once, len(rest))
            newest.insert(rest if last == len(batch) else batch.take(slice(first, last)))
            first = last

    def create(self, capacity: int, start: int = MIN_KEY) -> Subwindow:
        """Make an empty subwindow."""
        index = self.make_index(capacity)
        return Subwindow.create(self.plan, self.layout, index, self.counted, start)

    def alone(self, batch: Prepared) -> Subwindow:
        """Return a subwindow of one batch, outside the chain and for as long as the batch lives."""
        index = self.make_index(len(batch))
        subwindow = Subwindow.create(self.plan, self.layout, index, self.counted, copies=False)
        subwindow.insert(batch)
        return subwindow

    def _newest(self, coming: Prepared) -> Subwindow:
        """Return a subwindow with room, a new one if need be."""
        if self.is_full(len(coming)):
            start = MIN_KEY
            if self.subwindows:
                self.subwindows[-1].seal()
                if coming.times is not None:
                    start = self._next_start(coming.times)
            # The first one may stay small; where one was filled, the next will be.
            fills = self.sizes.ticks is None and bool(self.subwindows)
            capacity = self.sizes.most if fills else min(len(coming), self.sizes.most)
            self.subwindows.append(self.create(capacity, start))
        return self.subwindows[-1]

    def _next_start(self, times: Keys) -> int:
        """Return where the next subwindow starts: at the end of the newest.

        But not after half of what is coming: a single time far ahead would make all that follows
        late.
        """
        newest, middle = self.subwindows[-1], times.size // 2
        median = int(np.partition(times, middle)[middle])
        return max(newest.start, min(newest.newest, median))

    def _set_late_aside(self, batch: Prepared, times: Keys) -> Prepared:
        """Put late rows into the side index that is responsible for them; return the others."""
        if not len(batch):
            return batch
        is_full = self.is_full(len(batch))
        newest_start = self._next_start(times) if is_full else self.subwindows[-1].start
        starts = np.array([subwindow.start for subwindow in self.subwindows])
        owners = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
        stays = times >= newest_start
        for owner in np.unique(owners[~stays]):
            subwindow = self.subwindows[owner]
            late = np.flatnonzero(~stays & (owners == owner))
            aside, stays[late[subwindow.side_room :]] = late[: subwindow.side_room], True
            if aside.size:
                subwindow.insert_late(batch.take(aside), lambda: self.make_index(0))
        return batch if stays.all() else batch.take(np.flatnonzero(stays))

    def expire(self, before: int) -> None:
        """Drop the subwindows whose rows all have a time, or an ordinal, less than ``before``."""
        self.subwindows = [held for held in self.subwindows if held.last >= before]

    def check(self) -> None:
        """Assert every subwindow's invariants, and that the starts ascend."""
        for subwindow in self.subwindows:
            subwindow.check()
            assert len(subwindow)
        starts = [subwindow.start for subwindow in self.subwindows]
        assert starts == sorted(starts)
