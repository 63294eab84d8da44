"""A sliding window whose index several threads share.

Rows are numbered from the beginning of the stream. The latest are kept in a ring, since they may
not be in the index yet: threads insert the rows they work on in any order. The *edge* says up to
which row the index is complete::

    rows     ... 90 91 92 93 94 95 96 97 98
    marks        90 91 92 93  .  .  96  .  .       a row's own number: it is in the index
                             ^ edge: 94

A search takes rows before the edge from the index, and compares the others one by one, up to the
latest row that it may see. It does not matter which edge it uses, as long as it uses only one: a
later row may be in the index already, but is not taken from there.

Invariants:
    1. Rows before the edge are in the index; the edge only moves on.
    2. The ring holds every row from the edge on, and from any edge that a search still uses.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.indexes.trees import pim_tree
from streamjoin.indexes.trees.forest import NO_ROOM
from streamjoin.indexes.trees.pim_tree import Pim
from streamjoin.kernels import atomics
from streamjoin.kernels.compile import Int, Keys, RowIds, bare, inlined

BLOCK_KEYS = 64  # compared before any row is written down
EDGE, EDGE_LOCK, FROZEN = (place * atomics.LINE for place in range(3))  # places in ``control``


class SharedWindow(NamedTuple):
    """The arrays of a window, as kernels take them."""

    pim: Pim
    keys: NDArray[np.int64]  # of the latest rows, by number, modulo the size of the ring
    marks: NDArray[np.int64]  # the numbers of those already in the index
    control: NDArray[np.int64]  # the edge, its lock, and whether the index may not change now


def make_window(pim: Pim, size: int, edge: int) -> SharedWindow:
    """Make a window with a ring of ``size`` rows; all rows before the edge are in the index."""
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
    """Move the edge past the marked rows, unless another thread is doing so.

    The thread that does looks once more at the end: the others rely on it.
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
    """Insert those rows from ``first`` to before ``last`` that are not in the index yet."""
    mask = window.keys.size - 1
    for row in range(first, last):
        if atomics.load(window.marks, row & mask) != row:
            insert(window, window.keys[row & mask], row)
    move_edge(window)


def edge_of(window: SharedWindow) -> int:
    """Return the edge, for callers that need not know it exactly."""
    return int(window.control[EDGE])
