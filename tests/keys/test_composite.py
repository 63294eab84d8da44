"""Composite keys: rounding keeps the order, and no match is lost."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.composite import EXACT_BITS, RANGE_BITS, compose, compose_range, round_integer
from streamjoin.keys.sort_keys import encode_doubles

FULL = st.integers(MIN_KEY, MAX_KEY)
POWERS = st.integers(0, 62).flatmap(
    lambda power: st.integers(-3, 3).map(lambda near: min(2**power + near, MAX_KEY))
)
KEYS = st.one_of(
    FULL,
    POWERS,
    POWERS.map(lambda key: -key),
    st.sampled_from([MIN_KEY, MIN_KEY + 1, -1, 0, MAX_KEY - 512, MAX_KEY - 1, MAX_KEY]),
)
DOUBLE_KEYS = st.floats().map(lambda value: int(encode_doubles(np.array([value]))[0]))
LIMIT = 1 << (RANGE_BITS - 1)


def composed(hash_, key, floating=False):
    return int(compose(np.array([hash_]), np.array([key]), floating)[0])


@settings(max_examples=500)
@example(MAX_KEY - 1, MAX_KEY)
@example(2**34 - 1, 2**34)
@example(-(2**34) - 1, -(2**34))
@given(KEYS, KEYS)
def test_rounding_keeps_the_order(one, other):
    one, other = sorted([one, other])
    assert -LIMIT <= round_integer(one) <= round_integer(other) < LIMIT


@given(st.integers(-(1 << EXACT_BITS), (1 << EXACT_BITS) - 1))
def test_integers_of_34_bits_are_exact(key):
    assert round_integer(key) == key


@settings(max_examples=300)
@given(FULL, KEYS, KEYS)
def test_composing_keeps_the_order_and_the_hash(hash_, one, other):
    one, other = sorted([one, other])
    first, second = composed(hash_, one), composed(hash_, other)
    assert first <= second
    assert first >> RANGE_BITS == second >> RANGE_BITS == hash_ >> RANGE_BITS


@settings(max_examples=300)
@given(FULL, DOUBLE_KEYS, DOUBLE_KEYS)
def test_composing_doubles_keeps_the_order_and_the_hash(hash_, one, other):
    one, other = sorted([one, other])
    first, second = composed(hash_, one, True), composed(hash_, other, True)
    assert first <= second
    assert first >> RANGE_BITS == second >> RANGE_BITS == hash_ >> RANGE_BITS


@settings(max_examples=300)
@given(FULL, KEYS, KEYS, KEYS)
def test_what_is_in_a_range_is_in_its_composite_range(hash_, lower, upper, key):
    bottom, top = compose_range(np.array([hash_]), np.array([lower]), np.array([upper]), False)
    if lower > upper:
        assert bottom[0] > top[0]
    if lower <= key <= upper:
        assert bottom[0] <= composed(hash_, key) <= top[0]


def test_empty_ranges_stay_empty_where_rounding_makes_the_ends_equal():
    big = np.array([2**60])
    lower, upper = compose_range(np.zeros(1, np.int64), big + 1, big, False)
    assert lower[0] > upper[0]
