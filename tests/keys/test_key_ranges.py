"""Key ranges against plain Python: big integers for exact types, every pair for doubles."""

import math
from itertools import product
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.key_ranges import (
    DIFFERENCE,
    SHIFT_PROBE,
    SHIFT_STORED,
    double_ranges,
    exact_range,
    make_disjoint,
    nan_ranges,
)
from streamjoin.keys.sort_keys import encode_doubles

EXTREMES = [MIN_KEY, MIN_KEY + 1, -(2**40), -2, -1, 0, 1, 2, 2**40, MAX_KEY - 1, MAX_KEY]
ENDS = [*EXTREMES, -(2**64), -(2**63) - 1, 2**63, 2**64, 2**64 - 1, -(10**30), 10**30]


def holds(key, stored, low, high):
    return low <= key - stored <= high


@pytest.mark.parametrize("low", [-inf, *ENDS])
@pytest.mark.parametrize("high", [*ENDS, inf])
def test_exact_ranges_at_the_extremes(low, high):
    keys = np.array(EXTREMES)
    lower, upper = exact_range(keys, low, high)
    for place, key in enumerate(EXTREMES):
        for stored in EXTREMES:
            inside = bool(lower[place] <= stored <= upper[place])
            assert inside == holds(key, stored, low, high), (key, stored)


@settings(max_examples=300)
@example([MAX_KEY], 0, 2**63)  # key - end fits an int64, the end does not
@example([MIN_KEY], -(2**63) - 5, 0)
@given(
    keys=st.lists(st.one_of(st.sampled_from(EXTREMES), st.integers(MIN_KEY, MAX_KEY)), max_size=4),
    low=st.one_of(st.just(-inf), st.sampled_from(ENDS), st.integers(-(2**66), 2**66)),
    high=st.one_of(st.just(inf), st.sampled_from(ENDS), st.integers(-(2**66), 2**66)),
)
def test_exact_ranges_against_big_integers(keys, low, high):
    lower, upper = exact_range(np.array(keys, np.int64), low, high)
    for place, key in enumerate(keys):
        # The stored keys that match, held to what an int64 can be.
        first = MIN_KEY if high == inf else max(key - high, MIN_KEY)
        last = MAX_KEY if low == -inf else min(key - low, MAX_KEY)
        if first <= last:
            assert (lower[place], upper[place]) == (first, last)
        else:
            assert lower[place] > upper[place]


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [(MIN_KEY, 1, inf), (MAX_KEY, -inf, -1)],
    ids=["less than the least", "more than the greatest"],
)
def test_a_strict_bound_at_the_extreme_gives_an_empty_range(key, low, high):
    lower, upper = exact_range(np.array([key]), low, high)
    assert lower[0] > upper[0]


# Doubles.

TINY = 5e-324
POOL = [
    nan, inf, -inf, 0.0, -0.0, TINY, -TINY, 2.2250738585072014e-308, 0.1, 0.2, 0.1 + 0.2, 0.3, -0.3,
    1.0, -1.0, 1.1, math.nextafter(1.1, 2), 5.0, -5.0, 1e16, 1e16 + 2, 1e16 - 1, -1e16, 2.0**53,
    1.7976931348623157e308, -1.7976931348623157e308, float(np.float32(0.1)), 16777216.0, 3.4e38,
]  # fmt: skip
BOUNDS = [0.0, 0.1, -0.1, 5.0, -5.0, TINY, 1e16, 1.7976931348623157e308, -1.7976931348623157e308]
FORMS = {"difference": DIFFERENCE, "shift_probe": SHIFT_PROBE, "shift_stored": SHIFT_STORED}
ABSENT = np.zeros(6, np.int64)


def end(bound, form, single=False, strict=False, nan_passes=False):
    bits = np.float64(bound).view(np.int64)
    return np.array([1, bits, form, single, strict, nan_passes], np.int64)


def rank(value):
    """NaN is the largest, and equal to itself."""
    return (1, 0.0) if math.isnan(value) else (0, value)


def passes(probe, stored, spec, is_high):
    """Whether one bound of probe - stored holds, computed as it was written."""
    present, bits, form, single, strict, nan_passes = spec.tolist()
    if not present:
        return True
    bound = float(np.int64(bits).view(np.float64))
    rounded = (lambda value: float(np.float32(value))) if single else float
    with np.errstate(over="ignore"):
        if form == DIFFERENCE:
            computed, against = rounded(probe - stored), bound
            if math.isnan(computed):
                return bool(nan_passes)
        elif form == SHIFT_PROBE:
            computed, against = rounded(probe - bound), stored
        else:
            computed, against = probe, rounded(stored + bound)
    one, other = rank(computed), rank(against)
    if not is_high:
        one, other = other, one
    return one < other if strict else one <= other


def check_doubles(low, high, pool=POOL):
    keys = encode_doubles(np.array(pool))
    lower, upper = np.empty_like(keys), np.empty_like(keys)
    double_ranges(keys, low, high, lower, upper)
    ranges = [(lower, upper)]
    ends = [spec for spec in (low, high) if spec[0]]
    if all(spec[2] == DIFFERENCE and spec[5] for spec in ends):
        ranges.append((np.empty_like(keys), np.empty_like(keys)))
        nan_ranges(keys, *ranges[-1])
    ranges = make_disjoint(ranges)
    for place, probe in enumerate(pool):
        for stored, key in zip(pool, keys.tolist(), strict=True):
            inside = sum(int(bottom[place] <= key <= top[place]) for bottom, top in ranges)
            expected = passes(probe, stored, low, False) and passes(probe, stored, high, True)
            assert inside == expected, (probe, stored, low, high)


@pytest.mark.parametrize("single", [False, True], ids=["double", "float"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("strict", [False, True], ids=["closed", "open"])
def test_one_bound(form, single, strict):
    # float arithmetic happens between floats only
    pool = [
        float(np.float32(value)) for value in POOL if abs(value) == inf or not abs(value) > 3.5e38
    ]
    pool = pool if single else POOL
    for bound, nan_passes in product(BOUNDS, [False, True]):
        bound = float(np.float32(bound)) if single and abs(bound) < 3e38 else bound
        if single and abs(bound) > 3.5e38:
            continue
        spec = end(bound, form, single, strict, nan_passes)
        check_doubles(ABSENT, spec, pool)
        check_doubles(spec, ABSENT, pool)


@pytest.mark.parametrize("forms", [*product([1, 2], [1, 2])], ids=str)
@pytest.mark.parametrize("strict", [*product([False, True], [False, True])], ids=str)
def test_two_shifted_bounds(forms, strict):
    for low, high in [(-5.0, 5.0), (0.1, 0.3), (-0.1, 0.0), (-1e16, TINY), (1.0, 1.7e308)]:
        check_doubles(end(low, forms[0], strict=strict[0]), end(high, forms[1], strict=strict[1]))


@pytest.mark.parametrize("nan_passes", [*product([False, True], [False, True])], ids=str)
@pytest.mark.parametrize("strict", [*product([False, True], [False, True])], ids=str)
def test_two_bounds_on_the_difference(nan_passes, strict):
    for low, high in [(-5.0, 5.0), (0.1, 0.3), (-0.1, 0.0), (-1e16, TINY), (1.0, 1.7e308)]:
        check_doubles(
            end(low, DIFFERENCE, False, strict[0], nan_passes[0]),
            end(high, DIFFERENCE, False, strict[1], nan_passes[1]),
        )


@settings(max_examples=150)
@given(
    pool=st.lists(st.floats(), min_size=1, max_size=6),
    bound=st.floats(allow_nan=False, allow_infinity=False),
    near=st.integers(-3, 3),
    form=st.sampled_from(sorted(FORMS.values())),
    strict=st.booleans(),
    is_high=st.booleans(),
)
def test_random_doubles_and_their_neighbours(pool, bound, near, form, strict, is_high):
    # Add values around the one where the comparison changes its answer.
    for probe in list(pool):
        edge = probe - bound
        for _ in range(abs(near)):
            edge = math.nextafter(edge, inf if near > 0 else -inf)
        pool.append(edge)
    spec = end(bound, form, False, strict, False)
    check_doubles(*((ABSENT, spec) if is_high else (spec, ABSENT)), pool=pool)


def test_the_example_in_the_docstring():
    keys = encode_doubles(np.array([0.3]))
    lower, upper = np.empty_like(keys), np.empty_like(keys)
    double_ranges(keys, ABSENT, end(0.1, DIFFERENCE), lower, upper)
    assert lower[0] == encode_doubles(np.array([0.19999999999999998]))[0]


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(-10, 10), st.integers(-2, 6)).map(lambda each: (each[0], sum(each))),
        min_size=1,
        max_size=5,
    )
)
def test_disjoint_ranges_cover_the_same_keys_once(ranges):
    # Ascending at both ends, as the ranges of one band are; empty ones anywhere.
    full = sorted(each for each in ranges if each[0] <= each[1])
    tops = [max(high for _, high in full[: place + 1]) for place in range(len(full))]
    full = [(low, top) for (low, _), top in zip(full, tops, strict=True)]
    check_disjoint([*full, (MAX_KEY, MIN_KEY)])


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(-10, 10), st.integers(-10, 10)), min_size=1, max_size=5))
def test_ranges_in_any_order_are_made_disjoint(ranges):
    check_disjoint(ranges)


def check_disjoint(ranges):
    arrays = [(np.array([low]), np.array([high])) for low, high in ranges]
    cut = make_disjoint(arrays)
    for key in range(-15, 20):
        covered = sum(bool(lower[0] <= key <= upper[0]) for lower, upper in cut)
        assert covered == any(low <= key <= high for low, high in ranges)
