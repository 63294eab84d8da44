"""What the states of aggregates have in common: one entry per left row, and how they are filled.

A left row is known by its *place* among those whose aggregates are computed together. A state takes
values by pairs, or by ranges of an order of right rows::

    add_pairs     places [0 0 2]    values [5.0 1.0 7.0]         adds two values to row 0, one to 2
    add_ranges    starts [0 4 4]    ends [3 4 9]                 places in the order, per left row

Pairs come in blocks, in which those of a left row usually follow each other. So a block gets states
of its own, one for each *run* of pairs, which threads fill side by side; they are then merged into
those of all left rows. States over ranges are filled in slices of the left rows instead.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.expressions.values import nulls_of
from streamjoin.kernels.compile import Flags, Keys, Positions, RowIds, kernel

if TYPE_CHECKING:
    from streamjoin.joins.outcomes.aggregates.best_rows import Candidates

Places = RowIds | Positions


@kernel
def count_pairs(places: Places, counts: Keys) -> None:
    """Count the pairs of each left row."""
    for place in places:
        counts[place] += 1


@kernel
def count_set(places: Places, missing: Flags, counts: Keys) -> None:
    """Count the pairs of each left row that have a value."""
    for i in range(places.size):
        counts[places[i]] += not missing[i]


@kernel
def number_runs(places: Places) -> tuple[Positions, Positions]:
    """Number the runs of pairs of one left row; return each pair's, and the left row of each."""
    runs, lefts = np.empty(places.size, np.int64), np.empty(places.size, np.int64)
    count = 0
    for i in range(places.size):
        if i == 0 or places[i] != places[i - 1]:
            lefts[count] = places[i]
            count += 1
        runs[i] = count - 1
    return runs, lefts[:count].copy()


@kernel
def add_at(places: Positions, added: Keys, totals: Keys) -> None:
    """Add numbers to those of left rows, which may be named repeatedly."""
    for i in range(places.size):
        totals[places[i]] += added[i]


@kernel
def add_lengths(rows: RowIds, starts: Positions, ends: Positions, totals: Keys) -> None:
    """Add the lengths of the ranges of some left rows."""
    for row in rows:
        totals[row] += ends[row] - starts[row]


@kernel
def add_differences(
    rows: RowIds, before: Keys, starts: Positions, ends: Positions, totals: Keys
) -> None:
    """Add what prefix sums say of the ranges of some left rows."""
    for row in rows:
        totals[row] += before[ends[row]] - before[starts[row]]


class State(Protocol):
    """One aggregate of each left row; see the module docstring."""

    @property
    def counts(self) -> Keys:
        """How many values there are, without NULL."""
        ...

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """What is known of left rows: arrays of an entry each, in place."""
        ...

    @property
    def candidates(self) -> "Candidates | None":
        """What is known of them besides, if it is not numbers."""
        ...

    def add_pairs(self, places: Places, values: pa.Array) -> None:
        """Add values, one per pair."""
        ...

    def merge(self, other: Any, places: Positions) -> None:
        """Add another state, whose entries are of these left rows."""
        ...

    def index(self, values: pa.Array) -> Any:
        """Build what ranges of these values are looked up in."""
        ...

    def add_ranges(self, index: Any, starts: Positions, ends: Positions, rows: RowIds) -> None:
        """Add the values in the ranges of some left rows."""
        ...


class Counts:
    """How many values there are; without an argument, how many pairs."""

    candidates = None

    def __init__(self, size: int) -> None:
        self.counts = np.zeros(size, np.int64)

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """What is known of left rows."""
        return [self.counts]

    def add_pairs(self, places: Places, values: pa.Array | None) -> None:
        """Count values."""
        if values is None or not values.null_count:
            count_pairs(places, self.counts)
        else:
            count_set(places, nulls_of(values), self.counts)

    def merge(self, other: "Counts", places: Positions) -> None:
        """Add another state, whose entries are of these left rows."""
        add_at(places, other.counts, self.counts)

    def index(self, values: pa.Array | None) -> Keys | None:
        """Count the values before each place of the order; None if none is NULL."""
        if values is None or not values.null_count:
            return None
        before = np.zeros(len(values) + 1, np.int64)
        np.cumsum(~nulls_of(values), out=before[1:])
        return before

    def add_ranges(
        self, index: Keys | None, starts: Positions, ends: Positions, rows: RowIds
    ) -> None:
        """Count the values in ranges."""
        if index is None:
            add_lengths(rows, starts, ends, self.counts)
        else:
            add_differences(rows, index, starts, ends, self.counts)
