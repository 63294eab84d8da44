"""LLAT (linked list adaptive table): partitions of tuples in entries of one width.

A partition begins in the entry of its own number, a *normal* entry. When an entry is full, its
``nexts`` leads to the first unused *reserved* entry, to which the global ``pointer`` points::

    entries   0           1           2           3          | 4           5           6 ...
    keys     [ 5 1 3 . ] [ 9 9 8 7 ] [ . . . . ] [ 2 . . . ] | [ 6 8 . . ] [ . . . . ]
    heads      3           4           0           1         |   2           0
    nexts      -           4           -           -         |   -           -     pointer = 5

With P partitions, a capacity of N tuples and ``slack`` > 1, an entry holds N / P * slack tuples.
Then 2P entries are always enough: only a full entry takes a reserved one, and P full entries would
hold more than N tuples. WiB+-Tree has no normal entries: it takes one for each leaf it creates.

Invariants, asserted by ``check``:
    1. An entry that leads to another one is full; ``lasts`` is the end of a partition's chain.
    2. Entries from ``pointer`` on are unused, and no two chains share an entry.
    3. The first ``heads[e]`` places of entry e hold tuples.

Source: Pan and Jacobsen, "PanJoin" (arXiv:1811.05065), III-B2. Departure: ``lasts`` leads a tuple
straight to its entry, where the paper follows the chain.
"""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import Int, Keys, Positions, RowIds, kernel

SLACK = 1.25
NONE = -1
LINE_KEYS = 8  # per cache line; widths are multiples of it


class Entries(NamedTuple):
    """The arrays of an LLAT, as kernels take them."""

    keys: NDArray[np.int64]  # one row per entry
    row_ids: NDArray[np.int32]
    heads: NDArray[np.int32]  # where the next tuple goes, which is also the number of tuples
    nexts: NDArray[np.int32]  # the entry that continues this one, or NONE
    lasts: NDArray[np.int32]  # the last entry of each partition's chain
    pointer: NDArray[np.int64]  # one number: the first unused entry


@kernel
def take_entry(table: Entries) -> Int:
    """Return the first unused entry, and advance the global pointer."""
    entry = table.pointer[0]
    table.pointer[0] = entry + 1
    return entry


@kernel
def append(table: Entries, partition: Int, key: Int, row_id: Int) -> None:
    """Add one tuple to a partition; a full entry takes a reserved one."""
    entry = table.lasts[partition]
    head = table.heads[entry]
    table.keys[entry, head], table.row_ids[entry, head] = key, row_id
    table.heads[entry] = head + 1
    if head + 1 == table.keys.shape[1]:
        follower = take_entry(table)
        table.nexts[entry] = follower
        table.lasts[partition] = follower


@kernel
def copy_chains(
    table: Entries, firsts: Positions, keys: Keys, row_ids: RowIds, ends: Positions
) -> None:
    """Write the tuples of some chains, given by first entries, and where each chain ends."""
    at = 0
    for number in range(firsts.size):
        entry = firsts[number]
        while entry != NONE:
            for i in range(table.heads[entry]):
                keys[at], row_ids[at] = table.keys[entry, i], table.row_ids[entry, i]
                at += 1
            entry = np.int64(table.nexts[entry])
        ends[number] = at


class LLAT:
    """Partitions of tuples; the module docstring gives the layout."""

    def __init__(self, capacity: int, partitions: int, slack: float = SLACK) -> None:
        self.capacity, self.partitions = capacity, partitions
        self.width = -(-ceil(max(capacity, 1) / partitions * slack) // LINE_KEYS) * LINE_KEYS
        self.entries = make_entries(2 * partitions, self.width, partitions)

    def partition(self, number: int) -> Iterator[tuple[Keys, RowIds]]:
        """Yield the tuples of a partition, entry by entry."""
        table, entry = self.entries, number
        while entry != NONE:
            there = slice(int(table.heads[entry]))
            yield table.keys[entry, there], table.row_ids[entry, there]
            entry = int(table.nexts[entry])

    @property
    def counts(self) -> Positions:
        """How many tuples each partition has."""
        return np.diff(self.copy()[2], prepend=0)

    def copy(self) -> tuple[Keys, RowIds, Positions]:
        """Return all tuples by partition, and where each partition ends."""
        table = self.entries
        size = int(table.heads.sum())
        keys, row_ids = np.empty(size, np.int64), np.empty(size, np.int32)
        ends = np.empty(self.partitions, np.int64)
        copy_chains(table, np.arange(self.partitions), keys, row_ids, ends)
        return keys, row_ids, ends

    @property
    def nbytes(self) -> int:
        """Bytes of the entries in use; the others have never been touched."""
        return int(self.entries.pointer[0]) * (self.width * 12 + 8) + self.entries.lasts.nbytes

    def check(self) -> None:
        table = self.entries
        used = int(table.pointer[0])
        assert self.partitions <= used <= table.heads.size
        assert not table.heads[used:].any()
        assert np.all(table.heads >= 0)
        assert np.all((table.heads == self.width) == (table.nexts != NONE))
        ends = [self._end(partition) for partition in range(self.partitions)]
        assert np.array_equal(ends, table.lasts[: self.partitions])
        followers = table.nexts[table.nexts != NONE]
        assert np.array_equal(np.sort(followers), np.arange(self.partitions, used))

    def _end(self, entry: int) -> int:
        while self.entries.nexts[entry] != NONE:
            entry = int(self.entries.nexts[entry])
        return entry


def make_entries(count: int, width: int, used: int) -> Entries:
    """Allocate ``count`` entries, of which the first ``used`` belong to partitions."""
    return Entries(
        np.empty((count, width), np.int64),
        np.empty((count, width), np.int32),
        np.zeros(count, np.int32),
        np.full(count, NONE, np.int32),
        np.arange(count, dtype=np.int32),
        np.array([used], np.int64),
    )
