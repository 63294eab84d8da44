"""The rivals of SPO-Join find exactly what a nested loop in NumPy finds, ties and all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.spojoin.chains import Arrivals, ChainJoin, empty_tree
from benchmarks.spojoin.loops import LoopJoin
from benchmarks.spojoin.tree_parts import ImmutableTrees, MutableTrees
from benchmarks.spojoin.workloads import (
    BAND,
    Q1,
    Q2,
    Q3,
    QUERIES,
    Rows,
    count_pairs,
    measure_match_share,
)
from streamjoin.indexes.trees import blocks
from streamjoin.indexes.trees import forest as trees

DOMAIN = 6  # values of a column: most rows have the same as others
queries = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)


def draw(query, seed, count):
    """Rows whose values are so few that every comparison meets ties; a band holds two of them."""
    unit = BAND - 1 if "band" in query.relations else 1
    columns = np.random.default_rng(seed).integers(0, DOMAIN, (2, count)) * unit
    return Rows(*columns.astype(np.int64))


def pairs(query, left, right):
    """Which left rows match which right ones, by the condition itself."""
    matches = np.ones((left.first.size, right.first.size), np.bool_)
    for relation, one, other in zip(query.relations, left, right, strict=True):
        one = one[:, None]
        matches &= {"<": one < other, ">": one > other, "band": abs(one - other) < BAND}[relation]
    return matches


@pytest.mark.parametrize("side", [0, 1])
@queries
def test_ranges_hold_what_the_condition_asks_for(query, side):
    left, right = draw(query, 1, 50), draw(query, 2, 70)
    probes, stored = (left, right) if side == 0 else (right, left)
    ranges = query.ranges(probes, side)
    found = np.ones((probes.first.size, stored.first.size), np.bool_)
    for keys, lower, upper in zip(stored, ranges[::2], ranges[1::2], strict=True):
        found &= (keys >= lower[:, None]) & (keys <= upper[:, None])
    expected = pairs(query, left, right)
    assert np.array_equal(found, expected if side == 0 else expected.T)


@pytest.mark.parametrize("hashed", [True, False], ids=["hash set", "bit arrays"])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 700])
@queries
def test_immutable_trees(query, size, hashed):
    stored, probes = draw(query, size, size), draw(query, 3, 40)
    in_pieces = ImmutableTrees(stored, hashed, pieces=3)
    assert in_pieces.run(probes, query.ranges(probes, 0)) == pairs(query, probes, stored).sum()
    part, ranges = ImmutableTrees(stored, hashed), query.ranges(probes, 0)
    expected = pairs(query, probes, stored)
    assert part.run(probes, ranges) == expected.sum()
    for i in range(10):
        count = part.run(probes.part(i, i + 1), ranges.part(i, i + 1))
        assert np.array_equal(np.sort(part.work.found[:count]), np.flatnonzero(expected[i]))


@pytest.mark.parametrize("hashed", [True, False], ids=["hash set", "bit arrays"])
@pytest.mark.parametrize("size", [0, 1, 64, 700])
@queries
def test_mutable_trees(query, size, hashed):
    rows = draw(query, size, size + 80)
    stored, coming = rows.part(0, size), rows.part(size, size + 80)
    part, ranges = MutableTrees(stored, 80, hashed), query.ranges(coming, 0)
    expected = np.tril(pairs(query, rows, rows), -1)[size:]  # each meets those before it
    for _ in range(2):
        assert part.run(coming, ranges) == expected.sum()
        assert np.array_equal(
            np.sort(part.work.found[: expected[-1].sum()]), np.flatnonzero(expected[-1])
        )
        for tree in range(2):
            trees.check_tree(part.forest, tree)
        part.rewind()


JOINS = {
    "chain, hash sets": lambda window: ChainJoin(window, hashed=True, links=4),
    "chain, bit arrays": lambda window: ChainJoin(window, hashed=False, links=4),
    "short chain": lambda window: ChainJoin(window, hashed=False, links=1),
    "SplitJoin": lambda window: LoopJoin(window, splits=True),
    "broadcast": lambda window: LoopJoin(window, splits=False),
    "plain loops": lambda window: LoopJoin(window, splits=True, plain=True),
    "one thread": lambda window: LoopJoin(window, splits=False, threads=1),
}


@pytest.mark.parametrize("make", JOINS.values(), ids=JOINS.keys())
@pytest.mark.parametrize("window", [2, 10, 90, 500])
@queries
def test_whole_joins(query, window, make):
    count, rng = 600, np.random.default_rng(window)
    left, right = draw(query, 5, count), draw(query, 6, count)
    sides = rng.permutation(np.repeat([0, 1], count))
    places = np.where(sides == 0, np.cumsum(sides == 0), np.cumsum(sides == 1)) - 1
    # Row i of one side meets the last rows of the other that came before it.
    arrived = [np.flatnonzero(sides == side) for side in (0, 1)]
    expected, matches = 0, pairs(query, left, right)
    for side, place in zip(sides, places, strict=True):
        met = int(np.searchsorted(arrived[1 - side], arrived[side][place]))
        met_rows = slice(max(met - window, 0), met)
        expected += int((matches[place] if side == 0 else matches[:, place])[met_rows].sum())
    join = make(window)
    assert join.run(in_order(query, sides, places, (left, right))) == expected


def in_order(query, sides, places, streams):
    ranges = [query.ranges(rows, side) for side, rows in enumerate(streams)]
    merge = [
        np.where(sides == 0, one[places], other[places])
        for one, other in zip((*streams[0], *ranges[0]), (*streams[1], *ranges[1]), strict=True)
    ]
    return Arrivals(sides, Rows(*merge[:2]), type(ranges[0])(*merge[2:]))


def test_a_filled_window_is_searched_like_one_that_came():
    rows, probes = draw(Q1, 7, 300), draw(Q1, 8, 30)
    expected = pairs(Q1, probes, rows.part(200, 300)).sum()
    arrivals = Arrivals(np.zeros(30, np.int64), probes, Q1.ranges(probes, 0))
    for make in JOINS.values():
        join = make(100)
        join.fill(1, rows)
        assert join.run(arrivals) == expected


def test_an_emptied_tree_gives_its_blocks_back():
    forest = blocks.make_forest(2, 20_000)
    for key in np.random.default_rng(1).permutation(9_000):
        trees.insert(forest, 1, key, key)
    assert blocks.height_of(forest, 1) == 2
    used = forest.supply[blocks.USED]
    empty_tree(forest, 1)
    trees.check_tree(forest, 1)
    for key in range(9_000):  # ascending keys fill leaves: no more blocks than before
        trees.insert(forest, 1, key, key)
    assert forest.supply[blocks.USED] == used


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_crossings_are_pairs_in_opposite_orders(values):
    rows = Rows(*(np.array([each[i] for each in values], np.int64) for i in range(2)))
    assert count_pairs(rows) == pairs(Q1, rows, rows).sum()


@pytest.mark.parametrize("query", [Q1, Q3], ids=["Q1", "Q3"])
def test_the_match_rate_is_what_was_asked_for(query):
    tuned = query.with_matches(20, window=20_000)
    rows = tuned.rows(np.random.default_rng(9), 20_000)
    assert measure_match_share(tuned, rows) * 20_000 == pytest.approx(20, rel=0.1)


def test_places_are_clustered():
    rows = Q2.rows(np.random.default_rng(9), 5_000)
    assert 0.02 < measure_match_share(Q2, rows) < 0.5
