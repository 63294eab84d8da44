"""Our mutable part with its bit arrays, and the same part with a hash set.

Both look for the places of a batch of probes in two sorted runs, and then take one probe after the
other: nothing is shared between them, so a batch costs what its probes would cost one by one in a
loop that is compiled. What differs is only how the tuples of two ranges are intersected, and that
bit arrays can hold the complement of a range, if that is smaller (`mutable_part`).
"""

import numpy as np

from benchmarks.spojoin.ours import count_matches, order_probes, sort_rows
from benchmarks.spojoin.sets import Work, make_work, meet_in_hash_set
from benchmarks.spojoin.tree_parts import Part
from benchmarks.spojoin.workloads import Ranges, Rows
from streamjoin.indexes.two_keys.mutable_part import MutablePart
from streamjoin.indexes.two_keys.places import Sought
from streamjoin.kernels.compile import Int, RowIds, bare


@bare
def run_hashed(
    first_slots: RowIds, second_slots: RowIds, sought: Sought, rows: RowIds, work: Work
) -> Int:
    """Write down the rows that each probe meets, with a hash set; return how many there are."""
    matches = np.int64(0)
    for probe in range(sought.lows.size):
        few = first_slots[sought.lows[probe] : sought.highs[probe]]
        many = second_slots[sought.starts[probe] : sought.stops[probe]]
        if few.size > many.size:
            few, many = many, few
        count = meet_in_hash_set(
            work.slots, few, few.size, many, many.size, work.found, np.int64(0)
        )
        for i in range(count):
            work.found[i] = rows[work.found[i]]
        matches += count
    return matches


class SortedRuns(Part):
    """The mutable part, of any size; what comes is searched for, and not inserted."""

    def __init__(self, stored: Rows, hashed: bool) -> None:
        self.part, self.hashed = MutablePart(), hashed
        self.part.insert(*sort_rows(stored))
        self.work = make_work(stored.first.size)

    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Search for tuples."""
        found = self.part.probe(*order_probes(rows, ranges))
        if not self.hashed:
            return count_matches([found], writes=True)
        slots = found.first_slots, found.second_slots
        return int(run_hashed(*slots, found.sought, found.rows, self.work))

    def rewind(self) -> None:
        """Do nothing: searching changes nothing."""
