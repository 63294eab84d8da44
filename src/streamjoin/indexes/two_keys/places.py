"""Where the ranges of probes lie in two sorted runs of the same tuples."""

from typing import NamedTuple

import numpy as np

from streamjoin.indexes.runs.sorted_run import SortedRun, find_ranges
from streamjoin.kernels.compile import Flags, Positions, RowIds, bare
from streamjoin.keys.key_ranges import Range


class Sought(NamedTuple):
    """The places of each probe's ranges: in the first run, and in the second."""

    lows: Positions
    highs: Positions  # an end at or before its beginning is an empty range
    starts: Positions
    stops: Positions

    def of(self, flags: Flags) -> "Sought":
        """Return the same with empty ranges for all but some probes."""
        return self._replace(highs=np.where(flags, self.highs, self.lows))


def find_places(run: SortedRun, ranges: Range) -> tuple[Positions, Positions]:
    """Return where ranges of keys lie in a run."""
    return find_ranges(run.keys, run.fine, run.coarse, run.size, *ranges)


@bare
def put_pairs(
    numbers: RowIds, begins: Positions, ends: Positions, lows: Positions, highs: Positions
) -> None:
    """Write where the range of each probe begins and ends to the probe's number."""
    for i in range(numbers.size):
        number = np.uint64(numbers[i])
        lows[number], highs[number] = begins[i], ends[i]


def seek(
    first_run: SortedRun, second_run: SortedRun, first: Range, numbers: RowIds, second: Range
) -> Sought:
    """Look for both ranges of each probe.

    Probes are numbered in the order of ``second``; ``numbers`` gives the probe that each range of
    ``first`` belongs to. Both are found fastest in ascending order.
    """
    lows, highs = begins, ends = find_places(first_run, first)
    if numbers.size > 1:
        lows, highs = np.empty_like(begins), np.empty_like(ends)
        put_pairs(numbers, begins, ends, lows, highs)
    return Sought(lows, highs, *find_places(second_run, second))
