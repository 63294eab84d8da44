"""Scan: no structure at all, every probe compared with every tuple (nested loop).

The join core of SplitJoin and of the handshake joins, and the baseline of every benchmark here.
It is as fast as a nested loop gets: tuples are taken in tiles that stay in the L1 cache, each
tile is compared with all probes, and comparing only counts, so it compiles to SIMD code. Only the
rare probe that counted a hit in a tile looks again to note the tuples::

    keys    [ 7 3 9 1 | 4 4 8 2 | 6 ... ]      one tile = TILE keys
    probe [3, 4]:  1 hit  2 hits   0           hits written: rows 1, 4, 5

Invariant, asserted by ``check``: keys and row ids are parallel and in insertion order.
Costs for n tuples: ``insert`` O(1) per tuple, ``probe`` O(n) per range.
"""

from collections.abc import Iterator
from typing import Self

import numpy as np
import pyarrow as pa

from streamjoin.indexes.matches import Matches
from streamjoin.kernels.compile import Int, Keys, Positions, RowIds, kernel
from streamjoin.kernels.interrupts import checkpoint

TILE = 1024
HITS = 1 << 20  # how many hits one probe call holds before it hands them over
SLICE = 1 << 20  # tiles compared with a probe before the next checkpoint: a tenth of a second


@kernel
def count_hits(tile: Keys, lower: Int, upper: Int) -> Int:
    """Count the keys of a tile in [lower, upper], by counting the misses: that is less code."""
    misses = np.int64(0)
    for i in range(tile.size):
        misses += np.int64(tile[i] > upper) | np.int64(lower > tile[i])
    return tile.size - misses


@kernel
def scan_tiles(
    keys: Keys,
    row_ids: RowIds,
    lower: Keys,
    upper: Keys,
    resume: Positions,
    found: RowIds,
    hits: RowIds,
    steps: Int,
) -> int:
    """Compare tiles with probes, from ``resume`` = (tile, probe) on, until ``hits`` may overflow.

    It also stops after ``steps`` steps; one step is one tile and one probe. Writes (probe, row)
    pairs into ``found`` and ``hits``, returns how many, and moves ``resume``.
    """
    count = 0
    for begin in range(resume[0], keys.size, TILE):
        tile = keys[begin : begin + TILE]
        last = min(lower.size, resume[1] + steps)
        steps -= last - resume[1]
        for probe in range(resume[1], last):
            low, high = lower[probe], upper[probe]
            if count_hits(tile, low, high) > 0:
                if count + tile.size > hits.size:
                    resume[0], resume[1] = begin, probe
                    return count
                for offset in range(tile.size):
                    if low <= tile[offset] <= high:
                        found[count] = probe
                        hits[count] = row_ids[begin + offset]
                        count += 1
        if last < lower.size:
            resume[0], resume[1] = begin, last
            return count
        resume[1] = 0
    resume[0] = keys.size
    return count


@kernel
def group_by_probe(found: RowIds, hits: RowIds, probes: int) -> tuple[Positions, RowIds]:
    """Counting sort of the hits by probe: ends of each probe's range, and the rows."""
    ends = np.zeros(probes + 1, np.int64)
    for probe in found:
        ends[probe + 1] += 1
    for probe in range(probes):
        ends[probe + 1] += ends[probe]
    rows = np.empty(hits.size, np.int32)
    for i in range(hits.size):
        rows[ends[found[i]]] = hits[i]
        ends[found[i]] += 1
    return ends[:probes], rows


class Scan:
    """A subwindow's tuples in insertion order; the module docstring gives the design."""

    def __init__(self, capacity: int = TILE) -> None:
        self.keys, self.row_ids = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
        self.size = 0

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once. O(n)."""
        index = cls(max(keys.size, 1))
        index.insert(keys, row_ids)
        return index

    def successor(self, capacity: int) -> Self:
        """Make the index of the next subwindow: there is nothing to learn from this one."""
        return type(self)(capacity)

    def insert(self, keys: Keys, row_ids: RowIds) -> None:
        """Append a batch. O(1) per tuple, amortised."""
        end = self.size + keys.size
        if end > self.keys.size:
            capacity = max(end, 2 * self.keys.size)
            self.keys = np.concatenate(
                (self.keys[: self.size], np.empty(capacity - self.size, np.int64))
            )
            self.row_ids = np.concatenate(
                (self.row_ids[: self.size], np.empty(capacity - self.size, np.int32))
            )
        self.keys[self.size : end], self.row_ids[self.size : end] = keys, row_ids
        self.size = end

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Yield what the probes find, about ``HITS`` pairs at a time. O(n) per range."""
        keys, row_ids = self.keys[: self.size], self.row_ids[: self.size]
        found, hits = np.empty(HITS, np.int32), np.empty(HITS, np.int32)
        resume = np.zeros(2, np.int64)
        while resume[0] < keys.size:
            checkpoint()
            count = scan_tiles(keys, row_ids, lower, upper, resume, found, hits, SLICE)
            if count:
                ends, rows = group_by_probe(found[:count], hits[:count], lower.size)
                yield Matches(np.concatenate(([0], ends[:-1])), ends, rows)

    def seal(self) -> None:
        """Drop the slack behind the last tuple."""
        self.keys, self.row_ids = self.keys[: self.size].copy(), self.row_ids[: self.size].copy()

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays, slack included."""
        return self.keys.nbytes + self.row_ids.nbytes

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot, in insertion order."""
        return pa.record_batch(
            {"keys": self.keys[: self.size].copy(), "row_ids": self.row_ids[: self.size].copy()}
        )

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        return cls.from_sorted(batch["keys"].to_numpy(), batch["row_ids"].to_numpy())

    def check(self) -> None:
        assert 0 <= self.size <= self.keys.size == self.row_ids.size
