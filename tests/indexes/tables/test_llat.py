"""LLAT: chains of entries, and that twice as many entries as partitions are always enough."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.indexes.tables.llat import LLAT, append


def fill(table, owners):
    for row, owner in enumerate(owners):
        append(table.entries, owner, 10 * owner, row)


def rows_of(table, partition):
    return [row for _, rows in table.partition(partition) for row in rows.tolist()]


def test_the_drawing_in_the_docstring():
    table = LLAT(24, 4, slack=1.3)
    assert table.width == 8
    fill(table, [0] * 3 + [1] * 10 + [3])
    table.check()
    assert table.entries.nexts.tolist() == [-1, 4, -1, -1, -1, -1, -1, -1]
    assert table.entries.heads.tolist() == [3, 8, 0, 1, 2, 0, 0, 0]
    assert int(table.entries.pointer[0]) == 5
    assert rows_of(table, 1) == list(range(3, 13))
    assert table.counts.tolist() == [3, 10, 0, 1]


@given(
    partitions=st.integers(1, 12),
    slack=st.floats(1.1, 1.25),
    capacity=st.integers(0, 400),
    data=st.data(),
)
def test_twice_as_many_entries_as_partitions_suffice(partitions, slack, capacity, data):
    table = LLAT(capacity, partitions, slack)
    skewed = st.one_of(st.integers(0, partitions - 1), st.just(0), st.just(partitions - 1))
    owners = data.draw(st.lists(skewed, min_size=capacity, max_size=capacity))
    fill(table, owners)
    table.check()
    for partition in range(partitions):
        assert rows_of(table, partition) == [i for i, own in enumerate(owners) if own == partition]
    keys, rows, ends = table.copy()
    assert sorted(rows.tolist()) == list(range(capacity))
    assert ends[-1] == keys.size == capacity


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
@pytest.mark.parametrize("hot", [1, 2, 7])
def test_the_worst_case_fills_all_but_the_last_entry(partitions, hot):
    """All tuples in as few partitions as possible: no entry is half empty but the last ones."""
    capacity = 1000 * partitions
    table = LLAT(capacity, partitions, slack=1.1)
    fill(table, np.arange(capacity) % min(hot, partitions))
    table.check()
    assert int(table.entries.pointer[0]) <= 2 * partitions
