"""Two ways to find the rows that two predicates have in common: a hash set, and bit arrays.

A tree for each predicate gives the rows that pass it. What the rivals of a permutation do with
these is the same for all kinds of trees, so it is written once, as fast as we can make it::

    hash set      rows of A: 5 2 9 -> [ . 9 . 2 . . 5 . ]    rows of B: 9 1 -> looked up: 9
    bit arrays    rows of A: 5 2 9 -> 0010010001
                  rows of B: 9 1   -> 0100000001             and: 0000000001 -> 9

The hash set is open addressing in an int32 array that is reused for every tuple. It takes the
smaller of both sides, and only as many slots are used and cleared as keep it sparse; rows are known
to differ, so none is compared when it is added, and a hit is written down without a branch. A row's
hash is its number, as in Java: rows are dense, so this is faster than mixing. Bit arrays have a bit
a row; rows that have left the window are sent to a spare word behind the last, without a branch.

Source: SPO-Join, section 3.1, where the hash set is what the bit arrays are measured by.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from streamjoin.indexes.trees import blocks
from streamjoin.indexes.trees import forest as trees
from streamjoin.indexes.trees import immutable_tree as immutable
from streamjoin.indexes.trees.blocks import BLOCK, NONE, Forest
from streamjoin.indexes.trees.forest import WRAP
from streamjoin.indexes.trees.immutable_tree import DEPTH, LEAF, ROWS, TUPLES, WORDS, Immutable
from streamjoin.kernels.compile import Int, RowIds, inlined

FREE = -1
lowest_bit: Any = trailing_zeros  # the place of the lowest bit that is set
SPARSE = 4  # slots a row, at least: with 2 there are more collisions, with 8 more misses

Words = NDArray[np.uint64]


class Work(NamedTuple):
    """Memory for one tuple after the other."""

    firsts: RowIds  # rows that pass the first predicate, and the second
    seconds: RowIds
    slots: RowIds  # of the hash set
    first_bits: Words  # all 0 between tuples
    second_bits: Words
    found: RowIds  # the matches of a tuple


def make_work(rows: int) -> Work:
    """Allocate for windows of so many rows."""
    words = -(-rows // 64) + 1
    room = rows + LEAF
    return Work(
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(1 << (SPARSE * room).bit_length(), np.int32),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.empty(room, np.int32),
    )


@inlined
def meet_in_hash_set(
    slots: RowIds, few: RowIds, fewer: Int, many: RowIds, more: Int, found: RowIds, count: Int
) -> Int:
    """Write down the rows that are among the few and the many; return how many there are now."""
    size = np.int64(2)
    while size < SPARSE * fewer:
        size *= 2
    mask = np.uint64(size - 1)
    slots[:size] = FREE
    for i in range(fewer):
        at = np.uint64(few[i]) & mask
        while slots[at] != FREE:
            at = (at + np.uint64(1)) & mask
        slots[at] = few[i]
    for i in range(more):
        row = many[i]
        at = np.uint64(row) & mask
        while slots[at] != row and slots[at] != FREE:
            at = (at + np.uint64(1)) & mask
        found[count] = row
        count += np.int64(slots[at] == row)
    return count


@inlined
def meet_by_hash(work: Work, firsts: Int, seconds: Int, count: Int) -> Int:
    """Write down the rows that both lists have."""
    if firsts < seconds:
        return meet_in_hash_set(
            work.slots, work.firsts, firsts, work.seconds, seconds, work.found, count
        )
    return meet_in_hash_set(
        work.slots, work.seconds, seconds, work.firsts, firsts, work.found, count
    )


@inlined
def meet_by_bits(work: Work, rows: Int, count: Int) -> Int:
    """Write down the rows whose bit is set in both arrays, and clear these."""
    words = (rows + 63) // 64
    for word in range(words):
        both = work.first_bits[word] & work.second_bits[word]
        while both != np.uint64(0):
            work.found[count] = word * 64 + np.int64(lowest_bit(both))
            both &= both - np.uint64(1)
            count += 1
    work.first_bits[:words] = np.uint64(0)
    work.second_bits[:words] = np.uint64(0)
    return count


@inlined
def set_bit(bits: Words, row: Int, last: Int) -> None:
    """Set the bit of a row, or one in the spare word if the row is beyond ``last``."""
    place = np.uint64(row) if row <= last else np.uint64((bits.size - 1) * 64)
    bits[place >> np.uint64(6)] |= np.uint64(1) << (place & np.uint64(63))


@inlined
def mark_forest(
    forest: Forest, tree: Int, lower: Int, upper: Int, base: Int, last: Int, bits: Words
) -> None:
    """Set the bits of the rows of a B+-tree whose keys are in [lower, upper]."""
    leaf = trees.find_leaf(forest, tree, lower, forest.keys.size // BLOCK)
    at = blocks.count_below(forest, leaf, lower)
    while leaf != NONE:
        size = blocks.size_of(forest, leaf)
        end = min(blocks.count_upto(forest, leaf, upper), size)
        for i in range(at, end):
            set_bit(bits, (blocks.child_of(forest, leaf, i) - base) & WRAP, last)
        if end < size:
            break
        leaf, at = blocks.next_of(forest, leaf), np.int64(0)


@inlined
def mark_immutable(tree: Immutable, lower: Int, upper: Int, last: Int, bits: Words) -> None:
    """Set the bits of the rows of an immutable tree whose keys are in [lower, upper]."""
    leaf = immutable.find_node(tree, lower, 0, 0, tree.info[DEPTH])
    left = tree.info[TUPLES] - leaf * LEAF
    while left > 0:
        keys, rows = leaf * WORDS, leaf * 2 * WORDS + ROWS
        at, end = np.int64(0), np.int64(0)
        for i in range(LEAF):
            at += np.int64(tree.keys[np.uint64(keys + i)] < lower)
            end += np.int64(tree.keys[np.uint64(keys + i)] <= upper)
        end = min(end, left)
        for i in range(at, end):
            set_bit(bits, np.int64(tree.cells[np.uint64(rows + i)]), last)
        if end < LEAF:
            break
        leaf += 1
        left -= LEAF
