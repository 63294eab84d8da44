"""Immutable trees of all sizes around the edges of leaves and nodes, and what a merge makes."""

import numpy as np
import pytest
from numba import njit

from streamjoin.indexes.trees import blocks, forest
from streamjoin.indexes.trees import immutable_tree as immutable
from streamjoin.indexes.trees.forest import ALL_ROWS, NO_ROOM
from streamjoin.indexes.trees.immutable_tree import DEPTH, FANOUT, LEAF, TUPLES
from streamjoin.indexes.trees.pim_tree import fill
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

NODE = LEAF * FANOUT  # tuples below a node of the last level
SIZES = [0, 1, 63, 64, 65, 127, 128, 129, NODE - 1, NODE, NODE + 1, NODE + 64, 2 * NODE + 1]
every_size = pytest.mark.parametrize("size", SIZES)

# Not cached: what they are compiled with may change.
compiled = njit(nogil=True)


@compiled
def find(tree, lower, upper, base, last, found, count):
    leaf = immutable.find_node(tree, lower, 0, 0, tree.info[DEPTH])
    return immutable.scan(tree, leaf, lower, upper, base, last, found, count)


@compiled
def insert(trees, tree, key, row):
    forest.insert(trees, tree, key, row)


def built(keys, rows=None):
    tree = immutable.make_immutable(len(keys))
    rows = np.arange(len(keys)) if rows is None else rows
    fill(tree, np.array(keys, np.int64), np.array(rows, np.int32))
    immutable.check_immutable(tree)
    return tree


def rows_in(tree, lower, upper, base=0, last=ALL_ROWS, room=10**5, before=0):
    found = np.empty(room, np.int32)
    count = find(tree, lower, upper, base, last, found, before)
    return NO_ROOM if count == NO_ROOM else found[before:count].tolist()


def contents(tree, base=0):
    size = int(tree.info[TUPLES])
    keys, rows = np.empty(size, np.int64), np.empty(size, np.int32)
    count = immutable.copy_out(tree, base, keys, rows)
    return list(zip(keys[:count].tolist(), rows[:count].tolist(), strict=True))


def fresh(tuples, count=1):
    """A forest with these tuples, by tree."""
    trees = blocks.make_forest(count, len(tuples))
    for tree, key, row in tuples:
        insert(trees, tree, key, row)
    return trees


@every_size
def test_depth_and_contents(size):
    tree = built(np.arange(size) * 3)
    levels, children = 0, -(-size // LEAF)
    while children > 1:
        levels, children = levels + 1, -(-children // FANOUT)
    assert tree.info[DEPTH] == levels
    assert contents(tree) == [(3 * row, row) for row in range(size)]
    assert tree.keys.ctypes.data % 64 == tree.inners.ctypes.data % 64 == 0


@every_size
def test_every_edge_is_found(size):
    tree = built(np.arange(size) * 3)
    edges = {0, 1, size - 1, size, *range(LEAF, size, LEAF), *range(NODE, size, NODE)}
    for row in (each + step for each in sorted(edges) for step in (-1, 0, 1)):
        inside = [row] if 0 <= row < size else []
        assert rows_in(tree, 3 * row, 3 * row) == inside
        assert rows_in(tree, 3 * row - 1, 3 * row + 2) == inside
        assert rows_in(tree, 3 * row + 1, 3 * row + 2) == []
    assert rows_in(tree, MIN_KEY, MAX_KEY) == list(range(size))
    assert rows_in(tree, 3 * size, MAX_KEY) == rows_in(tree, MIN_KEY, -1) == []


@every_size
@pytest.mark.parametrize("key", [MIN_KEY, 5, MAX_KEY])
def test_equal_keys(size, key):
    tree = built(np.full(size, key))
    assert rows_in(tree, key, key) == rows_in(tree, MIN_KEY, MAX_KEY) == list(range(size))
    if key > MIN_KEY:
        assert rows_in(tree, MIN_KEY, key - 1) == []
    if key < MAX_KEY:
        assert rows_in(tree, key + 1, MAX_KEY) == []


@every_size
def test_ties_that_span_leaves_and_nodes(size):
    keys = np.sort(np.random.default_rng(size).integers(0, 6, size))
    tree = built(keys)
    for lower in range(-1, 7):
        for upper in range(lower, 7):
            expected = np.flatnonzero((lower <= keys) & (keys <= upper)).tolist()
            assert rows_in(tree, lower, upper) == expected


def test_three_levels():
    size = NODE * FANOUT + 1
    tree = built(np.arange(size) // 2)
    assert tree.info[DEPTH] == 3
    for key in (0, 31, 32, NODE // 2 - 1, NODE // 2, size // 2 - 1, size // 2):
        assert rows_in(tree, key, key) == [row for row in (2 * key, 2 * key + 1) if row < size]


def test_no_room():
    tree = built([4] * 200 + [6] * 10)
    assert rows_in(tree, 4, 4, room=200) == list(range(200))
    assert rows_in(tree, 4, 4, room=203, before=3) == list(range(200))
    assert rows_in(tree, 4, 4, room=199) == NO_ROOM
    assert rows_in(tree, 5, 5, room=0) == []


def test_rows_that_have_expired_or_not_come():
    first = 2**32 - 100
    rows = ((first + np.arange(200)) % 2**32).astype(np.uint32).view(np.int32)
    tree = built(np.arange(200), rows)
    assert rows_in(tree, 0, 199, base=first + 50) == list(range(150))
    assert rows_in(tree, 0, 199, base=first + 50, last=9) == list(range(10))
    assert rows_in(tree, 0, 199, base=(first + 120) % 2**32) == list(range(80))
    assert contents(tree, (first + 198) % 2**32) == [(198, 0), (199, 1)]


@every_size
@pytest.mark.parametrize("gone", [0.0, 0.5, 1.0])
def test_a_merge_leaves_out_what_has_expired(size, gone):
    """Rows 0 to size - 1 are in the old tree, the next ones in the forest."""
    random = np.random.default_rng(size)
    keys, more = np.sort(random.integers(0, 100, size)), random.integers(0, 100, size // 3)
    rows = random.permutation(size)
    tuples = [(int(key > 50), int(key), size + row) for row, key in enumerate(more)]
    base = int(gone * (size + more.size))
    alive = size + more.size - base
    new = immutable.make_immutable(alive)
    immutable.merge(built(keys, rows), fresh(tuples, 2), 2, base, new)
    immutable.check_immutable(new)
    assert new.info[TUPLES] == alive
    stored = [*zip(keys.tolist(), rows.tolist(), strict=True), *(each[1:] for each in tuples)]
    expected = [(key, row - base) for key, row in stored if row >= base]
    # Equal keys stay in the order they had, those of the forest behind.
    assert contents(new, base) == sorted(expected, key=lambda each: each[0])


def test_a_merge_of_the_greatest_keys():
    """`MAX_KEY` fills up leaves, and is a key too."""
    tuples = [(0, MAX_KEY, 70), (0, 3, 71), (0, MAX_KEY, 72)]
    new = immutable.make_immutable(73)
    immutable.merge(built([MAX_KEY] * 70), fresh(tuples), 1, 0, new)
    immutable.check_immutable(new)
    rows = [71, *range(70), 70, 72]
    assert [row for _, row in contents(new)] == rows
    assert rows_in(new, MAX_KEY, MAX_KEY) == rows[1:]


def test_a_tree_is_made_anew_in_the_memory_of_another():
    old, empty = built(np.arange(NODE * 2)), blocks.make_forest(1, 0)
    immutable.merge(built([1, 2, 3]), empty, 1, 0, old)
    immutable.check_immutable(old)
    assert contents(old) == [(1, 0), (2, 1), (3, 2)]
    assert rows_in(old, MIN_KEY, MAX_KEY) == [0, 1, 2]
    assert old.info[DEPTH] == 0
