"""A sliding window whose index several threads share.

Rows are numbered through from the beginning of the stream. The latest are kept in a ring, since
they may not be in the index yet: rows come into the index when the thread that works on them gets
there, in any order. The *edge* tells how far the index is complete::

    rows     ... 90 91 92 93 94 95 96 97 98
    marks        90 91 92 93  .  .  96  .  .       a row's own number: it is in the index
                             ^ edge: 94

A search takes rows before the edge from the index, and compares the others one by one, up to the
latest row that it may see. Which edge it goes by does not matter, as long as it goes by one: a row
behind it may be in the index already, but is not taken from there.

Invariants:
    1. Rows before the edge are in the index; the edge only moves on.
    2. The ring holds every row from the edge on, and from any edge that a search still goes by.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.indexes.trees import pim_tree
from streamjoin.indexes.trees.forest import NO_ROOM
from streamjoin.indexes.trees.pim_tree import Pim
from streamjoin.kernels import atomics
from streamjoin.kernels.compile import Int, Keys, RowIds, bare, inlined

BLOCK_KEYS = 64  # that are compared before any row is written down
EDGE, EDGE_LOCK, FROZEN = (place * atomics.LINE for place in range(3))  # places in ``control``


class SharedWindow(NamedTuple):
    """The arrays of a window, as kernels take them."""

    pim: Pim
    keys: NDArray[np.int64]  # of the latest rows, by number, modulo the size of the ring
    marks: NDArray[np.int64]  # the numbers of those that are in the index
    control: NDArray[np.int64]  # the edge, its lock, and whether the index may not change now


def make_window(pim: Pim, size: int, edge: int) -> SharedWindow:
    """Make a window whose rows before the edge are all in the index, with a ring of a size."""
    window = SharedWindow(
        pim, np.zeros(size, np.int64), np.full(size, -1), np.zeros(3 * atomics.LINE, np.int64)
    )
    window.control[EDGE] = edge
    return window


@inlined
def probe(
    window: SharedWindow,
    lowers: Keys,
    uppers: Keys,
    at: Int,
    ranges: Int,
    first: Int,
    last: Int,
    found: RowIds,
    count: Int,
) -> Int:
    """Write down which rows from ``first`` to ``last`` match, as distances from ``first``."""
    edge = min(max(atomics.load(window.control, EDGE), first), last + 1)
    for each in range(at, at + ranges):
        lower, upper = lowers[each], uppers[each]
        if lower <= upper:
            if edge > first and count != NO_ROOM:
                count = pim_tree.collect(
                    window.pim, lower, upper, first, edge - first - 1, found, count, True
                )
            if count != NO_ROOM:
                count = compare(window, lower, upper, first, edge, last, found, count)
    return count


@inlined
def compare(
    window: SharedWindow,
    lower: Int,
    upper: Int,
    first: Int,
    edge: Int,
    last: Int,
    found: RowIds,
    count: Int,
) -> Int:
    """Compare the rows from the edge on; most blocks have no match, and are compared at once."""
    mask, row = window.keys.size - 1, edge
    while row <= last:
        slot = row & mask
        size = min(last + 1 - row, min(BLOCK_KEYS, window.keys.size - slot))
        hits = np.int64(0)
        if size == BLOCK_KEYS:
            for i in range(BLOCK_KEYS):
                key = window.keys[np.uint64(slot + i)]
                hits += np.int64(key >= lower) & np.int64(key <= upper)
        if size < BLOCK_KEYS or hits > 0:
            if count + size > found.size:
                return NO_ROOM
            for i in range(size):
                key = window.keys[np.uint64(slot + i)]
                found[count] = row + i - first
                count += np.int64(key >= lower) & np.int64(key <= upper)
        row += size
    return count


@inlined
def insert(window: SharedWindow, key: Int, row: Int) -> None:
    """Put a row into the index, and mark it."""
    pim_tree.insert(window.pim, key, row, True)
    atomics.store(window.marks, row & (window.marks.size - 1), row)


@inlined
def move_edge(window: SharedWindow) -> None:
    """Move the edge behind the rows that are marked, unless another thread does.

    Whoever does looks once more when it is through: the others rely on it.
    """
    mask = window.marks.size - 1
    while atomics.try_lock(window.control, EDGE_LOCK):
        edge = atomics.load(window.control, EDGE)
        while atomics.load(window.marks, edge & mask) == edge:
            edge += 1
        atomics.store(window.control, EDGE, edge)
        atomics.unlock(window.control, EDGE_LOCK)
        if atomics.load(window.marks, edge & mask) != edge:
            return


@bare
def catch_up(window: SharedWindow, first: int, last: int) -> None:
    """Put the rows from ``first`` to before ``last`` into the index that are not there yet."""
    mask = window.keys.size - 1
    for row in range(first, last):
        if atomics.load(window.marks, row & mask) != row:
            insert(window, window.keys[row & mask], row)
    move_edge(window)


def edge_of(window: SharedWindow) -> int:
    """Return the edge, for those who need not know it exactly."""
    return int(window.control[EDGE])
