"""Ranks of right rows by a key, and of those that are level by their columns.

::

    key        5   3   5   5        rank  1   0   1   1
    columns    b   .   a   b        rank  2   0   1   2     equal rows keep the same rank

Columns are compared as everywhere (`outcomes.contents`), and only where keys are level.
"""

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.contents import number_rows
from streamjoin.kernels.compile import Flags, Keys
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.batches import take_rows


def rank_rows(keys: Keys, rows: pa.RecordBatch) -> Keys:
    """Return how many rows come before each one and its equals: by its key, then its columns."""
    ordered, order = sort_with_rows(keys)
    ranks = np.empty(keys.size, np.int64)
    ranks[order] = first_of_runs(ordered[1:] != ordered[:-1], keys.size)
    level = np.flatnonzero(np.bincount(ranks, minlength=keys.size)[ranks] > 1)
    if not level.size:
        return ranks
    within, before = number_rows(take_rows(rows, level)), ranks[level]
    by_both = np.lexsort((within, before))
    within, before = within[by_both], before[by_both]
    begins = before[1:] != before[:-1]
    of_key = first_of_runs(begins, level.size)
    of_row = first_of_runs(begins | (within[1:] != within[:-1]), level.size)
    ranks[level[by_both]] = before + of_row - of_key
    return ranks


def first_of_runs(begins: Flags, size: int) -> Keys:
    """Return where the run of each row begins; ``begins`` tells it of all rows but the first."""
    firsts = np.zeros(size, np.int64)
    firsts[1:] = np.where(begins, np.arange(1, size), 0)
    return np.maximum.accumulate(firsts)
