"""A whole window in one piece: its index drops row by row (`indexes.trees.window_index`).

It stands in a chain like any subwindow, and is never full. Row ids count from the oldest row that
is left, so expiry renumbers the others, without touching them::

    rows      0 1 2 3 4 5 6 7          expire 3:         0 1 2 3 4
    keys      9 4 4 7 1 8 2 5                            7 1 8 2 5

Rows of a count window leave in the order of their arrival. Those of a time window may not: where
most of the oldest rows have left and a few have not, these few are put behind the newest, as if
they had come again, so that one row with a time far ahead does not hold up all that came after it.

Invariants, asserted by ``check``: those of a subwindow, and
    6. ``keys`` are the index's, in the order of row ids.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from streamjoin.indexes.trees.window_index import WindowIndex
from streamjoin.joins.pairs.rows import Column, Rows
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Keys, kernel
from streamjoin.plans.limits import Limits
from streamjoin.plans.marks import Marks
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared

EXPIRED_SHARE = 16  # a time window drops a sixteenth of its rows at a time
STUCK_SHARE = 8  # at most an eighth of them come again


@kernel
def count_leading(values: Keys, before: int) -> int:
    """Count the values at the beginning that are all below a bound."""
    count = 0
    while count < values.size and values[count] < before:
        count += 1
    return count


@dataclass
class WholeWindowSubwindow(Subwindow):
    """Rows, index and key columns; the module docstring gives the layout."""

    index: WindowIndex
    keys: Column = field(default_factory=Column)

    @classmethod
    def create(cls, plan: JoinPlan, *others: Any, **named: Any) -> Self:
        """Make an empty window."""
        window = super().create(plan, *others, **named)
        window.keys = Column(plan.limits)
        return window

    @classmethod
    def make_rows(cls, limits: Limits, copies: bool) -> Rows:
        """Make what keeps the columns."""
        return Rows(copies, rolls=True, limits=limits)

    def append(self, batch: Prepared) -> None:
        """Keep a batch's rows and keys; its tuples are in the index already."""
        super().append(batch)
        self.keys.append(batch.plan.index_keys(self.layout, batch.keys))

    @property
    def late_room(self) -> int:
        """Late rows go into the newest window, like any others."""
        return 0

    def seal(self) -> None:
        """Note that no more rows come; those that are there still leave one by one."""
        self.is_sealed = True

    @property
    def first(self) -> int:
        """The first ordinal or, in time windows, the least time."""
        if self.ordinals is None or self.plan.time_part is not None:
            return self.oldest
        return self.ordinals.first

    def expire(self, before: int) -> None:
        """Drop the rows that are before a time, or an ordinal."""
        if self.plan.time_part is None:
            assert self.ordinals is not None
            self._expire_oldest(self.ordinals.count_before(before))
            return
        times = self.range_keys[self.plan.time_part]
        dropped = False
        while len(self):
            part = times.values[: self._expired_at_once]
            stays = np.flatnonzero(part >= before)
            if STUCK_SHARE * stays.size > part.size or (part.size == len(self) and stays.size):
                count = count_leading(part, before)
                dropped = dropped or count > 0
                self._expire_oldest(count)
                break
            self._put_behind(stays)
            self._expire_oldest(part.size)
            dropped = True
        if dropped:
            self.note_times()

    @property
    def _expired_at_once(self) -> int:
        """How many of the oldest rows of a time window are looked at together."""
        return max(len(self) // EXPIRED_SHARE, self.plan.limits.least_expired_rows)

    def count_expired(self, before: int) -> tuple[int, bool]:
        """Count the oldest rows that are before a time, or an ordinal.

        Tells as well whether most rows behind them have left too, but for a few.
        """
        if self.plan.time_part is None:
            assert self.ordinals is not None
            return self.ordinals.count_before(before), False
        times = self.range_keys[self.plan.time_part].values
        # A watermark may lie beyond all times there are, which no kernel can take.
        gone = len(self) if before > MAX_KEY else count_leading(times, max(before, MIN_KEY))
        part = times[gone : gone + self._expired_at_once]
        left = int(np.count_nonzero(part >= before))
        is_stuck = STUCK_SHARE * left <= part.size
        return gone, is_stuck and part.size >= self.plan.limits.least_expired_rows

    def glimpse(self) -> "WholeWindowSubwindow":
        """Return the window as it is now, to be read while rows come and go."""
        ordinals = None if self.ordinals is None else self.ordinals.glimpse()
        return replace(self, rows=self.rows.glimpse(), ordinals=ordinals)

    def _expire_oldest(self, count: int) -> None:
        """Forget the oldest rows, and their tuples."""
        if count:
            self.index.expire(self.keys.values[:count])
            self.drop_rows(count)

    def drop_rows(self, count: int) -> None:
        """Forget what is kept of the oldest rows beside their tuples in the index."""
        for column in (self.keys, *self.equality_keys, *self.range_keys.values()):
            column.drop_first(count)
        self.rows.drop_first(count)
        if isinstance(self.marks, Marks):
            self.marks.drop_first(count)
        if self.ordinals is not None:
            self.ordinals.drop_first(count)

    def rebuild(self) -> None:
        """Make the index anew from the keys."""
        keys = self.keys.values
        order = np.argsort(keys, kind="stable")
        self.index = self.index.successor(keys.size)
        self.index.insert(keys[order], order.astype(np.int32))

    def _put_behind(self, row_ids: Keys) -> None:
        """Store rows once more, behind all others."""
        if not row_ids.size:
            return
        places = np.arange(len(self), len(self) + row_ids.size, dtype=np.int32)
        keys = self.keys.values[row_ids]
        order = np.argsort(keys, kind="stable")
        self.index.insert(keys[order], places[order])
        if isinstance(self.marks, Marks) and self.plan.time_part is not None:
            times = self.range_keys[self.plan.time_part].values[row_ids]
            early = self.marks.read_early(row_ids)
            self.marks.append(self.marks.read(row_ids), times, early=early)
        for column in (self.keys, *self.equality_keys, *self.range_keys.values()):
            column.append(column.values[row_ids])
        if self.ordinals is not None:
            self.ordinals.append(self.ordinals.of(row_ids.astype(np.int32)))
        self.rows.append(self.rows.take(row_ids.astype(np.int32)))

    def note_times(self) -> None:
        """Look which times are left."""
        if self.plan.time_part is None:
            return
        times = self.range_keys[self.plan.time_part].values
        self.oldest = int(times.min()) if times.size else MAX_KEY
        self.newest = int(times.max()) if times.size else MIN_KEY

    @property
    def nbytes(self) -> int:
        """Bytes of rows, keys and index."""
        return super().nbytes + self.keys.nbytes

    def check(self) -> None:
        """Assert the invariants; tests call this after every step."""
        super().check()
        assert self.keys.size == len(self)
        held = self.index.to_arrow()
        row_ids = held["row_ids"].to_numpy()
        assert np.array_equal(held["keys"].to_numpy(), self.keys.values[row_ids])
