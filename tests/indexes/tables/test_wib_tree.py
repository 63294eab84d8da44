"""WiB+-Tree: leaves are divided where keys differ, equal keys stay together."""

import numpy as np

from streamjoin.indexes.tables.inner_nodes import FANOUT, HEIGHT
from streamjoin.indexes.tables.inner_nodes import leaves as leaves_of
from streamjoin.indexes.tables.wib_tree import WIDTH, WiBTree
from streamjoin.indexes.tables.wide_leaves import count_leaf


def insert(index, keys):
    keys = np.sort(np.array(keys, np.int64))
    index.insert(keys, np.arange(len(index), len(index) + keys.size, dtype=np.int32))
    index.check()


def sizes(index):
    return [int(count_leaf(index.entries, leaf)) for leaf in leaves_of(index.nodes)]


def test_a_full_leaf_is_divided_in_the_middle():
    index = WiBTree(width=8)
    insert(index, range(7))
    assert sizes(index) == [7]
    insert(index, [7])
    assert sizes(index) == [4, 4]


def test_equal_keys_stay_in_one_leaf():
    index = WiBTree(width=8)
    insert(index, [5] * 50)
    assert sizes(index) == [50]
    insert(index, [6])
    insert(index, [4])
    assert sizes(index) == [1, 50, 1]
    insert(index, [5] * 10)
    assert sizes(index) == [1, 60, 1]


def test_a_leaf_is_divided_beside_its_equal_keys():
    index = WiBTree(width=8)
    insert(index, [1, 2, 2, 2, 2, 2, 2])
    insert(index, [3])
    assert sizes(index) in ([1, 7], [7, 1])


def test_inner_nodes_are_divided_too():
    index = WiBTree(width=4)
    random = np.random.default_rng(1)
    for _ in range(20):
        insert(index, random.integers(0, 10**6, 1000))
    assert index.nodes.info[HEIGHT] >= 3
    insert(index, np.arange(2 * 10**6, 2 * 10**6 + FANOUT * FANOUT))
    assert sum(sizes(index)) == len(index)


def test_rising_keys_leave_no_leaf_nearly_empty():
    index = WiBTree()
    for first in range(0, 20_000, 500):
        insert(index, range(first, first + 500))
    assert min(sizes(index)) >= WIDTH // 4
