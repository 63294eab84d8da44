"""Ranks of right rows by a key, and of those that are level by their columns.

::

    key        5   3   5   5        rank  1   0   1   1
    columns    b   .   a   b        rank  2   0   1   2     equal rows keep the same rank

Columns are compared as everywhere (`outcomes.contents`), and only where keys are level.
"""

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.contents import number_rows
from streamjoin.kernels.compile import Flags, Keys, RowIds
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.batches import take_rows


def rank_rows(keys: Keys, rows: pa.RecordBatch) -> tuple[Keys, RowIds]:
    """Return how many rows come before each one and its equals, and the rows in this order.

    They are ordered by their keys, then by their columns.
    """
    ordered, order = sort_with_rows(keys)
    ranks = np.empty(keys.size, np.int64)
    begins = ordered[1:] != ordered[:-1]
    if begins.all():
        ranks[order] = np.arange(keys.size)
        return ranks, order
    is_level = np.zeros(keys.size, np.bool_)
    is_level[1:] |= ~begins
    is_level[:-1] |= ~begins
    ranks[order] = first_of_runs(begins, keys.size)
    level = order[is_level]
    within, before = number_rows(take_rows(rows, level)), ranks[level]
    by_both = np.lexsort((within, before))
    within, before = within[by_both], before[by_both]
    of_key = before[1:] != before[:-1]
    of_row = of_key | (within[1:] != within[:-1])
    moved = first_of_runs(of_row, level.size) - first_of_runs(of_key, level.size)
    ranks[level[by_both]] = before + moved
    return ranks, sort_with_rows(ranks)[1]


def first_of_runs(begins: Flags, size: int) -> Keys:
    """Return where the run of each row begins; ``begins`` tells it of all rows but the first."""
    firsts = np.zeros(size, np.int64)
    firsts[1:] = np.where(begins, np.arange(1, size), 0)
    return np.maximum.accumulate(firsts)
