"""Merging runs, in passes or by a tree of losers, gives what sorting gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.intrawindow.merging import OVER, merge_all, merge_passes

OVER_INT = int(OVER)
HUGE = [OVER_INT - 1, OVER_INT - 2, OVER_INT - 2**31]  # code of ones; the last is the least row
WORDS = st.one_of(st.integers(0, 4), st.sampled_from([*HUGE, 2**63, 2**63 - 1]))
RUNS = st.lists(st.lists(WORDS, max_size=12), min_size=1, max_size=20)


def in_passes(words, starts):
    words, spare = words.copy(), np.zeros_like(words)
    return spare if merge_passes(words, starts, spare) else words


def by_tree(words, starts):
    merged = np.zeros_like(words)
    merge_all(words, starts, merged)
    return merged


both_ways = pytest.mark.parametrize("merge", [in_passes, by_tree])


def merged(merge, runs):
    """Merge runs; look that what they are and where they begin has not changed."""
    starts = np.cumsum([0, *(len(run) for run in runs)])
    words = np.concatenate([np.sort(np.array(run, np.uint64)) for run in runs])
    given = words.copy(), starts.copy()
    result = merge(words, starts)
    assert np.array_equal(words, given[0])
    assert np.array_equal(starts, given[1])
    assert np.array_equal(result, np.sort(words))
    return result


@both_ways
@given(runs=RUNS)
def test_any_runs(merge, runs):
    merged(merge, runs)


@both_ways
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100])
def test_any_number_of_runs(merge, count):
    random = np.random.default_rng(count)
    merged(merge, [random.integers(0, 2**63, random.integers(0, 9)) for _ in range(count)])


@both_ways
def test_runs_without_words(merge):
    for runs in ([[]], [[], []], [[], [], []], [[], [3], []], [[3], [], [], [], [1, 2]]):
        merged(merge, runs)


@both_ways
def test_one_long_run_among_short_ones(merge):
    merged(merge, [[5], range(1000), [], [0, 999], [2000]])


@both_ways
def test_words_that_look_like_the_end_of_a_run(merge):
    merged(merge, [HUGE, [], HUGE, [1], HUGE[:1]])
    assert merged(merge, [[OVER_INT], [], [1, OVER_INT]]).tolist() == [1, OVER_INT, OVER_INT]


def test_the_drawing_in_the_docstring():
    assert merged(by_tree, [[3, 8], [5], [4, 9], [6]]).tolist() == [3, 4, 5, 6, 8, 9]
