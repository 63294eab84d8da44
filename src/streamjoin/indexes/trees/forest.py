"""A forest: B+-trees that share their blocks, for tuples that come and go one by one.

A block (`blocks`) is a leaf or an inner node. The root of tree t is always block t; other blocks
come from a common supply. One tree is a plain B+-tree, many are the subindexes of a PIM-Tree (drawn
with 4 places per block)::

    block 0   height 1   keys [ 20 50  -  - ]   cells [ 5 2 7 . ]     the root of tree 0
    block 1   height 0   keys [ 77 80  -  - ]   cells [ 3 9 . . ]     the root of tree 1, a leaf
    block 2   height 0   keys [ 31 44 50 50 ]   cells [ 8 1 0 4 ]     next: block 7
    block 5   height 0   keys [  1  7 20  - ]   cells [ 6 2 5 . ]     next: block 2
    block 7   height 0   keys [ 50 61  -  - ]   cells [ 7 10 . . ]    '-' is MAX_KEY: not used

In a leaf, cells are rows. In an inner node, they are children, and keys separate them: child i
holds keys from ``keys[i - 1]`` to ``keys[i]``, both included. Equal keys may lie in several leaves,
in order of arrival: an insert goes to the last possible place, a search to the first.

Inserts and removals prepare the tree on the way down: an insert divides full children before it
enters them, a removal joins sparse ones with a neighbour. So neither ever has to go back up.

Rows are int32 numbers that wrap around after 2^32. A row counts as present if it lies at most
``last`` after ``base``, both modulo 2^32, and is reported as its distance from ``base``.

Invariants, asserted by ``check_tree``:
    1. Keys ascend within a leaf and from leaf to leaf; each lies between the separators around it.
    2. The leaves under the root, from left to right, are the linked ones.
    3. Unused keys are ``MAX_KEY``, so that a whole block can be compared without a test.
Costs for n tuples in a tree: ``insert`` and ``remove`` O(log n + `WIDTH`); ``collect`` O(log n +
matches).

Source: the classic structure, as Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a
Multicore CPU" (arXiv:1903.00452), use it in section 2.2.1 and for T_I in 3.2 and 3.3.
"""

from collections.abc import Iterator

import numpy as np

from streamjoin.indexes.trees.blocks import (
    BLOCK,
    CELLS,
    NONE,
    SIZE,
    WIDTH,
    Forest,
    cell_of,
    child_of,
    count_below,
    count_upto,
    give_back,
    height_of,
    keys_of,
    move,
    next_of,
    open_gap,
    pad,
    set_header,
    size_of,
    take_block,
)
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Int, Keys, RowIds, bare, inlined

NO_ROOM, TORN = -1, -2  # returned in place of a number of rows
WRAP = 0xFFFFFFFF
ALL_ROWS = 0x7FFFFFFF  # a ``last`` by which every row counts as present


@bare
def divide(forest: Forest, node: Int, place: Int, key: Int) -> None:
    """Divide a full child of a node that is not full itself.

    If keys rise, the last leaf stays full, and the new one takes the keys to come.
    """
    child, new = child_of(forest, node, place), take_block(forest)
    height, after = height_of(forest, child), next_of(forest, child)
    rises = height == 0 and after == NONE and forest.keys[child * BLOCK + WIDTH - 1] <= key
    cut = WIDTH - 1 if rises else WIDTH // 2
    separator = forest.keys[child * BLOCK + cut - 1]
    pad(forest, new, 0)
    move(forest, child, cut, WIDTH, new, 0)
    set_header(forest, new, WIDTH - cut, after, height)
    pad(forest, child, cut - np.int64(height > 0))
    set_header(forest, child, cut, new, height)
    size = size_of(forest, node)
    for i in range(size, place + 1, -1):
        forest.cells[cell_of(node, CELLS + i)] = forest.cells[cell_of(node, CELLS + i - 1)]
    for i in range(size - 1, place, -1):
        forest.keys[node * BLOCK + i] = forest.keys[node * BLOCK + i - 1]
    forest.cells[cell_of(node, CELLS + place + 1)] = new
    forest.keys[node * BLOCK + place] = separator
    forest.cells[cell_of(node, SIZE)] = size + 1


@bare
def raise_root(forest: Forest, tree: Int, key: Int) -> None:
    """Move a full root into another block, and divide it there."""
    child, height = take_block(forest), height_of(forest, tree)
    move(forest, tree, 0, WIDTH, child, 0)
    set_header(forest, child, WIDTH, NONE, height)
    pad(forest, tree, 0)
    set_header(forest, tree, 1, NONE, height + 1)
    forest.cells[cell_of(tree, CELLS)] = child
    divide(forest, tree, 0, key)


@inlined
def insert(forest: Forest, tree: Int, key: Int, row: Int) -> None:
    """Add a tuple after those with equal keys; `has_room` must be true."""
    if size_of(forest, tree) == WIDTH:
        raise_root(forest, tree, key)
    block = tree
    for _ in range(height_of(forest, tree)):
        place = min(count_upto(forest, block, key), size_of(forest, block) - 1)
        if size_of(forest, child_of(forest, block, place)) == WIDTH:
            divide(forest, block, place, key)
            place += np.int64(forest.keys[block * BLOCK + place] <= key)
        block = child_of(forest, block, place)
    size, place = size_of(forest, block), count_upto(forest, block, key)
    open_gap(forest, block, min(place, size), size)
    forest.keys[np.uint64(block * BLOCK + min(place, size))] = key
    forest.cells[cell_of(block, CELLS + min(place, size))] = row
    forest.cells[cell_of(block, SIZE)] = size + 1


@inlined
def find_leaf(forest: Forest, tree: Int, key: Int, blocks: Int) -> Int:
    """Return the first leaf that may hold a key."""
    block = tree
    for _ in range(height_of(forest, tree)):
        block = child_of(forest, block, count_below(forest, block, key))
        if not 0 <= block < blocks:  # possible only if the tree changes meanwhile: see `collect`
            return NONE
    return block


@inlined
def collect(
    forest: Forest,
    tree: Int,
    lower: Int,
    upper: Int,
    base: Int,
    last: Int,
    found: RowIds,
    count: Int,
) -> Int:
    """Write down the rows of keys in [lower, upper] after ``count`` others; return the new count.

    Returns `NO_ROOM` if they do not fit. May be called while the tree changes: then the result is
    meaningless (`TORN`, or anything), but the call terminates, and reads no other memory.
    """
    blocks = forest.keys.size // BLOCK
    leaf = find_leaf(forest, tree, lower, blocks)
    if not 0 <= leaf < blocks:
        return TORN
    at = count_below(forest, leaf, lower)
    for _ in range(blocks):
        size = size_of(forest, leaf)
        end = min(count_upto(forest, leaf, upper), size)
        if count + end - at > found.size:
            return NO_ROOM
        for i in range(at, end):
            distance = (child_of(forest, leaf, i) - base) & WRAP
            found[count] = distance
            count += np.int64(distance <= last)
        leaf, at = next_of(forest, leaf), np.int64(0)
        if end < size or not 0 <= leaf < blocks:
            return count
    return TORN


@bare
def join_children(forest: Forest, node: Int, place: Int) -> None:
    """Join a child with the one after it, or even them out if they do not fit into one."""
    left, right = child_of(forest, node, place), child_of(forest, node, place + 1)
    before, behind = size_of(forest, left), size_of(forest, right)
    total, height = before + behind, height_of(forest, left)
    if height > 0:
        forest.keys[left * BLOCK + before - 1] = forest.keys[node * BLOCK + place]
    if total > WIDTH - WIDTH // 4:
        share_cells(forest, left, right)
        cut = total // 2
        forest.keys[node * BLOCK + place] = forest.keys[left * BLOCK + cut - 1]
        pad(forest, left, cut - np.int64(height > 0))
        return
    move(forest, right, 0, behind, left, before)
    set_header(forest, left, total, next_of(forest, right), height)
    give_back(forest, right)
    size = size_of(forest, node)
    for i in range(place + 1, size - 1):
        forest.cells[cell_of(node, CELLS + i)] = forest.cells[cell_of(node, CELLS + i + 1)]
    for i in range(place, size - 2):
        forest.keys[node * BLOCK + i] = forest.keys[node * BLOCK + i + 1]
    pad(forest, node, size - 2)
    forest.cells[cell_of(node, SIZE)] = size - 1


@bare
def share_cells(forest: Forest, left: Int, right: Int) -> None:
    """Give two neighbours half of their tuples or children each."""
    before, behind = size_of(forest, left), size_of(forest, right)
    cut = (before + behind) // 2
    if before < cut:
        moved = cut - before
        move(forest, right, 0, moved, left, before)
        move(forest, right, moved, behind, right, 0)
        pad(forest, right, behind - moved)
    else:
        moved = before - cut
        for i in range(behind - 1, -1, -1):
            move(forest, right, i, i + 1, right, i + moved)
        move(forest, left, cut, before, right, 0)
    forest.cells[cell_of(left, SIZE)] = cut
    forest.cells[cell_of(right, SIZE)] = before + behind - cut


@bare
def lower_root(forest: Forest, tree: Int) -> None:
    """Move the only child of a root into the root's block."""
    child = child_of(forest, tree, 0)
    move(forest, child, 0, WIDTH, tree, 0)
    set_header(forest, tree, size_of(forest, child), NONE, height_of(forest, child))
    give_back(forest, child)


@inlined
def remove(forest: Forest, tree: Int, key: Int, row: Int) -> bool:
    """Remove a tuple; return whether it was there.

    If the first leaf that may hold a key does not, the separator after it is lowered. Otherwise
    leaves of equal keys would be emptied from behind it, and never be joined.
    """
    block, bound = tree, NONE
    while True:
        while height_of(forest, block) > 0:
            place, size = count_below(forest, block, key), size_of(forest, block)
            if 4 * size_of(forest, child_of(forest, block, place)) <= WIDTH and size > 1:
                join_children(forest, block, min(place, size - 2))
                if block == tree and size_of(forest, tree) == 1:
                    lower_root(forest, tree)
                    continue
                place = count_below(forest, block, key)
            if place < size_of(forest, block) - 1:
                bound = block * BLOCK + place
            block = child_of(forest, block, place)
        at, size = count_below(forest, block, key), size_of(forest, block)
        if at < size or bound == NONE or forest.keys[bound] > key or key == MIN_KEY:
            break
        forest.keys[bound] = key - 1
        block, bound = tree, NONE
    while block != NONE:
        at, size = count_below(forest, block, key), size_of(forest, block)
        while at < size and forest.keys[block * BLOCK + at] == key:
            if child_of(forest, block, at) == row:
                move(forest, block, at + 1, size, block, at)
                pad(forest, block, size - 1)
                forest.cells[cell_of(block, SIZE)] = size - 1
                return True
            at += 1
        if at < size:
            return False
        block = next_of(forest, block)
    return False


@bare
def first_leaf(forest: Forest, tree: Int) -> Int:
    """Return the leftmost leaf of a tree."""
    block = np.int64(tree)
    while height_of(forest, block) > 0:
        block = child_of(forest, block, 0)
    return block


@bare
def copy_out(forest: Forest, trees: int, base: int, keys: Keys, rows: RowIds) -> int:
    """Write all tuples in order, except those before ``base``, with distances as rows."""
    count = 0
    for tree in range(trees):
        leaf = first_leaf(forest, tree)
        while leaf != NONE:
            for i in range(size_of(forest, leaf)):
                distance = (child_of(forest, leaf, i) - base) & WRAP
                if distance <= ALL_ROWS:
                    keys[count], rows[count] = forest.keys[leaf * BLOCK + i], distance
                    count += 1
            leaf = next_of(forest, leaf)
    return count


def linked_leaves(forest: Forest, tree: int) -> Iterator[int]:
    """Yield the leaves of a tree."""
    leaf = int(first_leaf(forest, tree))
    while leaf != NONE:
        yield leaf
        leaf = int(next_of(forest, leaf))


def check_tree(forest: Forest, tree: int) -> None:
    """Assert the invariants of one tree."""
    level = [(tree, MIN_KEY, MAX_KEY)]
    for height in range(height_of(forest, tree), 0, -1):
        below = []
        for node, lower, upper in level:
            size, keys = int(size_of(forest, node)), keys_of(forest, node)
            assert height_of(forest, node) == height
            assert size > 0
            assert np.all(keys[size - 1 :] == MAX_KEY)
            bounds = [lower, *keys[: size - 1].tolist(), upper]
            assert bounds == sorted(bounds)
            children = [int(child_of(forest, node, place)) for place in range(size)]
            below += list(zip(children, bounds[:-1], bounds[1:], strict=True))
        level = below
    assert [leaf for leaf, _, _ in level] == list(linked_leaves(forest, tree))
    for leaf, lower, upper in level:
        size, keys = int(size_of(forest, leaf)), keys_of(forest, leaf)
        assert height_of(forest, leaf) == 0
        assert np.all(keys[size:] == MAX_KEY)
        ordered = [lower, *keys[:size].tolist(), upper]
        assert ordered == sorted(ordered)
