"""BI-Sort: when the buffer is merged, and that a match costs nothing until pairs are asked for."""

import numpy as np
import pytest

from streamjoin.indexes.runs.bi_sort import BUFFER_CAPACITY, BISort
from streamjoin.indexes.runs.sorted_run import COARSE_KEYS, FINE_KEYS, PAD, SortedRun
from streamjoin.kernels.compile import MAX_KEY


def insert(index, keys):
    keys = np.sort(np.array(keys, np.int64))
    index.insert(keys, np.arange(len(index), len(index) + keys.size, dtype=np.int32))
    index.check()


def test_the_drawing_in_the_docstring():
    index = BISort(buffer_capacity=4)
    insert(index, [1, 3, 3, 7, 9, 12, 14, 20, 21, 25, 30, 41])
    insert(index, [2, 11, 26])
    assert (index.main.size, index.buffer.size) == (12, 3)
    insert(index, [5])
    assert (index.main.size, index.buffer.size) == (16, 0)
    keys = index.to_arrow()["keys"].to_pylist()
    assert keys == [1, 2, 3, 3, 5, 7, 9, 11, 12, 14, 20, 21, 25, 26, 30, 41]


def test_single_tuples_are_merged_once_the_buffer_is_full():
    index, largest = BISort(buffer_capacity=8), 0
    for key in range(100):
        insert(index, [-key])
        largest = max(largest, index.buffer.size)
        assert index.buffer.size < max(8, int(np.sqrt(index.main.size)) + 1)
    assert largest >= 7


def test_a_batch_as_large_as_the_buffer_goes_past_it():
    index = BISort()
    insert(index, range(BUFFER_CAPACITY))
    assert (index.main.size, index.buffer.size) == (BUFFER_CAPACITY, 0)


def test_the_buffer_grows_with_the_square_root_of_the_window():
    index = BISort(buffer_capacity=4)
    insert(index, range(10_000))
    insert(index, range(50))  # sqrt(10,000 * 50) is 707
    assert index.buffer.size == 50


def test_many_small_batches_end_in_one_ascending_run():
    random = np.random.default_rng(3)
    index, keys = BISort(buffer_capacity=16), []
    for size in random.integers(0, 30, 60):
        batch = random.integers(-50, 50, size).tolist()
        keys += batch
        insert(index, batch)
    index.seal()
    assert index.buffer.size == 0
    assert index.to_arrow()["keys"].to_pylist() == sorted(keys)


def test_matches_are_ranges_of_the_index_itself():
    index = BISort(buffer_capacity=4)
    insert(index, range(10_000))
    insert(index, [5, 6])
    lower, upper = np.zeros(3, np.int64), np.array([0, 10, 9_999])
    in_main, in_buffer = index.probe(lower, upper)
    assert np.shares_memory(in_main.row_ids, index.main.row_ids)
    assert np.shares_memory(in_buffer.row_ids, index.buffer.row_ids)
    # Two numbers a probe, whether it matches one tuple or all of them.
    assert in_main.starts.size == in_main.ends.size == lower.size
    assert (in_main.ends - in_main.starts).tolist() == [1, 11, 10_000]
    assert len(in_main) + len(in_buffer) == 1 + 11 + 10_000 + 0 + 2 + 2


def test_an_empty_run_yields_nothing():
    index = BISort(buffer_capacity=4)
    assert list(index.probe(np.zeros(1, np.int64), np.zeros(1, np.int64))) == []
    insert(index, [1])
    assert len(list(index.probe(np.zeros(1, np.int64), np.zeros(1, np.int64)))) == 1


def test_the_buffer_is_searched_right_after_it_was_cleared():
    index = BISort(buffer_capacity=64)
    for start in range(0, 2000, 63):
        insert(index, range(start, start + 63))
        [*found] = index.probe(np.array([0]), np.array([MAX_KEY]))
        assert sum(map(len, found)) == len(index)


def test_sealing_drops_the_slack():
    index = BISort(capacity=100_000)
    insert(index, range(5_000))
    before = index.nbytes
    index.seal()
    assert index.nbytes < before // 10


@pytest.mark.parametrize(
    "capacity",
    [
        1,
        FINE_KEYS - 1,
        FINE_KEYS,
        FINE_KEYS + 1,
        FINE_KEYS * COARSE_KEYS,
        FINE_KEYS * COARSE_KEYS + 1,
    ],
)
def test_a_run_is_padded_at_any_capacity(capacity):
    run = SortedRun(capacity)
    run.check()
    for size in range(1, 3 * PAD):
        run.merge(np.array([MAX_KEY - size]), np.array([size], np.int32))
        run.check()


def test_equal_keys_stay_in_the_order_of_their_arrival():
    run = SortedRun(1)
    for row in range(100):
        run.merge(np.array([row % 3]), np.array([row], np.int32))
    for key in range(3):
        rows = run.row_ids[: run.size][run.keys[: run.size] == key]
        assert np.all(np.diff(rows) > 0)
