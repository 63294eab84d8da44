"""The aggregates of a join, bound to its schemas: their states, and their columns in the end.

What an aggregate is taken of is evaluated once per right row over ranges, and once per pair
otherwise. If that fails for a right row, by a division by zero for instance, pairs decide whether
it matters: only rows that match do. Aggregates that need the same state share it: ``sum(r.x)`` and
``avg(r.x)`` one sum.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.errors import EvaluationError, SchemaError
from streamjoin.expressions.aggregates import parse_aggregates
from streamjoin.expressions.datatypes import as_spark
from streamjoin.joins.outcomes.aggregates.binding import EDGES, BoundAggregate
from streamjoin.joins.outcomes.aggregates.edges import Edges, keys_of_times
from streamjoin.joins.outcomes.aggregates.ranges import Ranges, Sides, cut
from streamjoin.joins.outcomes.aggregates.states import Counts, State
from streamjoin.kernels.compile import Flags, Keys, Positions, RowIds
from streamjoin.kernels.threads import share
from streamjoin.keys.bound_terms import validity
from streamjoin.keys.operands import Schemas, Side
from streamjoin.keys.sort_keys import encode
from streamjoin.plans.batches import take_array, take_rows
from streamjoin.plans.binding import time_kind

Key = tuple[str, ...]  # of a state: see `BoundAggregate.state`
PAIRS = ("count", "*")  # the state that counts pairs


@dataclass(frozen=True)
class Aggregated:
    """How many matches left rows have, and their aggregates."""

    counts: Keys
    columns: list[pa.Array]


@dataclass(frozen=True)
class Aggregation:
    """The aggregates of a join; ``time`` is the right column that the first and last go by."""

    aggregates: tuple[BoundAggregate, ...]
    schemas: Schemas
    time: str | None = None

    @classmethod
    def bind(
        cls, pairs: Iterable[tuple[str, str]], schemas: Schemas, time: tuple[str, str] | None
    ) -> "Aggregation":
        """Read aggregates, and bind them to the schemas."""
        bound = tuple(BoundAggregate.bind(each, schemas) for each in parse_aggregates(pairs))
        for each in bound:
            if each.name in schemas["left"].names:
                raise SchemaError(
                    f"the aggregate {each.text} adds a column {each.name!r}, and the left input "
                    "has one already; give the aggregate another name"
                )
        if time is not None:
            time_kind(schemas["right"], time[1], "right")
        return cls(bound, schemas, None if time is None else time[1])

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of the aggregates."""
        return [each.field for each in self.aggregates]

    def of_nothing(self, count: int) -> list[pa.Array]:
        """Return the aggregates of so many rows that match nothing."""
        return [
            pa.array(np.zeros(count, np.int64))
            if each.function == "count"
            else pa.nulls(count, each.field.type)
            for each in self.aggregates
        ]

    @cached_property
    def by_state(self) -> dict[Key, BoundAggregate]:
        """One aggregate for each state that takes values."""
        taking = (each for each in self.aggregates if each.function not in EDGES)
        return {each.state: each for each in taking if each.argument is not None}

    @cached_property
    def edge_keys(self) -> list[Key]:
        """The states that look for the first and the last match, if these are asked for."""
        return sorted({each.state for each in self.aggregates if each.function in EDGES})

    def make_states(self, size: int) -> dict[Key, State]:
        """Make the states of so many left rows, without those that look for matches."""
        made = {key: each.make_state(size) for key, each in self.by_state.items()}
        return {PAIRS: Counts(size), **made}

    def make_edges(self, size: int) -> dict[Key, Edges]:
        """Make what looks for the first and the last match of so many left rows."""
        return {key: Edges(size, is_last=key == ("last",)) for key in self.edge_keys}

    def needed(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that pairs are aggregated by; one at least, to count."""
        used = [pair for each in self.by_state.values() for pair in each.columns]
        names = {name for alias, name in used if alias == side[0]}
        if side == "right" and self.edge_keys and self.time is not None:
            names.add(self.time)
        return tuple(sorted(names)) or tuple(self.schemas[side].names[:1])

    @property
    def takes_left(self) -> bool:
        """Whether values are taken of left rows too, so that they belong to pairs."""
        return any(side == "l" for each in self.by_state.values() for side, _ in each.columns)

    def time_keys(self, right: pa.RecordBatch) -> tuple[Keys, Flags | None]:
        """Return the times of right rows as keys, and which of them have one."""
        assert self.time is not None
        values = as_spark(right[self.time])
        return encode(values), validity(values)

    def evaluate_right(self, right: pa.RecordBatch) -> dict[Key, pa.Array] | None:
        """Evaluate what aggregates are taken of, for all right rows; None if some have no answer.

        These may be rows that match nothing.
        """
        found: dict[tuple[str, pa.DataType], pa.Array] = {}
        try:
            for key, each in self.by_state.items():
                if (key[1], each.taken) not in found:
                    found[key[1], each.taken] = each.values(right=right)
        except EvaluationError:
            return None
        return {key: found[key[1], each.taken] for key, each in self.by_state.items()}

    def over_ranges(
        self, sides: Sides, ranges: Ranges, values: Mapping[Key, pa.Array], threads: int
    ) -> Aggregated:
        """Aggregate values of right rows over ranges of an order of them."""
        left, right = sides["left"].rows, sides["right"].rows
        states, edges = self.make_states(len(left)), self.make_edges(len(left))
        every: dict[Key, Any] = {**states, **edges}

        def put_in_order(array: pa.Array) -> pa.Array:
            return take_array(array, ranges.order)

        arrays = {id(array): array for array in values.values()}  # several may take the same
        ordered = share(put_in_order, list(arrays.values()), threads)
        by_source = dict(zip(arrays, ordered, strict=True))

        def build(key: Key) -> Any:
            if key in values:
                return states[key].index(by_source[id(values[key])])
            if key in edges:
                keys = keys_of_times(*self.time_keys(right), edges[key].is_last)
                return edges[key].index(keys, right, ranges.order)
            return None

        indexes = dict(zip(every, share(build, list(every), threads), strict=True))

        def fill(rows: RowIds) -> None:
            for starts, ends in zip(ranges.starts, ranges.ends, strict=True):
                for key, state in every.items():
                    state.add_ranges(indexes[key], starts, ends, rows)

        share(fill, cut(ranges.lefts, threads), threads)
        found = {}
        for key, edge in edges.items():
            places, rows = edge.found_in_ranges()
            found[key] = (places, take_rows(right, rows))
        return self.finish(left, states, found)

    def finish(
        self,
        left: pa.RecordBatch,
        states: Mapping[Key, Any],
        found: Mapping[Key, tuple[Positions, pa.RecordBatch]],
    ) -> Aggregated:
        """Turn states into columns; ``found`` are first and last matches, by left rows."""
        columns = []
        for each in self.aggregates:
            if each.function not in EDGES:
                columns.append(each.finish(states[each.state]))
                continue
            places, right = found[each.state]
            values = each.values(left=take_rows(left, places), right=right)
            chosen, missing = np.zeros(len(left), np.int64), np.ones(len(left), np.bool_)
            chosen[places], missing[places] = np.arange(places.size), False
            assert values is not None
            columns.append(values.take(pa.array(chosen, mask=missing)))
        return Aggregated(states[PAIRS].counts, columns)
