"""Splitters: equal parts of a sample, and PanJoin's adjustment of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.splitters import Histogram, adjust, from_sample, locate, weights

ENDS = [MIN_KEY, MIN_KEY + 1, -1, 0, 1, MAX_KEY - 1, MAX_KEY]
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from(ENDS), st.integers(MIN_KEY, MAX_KEY))
key_lists = st.lists(KEYS, max_size=60).map(lambda keys: np.array(keys, np.int64))
splitter_lists = st.lists(KEYS, max_size=12).map(lambda keys: np.sort(np.array(keys, np.int64)))


def cell_of(key, splitters):
    """The obvious way: how many splitters are at or below the key."""
    return sum(int(splitter) <= int(key) for splitter in splitters)


@given(keys=key_lists, splitters=splitter_lists)
def test_a_histogram_counts_the_keys_of_each_cell(keys, splitters):
    histogram = Histogram.of(keys, splitters)
    for cell in range(splitters.size + 1):
        held = [int(key) for key in keys if cell_of(key, splitters) == cell]
        assert histogram.counts[cell] == len(held)
        if held:
            assert (histogram.least[cell], histogram.greatest[cell]) == (min(held), max(held))
    assert histogram.total == keys.size


@given(one=key_lists, other=key_lists, splitters=splitter_lists)
def test_histograms_add_up(one, other, splitters):
    total = Histogram.of(one, splitters) + Histogram.of(other, splitters)
    whole = Histogram.of(np.concatenate([one, other]), splitters)
    for name in ("counts", "least", "greatest"):
        assert np.array_equal(getattr(total, name), getattr(whole, name))


@given(keys=key_lists, cells=st.integers(1, 40))
def test_a_sample_is_cut_into_equal_parts(keys, cells):
    splitters = from_sample(keys, cells)
    assert splitters.size == cells - 1
    assert np.all(splitters[:-1] <= splitters[1:])
    if np.unique(keys).size == keys.size and keys.size >= cells:
        counts = Histogram.of(keys, splitters).counts
        assert counts.max() - counts.min() <= 1


@given(keys=key_lists, splitters=splitter_lists, cells=st.integers(1, 40))
def test_adjusted_splitters_are_sorted_and_as_many(keys, splitters, cells):
    histogram = Histogram.of(keys, splitters)
    found = adjust(histogram, cells)
    assert found.dtype == np.int64
    assert found.size == cells - 1
    assert np.all(found[:-1] <= found[1:])
    if keys.size:
        assert np.all((found >= keys.min()) & (found <= keys.max()))


@given(splitters=splitter_lists)
def test_every_cell_has_its_weight(splitters):
    held = weights(splitters)
    assert held.sum() == splitters.size + 1
    for cell, weight in enumerate(held):
        is_empty = 0 < cell < splitters.size and splitters[cell] == splitters[cell - 1]
        assert (weight == 0) == is_empty


def test_one_key_takes_all_splitters():
    histogram = Histogram.of(np.full(1000, 42), np.array([10, 20, 30, 50]))
    assert adjust(histogram, 5).tolist() == [42, 42, 42, 42]
    assert weights(np.array([42, 42, 42, 42])).tolist() == [1, 0, 0, 0, 4]


rng = np.random.default_rng(3)
SKEWED = {
    "narrow": rng.integers(10**9, 10**9 + 10**5, 20_000),
    "normal": rng.normal(0, 10**6, 20_000).astype(np.int64),
    "two heaps": np.concatenate(
        [rng.integers(0, 10**4, 10_000), rng.integers(10**12, 10**12 + 10**4, 10_000)]
    ),
    "exponential": rng.exponential(10**5, 20_000).astype(np.int64),
    "all of int64": rng.integers(MIN_KEY, MAX_KEY, 20_000),
    "one side": rng.integers(10**6, 2 * 10**6, 20_000),
}


@pytest.mark.parametrize("name", SKEWED)
@pytest.mark.parametrize("first", ["of nothing", "of other keys"])
def test_a_few_rounds_balance_any_skew(name, first):
    keys, cells = SKEWED[name], 32
    sample = np.empty(0, np.int64) if first == "of nothing" else rng.integers(0, 10**6, 5000)
    splitters = from_sample(sample, cells)
    fullest = []
    for _ in range(3):
        splitters = adjust(Histogram.of(keys, splitters), cells)
        fullest.append(Histogram.of(keys, splitters).counts.max() * cells / keys.size)
    assert fullest[-1] <= 2, fullest


@given(keys=key_lists, splitters=splitter_lists)
def test_a_key_lies_in_the_cell_that_begins_at_or_before_it(keys, splitters):
    assert np.array_equal(locate(keys, splitters), np.searchsorted(splitters, keys, side="right"))
