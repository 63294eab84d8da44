"""Merging runs, in passes or stretch by stretch, gives what sorting gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.joins.equality.lazy.word_merge import merge_all, merge_passes

LARGEST = 2**64 - 1
HUGE = [LARGEST - 1, LARGEST - 2, LARGEST - 2**31]  # code of ones; the last is the least row
WORDS = st.one_of(st.integers(0, 4), st.sampled_from([*HUGE, 2**63, 2**63 - 1]))
RUNS = st.lists(st.lists(WORDS, max_size=12), min_size=1, max_size=20)


def in_passes(words, starts):
    words, spare = words.copy(), np.zeros_like(words)
    return spare if merge_passes(words, starts, spare) else words


def in_stretches(words, starts, step=3):
    merged = np.zeros_like(words)
    merge_all(words, starts, merged, step)
    return merged


def in_one_stretch(words, starts):
    return in_stretches(words, starts, 1 << 14)


every_way = pytest.mark.parametrize("merge", [in_passes, in_stretches, in_one_stretch])


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


@every_way
@given(runs=RUNS)
def test_any_runs(merge, runs):
    merged(merge, runs)


@every_way
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100])
def test_any_number_of_runs(merge, count):
    random = np.random.default_rng(count)
    merged(merge, [random.integers(0, 2**63, random.integers(0, 9)) for _ in range(count)])


@every_way
def test_runs_without_words(merge):
    for runs in ([[]], [[], []], [[], [], []], [[], [3], []], [[3], [], [], [], [1, 2]]):
        merged(merge, runs)


@every_way
def test_one_long_run_among_short_ones(merge):
    merged(merge, [[5], range(1000), [], [0, 999], [2000]])


@every_way
def test_the_largest_words(merge):
    merged(merge, [HUGE, [], HUGE, [1], HUGE[:1]])
    assert merged(merge, [[LARGEST], [], [1, LARGEST]]).tolist() == [1, LARGEST, LARGEST]


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_a_run_of_equal_words_among_others(step):
    runs = [[7] * 20, [6, 7, 8] * 5, [7] * 3, [1]]
    merged(lambda words, starts: in_stretches(words, starts, step), runs)


def test_the_drawing_in_the_docstring():
    words = merged(lambda words, starts: in_stretches(words, starts, 2), [[3, 8, 11, 17], [5, 12]])
    assert words.tolist() == [3, 5, 8, 11, 12, 17]
