"""A subwindow whose index is by two range parts at once (SPO-Join).

Rows are sorted by both. Probes are numbered in the order of the second part, so that neighbours
share what they mark, and look for places in the order of the first, where neighbours are near::

    rows of the batch        a  b  c  d
    by the second part       c  a  d  b       numbers  0 1 2 3
    by the first part        a  b  d  c       ranges, and the numbers they belong to: 1 3 2 0
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from streamjoin.indexes.matches import Candidates
from streamjoin.indexes.protocol import CrossedIndex, Sorted
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import RowIds, kernel
from streamjoin.keys.key_ranges import Range
from streamjoin.plans.prepared import Prepared


@dataclass(frozen=True)
class TwoKeyRanges:
    """What some rows of a batch look for."""

    firsts: list[Range]
    numbers: RowIds  # the probe that each range of the first part belongs to
    seconds: list[Range]


@kernel
def number_probes(
    first_order: RowIds, second_order: RowIds, begin: int, end: int
) -> tuple[RowIds, RowIds]:
    """Return which rows are among the probes, in the first order, and their numbers.

    The probes are those from ``begin`` to ``end`` in the second order, numbered from 0.
    """
    places = np.empty(second_order.size, np.int32)
    for place in range(second_order.size):
        places[second_order[place]] = place
    chosen, numbers = np.empty(end - begin, np.int32), np.empty(end - begin, np.int32)
    count = 0
    for i in range(first_order.size):
        place = places[first_order[i]]
        if begin <= place < end:
            chosen[count], numbers[count] = i, place - begin
            count += 1
    return chosen, numbers


@dataclass
class TwoKeySubwindow(Subwindow):
    """Rows, index and key columns, as in any subwindow."""

    index: CrossedIndex

    def insert_tuples(self, orders: list[Sorted], index: Any) -> None:
        """Add tuples to an index, given in both orders of the layout."""
        first, second = orders
        index.insert(first, second)

    def ranges_for(self, batch: Prepared, rows: slice) -> TwoKeyRanges:
        """Return what rows of a batch, in the order of the second part, look for."""
        by_first, by_second = self.layout.orders
        first = batch.sorted_rows(by_first)
        begin, end, _ = rows.indices(len(batch))
        chosen, numbers = number_probes(first.order, batch.sorted_rows(by_second).order, begin, end)
        firsts = batch.plan.index_ranges(
            by_first, batch.side, first.keys[chosen], batch.keys, first.order[chosen]
        )
        return TwoKeyRanges(firsts, numbers, batch.ranges(by_second, rows))

    def probe(self, ranges: Any) -> Iterator[Candidates]:
        """Look in all indexes; nothing is found before it is counted or listed."""
        for first, second in product(ranges.firsts, ranges.seconds):
            for index in self.indexes:
                yield from index.probe(first, ranges.numbers, second)
