"""PMJ, the progressive merge join: sorts and joins in portions, and the rest at the end (3.2.1).

As soon as ``delta`` tuples have arrived, those of each side are sorted into a run, and the two runs
are joined. When the window closes, all runs of a side are merged, and the pairs are found whose
tuples are in runs of different portions::

    left     run 0 | run 1 | run 2        now     0-0   1-1   2-2
    right    run 0 | run 1 | run 2        at end  0-1 0-2 1-0 1-2 2-0 2-1

Rows are numbered in order of arrival, so a run is a range of rows. Of the left tuples with one
code, those in the same portion as a right tuple are contiguous; what remains to be joined are those
before and those after.
"""

import numpy as np

from streamjoin.joins.equality.lazy.sort_join import join_sorted
from streamjoin.joins.equality.lazy.word_merge import merge_runs
from streamjoin.joins.equality.phases import Phases
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.words import NO_WORDS, Words
from streamjoin.kernels.compile import Int, Positions, RowIds, inlined, kernel
from streamjoin.kernels.interrupts import checkpoint

DELTA = 1 << 18  # tuples of both sides that are sorted together


@inlined
def rank(words: Words, first: Int, last: Int, limit: Int) -> Int:
    """Return the first place from ``first`` to ``last`` whose row is not below ``limit``."""
    rows = np.uint64(2**32 - 1)
    while first < last:
        middle = (first + last) >> 1
        if (words[middle] & rows) < limit:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def leave_out(
    left: Words,
    right: Words,
    left_firsts: Positions,
    right_firsts: Positions,
    starts: RowIds,
    counts: RowIds,
    behind: RowIds,
    rest: RowIds,
) -> tuple[int, int]:
    """Leave out the left tuples of a right tuple's own run; keep those before and after it.

    Runs begin with the rows ``left_firsts`` and ``right_firsts``, and end with the next one's.
    """
    rows = np.uint64(2**32 - 1)
    before_all, behind_all = 0, 0
    for i in range(right.size):
        first, last = np.int64(starts[i]), np.int64(starts[i]) + counts[i]
        run = np.searchsorted(right_firsts, np.int64(right[i] & rows), side="right") - 1
        begin = rank(left, first, last, np.uint64(left_firsts[run]))
        end = rank(left, begin, last, np.uint64(left_firsts[run + 1]))
        counts[i] = begin - first
        behind[i], rest[i] = end, last - end
        before_all += begin - first
        behind_all += last - end
    return before_all, behind_all


class SortedRuns:
    """The sorted runs of one side, and the tuples that wait to become one."""

    def __init__(self) -> None:
        self.waiting: list[Words] = []
        self.count = 0  # tuples that wait
        self.runs: list[Words] = []
        self.firsts: list[int] = []  # the first row of each run

    def add(self, words: Words) -> None:
        """Add tuples, to be sorted later."""
        if words.size:
            self.waiting.append(words)
            self.count += words.size

    def sort(self) -> Words:
        """Make a run of the waiting tuples."""
        run = np.concatenate(self.waiting) if self.waiting else NO_WORDS
        self.firsts.append(int(run[0] & np.uint64(2**32 - 1)) if run.size else -1)
        run.sort()
        self.runs.append(run)
        self.waiting, self.count = [], 0
        return run

    def merge(self) -> Words:
        """Return all runs as one."""
        starts = np.cumsum([0, *(run.size for run in self.runs)])
        return merge_runs(np.concatenate(self.runs), starts)

    @property
    def bounds(self) -> Positions:
        """The first row of each run (of an empty one, that of the next), and the last one's end."""
        bounds = np.array([*self.firsts, 2**31])
        for at in range(bounds.size - 2, -1, -1):
            if bounds[at] < 0:
                bounds[at] = bounds[at + 1]
        return bounds

    @property
    def nbytes(self) -> int:
        """Bytes of all tuples."""
        return sum(words.nbytes for words in [*self.waiting, *self.runs])


class PMJ:
    """One core of the algorithm."""

    def __init__(self, delta: int = DELTA) -> None:
        self.delta, self.phases = delta, Phases()
        self.left, self.right = SortedRuns(), SortedRuns()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        return self.phases.seconds

    def push(self, left: Words, right: Words) -> list[Piece]:
        """Take in tuples; once there are enough, return the matches among them."""
        found, half = [], max(self.delta // 2, 1)
        for first in range(0, max(left.size, right.size), half):
            checkpoint()
            self.left.add(left[first : first + half])
            self.right.add(right[first : first + half])
            if self.left.count + self.right.count >= self.delta:
                found += self._join_runs()
        return found

    def _join_runs(self) -> list[Piece]:
        with self.phases.time("build"):
            left, right = self.left.sort(), self.right.sort()
        with self.phases.time("probe"):
            starts, counts = np.empty(right.size, np.int32), np.empty(right.size, np.int32)
            total = join_sorted(left, right, 0, starts, counts)
            return [Piece.of("right", right, starts, counts, total, left)] if total else []

    def close(self) -> list[Piece]:
        """Join what waits, and then the tuples of different runs."""
        found = self._join_runs() if self.left.count or self.right.count else []
        if len(self.left.runs) < 2:
            return found
        with self.phases.time("merge"):
            left, right = self.left.merge(), self.right.merge()
        with self.phases.time("probe"):
            starts, counts, behind, rest = (np.empty(right.size, np.int32) for _ in range(4))
            if join_sorted(left, right, 0, starts, counts):
                bounds = self.left.bounds, self.right.bounds
                totals = leave_out(left, right, *bounds, starts, counts, behind, rest)
                pieces = ((starts, counts, totals[0]), (behind, rest, totals[1]))
                found += [Piece.of("right", right, *each, left) for each in pieces if each[2]]
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of both sides' runs."""
        return self.left.nbytes + self.right.nbytes
