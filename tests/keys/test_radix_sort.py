"""The radix sort against NumPy's stable argsort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.radix_sort import sort_with_rows


def check(keys):
    kept = keys.copy()
    ordered, rows = sort_with_rows(keys)
    order = np.argsort(kept, kind="stable")
    assert rows.dtype == np.int32
    assert np.array_equal(rows, order)
    assert np.array_equal(ordered, kept[order])
    assert np.array_equal(keys, kept)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 47, 48, 49, 500, 5000])
@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (-3, 3), (0, 2**11), (-(2**22), 2**22), (2**60, 2**60 + 5), (MIN_KEY, MAX_KEY)],
)
def test_any_size_and_span(size, low, high):
    keys = np.random.default_rng(size).integers(low, high, size, endpoint=True)
    check(keys)
    check(np.sort(keys))
    check(np.sort(keys)[::-1].copy())


@pytest.mark.parametrize("size", [2, 48, 5000])
def test_the_extremes_together(size):
    check(np.where(np.arange(size) % 2, MIN_KEY, MAX_KEY))
    check(np.where(np.arange(size) % 3, MAX_KEY, 0))
    check(np.full(size, MIN_KEY))


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.integers(-2, 2), st.integers(MIN_KEY, MAX_KEY), st.sampled_from([MIN_KEY, MAX_KEY])
        ),
        max_size=150,
    )
)
def test_random_keys(keys):
    check(np.array(keys, np.int64))


@pytest.mark.parametrize("outlier", [MIN_KEY, -(2**50), 2**50, MAX_KEY])
@pytest.mark.parametrize("spread", [2, 1000, 2**30])
def test_an_outlier_stretches_the_range(outlier, spread):
    keys = np.random.default_rng(5).integers(-spread, spread, 3000)
    keys[1700] = outlier
    check(keys)


@pytest.mark.parametrize("bits", [1, 9, 10, 27, 28, 36, 54, 62])
def test_keys_of_any_length(bits):
    check(np.random.default_rng(bits).integers(0, 1 << bits, 2000))
    check(np.random.default_rng(bits).integers(-(1 << bits), 1 << bits, 2000))


def test_keys_that_cannot_be_written():
    keys = np.random.default_rng(1).integers(0, 9, 100)
    keys.flags.writeable = False
    check(keys)
