"""PIM-Tree: the ranges of its trees, searches across them, merges, and threads that share it."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from numba import njit

from streamjoin.indexes.trees import blocks, pim_tree
from streamjoin.indexes.trees.forest import ALL_ROWS, NO_ROOM
from streamjoin.indexes.trees.im_tree import IMTree
from streamjoin.indexes.trees.immutable_tree import DEPTH, FANOUT, LEAF, TUPLES
from streamjoin.indexes.trees.pim_tree import ENTRY, TREES, PIMTree
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

NODE = LEAF * FANOUT

# Not cached: what they are compiled with may change.
compiled = njit(nogil=True)


@compiled
def collect(pim, lower, upper, base, last, found, count, shared):
    return pim_tree.collect(pim, lower, upper, base, last, found, count, shared)


@compiled
def insert_shared(pim, keys, rows, first, last):
    for i in range(first, last):
        pim_tree.insert(pim, keys[i], rows[i], True)


@compiled
def search_shared(pim, keys, room):
    """Search while others insert; return how often anything else than the key's rows came."""
    found, wrong = np.empty(room, np.int32), 0
    for i in range(keys.size):
        count = pim_tree.collect(pim, keys[i], keys[i], 0, ALL_ROWS, found, 0, True)
        for j in range(count):
            wrong += keys[found[j]] != keys[i]
    return wrong


def loaded(keys, depth=99):
    """A tree with all keys in T_S."""
    index = PIMTree(1, depth=depth)
    index = index.successor(len(keys))
    keys, rows = np.sort(np.array(keys, np.int64)), np.arange(len(keys), dtype=np.int32)
    index.size = keys.size
    fixed = pim_tree.immutable.make_immutable(keys.size)
    pim_tree.fill(fixed, keys, rows)
    index.adopt(fixed)
    index.check()
    return index, keys


def add(index, keys):
    keys = np.sort(np.array(keys, np.int64))
    index.insert(keys, np.arange(len(index), len(index) + keys.size, dtype=np.int32))
    index.check()
    return keys


def rows_in(index, lower, upper, room=10**5, last=ALL_ROWS, shared=False):
    found = np.empty(room, np.int32)
    count = collect(index.pim, lower, upper, index.base, last, found, 0, shared)
    return NO_ROOM if count == NO_ROOM else sorted(found[:count].tolist())


@pytest.mark.parametrize(
    ("size", "depth", "entry", "trees"),
    [
        (0, 99, 0, 1),
        (LEAF, 99, 0, 1),
        (NODE, 99, 0, 1),
        (NODE + 1, 0, 0, 1),
        (NODE + 1, 1, 1, 2),
        (5 * NODE, 99, 1, 5),
        (FANOUT * NODE, 99, 1, FANOUT),
        (FANOUT * NODE + 1, 99, 2, FANOUT + 1),
        (FANOUT * NODE + 1, 2, 2, FANOUT + 1),
        (FANOUT * NODE + 1, 1, 1, 2),
        (FANOUT * NODE + 1, 0, 0, 1),
    ],
)
def test_a_tree_for_each_node_at_the_insertion_depth(size, depth, entry, trees):
    index, keys = loaded(np.arange(size), depth)
    assert index.pim.shape.tolist() == [entry, trees]
    uppers = index.pim.uppers[:trees]
    assert uppers[-1] == MAX_KEY
    span = NODE * FANOUT ** (int(index.pim.fixed.info[DEPTH]) - 1 - entry)
    assert uppers[:-1].tolist() == [keys[(tree + 1) * span - 1] for tree in range(trees - 1)]
    more = add(index, [-1, *uppers[:-1], *(uppers[:-1] + 1), size + 5, MIN_KEY, MAX_KEY])
    assert index.fresh_count == more.size
    for key in more.tolist():
        expected = np.flatnonzero(np.append(keys, more) == key).tolist()
        assert rows_in(index, key, key) == expected
        assert rows_in(index, key, key, shared=True) == expected
    index.check()


@pytest.mark.parametrize("depth", [0, 1, 99])
@pytest.mark.parametrize("different", [1, 3, 200, 10**6])
def test_searches_that_span_many_trees(depth, different):
    random = np.random.default_rng(different)
    index, keys = loaded(random.integers(0, different, 6 * NODE), depth)
    index.merge_ratio = 1
    stored = np.append(keys, add(index, random.integers(-2, different + 2, 3000)))
    assert index.fresh_count == 3000
    for _ in range(12):
        lower, upper = np.sort(random.integers(-3, different + 3, 2)).tolist()
        expected = np.flatnonzero((lower <= stored) & (stored <= upper)).tolist()
        assert rows_in(index, lower, upper) == expected
        assert rows_in(index, lower, upper, last=20_000) == [r for r in expected if r <= 20_000]
    everything = list(range(stored.size))
    assert rows_in(index, MIN_KEY, MAX_KEY) == everything
    assert rows_in(index, MIN_KEY, MAX_KEY, room=stored.size - 1) == NO_ROOM
    index.expire(np.zeros(500, np.int64))  # only their number counts here
    assert rows_in(index, MIN_KEY, MAX_KEY) == everything[:-500]


def test_an_empty_t_s():
    index = PIMTree()
    assert rows_in(index, MIN_KEY, MAX_KEY) == []
    keys = add(index, [5, MIN_KEY, MAX_KEY, 5])
    assert index.pim.fixed.info[TUPLES] == 0
    for key in (MIN_KEY, 5, MAX_KEY):
        assert rows_in(index, key, key) == np.flatnonzero(keys == key).tolist()
    index.expire(keys)
    index.check()
    assert rows_in(index, MIN_KEY, MAX_KEY) == []


def test_a_merge_when_t_i_has_its_share(monkeypatch):
    monkeypatch.setattr(pim_tree, "LEAST_TUPLES", 10)
    index = PIMTree(merge_ratio=1 / 4)
    add(index, range(9))
    assert (index.fresh_count, index.pim.fixed.info[TUPLES]) == (9, 0)
    add(index, range(91))
    assert index.fresh_count < index.limit == 25
    held = index.pim.fixed.info[TUPLES]
    add(index, range(2 * index.limit))
    assert index.fresh_count < index.limit
    assert index.pim.fixed.info[TUPLES] == len(index) - index.fresh_count > held


@pytest.mark.parametrize("ratio", [1 / 16, 1])
def test_what_has_expired_is_left_out_when_it_is_too_much(ratio):
    index = PIMTree(merge_ratio=ratio)
    keys = add(index, range(20_000))
    for count in (9000, 5000, 5900, 100):
        index.expire(keys[:count])
        keys = keys[count:]
        index.check()
        assert index.held <= 2 * keys.size + pim_tree.LEAST_TUPLES


def test_the_memory_of_a_tree_serves_the_next_but_one():
    index = PIMTree(merge_ratio=1 / 16)
    add(index, range(30_000))
    seen = set()
    for _ in range(6):
        index.expire(np.zeros(1000, np.int64))
        add(index, range(1000))
        index.merge()
        index.check()
        seen.add(index.pim.fixed.keys.ctypes.data)
    assert len(seen) <= 3
    assert index.spare is not None


def test_a_limit_that_falls_below_what_is_there():
    # Once: the next insert began before its first key.
    index = PIMTree(merge_ratio=1)
    add(index, range(4000))
    index.merge()
    add(index, range(4000, 7900))
    index.expire(np.arange(4400))
    assert index.limit < index.fresh_count == 3900
    add(index, [1, 2, 3])
    assert index.fresh_count == 3
    assert rows_in(index, 1, 3) == [3500, 3501, 3502]


def test_an_im_tree_has_one_tree():
    index = IMTree.from_sorted(np.arange(3 * NODE), np.arange(3 * NODE, dtype=np.int32))
    add(index, [7, 7])
    assert (index.pim.shape[ENTRY], index.pim.shape[TREES]) == (0, 1)
    assert rows_in(index, 7, 7) == [7, 3 * NODE, 3 * NODE + 1]


@pytest.mark.parametrize("depth", [0, 99])
def test_threads_that_insert_and_search_at_once(depth):
    random, size, threads = np.random.default_rng(4), 8 * NODE, 4
    keys = np.append(np.sort(random.integers(0, 9000, size)), random.integers(0, 9000, 20_000))
    index, _ = loaded(keys[:size], depth)
    parts = pim_tree.make_fresh(int(index.pim.shape[TREES]), 20_000)
    index.pim = pim_tree.Pim(index.pim.fixed, *parts, index.pim.shape)
    pim_tree.attach(index.pim, depth)
    rows, cuts = np.arange(keys.size, dtype=np.int32), np.linspace(size, keys.size, threads + 1)
    with ThreadPoolExecutor(threads + 1) as pool:
        inserts = [
            pool.submit(insert_shared, index.pim, keys, rows, int(first), int(last))
            for first, last in pairwise(cuts)
        ]
        search = pool.submit(search_shared, index.pim, keys, 1000)
        for each in inserts:
            each.result(timeout=60)
        assert search.result(timeout=60) == 0
    index.size, index.fresh_count = keys.size, keys.size - size
    index.check()
    assert blocks.has_room(index.pim.fresh)
    for key in range(0, 9000, 500):
        assert (
            rows_in(index, key, key + 9)
            == np.flatnonzero((key <= keys) & (keys <= key + 9)).tolist()
        )
