"""Aggregates as a reduction: the rows of closed sets of left rows.

::

    left, right --- matches are ranges? ---- yes ---- `Aggregation.over_ranges`
                            |
                            no, or something is taken of both rows of a pair
                            |
                            +---------- pairs, in blocks ---- `PairStates`

A block of pairs gets states of its own, which are merged into those of all left rows; see `states`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.aggregates.aggregation import PAIRS, Aggregated, Aggregation, Key
from streamjoin.joins.outcomes.aggregates.edges import Edges, keys_of_times
from streamjoin.joins.outcomes.aggregates.ranges import find_ranges, gives_ranges
from streamjoin.joins.outcomes.aggregates.states import State, number_runs
from streamjoin.joins.outcomes.outcome import Outcome
from streamjoin.joins.outcomes.reduction import Deliver, Reducer, Sides, Store, places_of_left
from streamjoin.joins.pairs.candidates import (
    Found,
    columns_of_pairs,
    confirm_pairs,
    rows_of_pairs,
)
from streamjoin.joins.pairs.deliver import Delivery
from streamjoin.kernels.compile import Keys, Positions, RowIds
from streamjoin.keys.operands import Side
from streamjoin.plans.batches import take_rows
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared

NameLefts = Callable[[Found, RowIds, RowIds], RowIds | Keys]


@dataclass(frozen=True)
class PairStates:
    """Aggregates from pairs; entry i is of the left row ``lefts[i]``."""

    lefts: Keys
    states: dict[Key, State]
    edges: dict[Key, Edges]

    @classmethod
    def of(cls, aggregation: Aggregation, lefts: Keys) -> "PairStates":
        """Make empty states for some left rows."""
        return cls(lefts, aggregation.make_states(lefts.size), aggregation.make_edges(lefts.size))

    def merge(self, other: "PairStates", places: Positions) -> None:
        """Add other states, whose entries have these places here."""
        for key, state in self.states.items():
            state.merge(other.states[key], places)
        for key, edge in self.edges.items():
            edge.merge(other.edges[key], places)

    def finish(self, aggregation: Aggregation, left: pa.RecordBatch) -> Aggregated:
        """Return the aggregates of left rows."""
        schema = aggregation.schemas["right"]
        found = {key: edge.found_in_pairs(schema) for key, edge in self.edges.items()}
        return aggregation.finish(left, self.states, found)


def aggregate_pairs(
    aggregation: Aggregation, found: Found, name_lefts: NameLefts
) -> Iterator[PairStates]:
    """Yield the aggregates of each block of pairs; ``name_lefts`` names their left rows."""
    names = {side: aggregation.needed(side) for side in SIDES}
    for probes, rows in confirm_pairs(found):
        runs, lefts = number_runs(name_lefts(found, probes, rows))
        block = PairStates.of(aggregation, lefts)
        both = columns_of_pairs(found, probes, rows, names)
        batches = {str(side): both[side] for side in SIDES}
        block.states[PAIRS].add_pairs(runs, None)
        for key, each in aggregation.by_state.items():
            block.states[key].add_pairs(runs, each.values(**batches))
        for edge in block.edges.values():
            if aggregation.time is None:  # a count window
                keys = keys_of_times(arrivals_of_right(found, probes, rows), None, edge.is_last)
            else:
                keys = keys_of_times(*aggregation.time_keys(both["right"]), edge.is_last)
            chosen = edge.choose_pairs(runs, keys)
            right = rows_of_pairs(found, probes[chosen], rows[chosen], "right")
            edge.add_pairs(runs[chosen], keys[chosen], right)
        yield block


def arrivals_of_right(found: Found, probes: RowIds, rows: RowIds) -> Keys:
    """Return the places of right rows in their stream."""
    if found.batch.side == "left":
        return found.subwindow.ordinals_of(rows)
    assert found.batch.ordinals is not None
    return found.batch.ordinals[probes]


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

    def open_store(self) -> Store:
        """Make an empty store for a count window."""
        raise NotImplementedError
