"""Ranks of right rows by a key, and of those that are level by their columns.

::

    key        5   3   5   5        rank  1   0   1   1
    columns    b   .   a   b        rank  2   0   1   2     equal rows keep the same rank

Columns are compared as everywhere (`ranking.contents`), and only where keys are level.
"""

from functools import partial

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.ranking.contents import order_of_columns
from streamjoin.kernels.compile import Flags, Keys, RowIds
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.batches import take_rows


def rank_rows(keys: Keys, rows: pa.RecordBatch) -> tuple[Keys, RowIds]:
    """Return how many rows come before each one and its equals, and the rows in this order.

    They are ordered by their keys, then by their columns.
    """
    ordered, order = sort_with_rows(keys)
    ranks = np.empty(keys.size, np.int64)
    ranks[order] = first_of_runs(ordered)
    is_level = find_level(ordered)
    if not is_level.any():
        return ranks, order
    level = order[is_level]
    for number in order_of_columns(rows.schema):
        within = number(partial(take_columns, rows, level))
        before = ranks[level]
        by_both = np.lexsort((within, before))
        level, within, before = level[by_both], within[by_both], before[by_both]
        first = first_of_runs(before)
        ranks[level] = before + first_of_runs(before, within) - first
        level = level[find_level(ranks[level])]
        if not level.size:
            break
    return ranks, sort_with_rows(ranks)[1]


def take_columns(rows: pa.RecordBatch, level: RowIds, names: tuple[str, ...]) -> pa.RecordBatch:
    """Gather some columns of some rows."""
    return take_rows(rows.select(names), level)


def first_of_runs(*ordered: Keys) -> Keys:
    """Return where the run of equal values begins that each place is in; of all arrays together."""
    size = ordered[0].size
    firsts = np.zeros(size, np.int64)
    begins = np.zeros(max(size - 1, 0), np.bool_)
    for values in ordered:
        begins |= values[1:] != values[:-1]
    firsts[1:] = np.where(begins, np.arange(1, size), 0)
    return np.maximum.accumulate(firsts)


def find_level(ordered: Keys) -> Flags:
    """Return which values are equal to a neighbour."""
    is_level = np.zeros(ordered.size, np.bool_)
    is_same = ordered[1:] == ordered[:-1]
    is_level[1:] |= is_same
    is_level[:-1] |= is_same
    return is_level
