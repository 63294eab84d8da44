"""Words: a code that equal keys share, and other keys do not where that is promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.errors import StreamJoinError
from streamjoin.joins.equality.words import BASE, MOST_ROWS, encode, make_words, rows_of
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.hashing import process_seed, secrets_of
from tests.joins.equality.small_windows import EXTREMES, HALF, LAST, rows
from tests.keys.chosen_keys import keys_of_codes

KEYS = st.lists(
    st.one_of(st.integers(-3, 3), st.sampled_from(EXTREMES), st.integers(MIN_KEY, MAX_KEY)),
    max_size=30,
).map(lambda keys: np.array(keys, np.int64))


def unscramble(code):
    """The number that has a code: that of a code without secrets, and then these backwards."""
    _, summand, factor = (int(each) for each in secrets_of(process_seed(), "words", 3))
    [bits] = keys_of_codes([code])
    return bits * pow(factor, -1, 2**32) % 2**32 ^ summand >> 32


@given(left=KEYS, right=KEYS)
def test_equal_keys_have_equal_codes_and_exact_codes_are_those_of_one_key(left, right):
    words = encode(left, right)
    keys = [*left.tolist(), *right.tolist()]
    codes = np.concatenate([words.left, words.right]) >> HALF
    of_key = dict(zip(keys, codes.tolist(), strict=True))
    assert [of_key[key] for key in keys] == codes.tolist()
    assert words.exact == (not keys or max(keys) - min(keys) <= LAST)
    if words.exact:
        assert len(set(of_key.values())) == len(of_key)
    assert rows(words.left).tolist() == list(range(left.size))
    assert rows(words.right).tolist() == list(range(right.size))


@pytest.mark.parametrize("base", [MIN_KEY, -1, 0, MAX_KEY - LAST])
def test_exact_codes_are_those_of_32_bits_above_the_least_key(base):
    inside = np.array([base, base + 1, base + 2**31, base + LAST])
    assert encode(inside, inside[1:]).exact
    if base + LAST < MAX_KEY:
        assert not encode(inside, np.array([base + LAST + 1])).exact


def test_both_ends_of_all_keys():
    ends = np.array([MIN_KEY, MAX_KEY])
    words = encode(ends, ends[::-1].copy())
    assert not words.exact
    assert (words.left >> HALF).tolist() == (words.right >> HALF).tolist()[::-1]


def test_keys_whose_lower_halves_are_equal():
    words, exact = make_words(np.arange(1000) << 32, base=0)
    assert not exact
    assert np.unique(words >> HALF).size == 1000


def test_codes_that_are_all_zeros_or_all_ones():
    codes = [0, 1, 2**31, LAST - 1, LAST]
    keys = np.array([unscramble(code) for code in codes])
    words, exact = make_words(keys, base=0)
    assert exact
    assert (words >> HALF).tolist() == codes


def test_the_base_for_keys_to_come():
    words, exact = make_words(np.array([-(2**31), 2**31 - 1]))
    assert exact
    assert (words >> HALF).tolist() == (
        encode(np.array([0, LAST]), np.array([0])).left >> HALF
    ).tolist()
    for key in (BASE - 1, -BASE):
        assert not make_words(np.array([key]))[1]


def test_rows_go_on_counting():
    keys = np.array([5, 5, 7])
    whole, _ = make_words(keys)
    words, _ = make_words(keys, first=MOST_ROWS - 3)
    assert (words >> HALF).tolist() == (whole >> HALF).tolist()
    assert rows_of(words).tolist() == [MOST_ROWS - 3, MOST_ROWS - 2, MOST_ROWS - 1]


def test_rows_that_cannot_be_numbered_are_refused():
    with pytest.raises(StreamJoinError, match="2,147,479,553 rows or more"):
        make_words(np.array([1, 2, 3]), first=MOST_ROWS - 2)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_rows_are_a_view(size):
    words, _ = make_words(np.zeros(size, np.int64), first=3)
    view = rows_of(words)
    assert view.tolist() == list(range(3, 3 + size))
    assert view.dtype == np.int32
    assert size == 0 or np.shares_memory(view, words)
    assert rows_of(words[1:]).tolist() == list(range(4, 3 + size))


def test_sorted_words_are_by_code_and_then_by_row():
    random = np.random.default_rng(2)
    words, _ = make_words(random.integers(0, 20, 300))
    by_code = np.argsort(words >> HALF, kind="stable")
    assert np.array_equal(np.sort(words), words[by_code])
