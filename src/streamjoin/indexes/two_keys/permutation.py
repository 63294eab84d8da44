"""Permutation arrays: tuples with two keys, sorted by both, and where each stands (PO-Join, 3.3).

The same tuples lie in two sorted runs, one by the first key and one by the second; the second run
holds, instead of row ids, the *permutation*: the place of each tuple in the first run::

    row          0  1  2  3            first   keys  [ 2 4 7 9 ]   rows  [ 1 3 0 2 ]
    first key    7  2  9  4            second  keys  [ 1 3 5 8 ]   place [ 3 0 1 2 ]
    second key   8  3  1  5                             ^ row 2 is the last by the first key

A probe has a range of each key. Each range is a range of places, so a tuple of the second range
matches if its permutation lies between two numbers; of the first run, only the rows of matches are
read. `crossing` finds them.

The arrays never change. Two of them are merged by two linear merges, and the permutation follows
without sorting (the paper's Algorithm 2): a tuple that was at i is now at ``places[i]``.

Invariants, asserted by ``check``:
    1. Both runs are sorted runs of the same tuples (`SortedRun`).
    2. ``places`` is a permutation.
    3. ``zones`` are those of ``places``.
Costs for n tuples: ``merge`` O(n); memory 26 bytes per tuple.

Source: Aslam, Beedkar and Simonini, "SPO-Join" (EDBT 2025), 3.3 and 3.4. Departure: there is no
offset array. It holds the places of one stream's stored tuples among the other's, which says too
little about a tuple that is not stored; here a batch of probes is sorted, and finds its places in
one pass.
"""

from typing import Self

import numpy as np

from streamjoin.indexes.protocol import Sorted
from streamjoin.indexes.runs.sorted_run import SortedRun
from streamjoin.indexes.two_keys.crossing import Crossing
from streamjoin.indexes.two_keys.places import seek
from streamjoin.indexes.two_keys.scanning import find_zones
from streamjoin.kernels.compile import Keys, RowIds, kernel
from streamjoin.keys.key_ranges import Range


@kernel
def permute(first_rows: RowIds, second_rows: RowIds, places: RowIds) -> None:
    """Write the place in the first order of each tuple of the second. O(n)."""
    if first_rows.size == 0:
        return
    least = first_rows.min()
    place_of = np.empty(first_rows.max() - least + 1, np.int32)
    for place in range(first_rows.size):
        place_of[first_rows[place] - least] = place
    for i in range(second_rows.size):
        places[i] = place_of[second_rows[i] - least]


@kernel
def merge_keys(old: Keys, new: Keys, merged: Keys, old_places: RowIds, new_places: RowIds) -> None:
    """Merge ascending keys, and write where each key went; of equal keys, old ones come first."""
    i = j = np.int64(0)
    while i < old.size and j < new.size:
        a, b = old[np.uint64(i)], new[np.uint64(j)]
        at = np.uint64(i + j)
        is_new = np.int64(b < a)
        merged[at] = b if is_new else a
        # Both are written; the one that is not taken yet will be written again.
        old_places[np.uint64(i)] = i + j
        new_places[np.uint64(j)] = i + j
        i += 1 - is_new
        j += is_new
    for k in range(i, old.size):
        merged[k + j], old_places[k] = old[k], k + j
    for k in range(j, new.size):
        merged[k + i], new_places[k] = new[k], k + i


@kernel
def put(values: RowIds, places: RowIds, target: RowIds) -> None:
    """Write each value to its place."""
    for i in range(values.size):
        target[places[i]] = values[i]


@kernel
def put_mapped(values: RowIds, mapping: RowIds, places: RowIds, target: RowIds) -> None:
    """Write each value, mapped, to its place."""
    for i in range(values.size):
        target[places[i]] = mapping[values[i]]


class Permutation:
    """Tuples sorted by two keys; the module docstring gives the layout."""

    def __init__(self, first: SortedRun, second: SortedRun) -> None:
        self.first, self.second = first, second
        self.zones = find_zones(self.places)

    @classmethod
    def from_sorted(cls, first: Sorted, second: Sorted) -> Self:
        """Build it from the same tuples in the order of each key. O(n)."""
        keys, rows = second
        places = np.empty(rows.size, np.int32)
        permute(first[1], rows, places)
        return cls(SortedRun.from_sorted(*first), SortedRun.from_sorted(keys, places))

    def merge(self, newer: "Permutation") -> "Permutation":
        """Return the tuples of both; this one's first where keys are equal. O(n)."""
        size = len(self) + len(newer)
        first, second = SortedRun(size), SortedRun(size)
        old, new = np.empty(len(self), np.int32), np.empty(len(newer), np.int32)
        merge_keys(self.first_keys, newer.first_keys, first.keys, old, new)
        put(self.rows, old, first.row_ids)
        put(newer.rows, new, first.row_ids)
        first.fill(size)
        old_second, new_second = np.empty_like(old), np.empty_like(new)
        merge_keys(self.second_keys, newer.second_keys, second.keys, old_second, new_second)
        put_mapped(self.places, old, old_second, second.row_ids)
        put_mapped(newer.places, new, new_second, second.row_ids)
        second.fill(size)
        return Permutation(first, second)

    @property
    def first_keys(self) -> Keys:
        """The first keys, ascending."""
        return self.first.keys[: self.first.size]

    @property
    def rows(self) -> RowIds:
        """The rows in the order of their first keys."""
        return self.first.row_ids[: self.first.size]

    @property
    def second_keys(self) -> Keys:
        """The second keys, ascending."""
        return self.second.keys[: self.second.size]

    @property
    def places(self) -> RowIds:
        """The permutation: the place by first key of each tuple in the order of second keys."""
        return self.second.row_ids[: self.second.size]

    def probe(self, first: Range, numbers: RowIds, second: Range) -> Crossing:
        """Find the tuples that lie in both ranges of each probe.

        Probes are numbered in the order of ``second``; ``numbers`` gives the probe that each range
        of ``first`` belongs to. Both are fastest in ascending order.
        """
        sought = seek(self.first, self.second, first, numbers, second)
        return Crossing(self.rows, self.places, self.zones, sought)

    def __len__(self) -> int:
        return self.first.size

    @property
    def nbytes(self) -> int:
        return sum(
            each.nbytes for each in (self.first, self.second, self.zones.least, self.zones.greatest)
        )

    def check(self) -> None:
        self.first.check()
        self.second.check()
        assert self.first.size == self.second.size
        assert np.array_equal(np.sort(self.places), np.arange(len(self)))
        again = find_zones(self.places)
        assert all(map(np.array_equal, self.zones, again))
