"""Hits: how unsorted structures write down what their probes find.

A sorted structure answers with ranges of its own row ids. The others copy the rows that they find,
probe by probe, into an array of bounded size. When it is full, its contents are handed over, and
the search goes on with the next probe.
"""

from collections.abc import Callable, Iterator

import numpy as np

from streamjoin.indexes.matches import Matches
from streamjoin.indexes.tables.llat import NONE, Entries
from streamjoin.kernels.compile import Int, Positions, RowIds, kernel

LEAST_HITS, MOST_HITS = 1 << 12, 1 << 20  # rows that are written down before they are handed over
BLOCK_KEYS = 16  # compared before any row is written down

# Takes the first probe and the arrays to write to: rows, and where each probe's rows start and end.
# Returns the probe to go on with, and the room that it needs.
Search = Callable[[int, RowIds, Positions, Positions], tuple[int, int]]


def hand_over(probes: int, search: Search) -> Iterator[Matches]:
    """Yield what ``probes`` probes find, about `MOST_HITS` rows at a time."""
    first, room = 0, min(max(LEAST_HITS, 8 * probes), MOST_HITS)
    while first < probes:
        found = np.empty(room, np.int32)
        starts, ends = np.zeros(probes, np.int64), np.zeros(probes, np.int64)
        last, needed = search(first, found, starts, ends)
        if last > first:
            yield Matches(starts, ends, found)
        first, room = last, max(min(4 * room, MOST_HITS), needed)


@kernel
def scan_keys(
    table: Entries,
    entry: Int,
    first: Int,
    last: Int,
    lower: Int,
    upper: Int,
    found: RowIds,
    count: Int,
) -> Int:
    """Write down the rows of those keys of an entry that lie in [lower, upper]."""
    for i in range(first, last):
        key = table.keys[entry, i]
        found[count] = table.row_ids[entry, i]
        count += np.int64(key >= lower) & np.int64(key <= upper)
    return count


@kernel
def scan_chain(
    table: Entries, first: Int, lower: Int, upper: Int, inner: bool, found: RowIds, count: Int
) -> Int:
    """Write down the rows of a chain of entries whose keys lie in [lower, upper]; all if ``inner``.

    Returns how many there are so far. Most blocks have no hit, and are compared without a branch.
    Writes one row too many.
    """
    entry = np.int64(first)
    while entry != NONE:
        head = np.int64(table.heads[entry])
        if inner:
            for i in range(head):
                found[count] = table.row_ids[entry, i]
                count += 1
        else:
            whole = head - head % BLOCK_KEYS
            for begin in range(0, whole, BLOCK_KEYS):
                hits = np.int64(0)
                for i in range(begin, begin + BLOCK_KEYS):
                    key = table.keys[entry, i]
                    hits += np.int64(key >= lower) & np.int64(key <= upper)
                if hits > 0:
                    count = scan_keys(
                        table, entry, begin, begin + BLOCK_KEYS, lower, upper, found, count
                    )
            count = scan_keys(table, entry, whole, head, lower, upper, found, count)
        entry = np.int64(table.nexts[entry])
    return count
