"""Keys of rows in tumbling windows: which window a row is in, and what is equal inside it.

The number of the window is the last of a row's equalities. Inside one window it tells nothing, and
rows are joined by the equalities before it.
"""

from collections.abc import Mapping

import numpy as np

from streamjoin.kernels.compile import Keys, Positions
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import JoinPlan, KeyColumns
from streamjoin.plans.prepared import Prepared

WINDOW = -1  # the place of the window's number among a row's equalities
Places = slice | Positions


def window_numbers(batch: Prepared) -> Keys:
    """Return the numbers of the windows that rows are in."""
    return batch.keys.equalities[WINDOW]


def group_by_window(batches: Mapping[Side, Prepared]) -> list[tuple[int, dict[Side, Places]]]:
    """Tell which of the rows that are kept are in which window, oldest first; they stay in order.

    A slice has all of them.
    """
    parts: dict[int, dict[Side, Places]] = {}
    for side, each in batches.items():
        batch = each.stored
        if not len(batch):
            continue
        numbers = window_numbers(batch)
        if numbers.min() == numbers.max():
            parts.setdefault(int(numbers[0]), {})[side] = slice(None)
            continue
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for rows in np.split(order, cuts):
            parts.setdefault(int(numbers[rows[0]]), {})[side] = rows
    return sorted(parts.items())


def word_keys(plan: JoinPlan, keys: KeyColumns) -> tuple[Keys, bool]:
    """Return one key a row for all equalities, and whether equal ones mean that all hold."""
    if not plan.equalities:
        return np.zeros(keys.rows, np.int64), True
    if len(plan.equalities) == 1 and plan.equalities[0].exact:
        return keys.equalities[0], True
    return plan.hash_equalities(keys), False


def first_keys(keys: KeyColumns, plan: JoinPlan) -> KeyColumns:
    """Return as many equalities as a plan has, and the ranges."""
    return KeyColumns(keys.equalities[: len(plan.equalities)], keys.ranges, keys.rows)
