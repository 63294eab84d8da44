"""The joined rows of one core in order: matches stay ranges first, and are fetched by arrival.

::

    found     L -> right chain, R -> left chain, R -> L     all of a micro-batch, as ranges
    cuts      arrivals 0 .. 4711 | .. 9001 | ..             about a million candidates each
    rows      of one cut: fetched, sorted by the order columns, sent on

Memory is bounded: a range per row and subwindow, and the joined rows of one cut, which exceeds its
size only if a single row has more matches.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

import pyarrow as pa

from streamjoin.joins.executor import Batches, Deliver
from streamjoin.joins.messages import Step
from streamjoin.joins.ordering.arranging import compose_keys
from streamjoin.joins.pairs.deliver import Delivery, leave_in_place
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.split.core import cut_by_arrival, select_arrivals
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.options.ordering import Ordering
from streamjoin.plans.batches import in_one_piece, take_rows


class OrderedManager(Manager):
    """A manager that delivers the matches of a step in order, with the order columns."""

    def __init__(self, *others: Any, ordering: Ordering) -> None:
        super().__init__(*others)
        self.ordering = ordering

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Find matches as a `Manager` does, and fetch them by arrival."""
        deliver = deliver or self.deliver
        everything = list(super().probe(batches, interleaved, leave_in_place))
        arrivals = [each.batch.arrivals for each in everything]
        first = min((int(each[0]) for each in arrivals), default=0)
        last = max((int(each[-1]) for each in arrivals), default=0) + 1
        step = Step(0, batches, first=first, last=last)
        cuts = cut_by_arrival(step, everything, self.plan.limits)
        for low, high in pairwise([first, *cuts]):
            begin = perf_counter()
            found = (
                [select_arrivals(each, low, high) for each in everything]
                if cuts[1:]
                else everything
            )
            deliveries = [delivery for each in found for delivery in deliver(each)]
            pieces = [rows for delivery in deliveries for rows in delivery.rows]
            rows = [sort_rows(pieces, self.ordering)] if pieces else []
            self.seconds["probe"] += perf_counter() - begin
            pairs = tuple(each for delivery in deliveries for each in delivery.pairs)
            yield Delivery(sum(delivery.matches for delivery in deliveries), rows, pairs=pairs)


def sort_rows(pieces: Sequence[pa.RecordBatch], ordering: Ordering) -> pa.RecordBatch:
    """Return joined rows as one batch, sorted by their order columns."""
    rows = in_one_piece(pieces, pieces[0].schema)
    columns = [rows.column(name).to_numpy() for name in ordering.names]
    _, order = sort_with_rows(columns[0] if len(columns) == 1 else compose_keys(*columns))
    return take_rows(rows, order)
