"""Aggregates from pairs, which come in blocks: states of left rows, whose entries have names.

A block of pairs gets states of its own, which are merged into those of all left rows; see `states`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.joins.outcomes.aggregates.aggregation import PAIRS, Aggregated, Aggregation, Key
from streamjoin.joins.outcomes.aggregates.best_rows import Candidates
from streamjoin.joins.outcomes.aggregates.edges import Edges, keys_of_times
from streamjoin.joins.outcomes.aggregates.states import State, number_runs
from streamjoin.joins.pairs.candidates import (
    Found,
    columns_of_pairs,
    confirm_pairs,
    rows_of_pairs,
)
from streamjoin.kernels.compile import Keys, Positions, RowIds
from streamjoin.plans.plan import SIDES

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

    def take(self, aggregation: Aggregation, chosen: Positions) -> "PairStates":
        """Return the states of some left rows, as copies."""
        taken = PairStates.of(aggregation, self.lefts[chosen])
        for key, state in self.states.items():
            for array, source in zip(taken.states[key].arrays, state.arrays, strict=True):
                array[:] = source[chosen]
        for name, candidates in self.candidates.items():
            taken.candidates[name].take(candidates, chosen)
        return taken

    @property
    def candidates(self) -> dict[str, Candidates]:
        """All candidates, by names that are good for files."""
        found = [state.candidates for state in self.states.values()]
        found += [edge.candidates for edge in self.edges.values()]
        return {f"rows {place}": each for place, each in enumerate(found) if each is not None}

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """All arrays of the states."""
        return [array for state in self.states.values() for array in state.arrays]

    @property
    def nbytes(self) -> int:
        """Bytes of all states."""
        arrays = sum(array.nbytes for array in self.arrays)
        return arrays + sum(each.nbytes for each in self.candidates.values())

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
        block.states[PAIRS].add_pairs(runs, None)
        if not (aggregation.by_state or block.edges):
            yield block
            continue
        both = columns_of_pairs(found, probes, rows, names)
        batches = {str(side): both[side] for side in SIDES}
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
