"""The rows of open sessions, of one side: each session has a ring of rows.

Rows are numbered in order of arrival. A row points to the next one of its session, the last one to
the first, and a session points to any of them::

    row        0   1   2   3   4   5         session   0   1   2
    next       3   1   5   0   gone   2      entry     0   1   5
               0 -> 3 -> 0     1 -> 1     5 -> 2 -> 5

Swapping the rows after two entries makes one ring of two. Rows that are gone stay until they are
more than half; then the others are copied, and get new numbers.

Invariants:

1. Rings share no row, and contain all rows except those that are gone, whose next is GONE.
2. ``count`` is the number of rows in rings.
3. All columns have an entry for each row.

Cost: O(1) per new row, amortised in the columns; O(rows) to follow, take or drop rows.
"""

from dataclasses import replace

import numpy as np

from streamjoin.joins.pairs.rows import Column
from streamjoin.joins.tumbling.eager_window import WindowSide
from streamjoin.kernels.compile import Keys, Positions, kernel
from streamjoin.kernels.prefetch import AHEAD, prefetch
from streamjoin.keys.operands import Side
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared, Roles

NONE, GONE = -1, -2


@kernel
def add_to_rings(entries: Keys, nexts: Keys, first: int, sessions: Keys) -> None:
    """Put the rows from ``first`` on into the rings of their sessions."""
    for i in range(sessions.size):
        row, entry = first + i, entries[sessions[i]]
        if entry == NONE:
            entries[sessions[i]], nexts[row] = row, row
        else:
            nexts[row], nexts[entry] = nexts[entry], row


@kernel
def join_rings(entries: Keys, nexts: Keys, gone: Keys, into: Keys) -> None:
    """Move the rows of sessions that are gone to others."""
    for i in range(gone.size):
        one, other = entries[gone[i]], entries[into[i]]
        entries[gone[i]] = NONE
        if other == NONE:
            entries[into[i]] = one
        elif one != NONE:
            nexts[one], nexts[other] = nexts[other], nexts[one]


@kernel
def follow_rings(entries: Keys, nexts: Keys, sessions: Keys) -> tuple[Keys, Positions]:
    """Return the rows of sessions, and the session of each."""
    rows = np.empty(2 * sessions.size, np.int64)
    found, count = np.empty_like(rows), 0
    for i in range(sessions.size):
        ahead = entries[sessions[min(i + AHEAD, sessions.size - 1)]]
        if ahead != NONE:
            prefetch(nexts, ahead)
        row = entry = entries[sessions[i]]
        while row != NONE:
            if count == rows.size:
                rows, found = np.append(rows, rows), np.append(found, found)
            rows[count], found[count] = row, i
            count += 1
            row = NONE if nexts[row] == entry else nexts[row]
    return rows[:count], found[:count]


class SessionRows:
    """See the module docstring."""

    def __init__(self, plan: JoinPlan, side: Side) -> None:
        self.plan, self.side = plan, side
        self.held = WindowSide.of(plan, side)
        self.nexts, self.entries = Column(), Column()
        self.able = None if plan.groups is None else Column()  # 1: the row can match
        self.count = 0

    def append(self, batch: Prepared) -> None:
        """Add rows, not yet in any session; if that fails, nothing changes."""
        first = self.nexts.size
        try:
            self.held.append(batch)
            if self.able is not None:
                self.able.append(batch.matching.astype(np.int64))
            self.nexts.append(np.full(len(batch), GONE))
        except BaseException:
            self.keep_first(first)
            raise

    def keep_first(self, count: int) -> None:
        """Drop all rows but the first ones, which were in sessions already."""
        self.held.keep_first(count)
        for column in (self.nexts, *([] if self.able is None else [self.able])):
            column.size = min(column.size, count)

    def add_last(self, sessions: Keys) -> None:
        """Put the last rows into sessions, for which `open` has made room."""
        first = self.nexts.size - sessions.size
        add_to_rings(self.entries.values, self.nexts.values, first, sessions)
        self.count += sessions.size

    def open(self, sessions: int) -> None:
        """Make room for ``sessions`` sessions."""
        self.entries.append(np.full(sessions - self.entries.size, NONE))

    def merge(self, gone: Keys, into: Keys) -> None:
        """Move the rows of sessions to others."""
        join_rings(self.entries.values, self.nexts.values, gone, into)

    def of(self, sessions: Keys) -> tuple[Keys, Positions]:
        """Return the rows of sessions, ascending, and the session of each."""
        rows, found = follow_rings(self.entries.values, self.nexts.values, sessions)
        rows, order = sort_with_rows(rows)
        return rows, found[order]

    def can_match(self, rows: Keys, found: Positions) -> tuple[Keys, Positions]:
        """Leave out rows that cannot match, and only extend their session."""
        if self.able is None:
            return rows, found
        able = self.able.values[rows] != 0
        return rows[able], found[able]

    def take(self, rows: Keys) -> Prepared:
        """Gather rows, given in ascending order; there must be some."""
        return Prepared(
            self.plan,
            self.side,
            self.held.rows.take(rows.astype(np.int32)),
            self.held.keys().take(rows),
            self.ordinals_of(rows),
            marks=self.held.marks_of(rows),
        )

    def ordinals_of(self, rows: Keys) -> Keys | None:
        """Return the ordinals of rows, if rows are observed."""
        ordinals = self.held.ordinals_from(0)
        return None if ordinals is None else ordinals[rows]

    def first_rows(self, count: int) -> Prepared | None:
        """Gather those of the first rows that are not gone; None if all are gone."""
        rows = np.flatnonzero(self.nexts.values[:count] != GONE)
        if not rows.size:
            return None
        able = None if self.able is None else self.able.values[rows] != 0
        return replace(self.take(rows), roles=Roles(can_match=able))

    def expire(self, sessions: Keys, rows: Keys) -> None:
        """Drop sessions that have ended, and their rows."""
        self.entries.values[sessions] = NONE
        self.nexts.values[rows] = GONE
        marks = self.held.marks
        if marks is not None and marks.early is not None:
            marks.early.settle(rows)  # they are there until they are copied, and not given any more
        self.count -= rows.size
        gone = self.nexts.size - self.count
        are_many = gone >= self.plan.limits.most_gone or not self.count
        if 2 * gone > self.nexts.size and are_many:
            self._compact()

    def renumber(self, kept: Keys) -> None:
        """Adopt the new ids of sessions, given by their old ones."""
        self.entries = make_column(self.entries.values[kept])

    @property
    def rows(self) -> Keys:
        """All rows that are not gone."""
        return np.flatnonzero(self.nexts.values != GONE)

    def _compact(self) -> None:
        """Copy and renumber all rows that are not gone."""
        rows = self.rows
        renumbered = np.full(self.nexts.size + 1, NONE)  # the last place is that of NONE
        renumbered[rows] = np.arange(rows.size)
        held = WindowSide.of(self.plan, self.side)
        if rows.size:
            held.append(self.take(rows))
        self.held = held
        if self.able is not None:
            self.able = make_column(self.able.values[rows])
        self.nexts = make_column(renumbered[self.nexts.values[rows]])
        self.entries = make_column(renumbered[self.entries.values])

    @property
    def nbytes(self) -> int:
        """Bytes of rows, keys and rings."""
        able = 0 if self.able is None else self.able.nbytes
        return self.held.nbytes + self.nexts.nbytes + self.entries.nbytes + able

    def check(self) -> None:
        """Raise unless all invariants hold."""
        entries, nexts = self.entries.values, self.nexts.values
        rows, _ = follow_rings(entries, nexts, np.arange(entries.size))
        assert sorted(rows.tolist()) == self.rows.tolist(), "1"
        assert self.count == rows.size, "2"
        able = [] if self.able is None else [self.able]
        columns = (*self.held.equalities, *self.held.ranges, self.nexts, *able)
        assert {column.size for column in columns} == {self.held.rows.size}, "3"


def make_column(values: Keys) -> Column:
    """Return a column of values."""
    column = Column()
    column.append(values)
    return column
