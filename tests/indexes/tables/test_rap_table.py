"""RaP-Table: how splitters follow the keys of the subwindow before, and where they cannot."""

import numpy as np
import pytest

from streamjoin.indexes.tables.rap_table import PARTITION_TUPLES, RaPTable
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

SIZE, PARTITIONS = 65_536, 1_024
FULL = np.linspace(0, 2**32, PARTITIONS + 1)[1:-1].astype(np.int64)


def fill(index, keys):
    for batch in np.array_split(keys, 16):
        rows = np.arange(len(index), len(index) + batch.size, dtype=np.int32)
        index.insert(np.sort(batch), rows)
    index.check()
    return index


def error(index):
    """The normalised mean absolute error of the partition sizes: 0 if all are alike."""
    counts = index.histogram.counts
    return float(np.abs(counts / counts.mean() - 1).mean())


def uniform(random):
    return random.integers(2**20, 2**20 + 2**16, SIZE)


def two_hills(random):
    hills = random.choice([2**30, 3 * 2**30], SIZE)
    return (hills + random.normal(0, 2**22, SIZE)).astype(np.int64)


def rank_size(random):
    """99 % of the keys lie in 1 % of their range."""
    ranks = random.pareto(1.16, SIZE)
    return (np.minimum(ranks, 1e5) / 1e5 * 2**20).astype(np.int64)


@pytest.mark.parametrize("draw", [uniform, two_hills])
def test_three_adjustments_are_enough(draw):
    random = np.random.default_rng(1)
    index = RaPTable(SIZE, PARTITIONS, FULL)
    errors = []
    for _ in range(5):
        errors.append(error(fill(index, draw(random))))
        index = index.successor(SIZE)
    assert errors[0] > 1
    assert max(errors[3:]) < 0.15


def test_keys_of_a_rank_size_distribution():
    random = np.random.default_rng(2)
    index = RaPTable(SIZE, PARTITIONS, FULL)
    errors = []
    for _ in range(6):
        errors.append(error(fill(index, rank_size(random))))
        index = index.successor(SIZE)
    assert errors[3] < 1.1 * min(errors[4:])


def test_the_first_table_learns_while_it_grows():
    random = np.random.default_rng(3)
    index = fill(RaPTable(), uniform(random))
    assert index.partitions >= SIZE // PARTITION_TUPLES // 2
    assert error(index) < 0.5


def test_rising_keys_fall_beyond_the_splitters():
    index = fill(RaPTable(), np.arange(SIZE))
    following = fill(index.successor(SIZE), np.arange(SIZE, 2 * SIZE))
    assert following.histogram.counts[-1] == SIZE


@pytest.mark.parametrize("key", [MIN_KEY, 0, MAX_KEY])
def test_an_adjustment_that_knows_one_key_only(key):
    index = fill(RaPTable(), np.full(5000, key)).successor(5000)
    fill(index, np.full(5000, key))
    random = np.random.default_rng(4)
    following = fill(index.successor(5000), random.integers(-1000, 1000, 5000))
    assert len(following) == 5000


def test_an_adjustment_over_empty_partitions():
    random = np.random.default_rng(5)
    index = fill(RaPTable(SIZE, PARTITIONS, FULL), np.repeat([2**31, 2**31 + 1], SIZE // 2))
    assert np.count_nonzero(index.histogram.counts) <= 2
    following = fill(index.successor(SIZE), two_hills(random))
    assert len(following) == SIZE
