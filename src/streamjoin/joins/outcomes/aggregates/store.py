"""Count windows: what is known so far of each left row that is still in its window.

In a count window, pairs come as rows arrive. Left rows are named by their ordinals, and those in
the window are neighbours, so their states are entries of arrays, from the first ordinal on. Rows
that have left the window are forgotten when they are more than the others::

    first 40    entries  40 41 42 43 44 45  .  .        room for more
    take 41     entries  -- -- 42 43 44 45  .  .        40 and 41 are given
    first 44    entries  44 45 46  .                    once 42 and 43 have left, too

Cost: amortized O(1) for a pair, and for a left row. Candidates (text, first, last) have copies of
their right rows: a few per left row at most.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.indexes.saved_tuples import read_numbers, refuse_unless
from streamjoin.joins.outcomes.aggregates.aggregation import Aggregated, Aggregation
from streamjoin.joins.outcomes.aggregates.pair_states import PairStates, aggregate_pairs
from streamjoin.joins.outcomes.reduction import Deliver, ordinals_of_left
from streamjoin.joins.pairs.candidates import Found
from streamjoin.kernels.compile import Keys, Positions
from streamjoin.plans.batches import copy_batch
from streamjoin.plans.prepared import Prepared

LEAST_ROOM = 64  # entries
Give = Callable[[Prepared, Aggregated], Iterator[Any]]  # makes rows of the result


class AggregateStore:
    """The states of left rows; see the module docstring."""

    def __init__(self, aggregation: Aggregation, give: Give) -> None:
        self.aggregation, self.give = aggregation, give
        self.first = self.size = 0  # the first ordinal, and how many are in use
        self.gone = 0  # entries that have been given
        self.states = PairStates.of(aggregation, np.arange(LEAST_ROOM))

    def reduce(self, found: Found) -> Iterator[PairStates]:
        """Yield the aggregates of each block."""
        return aggregate_pairs(self.aggregation, found, ordinals_of_left)

    def add(self, partial: PairStates) -> None:
        """Add those of a block."""
        if not partial.lefts.size:
            return
        first, end = int(partial.lefts.min()), int(partial.lefts.max()) + 1
        if self.size > self.gone:
            first = min(first, self.first + self.gone)
            end = max(end, self.first + self.size)
        if first < self.first or end - self.first > self.states.lefts.size or not self.size:
            self._lay_out(first, end)
        self.size = max(self.size, end - self.first)
        self.states.merge(partial, partial.lefts - self.first)

    def _lay_out(self, first: int, end: int) -> None:
        """Begin at another ordinal, with room for twice the entries up to the last one."""
        held = np.arange(self.gone, self.size)
        kept = self.states.take(self.aggregation, held)
        room = max(2 * (end - first), LEAST_ROOM)
        self.states = PairStates.of(self.aggregation, np.arange(room))
        self.states.merge(kept, held + (self.first - first))
        self.first, self.size, self.gone = first, end - first, 0

    def take(self, left: Prepared, deliver: Deliver) -> Iterator[Any]:
        """Give left rows that have left their window, and forget them; their ordinals ascend."""
        assert left.ordinals is not None
        entries = left.ordinals - self.first
        known = np.flatnonzero((entries >= self.gone) & (entries < self.size))
        found = self.states.take(self.aggregation, entries[known])
        part = left.take(known)
        aggregated = found.finish(self.aggregation, part.rows)  # what fails does so here
        self.gone = max(self.gone, min(int(entries[-1]) + 1, self.size))
        if 2 * self.gone > self.states.lefts.size - LEAST_ROOM:
            self._lay_out(self.first + self.gone, self.first + self.size)
        return self.give(part, aggregated)

    @property
    def nbytes(self) -> int:
        """Bytes of all states."""
        return self.states.nbytes

    def _entries(self) -> Positions:
        """Return the entries that have pairs."""
        counts = self.states.arrays[0][self.gone : self.size]
        return np.flatnonzero(counts) + self.gone

    @property
    def saved(self) -> dict[str, pa.RecordBatch]:
        """All entries that have pairs, and their candidates."""
        entries = self._entries()
        if not entries.size:
            return {}
        kept = self.states.take(self.aggregation, entries)
        columns = {"left": entries + self.first}
        columns |= {str(place): array for place, array in enumerate(kept.arrays)}
        files = {"states": pa.record_batch(columns)}
        for name, candidates in kept.candidates.items():
            places, rows = candidates.pick()
            if rows is not None:
                named = pa.array(columns["left"][places])
                files[name] = rows.add_column(0, "left", named)
        return files

    def restore(self, saved: Mapping[str, pa.RecordBatch]) -> None:
        """Go on with entries that were saved; refuse what cannot be."""
        if not saved:
            return
        refuse_unless("states" in saved, "aggregates are missing")
        lefts, *arrays = (np.array(read_numbers(each)) for each in saved["states"].columns)
        refuse_unless(lefts.dtype == np.int64 and lefts.size > 0, "left rows have no numbers")
        refuse_unless(bool((lefts[1:] > lefts[:-1]).all()), "left rows are not in order")
        whole = PairStates.of(self.aggregation, lefts)
        kinds = [each.dtype for each in whole.arrays]
        refuse_unless([each.dtype for each in arrays] == kinds, "there are other aggregates")
        for array, source in zip(whole.arrays, arrays, strict=True):
            array[:] = source
        for name, candidates in whole.candidates.items():
            if name in saved:
                named, rows = saved[name].column(0), saved[name].remove_column(0)
                places = self._places_of(np.array(read_numbers(named)), lefts)
                candidates.add(places, copy_batch(rows))
        self.add(whole)

    def _places_of(self, named: Keys, lefts: Keys) -> Positions:
        """Return where left rows are; refuse those that are not there."""
        places = np.searchsorted(lefts, named)
        inside = np.minimum(places, lefts.size - 1)
        refuse_unless(bool((lefts[inside] == named).all()), "a candidate has no left row")
        return inside

    def check(self) -> None:
        """Assert that only entries in use have pairs; tests call this after every step."""
        counts = self.states.arrays[0]
        assert 0 <= self.gone <= self.size <= counts.size
        assert not counts[self.size :].any()
