"""A forest: what divides, joins, shares, rises and falls in its trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from streamjoin.indexes.trees import b_tree, blocks, forest
from streamjoin.indexes.trees.blocks import FREE, NONE, USED, WIDTH
from streamjoin.indexes.trees.forest import ALL_ROWS, NO_ROOM
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

# Not cached: what they are compiled with may change.
compiled = njit(nogil=True)


@compiled
def insert(trees, tree, key, row):
    forest.insert(trees, tree, key, row)


@compiled
def remove(trees, tree, key, row):
    return forest.remove(trees, tree, key, row)


@compiled
def collect(trees, tree, lower, upper, base, last, found, count):
    return forest.collect(trees, tree, lower, upper, base, last, found, count)


def grown(keys, room=None):
    """One tree with these keys, inserted in this order; rows count them."""
    trees = blocks.make_forest(1, len(keys) if room is None else room)
    for row, key in enumerate(keys):
        assert blocks.has_room(trees)
        insert(trees, 0, key, row)
    forest.check_tree(trees, 0)
    return trees


def tuples(trees, tree=0):
    """All tuples in the order of the leaves."""
    return [
        (int(key), int(blocks.child_of(trees, leaf, place)))
        for leaf in forest.linked_leaves(trees, tree)
        for place, key in enumerate(
            blocks.keys_of(trees, leaf)[: blocks.size_of(trees, leaf)].tolist()
        )
    ]


def sizes(trees):
    return [int(blocks.size_of(trees, leaf)) for leaf in forest.linked_leaves(trees, 0)]


def free_blocks(trees):
    block, free = int(trees.supply[FREE]), set()
    while block != NONE:
        assert block not in free
        free.add(block)
        block = int(blocks.next_of(trees, block))
    return free


def blocks_of(trees, tree=0):
    """All blocks of a tree."""
    found, level = [tree], [tree]
    for _ in range(int(blocks.height_of(trees, tree))):
        level = [
            int(blocks.child_of(trees, node, place))
            for node in level
            for place in range(blocks.size_of(trees, node))
        ]
        found += level
    return found


def check(trees, stored):
    """Invariants, contents in arrival order, and that no block is lost or used twice."""
    forest.check_tree(trees, 0)
    assert tuples(trees) == sorted(stored)
    used, free = blocks_of(trees), free_blocks(trees)
    assert len(set(used)) == len(used)
    assert free.isdisjoint(used)
    assert free.union(used) == set(range(trees.supply[USED]))


def find(trees, lower, upper, base=0, last=ALL_ROWS, room=5000, before=0):
    found = np.full(room, -7, np.int32)
    count = collect(trees, 0, lower, upper, base, last, found, before)
    return NO_ROOM if count == NO_ROOM else found[before:count].tolist()


ORDERS = {
    "oldest first": lambda random, size: np.arange(size),
    "newest first": lambda random, size: np.arange(size)[::-1],
    "any": lambda random, size: random.permutation(size),
}
every_order = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())


@every_order
@pytest.mark.parametrize("different", [1, 2, 7, 300, 10**9])
def test_remove_in_any_order(order, different):
    random = np.random.default_rng(different)
    keys = random.integers(0, different, 4500)
    trees = grown(keys.tolist())
    assert blocks.height_of(trees, 0) == 2
    stored = {(int(key), row) for row, key in enumerate(keys)}
    for number, row in enumerate(order(random, keys.size)):
        assert remove(trees, 0, keys[row], row)
        stored.remove((int(keys[row]), int(row)))
        if number % 500 == 0 or len(stored) < 3:
            assert not remove(trees, 0, keys[row], row)
            check(trees, stored)
    if different > keys.size or order is ORDERS["oldest first"]:  # else ties may leave empty leaves
        assert blocks.height_of(trees, 0) == 0


KEYS = st.one_of(st.integers(-2, 2), st.sampled_from([MIN_KEY, MIN_KEY + 1, MAX_KEY - 1, MAX_KEY]))


@settings(max_examples=25)
@given(
    keys=st.lists(KEYS, min_size=1, max_size=10),
    size=st.integers(1, 500),
    seed=st.integers(0, 10**6),
    share=st.floats(0.3, 0.9),
)
def test_inserts_and_removals_in_turn(keys, size, seed, share):
    random = np.random.default_rng(seed)
    trees, stored = blocks.make_forest(1, size), []
    for row in range(size):
        key = int(random.choice(np.array(keys)))
        insert(trees, 0, key, row)
        stored.append((key, row))
        if random.random() < share:
            gone = stored.pop(random.integers(len(stored)))
            assert remove(trees, 0, *gone)
            assert not remove(trees, 0, *gone)
    check(trees, stored)
    for key in set(keys):
        assert find(trees, key, key) == [row for each, row in stored if each == key]


def test_what_is_not_there_is_not_removed():
    trees = grown([5] * 200 + [7] * 200)
    before = tuples(trees)
    for key, row in ((5, 200), (7, 0), (6, 3), (4, 0), (8, 0), (MIN_KEY, 0), (MAX_KEY, 0)):
        assert not remove(trees, 0, key, row)
        forest.check_tree(trees, 0)
    assert tuples(trees) == before


def test_a_root_that_is_raised_and_lowered():
    trees = grown(range(WIDTH))
    assert blocks.height_of(trees, 0) == 0
    insert(trees, 0, WIDTH, WIDTH)
    check(trees, [(key, key) for key in range(WIDTH + 1)])
    assert blocks.height_of(trees, 0) == 1
    for key in range(WIDTH + 1):
        assert remove(trees, 0, key, key)
        check(trees, [(each, each) for each in range(key + 1, WIDTH + 1)])
    assert blocks.height_of(trees, 0) == 0
    assert len(free_blocks(trees)) == 2


def test_rising_keys_leave_full_leaves():
    trees = grown(range(1000))
    assert set(sizes(trees)[:-1]) == {WIDTH - 1}
    equal = grown([3] * 1000)
    assert set(sizes(equal)[:-1]) == {WIDTH - 1}
    falling = grown(range(1000, 0, -1))
    assert min(sizes(falling)) >= WIDTH // 2


def test_leaves_share_or_join():
    half = WIDTH // 2
    trees = grown([*range(0, 2 * WIDTH, 2), 1])
    assert sizes(trees) == [half + 1, half]
    keys = [key for key, _ in tuples(trees)]
    rows = dict(tuples(trees))
    filled = 2 * WIDTH + 1
    while sizes(trees)[1] < WIDTH - 2:  # the right one gets more than both can have in one
        insert(trees, 0, filled, filled)
        rows[filled] = filled
        filled += 1
    removed = 0
    while len(sizes(trees)) == 2 and sizes(trees)[0] > WIDTH // 4:
        assert remove(trees, 0, keys[removed], rows.pop(keys[removed]))
        removed += 1
    assert sizes(trees) == [WIDTH // 4, WIDTH - 2]
    assert remove(trees, 0, keys[removed], rows.pop(keys[removed]))
    total = WIDTH // 4 + WIDTH - 2
    assert sizes(trees) == [total // 2 - 1, total - total // 2]
    check(trees, rows.items())
    for key in sorted(rows):
        assert remove(trees, 0, key, rows.pop(key))
        check(trees, rows.items())
    assert sizes(trees) == [0]


def test_inner_nodes_share_children():
    # Once: a sparse inner node beside a full one was left alone, with leaves that got empty.
    half, leaf = WIDTH // 2, WIDTH - 1
    stored = [(key, key) for key in range(3 * half * leaf)]
    trees = grown([key for key, _ in stored])
    assert blocks.height_of(trees, 0) == 2
    for number in range(half, 2 * half):  # the leaves of the second inner node are divided
        for _ in range(2):
            stored.append((number * leaf + 5, len(stored)))
            insert(trees, 0, *stored[-1])
    second = blocks.child_of(trees, 0, 1)
    assert blocks.size_of(trees, second) == WIDTH
    stored.sort()
    for number, gone in enumerate(stored[: 2 * half * leaf]):
        assert remove(trees, 0, *gone)
        if number % 97 == 0:
            check(trees, stored[number + 1 :])
            assert min(sizes(trees)[:-1]) > 0


def test_leaves_of_one_key_among_others_are_given_back():
    # Once: tuples were removed from behind a leaf that held lesser keys, and empty leaves stayed.
    keys = [1] * 40 + [2] * 200
    trees = grown(keys)
    for row in range(len(keys), 5000):
        insert(trees, 0, 2, row)
        assert remove(trees, 0, 2, row - 200)
    check(trees, [*((1, row) for row in range(40)), *((2, row) for row in range(4800, 5000))])
    assert len(sizes(trees)) <= 8


@pytest.mark.parametrize("before", [0, 3])
def test_collect_tells_that_there_is_no_room(before):
    trees = grown([4] * 300 + [6] * 10)
    rows = list(range(300))
    assert find(trees, 4, 4, room=300 + before, before=before) == rows
    assert find(trees, 4, 5, room=299 + before, before=before) == NO_ROOM
    assert find(trees, 5, 5, room=before, before=before) == []
    assert find(trees, 6, 6, room=9 + before, before=before) == NO_ROOM


def test_collect_leaves_out_what_has_expired_or_not_come():
    keys = [row % 3 for row in range(400)]
    trees = blocks.make_forest(1, 400)
    first = 2**32 - 200
    for row, key in enumerate(keys):
        insert(trees, 0, key, np.uint32((first + row) % 2**32).astype(np.int32))
    alive = [row - 150 for row in range(150, 400) if row % 3 == 1]
    assert find(trees, 1, 1, base=first + 150) == alive
    assert find(trees, 1, 1, base=first + 150, last=60) == [row for row in alive if row <= 60]
    assert find(trees, 1, 1, base=first, last=-1) == []
    after = (first + 300) % 2**32  # beyond the wrap
    assert find(trees, 0, 2, base=after) == sorted(range(100), key=lambda row: row % 3)
    keys_out, rows_out = np.empty(400, np.int64), np.empty(400, np.int32)
    assert forest.copy_out(trees, 1, after, keys_out, rows_out) == 100
    assert keys_out[:100].tolist() == [row % 3 for row in sorted(range(100), key=lambda r: r % 3)]


def test_unused_places_are_no_keys():
    trees = grown([MAX_KEY] * 3 + [MIN_KEY] * 3 + [0])
    assert find(trees, MAX_KEY, MAX_KEY) == [0, 1, 2]
    assert find(trees, MIN_KEY, MIN_KEY) == [3, 4, 5]
    assert find(trees, MIN_KEY, MAX_KEY) == [3, 4, 5, 6, 0, 1, 2]
    assert find(trees, 1, MAX_KEY - 1) == []


def test_trees_share_a_supply():
    trees, stored = blocks.make_forest(5, 3000), [[] for _ in range(5)]
    random = np.random.default_rng(1)
    for row in range(3000):
        tree, key = int(random.integers(5)), int(random.integers(0, 50))
        insert(trees, tree, key, row)
        stored[tree].append((key, row))
    for tree in range(5):
        forest.check_tree(trees, tree)
        assert tuples(trees, tree=tree) == sorted(stored[tree])
    every = [block for tree in range(5) for block in blocks_of(trees, tree)]
    assert sorted(every) == list(range(trees.supply[USED]))
    blocks.clear(trees, 3)
    assert [tuples(trees, tree=tree) for tree in range(3)] == [[], [], []]
    assert trees.supply[USED] == 3


@pytest.mark.parametrize("pattern", ["rising", "falling", "random", "equal"])
@pytest.mark.parametrize("count", [1, 7, 200])
def test_blocks_that_are_made_are_enough(pattern, count):
    """`has_room` holds to the end, whatever the keys."""
    size, random = 6000, np.random.default_rng(1)
    keys = {
        "rising": np.arange(size),
        "falling": -np.arange(size),
        "random": random.integers(0, 10**6, size),
        "equal": np.zeros(size, np.int64),
    }[pattern]
    trees = blocks.make_forest(count, size)
    for row, key in enumerate(keys):
        assert blocks.has_room(trees)
        insert(trees, row % count, key, row)


def test_a_forest_that_grows():
    trees = blocks.reserve(20)
    blocks.clear(trees, 1)
    keys, rows = np.arange(3000) * 7 % 3000, np.arange(3000, dtype=np.int32)
    first, growths = 0, 0
    while (first := b_tree.insert_batch(trees, keys, rows, first)) < keys.size:
        trees, growths = blocks.grow_forest(trees), growths + 1
        forest.check_tree(trees, 0)
    assert growths == 2
    check(trees, zip(keys.tolist(), rows.tolist(), strict=True))
    assert trees.keys.ctypes.data % 64 == 0
