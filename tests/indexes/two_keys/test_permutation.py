"""Permutation arrays: built and merged alike, and searched by marks or by a scan alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.indexes.two_keys.crossing import FIRST_ROWS, GROWTH
from streamjoin.indexes.two_keys.permutation import Permutation
from streamjoin.indexes.two_keys.scanning import ZONE
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from tests.indexes.two_keys.crossed_tuples import (
    KEYS,
    RANGES,
    TUPLES,
    asked,
    columns,
    expected,
    forced,
    listed,
    orders,
)

both_ways = pytest.mark.parametrize("scans", [False, True], ids=["marks", "scan"])
EVERY = (MIN_KEY, MAX_KEY)


def build(first, second, rows=None):
    rows = np.arange(len(first)) if rows is None else rows
    permutation = Permutation.from_sorted(*orders(first, second, rows))
    permutation.check()
    return permutation


def arrays(permutation):
    names = ("first_keys", "rows", "second_keys", "places")
    return [getattr(permutation, name).tolist() for name in names]


def test_the_drawing_in_the_docstring():
    permutation = build([7, 2, 9, 4], [8, 3, 1, 5])
    assert arrays(permutation) == [[2, 4, 7, 9], [1, 3, 0, 2], [1, 3, 5, 8], [3, 0, 1, 2]]


@settings(max_examples=80)
@given(tuples=TUPLES, ranges=RANGES, scans=st.booleans(), data=st.data())
def test_finds_each_tuple_in_both_ranges_exactly_once(tuples, ranges, scans, data):
    first, second = columns(tuples)
    rows = 7 + 3 * np.arange(len(tuples))[::-1]  # neither from 0 nor dense, nor ascending
    crossing = forced(build(first, second, rows).probe(*asked(ranges)), scans)
    stored = [(*keys, row) for keys, row in zip(tuples, rows.tolist(), strict=True)]
    pairs = expected(stored, ranges)
    assert listed(crossing) == pairs
    assert listed(crossing, size=1) == pairs
    flags = np.array(data.draw(st.lists(st.booleans(), min_size=len(ranges), max_size=len(ranges))))
    some = forced(crossing.of(flags.astype(bool)), not scans)
    assert listed(some) == {pair: count for pair, count in pairs.items() if flags[pair[0]]}
    names = np.arange(len(ranges), dtype=np.int32)[::-1].copy()
    renamed = listed(crossing, names=names)
    assert renamed == {(names[probe], row): count for (probe, row), count in pairs.items()}


@settings(max_examples=60)
@given(older=TUPLES, newer=TUPLES)
def test_merging_equals_building_from_all(older, newer):
    rows = np.concatenate((np.arange(len(older)) * 2, 100 + np.arange(len(newer)) * 3))
    old = build(*columns(older), rows[: len(older)])
    new = build(*columns(newer), rows[len(older) :])
    before = arrays(old), arrays(new)
    merged = old.merge(new)
    merged.check()
    assert arrays(merged) == arrays(build(*columns(older + newer), rows))
    assert (arrays(old), arrays(new)) == before


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(0, 300), min_size=2, max_size=2), seed=st.integers(0, 99))
def test_merging_more_than_a_block(sizes, seed):
    random = np.random.default_rng(seed)
    keys = random.integers(0, 50, (2, sum(sizes)))
    old, new = (
        build(*keys[:, : sizes[0]]),
        build(*keys[:, sizes[0] :], sizes[0] + np.arange(sizes[1])),
    )
    merged = old.merge(new)
    merged.check()
    assert arrays(merged) == arrays(build(*keys))


def brute(keys, rows, ranges):
    """The rows of each probe, for many tuples."""
    return [
        np.sort(rows[(keys[0] >= a) & (keys[0] <= b) & (keys[1] >= c) & (keys[1] <= d)])
        for a, b, c, d in ranges
    ]


def by_probe(crossing, size):
    parts = [(np.empty(0, np.int32),) * 2, *crossing.blocks(size)]
    probes, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
    return [np.sort(rows[probes == probe]) for probe in range(crossing.lengths.size)]


def some_ranges(random, size, count):
    """Ranges of any length, those of the second key in order or not, some empty."""
    bounds = np.sort(random.integers(-5, size + 5, (count, 2, 2)), axis=2).reshape(count, 4)
    narrow = random.integers(0, 2, count) == 0
    bounds[narrow, 3] = bounds[narrow, 2] + random.integers(-2, 90, int(narrow.sum()))
    ordered = bounds[np.argsort(bounds[:, 2], kind="stable")]
    return [*map(tuple, ordered.tolist()), *map(tuple, bounds[: count // 2].tolist())]


@both_ways
@pytest.mark.parametrize(
    "size", [1, 63, 64, 65, ZONE - 1, ZONE, ZONE + 1, 4095, 4096, 4097, 262_143, 262_144, 262_145]
)
def test_sizes_around_the_edges_of_words_zones_and_levels(size, scans):
    random = np.random.default_rng(size)
    keys = random.integers(0, size, (2, size))
    keys[1, : size // 2] = keys[0, : size // 2]  # half of them grow together: zones are skipped
    rows = random.permutation(size).astype(np.int32)
    permutation = build(*keys, rows)
    ranges = [*some_ranges(random, size, 20), (*EVERY, 0, 0), (size - 1, MAX_KEY, *EVERY)]
    if size < 10_000:
        ranges.append((*EVERY, *EVERY))
    crossing = forced(permutation.probe(*asked(ranges)), scans)
    answer = brute(keys, rows, ranges)
    assert crossing.lengths.tolist() == [each.size for each in answer]
    assert all(map(np.array_equal, by_probe(crossing, 1), answer))


@both_ways
def test_a_probe_goes_on_where_its_block_was_full(scans):
    size = 50_000
    random = np.random.default_rng(3)
    keys = random.integers(0, 1000, (2, size))
    permutation = build(*keys)
    ranges = [
        (*EVERY, *EVERY),
        (0, 499, 0, 499),
        (3, 3, 3, 3),
        (*EVERY, 500, MAX_KEY),
        (7, 5, 0, 9),
    ]
    for block in (1, ZONE, ZONE + 1, 3 * ZONE, 10 * size):
        crossing = forced(permutation.probe(*asked(ranges)), scans)
        parts = list(crossing.blocks(block))
        assert max(part[0].size for part in parts) <= max(block, ZONE)
        assert all(
            map(np.array_equal, by_probe(crossing, block), brute(keys, np.arange(size), ranges))
        )
        # The matches of a probe come together, and probes in their order.
        assert np.all(np.diff(np.concatenate([part[0] for part in parts])) >= 0)


@both_ways
def test_blocks_grow_where_one_probe_finds_much(scans):
    size = GROWTH * FIRST_ROWS * 2
    order = np.random.default_rng(1).permutation(size)
    crossing = forced(build(order, np.arange(size)).probe(*asked([EVERY * 2])), scans)
    blocks = list(crossing.blocks(size))
    assert [rows.size <= FIRST_ROWS * GROWTH**i for i, (_, rows) in enumerate(blocks)] == [True] * 3
    assert np.array_equal(np.sort(np.concatenate([rows for _, rows in blocks])), np.arange(size))


@both_ways
def test_few_marks_far_apart(scans):
    size = 2 * 64**3 + 1
    first = np.arange(size)
    second = np.full(size, 5)
    far = np.array([0, 63, 64, 4095, 4096, 262_143, 262_144, size - 2, size - 1])
    second[far] = np.arange(10, 10 + far.size)
    permutation = build(first, second)
    ranges = [(*EVERY, 10, 99), (1, size - 2, 11, 99), (*EVERY, 10, 10), (*EVERY, 18, 18),
              (64, 262_144, 10, 99), (4097, 262_142, 10, 99), (*EVERY, 99, 99)]  # fmt: skip
    crossing = forced(permutation.probe(*asked(ranges)), scans)
    assert all(map(np.array_equal, by_probe(crossing, 1), brute((first, second), first, ranges)))
    assert crossing.lengths.tolist() == [9, 7, 1, 1, 5, 0, 0]


@both_ways
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_marks_move_from_any_range_to_any_other(scans, seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 400))
    keys = random.integers(0, size, (2, size))
    ranges = some_ranges(random, size, int(random.integers(0, 30)))
    random.shuffle(ranges)
    crossing = forced(build(*keys).probe(*asked(ranges)), scans)
    answer = brute(keys, np.arange(size), ranges)
    assert crossing.lengths.tolist() == [each.size for each in answer]
    assert all(map(np.array_equal, by_probe(crossing, 1), answer))


def test_the_choice_between_marks_and_scan():
    size = 100_000
    random = np.random.default_rng(1)
    permutation = build(*random.integers(0, size, (2, size)))
    few = permutation.probe(*asked([(0, 9, *EVERY)]))
    many = permutation.probe(*asked([(0, size // 2, 0, size // 2)] * 1000))
    assert few.scans
    assert not many.scans


@given(bound=KEYS)
@settings(max_examples=9)
def test_nothing_is_asked_or_held(bound):
    assert listed(build([], []).probe(*asked([(*EVERY, *EVERY), (bound,) * 4]))) == {}
    for tuples in ([], [0], list(range(100))):
        crossing = build(tuples, tuples).probe(*asked([]))
        assert len(crossing) == 0
        assert list(crossing.blocks(5)) == []


def test_bytes_are_those_of_the_docstring():
    size = 100_000
    permutation = build(np.arange(size), np.arange(size)[::-1])
    assert 24 * size < permutation.nbytes <= 27 * size + 4096
