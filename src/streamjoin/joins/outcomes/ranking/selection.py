"""The best pairs of each left row: the k with the least ranks.

A rank is a row of int64 keys, compared from the first on. Pairs are grouped by their left row, and
of each group the k best are found in one pass, kept in order while it goes on::

    left   5    5    5    7    5        k = 2
    rank   4,0  2,9  7,1  3,3  4,0
    best   2,9  4,0  |  3,3             the last of group 5 is level with the second best

What is level at the k-th place is decided by the columns of the right rows, one after the other as
long as any are level, and fetched for these pairs alone.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.joins.outcomes.ranking.contents import order_of_columns
from streamjoin.kernels.compile import Keys, Positions, RowIds, kernel
from streamjoin.keys.radix_sort import sort_with_rows

Ranks = NDArray[np.int64]  # a row of keys per pair
Fetch = Callable[[Positions, tuple[str, ...]], pa.RecordBatch]  # columns of right rows of pairs
MANY = 16  # best pairs from which on groups are sorted first


@kernel
def compare(ranks: Ranks, one: int, other: int) -> int:
    """Return whether a rank is less than another (-1), level (0) or greater (1)."""
    for column in range(ranks.shape[1]):
        difference = int(ranks[one, column] > ranks[other, column]) - int(
            ranks[one, column] < ranks[other, column]
        )
        if difference:
            return difference
    return 0


@kernel
def choose(
    lefts: Keys, order: RowIds | Positions, ranks: Ranks, k: int
) -> tuple[Positions, Positions, Positions, Positions]:
    """Choose the k best pairs of each group; ``lefts`` ascend, in ``order``.

    Returns the pairs that are chosen, and where more are level than there are seats: these pairs,
    the number of their group, and the seats of each group.
    """
    size = order.size
    chosen, level = np.empty(size, np.int64), np.empty(size, np.int64)
    groups, seats = np.empty(size, np.int64), np.empty(size, np.int64)
    best = np.empty(min(k, size), np.int64)
    chosen_count = level_count = group = 0
    first = 0
    while first < size:
        last = first + 1
        while last < size and lefts[last] == lefts[first]:
            last += 1
        most, held = min(k, last - first), 0
        for place in range(first, last):
            pair = order[place]
            if held == most and compare(ranks, pair, best[held - 1]) >= 0:
                continue
            at = min(held, most - 1)
            while at > 0 and compare(ranks, pair, best[at - 1]) < 0:
                best[at] = best[at - 1]
                at -= 1
            best[at] = pair
            held = min(held + 1, most)
        is_level = 0
        if most < last - first:
            for place in range(first, last):
                is_level += compare(ranks, order[place], best[most - 1]) == 0
        free = most
        while is_level and free and compare(ranks, best[free - 1], best[most - 1]) == 0:
            free -= 1
        if most - free < is_level:  # the others with this rank have as good a claim
            for place in range(first, last):
                if compare(ranks, order[place], best[most - 1]) == 0:
                    level[level_count], groups[level_count] = order[place], group
                    level_count += 1
            seats[group] = most - free
            group += 1
            most = free
        chosen[chosen_count : chosen_count + most] = best[:most]
        chosen_count += most
        first = last
    return chosen[:chosen_count], level[:level_count], groups[:level_count], seats[:group]


def select(lefts: Keys, ranks: Ranks, k: int, schema: pa.Schema, fetch: Fetch) -> Positions:
    """Return the k best pairs of each left row, ordered by left row.

    ``schema`` is that of right rows, which ``fetch`` gives.
    """
    if k > MANY:
        order: RowIds | Positions = np.lexsort((*ranks.T[::-1], lefts))
        ordered = lefts[order]
    elif lefts.size > 1 and (lefts[1:] < lefts[:-1]).any():
        ordered, order = sort_with_rows(lefts)
    else:
        ordered, order = lefts, np.arange(lefts.size)
    chosen, level, groups, seats = choose(ordered, order, ranks, k)
    if not level.size:
        return chosen
    chosen = np.concatenate([chosen, *choose_by_columns(level, groups, seats, schema, fetch)])
    return chosen[np.argsort(lefts[chosen], kind="stable")]


def choose_by_columns(
    level: Positions, groups: Positions, seats: Positions, schema: pa.Schema, fetch: Fetch
) -> Iterator[Positions]:
    """Choose of pairs that are level, column by column, as long as any are; see `choose`."""
    for number_column in order_of_columns(schema):
        numbers = number_column(partial(fetch, level))
        order = np.lexsort((numbers, groups))
        level, groups, numbers = level[order], groups[order], numbers[order]
        begins = np.searchsorted(groups, np.arange(seats.size))
        last = numbers[begins + seats - 1][groups]  # of the pair on the last seat
        is_better, is_level = numbers < last, numbers == last
        yield level[is_better]
        seats = seats - np.bincount(groups[is_better], minlength=seats.size)
        is_settled = np.bincount(groups[is_level], minlength=seats.size) == seats
        yield level[is_level & is_settled[groups]]
        still = is_level & ~is_settled[groups]
        if not still.any():
            return
        numbering = np.cumsum(~is_settled) - 1
        level, groups, seats = level[still], numbering[groups[still]], seats[~is_settled]
    begins = np.searchsorted(groups, np.arange(seats.size))  # equal rows: any of them will do
    yield level[np.arange(level.size) - begins[groups] < seats[groups]]
