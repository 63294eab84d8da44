"""Sketches against exact counts: within the errors that their docstring gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.choice.sketches import PLACES, Sketch

FEW = settings(max_examples=60)
seeds = st.integers(0, 2**32 - 1)
KEY = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 2**32, 2**63 - 1])


def draw(seed, distinct, rows):
    random = np.random.default_rng(seed)
    names = random.integers(-(2**63), 2**63, distinct)
    return names[random.integers(0, distinct, rows)]


def count_pairs(left, right):
    keys, counts = np.unique(left, return_counts=True)
    others, other_counts = np.unique(right, return_counts=True)
    _, one, two = np.intersect1d(keys, others, True, return_indices=True)
    return int(counts[one] @ other_counts[two])


@FEW
@given(seed=seeds, distinct=st.sampled_from([1, 10, 1_000, 4_000, 6_000, 50_000]), each=seeds)
def test_distinct_keys_within_five_standard_errors(seed, distinct, each):
    keys = draw(seed, distinct, distinct * (each % 7 + 1))
    exact = np.unique(keys).size
    assert abs(Sketch.of(keys).distinct - exact) <= max(5 * exact / PLACES**0.5, 2)


@FEW
@given(seed=seeds, share=st.sampled_from([0.02, 0.2, 0.5, 0.99]))
def test_the_heaviest_key_within_a_hundredth(seed, share):
    keys = draw(seed, 1_000_000, 50_000)
    keys[: int(share * keys.size)] = 42
    assert abs(Sketch.of(keys).heaviest - share) < 0.01


@FEW
@given(seed=seeds, overlap=st.sampled_from([0.0, 0.3, 1.0]), repeated=st.integers(1, 9))
def test_matches_of_even_keys_within_a_fifth_of_what_they_may_be(seed, overlap, repeated):
    names = np.random.default_rng(seed).permutation(60_000)
    left = np.repeat(names[:20_000], repeated)
    shift = int((1 - overlap) * 20_000)
    right = np.repeat(names[shift : shift + 20_000], repeated)
    error = abs(Sketch.of(left).matches(Sketch.of(right)) - count_pairs(left, right))
    assert error <= 0.2 * count_pairs(left, left)


@FEW
@given(seed=seeds)
def test_matches_of_keys_that_are_skewed_on_one_side(seed):
    random = np.random.default_rng(seed)
    left, right = np.arange(10_000), np.minimum(random.zipf(1.5, 50_000) - 1, 9_999)
    estimate = Sketch.of(left).matches(Sketch.of(right))
    assert right.size / 3 < estimate < right.size * 3


@given(st.lists(KEY, max_size=60), st.lists(KEY, max_size=60))
def test_keys_may_come_in_parts(some, more):
    keys = [np.array(each, np.int64) for each in (some, more)]
    whole, added = Sketch.of(np.concatenate(keys)), Sketch.of(keys[0])
    added.add(keys[1])
    assert (added.counts == whole.counts).all()
    assert (added.lows == whole.lows).all()
    assert whole.rows == len(some) + len(more)
    assert 0 <= whole.heaviest <= 1
    assert whole.distinct <= 9


def test_an_empty_sketch_knows_nothing():
    empty = Sketch()
    assert (empty.rows, empty.distinct, empty.heaviest) == (0, 0, 0)
    assert empty.matches(Sketch.of(np.arange(10))) == 0
