"""BI-Sort (buffered indexed sort): a sorted array that takes inserts through a small buffer.

A subwindow's tuples lie in two sorted runs: the *main array* and an *insertion buffer*, which is
merged into the main array when it is full. A batch as large as the buffer goes into the main
array directly::

    main    [ 1 3 3 7 9 12 14 20 21 25 30 41 ]      buffer [ 2 11 26 ]    buffer_capacity = 4
    insert  [ 5 ]                                   buffer [ 2 5 11 26 ]  full: merged
    main    [ 1 2 3 3 5 7 9 11 12 14 20 21 25 26 30 41 ]   buffer [ ]

With batches of m tuples, a larger buffer costs less: merging into a buffer of b takes O(b) per
batch, and merging it into n takes O(n) every b / m batches, so the best b is the square root of
n m. The buffer grows to that size if it exceeds ``buffer_capacity``. But a buffer also costs every
probe a second search, as much as merging some 16 tuples, so a main array of up to 16 m tuples is
merged with directly.

A probe yields one (start, end) range per run. Its cost does not depend on how many tuples match.

Invariants, asserted by ``check``:
    1. Both runs are sorted runs (`SortedRun`: ascending, padded, indexed).
    2. After ``insert`` of m tuples the buffer holds fewer than ``limit(m)``.
Costs for n tuples and a buffer of b: ``insert`` merges a batch into the buffer, O(b), and once
every b tuples the buffer into the main array, O(n); ``probe`` takes O(log n + log b) per range.

Source: Pan and Jacobsen, "PanJoin" (arXiv:1811.05065), III-D and III-E. Departures: the buffer is
sorted, so every match lies in a range (the paper compares the buffer with every probe); the index
array has two levels; and a partition is searched without branches where the paper merges.
"""

from collections.abc import Iterator
from math import isqrt
from typing import Self

import numpy as np
import pyarrow as pa

from streamjoin.indexes.matches import Matches
from streamjoin.indexes.runs.sorted_run import SortedRun
from streamjoin.kernels.compile import Keys, RowIds

BUFFER_CAPACITY = 1024
MERGES_PER_SEARCH = 16  # merging this many tuples costs about as much as a search


def limit_buffer(main: int, batch: int, capacity: int = BUFFER_CAPACITY) -> int:
    """Return how many tuples the buffer may hold; as many as a batch means no buffer."""
    if batch >= capacity and main <= MERGES_PER_SEARCH * batch:
        return batch
    return max(capacity, isqrt(main * batch))


class BISort:
    """The index of one subwindow; the module docstring gives its layout and invariants."""

    def __init__(
        self,
        capacity: int = BUFFER_CAPACITY,
        buffer_capacity: int = BUFFER_CAPACITY,
        threads: int = 1,
    ) -> None:
        self.buffer_capacity, self.threads = buffer_capacity, threads
        self.last_batch = 0
        self.main, self.buffer = SortedRun(capacity), SortedRun(min(buffer_capacity, 64))

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once. O(n)."""
        index = cls(max(keys.size, 1))
        index.main.merge(keys, row_ids)
        return index

    def successor(self, capacity: int) -> Self:
        """Make the index of the next subwindow: there is nothing to learn from this one."""
        return type(self)(capacity, self.buffer_capacity, self.threads)

    def insert(self, keys: Keys, row_ids: RowIds) -> None:
        """Add an ascending batch. Matches of earlier probes no longer hold."""
        limit, self.last_batch = self.limit(keys.size), keys.size
        if keys.size >= limit and not self.buffer.size:
            self.main.merge(keys, row_ids, self.threads)
            return
        self.buffer.merge(keys, row_ids)
        if self.buffer.size >= limit:
            self.merge()

    def limit(self, batch: int) -> int:
        """How many tuples the buffer may hold after a batch of this size."""
        return limit_buffer(self.main.size, batch, self.buffer_capacity)

    def merge(self) -> None:
        """Merge the buffer into the main array. O(n)."""
        size = self.buffer.size
        self.main.merge(self.buffer.keys[:size], self.buffer.row_ids[:size], self.threads)
        self.buffer.clear()

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Yield the ranges found in each run that holds tuples."""
        for run in (self.main, self.buffer):
            if run.size:
                yield run.probe(lower, upper)

    def seal(self) -> None:
        """Merge the buffer for good, and drop the slack if it is more than an eighth."""
        if self.buffer.size:
            self.merge()
        self.buffer = SortedRun(1)
        if self.main.capacity - self.main.size > self.main.size // 8:
            self.main.resize(max(self.main.size, 1))

    def __len__(self) -> int:
        return self.main.size + self.buffer.size

    @property
    def nbytes(self) -> int:
        """Bytes of both runs, slack included."""
        return self.main.nbytes + self.buffer.nbytes

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot both runs as one, ascending."""
        main = self.main
        if self.buffer.size:
            main = SortedRun.from_sorted(main.keys[: main.size], main.row_ids[: main.size])
            size = self.buffer.size
            main.merge(self.buffer.keys[:size], self.buffer.row_ids[:size])
        return pa.record_batch(
            {"keys": main.keys[: main.size].copy(), "row_ids": main.row_ids[: main.size].copy()}
        )

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        """Load a snapshot. O(n), nothing is sorted."""
        return cls.from_sorted(batch["keys"].to_numpy(), batch["row_ids"].to_numpy())

    def check(self) -> None:
        self.main.check()
        self.buffer.check()
        assert self.buffer.size < max(self.limit(self.last_batch), 1)
        row_ids = np.concatenate([run.row_ids[: run.size] for run in (self.main, self.buffer)])
        assert np.unique(row_ids).size == len(self)
