"""Merging gives one ascending run, whatever the pieces, with equal keys in the order they came."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.indexes.runs import run_merge as merging
from streamjoin.indexes.runs.bi_sort import BISort

KEYS = st.lists(st.integers(-4, 4), max_size=40).map(sorted)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(merging, "PIECE_TUPLES", 1)


@given(old=KEYS.filter(len), new=KEYS, threads=st.integers(1, 6))
def test_any_pieces_make_the_same_run(old, new, threads):
    keys, row_ids = np.zeros(len(old) + len(new), np.int64), np.zeros(len(old) + len(new), np.int32)
    keys[: len(old)], row_ids[: len(old)] = old, np.arange(len(old))
    ids = np.arange(len(old), keys.size, dtype=np.int32)
    merging.merge(keys, row_ids, len(old), np.array(new, np.int64), ids, threads)
    every = np.array([*old, *new], np.int64)
    order = np.argsort(every, kind="stable")
    assert np.array_equal(keys, every[order])
    assert np.array_equal(row_ids, order)


@pytest.mark.parametrize("threads", [2, 3])
def test_many_batches(threads):
    random = np.random.default_rng(threads)
    index = BISort(buffer_capacity=64, threads=threads)
    for first in range(0, 50_000, 5000):
        keys = np.sort(random.integers(0, 10_000, 5000))
        index.insert(keys, np.arange(first, first + 5000, dtype=np.int32))
        index.check()
