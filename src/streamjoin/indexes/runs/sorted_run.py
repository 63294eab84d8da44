"""A sorted run: ascending keys with their row ids, searched through a two-level index array.

The *fine* level holds every 8th key, the *coarse* level every 16th of those (drawn with every 3rd
and every 2nd)::

    coarse  [ 1                  | 14                  | 41 ...  ]
    fine    [ 1       7          | 14       21         | 41 ...  ]
    keys    [ 1 3 3 | 7 9 12     | 14 20 20 | 21 25 30 | 41 ...  ] PAD
    row_ids [ 5 0 8   2 ...                                      ]

A batch of probes walks the coarse level once, from left to right, with a *rebounding binary
search*: each probe steps forward from where the one before ended, doubling the step, then turns
back and halves it. Then 16 fine keys and 8 keys remain to be looked at. Both stages work on a block
of probes at a time, without branches, and each touches the cache lines of the next, so the memory
system works on many probes at once. Searching is memory-bound, and this takes less than half the
time of a branching search in runs larger than the cache. If the range ends within 8 keys of its
start, as it does in most joins, finding the end costs little more; if not, it is searched for the
same way, so the cost does not depend on how many tuples match.

Invariants, asserted by ``check``:
    1. ``keys[:size]`` ascends, with equal keys in order of arrival, and ``PAD`` keys of ``MAX_KEY``
       follow, so that looking at a group of keys needs no test for the end.
    2. ``fine`` equals ``keys[:size:8]`` and ``coarse`` equals ``fine[::16]``, padded likewise.
Costs for n tuples: ``merge`` of a batch O(n); ``probe`` O(log n) for the first range and less for
each that follows in ascending order. Memory: 12 bytes per tuple, and an eighth of the keys' bytes.
"""

from typing import Self

import numpy as np

from streamjoin.indexes.matches import Matches
from streamjoin.indexes.runs.run_merge import merge
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Int, Keys, Positions, RowIds, kernel

FINE_KEYS = 8  # keys per entry of the fine level: one cache line
COARSE_KEYS = 16  # fine keys per entry of the coarse level: two cache lines
PAD = 2 * COARSE_KEYS
BLOCK_PROBES = 128  # probes that go through the stages together: their cache lines fit into L1


@kernel
def skip_keys(keys: Keys, first: Int, bound: Int) -> Int:
    """Return the first position from ``first`` on whose key is not below ``bound``, at most 8 on.

    Branchless: dependent loads, unsigned so that Numba adds no test for negative indices.
    """
    at = np.uint64(first)
    at += np.uint64(keys[at + np.uint64(3)] < bound) << np.uint64(2)
    at += np.uint64(keys[at + np.uint64(1)] < bound) << np.uint64(1)
    at += np.uint64(keys[at] < bound)
    at += np.uint64(keys[at] < bound)
    return np.int64(at)


@kernel
def skip_fine(fine: Keys, first: Int, bound: Int) -> Int:
    """Do the same in the fine level, at most 16 entries on."""
    at = np.uint64(first)
    at += np.uint64(fine[at + np.uint64(7)] < bound) << np.uint64(3)
    return skip_keys(fine, at, bound)


@kernel
def rebound(keys: Keys, size: int, first: int, bound: int) -> int:
    """Return the first position from ``first`` on whose key is not below ``bound``.

    The rebounding binary search of III-E: forward with doubled steps, then back with halved ones.
    """
    step, low, high = 1, first, first
    while high < size and keys[high] < bound:
        low = high + 1
        high += step
        step *= 2
    high = min(high, size)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_positions(
    keys: Keys, fine: Keys, coarse: Keys, size: int, part: int, bounds: Keys, positions: Positions
) -> int:
    """Find the first position in ``keys`` that is not below each of at most `BLOCK_PROBES` bounds.

    ``part`` is where the coarse search starts; returns where the next block should start.
    """
    coarse_size = (size + FINE_KEYS * COARSE_KEYS - 1) // (FINE_KEYS * COARSE_KEYS)
    begins = np.empty(BLOCK_PROBES, np.int64)
    for i in range(bounds.size):
        bound = bounds[i]
        if part > 0 and coarse[part - 1] >= bound:
            part = 0  # not ascending here: start over
        if part < coarse_size and coarse[part] < bound:
            part = rebound(coarse, coarse_size, part, bound)
        begin = max(part - 1, 0) * COARSE_KEYS
        begins[i] = begin
        # Stored only so that the lines are loaded early; the last stage overwrites it.
        positions[i] = fine[np.uint64(begin)] + fine[np.uint64(begin + 8)]
    for i in range(bounds.size):
        begin = max(skip_fine(fine, begins[i], bounds[i]) - 1, begins[i]) * FINE_KEYS
        begins[i] = begin
        positions[i] = keys[np.uint64(begin)] + keys[np.uint64(begin + 8)]
    for i in range(bounds.size):
        positions[i] = min(skip_keys(keys, begins[i], bounds[i]), size)
    return part


@kernel
def find_ranges(
    keys: Keys, fine: Keys, coarse: Keys, size: int, lower: Keys, upper: Keys
) -> tuple[Positions, Positions]:
    """Find where the keys of each closed range [lower, upper] lie in a run."""
    starts, ends = np.empty(lower.size, np.int64), np.empty(lower.size, np.int64)
    far, found = np.empty(BLOCK_PROBES, np.int64), np.empty(BLOCK_PROBES, np.int64)
    bounds = np.empty(BLOCK_PROBES, np.int64)
    part = far_part = 0
    for first in range(0, lower.size, BLOCK_PROBES):
        last = min(first + BLOCK_PROBES, lower.size)
        unbounded = True
        for i in range(first, last):
            unbounded &= lower[i] == MIN_KEY
        if unbounded:
            starts[first:last] = 0
        else:
            part = find_positions(
                keys, fine, coarse, size, part, lower[first:last], starts[first:last]
            )
        count = 0
        for i in range(first, last):
            if upper[i] == MAX_KEY:  # upper + 1 would wrap
                ends[i] = size
                continue
            end = skip_keys(keys, starts[i], upper[i] + 1)
            ends[i] = min(end, size)
            far[count] = i
            bounds[count] = upper[i] + 1
            count += end == starts[i] + FINE_KEYS
        if count > 0:
            far_part = find_positions(
                keys, fine, coarse, size, far_part, bounds[:count], found[:count]
            )
            for i in range(count):
                ends[far[i]] = found[i]
    return starts, ends


@kernel
def sample(keys: Keys, size: int, stride: int, samples: Keys) -> None:
    """Copy the first of every ``stride`` keys of a run, and pad what follows."""
    count = (size + stride - 1) // stride
    for i in range(count):
        samples[i] = keys[i * stride]
    samples[count : count + PAD] = MAX_KEY


def allocate_padded(capacity: int) -> Keys:
    """Allocate a run of keys with its padding, aligned so that 8 keys are a cache line."""
    spare = np.empty(capacity + PAD + 8, np.int64)
    offset = (-spare.ctypes.data // 8) % 8
    run = spare[offset : offset + capacity + PAD]
    run[:PAD] = MAX_KEY
    return run


class SortedRun:
    """Ascending keys with their row ids; the module docstring gives layout and invariants."""

    def __init__(self, capacity: int) -> None:
        self.size = 0
        self.keys, self.row_ids = allocate_padded(capacity), np.empty(capacity, np.int32)
        fine_capacity = -(-capacity // FINE_KEYS)
        self.fine, self.coarse = (
            allocate_padded(fine_capacity),
            allocate_padded(-(-fine_capacity // COARSE_KEYS)),
        )

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once. O(n)."""
        run = cls(max(keys.size, 1))
        run.merge(keys, row_ids)
        return run

    @property
    def capacity(self) -> int:
        """How many tuples fit before the arrays grow."""
        return self.row_ids.size

    def merge(self, keys: Keys, row_ids: RowIds, threads: int = 1) -> None:
        """Merge an ascending batch, with several threads if that pays. O(n + batch)."""
        size = self.size + keys.size
        if size > self.capacity:
            self.resize(max(size, self.capacity + self.capacity // 2))
        if self.size:
            merge(self.keys, self.row_ids, self.size, keys, row_ids, threads)
        else:
            self.keys[:size], self.row_ids[:size] = keys, row_ids
        self.fill(size)

    def fill(self, size: int) -> None:
        """Set the number of tuples, after writing them: pad and index them. O(n)."""
        self.size = size
        self.keys[size : size + PAD] = MAX_KEY
        sample(self.keys, size, FINE_KEYS, self.fine)
        sample(self.fine, -(-size // FINE_KEYS), COARSE_KEYS, self.coarse)

    def resize(self, capacity: int) -> None:
        """Move the tuples into arrays of another capacity. O(n)."""
        grown = SortedRun(capacity)
        if self.size:
            grown.merge(self.keys[: self.size], self.row_ids[: self.size])
        self.__dict__ = grown.__dict__

    def clear(self) -> None:
        """Forget the tuples and keep the arrays."""
        self.size = 0
        for level in (self.keys, self.fine, self.coarse):
            level[:PAD] = MAX_KEY

    def probe(self, lower: Keys, upper: Keys) -> Matches:
        """Find the range of positions in each closed key range [lower, upper]."""
        starts, ends = find_ranges(self.keys, self.fine, self.coarse, self.size, lower, upper)
        return Matches(starts, ends, self.row_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, slack included."""
        return self.keys.nbytes + self.row_ids.nbytes + self.fine.nbytes + self.coarse.nbytes

    def check(self) -> None:
        keys = self.keys[: self.size]
        assert np.all(keys[:-1] <= keys[1:])
        fine, coarse = keys[::FINE_KEYS], keys[:: FINE_KEYS * COARSE_KEYS]
        for level, expected in ((self.keys, keys), (self.fine, fine), (self.coarse, coarse)):
            assert np.array_equal(level[: expected.size], expected)
            assert np.all(level[expected.size : expected.size + PAD] == MAX_KEY)
