"""The mutable part of SPO-Join: one sorted run for each key, and bit arrays to intersect (3.2).

A tuple's bit is its place in the order of arrival. A probe sets the bits of the tuples in its first
range in one array, those of its second range in another; where both are set, the tuple matches::

    arrival      0 1 2 3 4             first range    . 1 1 . 1
    first keys   4 7 7 1 9             second range   1 1 . . 1
    second keys  2 3 8 6 1             and            . 1 . . 1

If a range holds more than half of the tuples, all bits are set and those outside are cleared. The
tuples of the smaller range are looked up in the other's array instead of having their own. The cost
of a probe is proportional to what its ranges hold, so this part is kept small. A probe has the same
number in both orders, so no hash table has to bring its partial results together (as in the paper's
4.3).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streamjoin.indexes.protocol import Sorted
from streamjoin.indexes.runs.sorted_run import SortedRun
from streamjoin.indexes.two_keys.bitmap import FULL, LOW, ONE, SIX, Words, count_ones, first_one
from streamjoin.indexes.two_keys.permutation import Permutation
from streamjoin.indexes.two_keys.places import Sought, seek
from streamjoin.kernels.compile import Flags, Int, Positions, RowIds, bare, inlined
from streamjoin.keys.key_ranges import Range


@inlined
def fill(bits: Words, slots: RowIds, first: Int, last: Int) -> None:
    """Set the bits of the tuples from ``first`` to ``last`` of a run, and clear all others."""
    size = slots.size
    if 2 * (last - first) <= size:
        bits[:] = 0
        for i in range(first, last):
            slot = np.uint64(slots[i])
            bits[slot >> SIX] |= ONE << (slot & LOW)
        return
    bits[:] = FULL
    if size & 63:
        bits[size >> 6] = (ONE << np.uint64(size & 63)) - ONE
    for i in range(first):
        slot = np.uint64(slots[i])
        bits[slot >> SIX] &= ~(ONE << (slot & LOW))
    for i in range(last, size):
        slot = np.uint64(slots[i])
        bits[slot >> SIX] &= ~(ONE << (slot & LOW))


@inlined
def list_set(bits: Words, slots: RowIds, first: Int, last: Int, found: RowIds, count: Int) -> Int:
    """Write down the slots from ``first`` to ``last`` whose bits are set, without a branch."""
    for i in range(first, last):
        slot = np.uint64(slots[i])
        found[np.uint64(count)] = slots[i]
        count += np.int64((bits[slot >> SIX] >> (slot & LOW)) & ONE)
    return count


@bare
def intersect(
    first_slots: RowIds,
    second_slots: RowIds,
    sought: Sought,
    bits: Words,
    others: Words,
    begin: int,
    rows: RowIds,
    names: RowIds,
    found_probes: RowIds,
    found_rows: RowIds,
) -> tuple[int, int]:
    """Write down the matches of probes from ``begin`` on, while there is room.

    Returns how many there are, and the probe to go on with.
    """
    size, room = first_slots.size, found_rows.size
    count: Int = 0
    for probe in range(begin, sought.lows.size):
        low, high = sought.lows[probe], sought.highs[probe]
        start, stop = sought.starts[probe], sought.stops[probe]
        if low >= high or start >= stop:
            continue
        if count + size > room:
            return count, probe
        before = count
        if high - low <= stop - start and 2 * (high - low) <= size:
            fill(bits, second_slots, start, stop)
            count = list_set(bits, first_slots, low, high, found_rows, count)
        elif 2 * (stop - start) <= size:
            fill(bits, first_slots, low, high)
            count = list_set(bits, second_slots, start, stop, found_rows, count)
        else:
            fill(bits, first_slots, low, high)
            fill(others, second_slots, start, stop)
            for word in range(bits.size):
                both = bits[word] & others[word]
                while both != np.uint64(0):
                    found_rows[count] = (word << 6) + first_one(both)
                    count += 1
                    both &= both - ONE
        for i in range(before, count):
            found_probes[i] = names[probe]
            found_rows[i] = rows[found_rows[i]]
    return count, sought.lows.size


@bare
def count_intersections(
    first_slots: RowIds,
    second_slots: RowIds,
    sought: Sought,
    bits: Words,
    others: Words,
    counts: Positions,
) -> None:
    """Count the matches of each probe without writing down any."""
    for probe in range(sought.lows.size):
        counts[probe] = 0
        low, high = sought.lows[probe], sought.highs[probe]
        start, stop = sought.starts[probe], sought.stops[probe]
        if low < high and start < stop:
            fill(bits, first_slots, low, high)
            fill(others, second_slots, start, stop)
            for word in range(bits.size):
                counts[probe] += count_ones(bits[word] & others[word])


@dataclass(frozen=True)
class Intersection:
    """What a few probes find in a mutable part; the search runs only on request."""

    first_slots: RowIds
    second_slots: RowIds
    rows: RowIds  # of each slot
    sought: Sought

    @cached_property
    def lengths(self) -> Positions:
        counts = np.empty(self.sought.lows.size, np.int64)
        count_intersections(*self._slots, self.sought, *self._bits(), counts)
        return counts

    def __len__(self) -> int:
        return int(self.lengths.sum())

    def of(self, flags: Flags) -> "Intersection":
        return replace(self, sought=self.sought.of(flags))

    @property
    def _slots(self) -> tuple[RowIds, RowIds]:
        return self.first_slots, self.second_slots

    def _bits(self) -> tuple[Words, Words]:
        words = -(-self.rows.size // 64)
        return np.empty(words, np.uint64), np.empty(words, np.uint64)

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all matches in blocks of about ``size``: the probe's name or number, the row id."""
        if names is None:
            names = np.arange(self.sought.lows.size, dtype=np.int32)
        probes, most = self.sought.lows.size, self.rows.size  # matches of a probe
        room, begin, bits = max(most, min(size, probes * most)), 0, self._bits()
        while begin < probes:
            found, rows = np.empty(room, np.int32), np.empty(room, np.int32)
            count, begin = intersect(
                *self._slots, self.sought, *bits, begin, self.rows, names, found, rows
            )
            if count:
                yield found[:count], rows[:count]


class MutablePart:
    """The newest tuples, in one run per key; the module docstring gives the design."""

    def __init__(self, capacity: int = 64) -> None:
        self.first, self.second = SortedRun(capacity), SortedRun(capacity)
        self.rows = np.empty(0, np.int32)  # of each slot, in order of arrival

    def insert(self, first: Sorted, second: Sorted) -> None:
        """Add tuples, in the order of both keys. O(n)."""
        held, rows = self.rows.size, np.sort(first[1])
        self.first.merge(first[0], (held + np.searchsorted(rows, first[1])).astype(np.int32))
        self.second.merge(second[0], (held + np.searchsorted(rows, second[1])).astype(np.int32))
        self.rows = np.concatenate((self.rows, rows))

    def probe(self, first: Range, numbers: RowIds, second: Range) -> Intersection:
        """Find the tuples that lie in both ranges of each probe; see `Permutation.probe`."""
        sought = seek(self.first, self.second, first, numbers, second)
        first_slots, second_slots = (run.row_ids[: run.size] for run in (self.first, self.second))
        return Intersection(first_slots, second_slots, self.rows, sought)

    def freeze(self) -> Permutation:
        """Return the tuples as permutation arrays. O(n), nothing is sorted."""
        (first, first_rows), (second, second_rows) = (
            (run.keys[: run.size], self.rows[run.row_ids[: run.size]])
            for run in (self.first, self.second)
        )
        return Permutation.from_sorted((first, first_rows), (second, second_rows))

    def __len__(self) -> int:
        return self.rows.size

    @property
    def nbytes(self) -> int:
        """Bytes of both runs, and of the rows."""
        return self.first.nbytes + self.second.nbytes + self.rows.nbytes

    def check(self) -> None:
        """Assert that both runs hold every slot once."""
        for run in (self.first, self.second):
            run.check()
            assert np.array_equal(np.sort(run.row_ids[: run.size]), np.arange(len(self)))
