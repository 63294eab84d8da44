"""The sort-based joins: they partition, sort runs, merge them, and join the result (3.1).

::

    left, right   ->  ranges of codes, some for each thread          partition
    each range    ->  runs, sorted                                   build: ``np.sort``, with SIMD
                  ->  one sorted range                               merge
    two ranges    ->  runs of equal codes                            probe: one scan through both

`MWay` and `MPass` differ in how they merge.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from streamjoin.joins.equality.lazy.partitioning import Partitioned, partition
from streamjoin.joins.equality.phases import Phases
from streamjoin.joins.equality.pieces import Piece, even_out
from streamjoin.joins.equality.words import Words
from streamjoin.kernels.compile import Positions, RowIds, kernel
from streamjoin.kernels.threads import share

RUN_WORDS = 1 << 20  # smaller runs sort no faster, and have to be merged
Merge = Callable[[Words, Positions], Words]


@kernel
def join_sorted(left: Words, right: Words, origin: int, starts: RowIds, counts: RowIds) -> int:
    """Find the run of left words with the code of each right one; return the number of matches.

    Both ascend. Places count from ``origin``.
    """
    half = np.uint64(32)
    total, first, last, i = 0, 0, 0, 0
    while i < right.size:
        code = right[i] >> half
        first = last
        while first < left.size and (left[first] >> half) < code:
            first += 1
        last = first
        while last < left.size and (left[last] >> half) == code:
            last += 1
        while i < right.size and (right[i] >> half) == code:
            starts[i], counts[i] = origin + first, last - first
            total += last - first
            i += 1
    return total


def cut_runs(size: int, rows: int) -> Positions:
    """Return where runs of at most ``rows`` rows begin, and where the last one ends."""
    count = max(-(-size // rows), 1)
    return np.array([size * number // count for number in range(count + 1)])


class SortJoin:
    """A join by sorting; ``merge`` combines sorted runs into one."""

    merge: Merge

    def __init__(self, threads: int = 1, run_rows: int = RUN_WORDS) -> None:
        self.threads, self.run_rows, self.phases = threads, run_rows, Phases()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        return self.phases.seconds

    def join(self, left: Words, right: Words) -> list[Piece]:
        """Find all pairs of equal codes."""
        if not left.size or not right.size:
            return []
        bits = (2 * self.threads - 1).bit_length() if self.threads > 1 else 0
        with self.phases.time("partition"):
            sides = [partition(words, bits, self.threads) for words in (left, right)]
            if not bits:
                sides = [Partitioned(side.words.copy(), side.starts) for side in sides]
        ranges = [side[part] for side in sides for part in range(1 << bits)]
        cuts = [cut_runs(each.size, self.run_rows) for each in ranges]
        with self.phases.time("build"):
            runs = [
                each[first:last]
                for each, starts in zip(ranges, cuts, strict=True)
                for first, last in pairwise(starts)
            ]
            share(lambda run: run.sort(), runs, self.threads)
        with self.phases.time("merge"):
            runs_of = list(zip(ranges, cuts, strict=True))
            merged = share(lambda each: self.merge(*each), runs_of, self.threads)
        with self.phases.time("probe"):
            pairs = list(zip(merged[: 1 << bits], merged[1 << bits :], strict=True))
            return even_out(share(lambda each: probe(*each), pairs, self.threads), self.threads)


def probe(left: Words, right: Words) -> Piece:
    """Join two sorted ranges."""
    starts, counts = np.empty(right.size, np.int32), np.empty(right.size, np.int32)
    total = join_sorted(left, right, 0, starts, counts)
    return Piece.of("right", right, starts, counts, total, left)
