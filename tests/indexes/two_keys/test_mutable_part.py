"""The mutable part of SPO-Join: bit arrays give what a nested loop gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.indexes.two_keys.mutable_part import MutablePart
from streamjoin.indexes.two_keys.permutation import Permutation
from tests.indexes.two_keys.crossed_tuples import (
    RANGES,
    TUPLES,
    asked,
    columns,
    expected,
    listed,
    orders,
)


def insert(part, tuples, rows):
    part.insert(*orders(*columns(tuples), rows))
    part.check()


def test_the_drawing_in_the_docstring():
    part = MutablePart()
    insert(part, [(4, 2), (7, 3), (7, 8), (1, 6), (9, 1)], np.arange(5))
    assert listed(part.probe(*asked([(7, 9, 1, 3)]))) == {(0, 1): 1, (0, 4): 1}


@settings(max_examples=80)
@given(
    batches=st.lists(TUPLES, max_size=4),
    ranges=RANGES,
    flags=st.lists(st.booleans(), min_size=20, max_size=20),
    size=st.sampled_from([1, 7, 1 << 18]),
)
def test_finds_each_tuple_in_both_ranges_exactly_once(batches, ranges, flags, size):
    part, stored = MutablePart(capacity=3), []
    for batch in batches:
        rows = 5 + 2 * np.arange(len(stored), len(stored) + len(batch))[::-1]
        insert(part, batch, rows)
        stored += [(*keys, row) for keys, row in zip(batch, rows.tolist(), strict=True)]
    assert len(part) == len(stored)
    found, pairs = part.probe(*asked(ranges)), expected(stored, ranges)
    assert listed(found, size) == pairs
    some = found.of(np.array(flags[: len(ranges)], bool))
    assert listed(some, size) == {pair: count for pair, count in pairs.items() if flags[pair[0]]}
    assert listed(found, size) == pairs  # probing is pure
    frozen = part.freeze()
    frozen.check()
    assert listed(frozen.probe(*asked(ranges))) == pairs


def test_sizes_around_the_edges_of_words():
    for size in (1, 63, 64, 65, 127, 128, 129, 1000):
        random = np.random.default_rng(size)
        tuples = [tuple(keys) for keys in random.integers(0, 9, (size, 2)).tolist()]
        part = MutablePart()
        for first in range(0, size, 37):
            rows = np.arange(first, min(first + 37, size))
            insert(part, tuples[first : first + 37], rows)
        stored = [(*keys, row) for row, keys in enumerate(tuples)]
        edges = [-1, 0, 3, 4, 8, 9]
        ranges = [(a, b, c, d) for a in edges for b in (0, 4, 8) for c in (0, 4) for d in edges]
        assert listed(part.probe(*asked(ranges)), 1) == expected(stored, ranges)


def test_freezing_keeps_rows_in_the_order_of_both_keys():
    part = MutablePart()
    insert(part, [(3, 1), (1, 3)], np.array([10, 20]))
    insert(part, [(2, 2)], np.array([15]))
    frozen = part.freeze()
    assert isinstance(frozen, Permutation)
    assert frozen.first_keys.tolist() == [1, 2, 3]
    assert frozen.rows.tolist() == [20, 15, 10]
    assert frozen.places.tolist() == [2, 1, 0]
    insert(part, [(0, 9)], np.array([16]))  # what came after did not reach it
    assert frozen.rows.tolist() == [20, 15, 10]
