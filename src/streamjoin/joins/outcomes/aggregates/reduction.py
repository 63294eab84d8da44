"""Aggregates as a reduction: the rows of closed sets of left rows.

::

    left, right --- matches are ranges? ---- yes ---- `Aggregation.over_ranges`
                            |
                            no, or something is taken of both rows of a pair
                            |
                            +---------- pairs, in blocks ---- `PairStates`

In count windows, pairs come as rows arrive, and go to a store (`store`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.aggregates.aggregation import Aggregated, Aggregation
from streamjoin.joins.outcomes.aggregates.pair_states import PairStates, aggregate_pairs
from streamjoin.joins.outcomes.aggregates.ranges import find_ranges, gives_ranges
from streamjoin.joins.outcomes.aggregates.store import AggregateStore
from streamjoin.joins.outcomes.outcome import Outcome
from streamjoin.joins.outcomes.reduction import Deliver, Reducer, Sides, Store, places_of_left
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivery
from streamjoin.keys.operands import Side
from streamjoin.plans.batches import take_rows
from streamjoin.plans.prepared import Prepared


@dataclass
class AggregateReducer:
    """The aggregates of a closed set of left rows."""

    owner: "Aggregate"
    left: Prepared
    whole: PairStates

    def reduce(self, found: Found) -> Iterator[PairStates]:
        """Yield the aggregates of each block."""
        return aggregate_pairs(self.owner.aggregation, found, places_of_left)

    def add(self, partial: PairStates) -> None:
        """Add those of a block."""
        self.whole.merge(partial, partial.lefts)

    def finish(self, deliver: Deliver) -> Iterator[Delivery]:
        """Give the left rows that have matches, with their aggregates."""
        return self.owner.give(self.left, self.whole.finish(self.owner.aggregation, self.left.rows))


@dataclass(frozen=True)
class Aggregate:
    """Aggregates of all pairs of each left row."""

    aggregation: Aggregation
    outcome: Outcome
    parts: frozenset[int] = frozenset()

    def begin(self, left: Prepared) -> Reducer:
        """Begin with a closed set of left rows."""
        lefts = np.arange(len(left))
        return AggregateReducer(self, left, PairStates.of(self.aggregation, lefts))

    def match(self, sides: Sides, threads: int) -> Iterator[Delivery] | None:
        """Give the rows of the result without a search, if matches are ranges."""
        left, right = sides["left"], sides["right"]
        if left.arrival is not None or self.aggregation.takes_left or not gives_ranges(left.plan):
            return None
        values = self.aggregation.evaluate_right(right.rows)
        if values is None:
            return None
        both: dict[Side, Prepared] = {"left": left, "right": right}
        ranges = find_ranges(both, threads)
        return self.give(left, self.aggregation.over_ranges(both, ranges, values, threads))

    def give(self, left: Prepared, found: Aggregated) -> Iterator[Delivery]:
        """Give the left rows that have matches, with their aggregates."""
        rows, columns = left.rows, found.columns
        places = np.flatnonzero(found.counts)
        if places.size < len(left):
            rows = take_rows(rows, places)
            columns = [each.take(pa.array(places)) for each in columns]
        if not places.size:
            return
        self.outcome.settle_left(left, places)
        given = self.outcome.aggregated(rows, columns)
        yield Delivery(int(found.counts.sum()), [given])

    def open_store(self, schema: pa.Schema) -> Store:
        """Make an empty store for a count window."""
        return AggregateStore(self.aggregation, self.give)
