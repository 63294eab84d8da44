"""Immutable B+-tree: full leaves in a row, below inner nodes that need no references.

The nodes of a level are contiguous, level after level from the root on, so the place of a child
follows from that of its parent: child k of node i is node ``i * FANOUT + k`` of the next level.
Without references, a node holds only keys, and its fanout is higher (drawn with 2 separators per
node and leaves of 2 tuples)::

    level 0     [ 12        41 ]                        separator k: the greatest key under child k
    level 1     [ 3  7 ] [ 20  25 ] [ 50  - ]           '-' (MAX_KEY): no child behind it
    leaves      1 3 | 5 7 | 9 12 | 14 20 | 21 25 | 30 41 | 44 50 | 52 -

A leaf takes whole cache lines, keys first, then rows; all but the last are full. Rows are numbers
modulo 2^32, as in a `forest`.

Invariants, asserted by ``check_immutable``:
    1. Keys ascend, equal ones oldest first; ``MAX_KEY`` fills up the last leaf.
    2. A separator is the last key under its child, or ``MAX_KEY`` if no child follows.
Costs for n tuples: ``build`` O(n / LEAF); ``find_node`` and ``scan`` O(log n + matches), one node
per level.

Source: Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU"
(arXiv:1903.00452), 3.1 and A.3; Rao and Ross's CSS-tree. Departures: levels are built one by one,
without the algorithm's errors (see docs/papers/pimtree.md), and the last separators are
``MAX_KEY``, so that a key beyond all others ends in the last leaf.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.indexes.trees.blocks import (
    BLOCK,
    NONE,
    Forest,
    allocate_aligned,
    child_of,
    next_of,
    size_of,
)
from streamjoin.indexes.trees.forest import ALL_ROWS, NO_ROOM, WRAP, first_leaf
from streamjoin.kernels import atomics
from streamjoin.kernels.compile import MAX_KEY, Int, Keys, RowIds, bare, inlined

SHIFT = np.uint64(6)
LEAF = 1 << 6  # tuples per leaf: with their rows, twelve cache lines
ROWS = 2 * LEAF  # where the rows of a leaf begin, counted in int32
WORDS = LEAF + LEAF // 2  # of a leaf, counted in int64
SLOTS = 64  # separators per node: eight cache lines, compared all at once
FANOUT = SLOTS + 1
LEVELS = 10  # enough for any number of int32 rows
TUPLES, DEPTH, OFFSETS = 0, 1, 2  # places in ``info``


class Immutable(NamedTuple):
    """The arrays of one tree, as kernels take them; the first two are one memory."""

    keys: NDArray[np.int64]  # WORDS numbers per leaf
    cells: NDArray[np.int32]  # twice as many
    inners: NDArray[np.int64]  # SLOTS numbers per node
    info: NDArray[
        np.int64
    ]  # tuples, levels of inner nodes, the first node of each and their number


def make_immutable(capacity: int) -> Immutable:
    """Allocate an empty tree for up to ``capacity`` tuples."""
    leaves = children = capacity // LEAF + 1  # a merge writes one tuple too many
    nodes = 1
    while children > 1:
        children = -(-children // FANOUT)
        nodes += children
    words = allocate_aligned(leaves * WORDS)
    tree = Immutable(
        words,
        words.view(np.int32),
        allocate_aligned(nodes * SLOTS),
        np.zeros(OFFSETS + LEVELS + 1, np.int64),
    )
    build(tree, 0)
    return tree


@inlined
def key_place(at: Int) -> Int:
    """Return where the key of a tuple is."""
    return (np.uint64(at) >> SHIFT) * np.uint64(WORDS) + (np.uint64(at) & np.uint64(LEAF - 1))


@inlined
def row_place(at: Int) -> Int:
    """Return where the row of a tuple is."""
    leaf, place = np.uint64(at) >> SHIFT, np.uint64(at) & np.uint64(LEAF - 1)
    return leaf * np.uint64(2 * WORDS) + np.uint64(ROWS) + place


@inlined
def key_at(tree: Immutable, at: Int) -> Int:
    """Return the key of a tuple."""
    return tree.keys[key_place(at)]


@inlined
def row_at(tree: Immutable, at: Int) -> Int:
    """Return the row of a tuple."""
    return tree.cells[row_place(at)]


@inlined
def put(tree: Immutable, at: Int, key: Int, row: Int) -> None:
    """Write a tuple; `build` makes the rest of the tree."""
    tree.keys[key_place(at)] = key
    tree.cells[row_place(at)] = row


@bare
def build(tree: Immutable, size: Int) -> None:
    """Build the inner nodes above the first ``size`` tuples, already written (A.3)."""
    leaves = -(-size // LEAF)
    for at in range(size, leaves * LEAF):
        put(tree, at, MAX_KEY, 0)
    depth, children = np.int64(0), leaves
    while children > 1:
        children = -(-children // FANOUT)
        depth += 1
    tree.info[TUPLES], tree.info[DEPTH] = size, depth
    # From the leaves up: first how many nodes a level has, then where it begins.
    children = leaves
    for level in range(depth - 1, -1, -1):
        children = -(-children // FANOUT)
        tree.info[OFFSETS + level + 1] = children
    for level in range(depth):
        tree.info[OFFSETS + level + 1] += tree.info[OFFSETS + level]
    span, children = LEAF, leaves  # tuples under a child, and how many children there are
    for level in range(depth - 1, -1, -1):
        first, last = tree.info[OFFSETS + level], tree.info[OFFSETS + level + 1]
        for slot in range((last - first) * SLOTS):
            child = slot // SLOTS * FANOUT + slot % SLOTS
            tree.inners[first * SLOTS + slot] = (
                key_at(tree, (child + 1) * span - 1) if child + 1 < children else MAX_KEY
            )
        children, span = last - first, span * FANOUT


@inlined
def find_node(tree: Immutable, key: Int, node: Int, level: Int, depth: Int) -> Int:
    """Descend from a node to another level, to the first node that may hold a key.

    On level ``info[DEPTH]`` nodes are leaves.
    """
    for each in range(level, depth):
        at, below = (tree.info[OFFSETS + each] + node) * SLOTS, np.int64(0)
        for i in range(SLOTS):
            below += np.int64(tree.inners[np.uint64(at + i)] < key)
        node = node * FANOUT + below
    return node


@inlined
def scan(
    tree: Immutable,
    leaf: Int,
    lower: Int,
    upper: Int,
    base: Int,
    last: Int,
    found: RowIds,
    count: Int,
) -> Int:
    """Write down the rows of keys in [lower, upper] from a leaf on; see `forest.collect`."""
    left = tree.info[TUPLES] - leaf * LEAF
    while left > 0:
        keys, rows = leaf * WORDS, leaf * 2 * WORDS + ROWS
        at, end = np.int64(0), np.int64(0)
        for i in range(LEAF):
            at += np.int64(tree.keys[np.uint64(keys + i)] < lower)
            end += np.int64(tree.keys[np.uint64(keys + i)] <= upper)
        end = min(end, left)
        if count + end - at > found.size:
            return NO_ROOM
        for i in range(at, end):
            distance = (np.int64(tree.cells[np.uint64(rows + i)]) - base) & WRAP
            found[count] = distance
            count += np.int64(distance <= last)
        if end < LEAF:
            break
        leaf += 1
        left -= LEAF
    return count


@inlined
def copy_upto(old: Immutable, at: Int, key: Int, base: Int, new: Immutable, count: Int) -> Int:
    """Copy tuples from ``at`` on while keys are not above ``key``; return where both trees are now.

    Whether a row has expired cannot be predicted, so it is written without a branch, and
    overwritten if it has.
    """
    size = old.info[TUPLES]
    while at < size:
        stored = key_at(old, at)
        if stored > key:
            break
        row = row_at(old, at)
        put(new, count, stored, row)
        count += is_there(row, base)
        at += 1
    return at, count


@inlined
def is_there(row: Int, base: Int) -> Int:
    """Return 1 for a row that has not expired, or 0."""
    return np.int64(((np.int64(row) - base) & WRAP) <= ALL_ROWS)


@bare
def merge(old: Immutable, forest: Forest, trees: int, base: int, new: Immutable) -> None:
    """Merge a tree and a forest into a new tree, without expired rows.

    Tuples of the forest are newer, so they come after equal keys.
    """
    at, count = np.int64(0), np.int64(0)
    for tree in range(trees):
        atomics.give_way()  # a merge is long, and other threads that want this processor are quick
        leaf = first_leaf(forest, tree)
        while leaf != NONE:
            for place in range(size_of(forest, leaf)):
                key = forest.keys[np.uint64(leaf * BLOCK + place)]
                at, count = copy_upto(old, at, key, base, new, count)
                row = child_of(forest, leaf, place)
                put(new, count, key, row)
                count += is_there(row, base)
            leaf = next_of(forest, leaf)
    _, count = copy_upto(old, at, MAX_KEY, base, new, count)
    build(new, count)


@bare
def copy_out(tree: Immutable, base: int, keys: Keys, rows: RowIds) -> int:
    """Write all tuples in order, except those before ``base``, with distances as rows."""
    count = 0
    for at in range(tree.info[TUPLES]):
        distance = (np.int64(row_at(tree, at)) - base) & WRAP
        if distance <= ALL_ROWS:
            keys[count], rows[count] = key_at(tree, at), distance
            count += 1
    return count


def check_immutable(tree: Immutable) -> None:
    """Assert the invariants."""
    size, depth = int(tree.info[TUPLES]), int(tree.info[DEPTH])
    leaves = -(-size // LEAF)
    keys = tree.keys.reshape(-1, WORDS)[:leaves, :LEAF]
    assert np.all(keys.ravel()[1:] >= keys.ravel()[:-1])
    assert np.all(keys.ravel()[size:] == MAX_KEY)
    ends, inners = keys[:, -1], tree.inners.reshape(-1, SLOTS)
    for level in range(depth - 1, -1, -1):
        first, last = tree.info[OFFSETS + level : OFFSETS + level + 2]
        nodes = int(last - first)
        assert nodes == -(-ends.size // FANOUT)
        padded = np.full((nodes, FANOUT), MAX_KEY)
        padded.ravel()[: ends.size - 1] = ends[:-1]
        assert np.array_equal(inners[first:last], padded[:, :SLOTS])
        ends = np.append(ends[FANOUT - 1 :: FANOUT], ends[-1])[:nodes]
    assert ends.size <= 1
