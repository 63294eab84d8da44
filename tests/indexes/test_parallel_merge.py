"""Merging side by side gives what merging by one thread gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.indexes import sorted_run
from streamjoin.indexes.bi_sort import BISort
from streamjoin.indexes.parallel_merge import merge_parallel
from streamjoin.indexes.sorted_run import merge_into

KEYS = st.lists(st.integers(-4, 4), max_size=40).map(sorted)


def arrays(old, new):
    keys = np.zeros(len(old) + len(new), np.int64)
    row_ids = np.zeros(keys.size, np.int32)
    keys[: len(old)], row_ids[: len(old)] = old, np.arange(len(old))
    return keys, row_ids


@given(old=KEYS.filter(len), new=KEYS, pieces=st.integers(1, 6))
def test_any_pieces_make_the_same_run(old, new, pieces):
    batch = np.array(new, np.int64), np.arange(100, 100 + len(new), dtype=np.int32)
    one, many = arrays(old, new), arrays(old, new)
    merge_into(*one, len(old), *batch)
    merge_parallel(*many, len(old), *batch, min(pieces, len(old)))
    assert np.array_equal(one[0], many[0])
    assert np.array_equal(one[1], many[1])


@pytest.mark.parametrize("threads", [2, 3])
def test_large_runs_are_merged_side_by_side(threads, monkeypatch):
    monkeypatch.setattr(sorted_run, "PIECE", 1000)
    random = np.random.default_rng(threads)
    index = BISort(buffer_capacity=64, threads=threads)
    for first in range(0, 50_000, 5000):
        keys = np.sort(random.integers(0, 10_000, 5000))
        index.insert(keys, np.arange(first, first + 5000, dtype=np.int32))
        index.check()
