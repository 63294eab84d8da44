"""The first or the last match of each left row, by the time of right rows.

Of matches at the same time, the one counts whose right row comes first by its columns. What
``first`` and ``last`` are taken of is evaluated at the end, over left rows and the right rows that
were found: NULL is a value like others.

Over ranges it is a tree of the ranks of right rows (`row_ranks`), over pairs candidates
(`best_rows`).
"""

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.aggregates.best_rows import Candidates
from streamjoin.joins.outcomes.aggregates.extremes import build_greatest, greatest_in_ranges
from streamjoin.joins.outcomes.aggregates.row_ranks import rank_rows
from streamjoin.joins.outcomes.aggregates.states import Places
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Flags, Keys, Positions, RowIds


def keys_of_times(times: Keys, has_time: Flags | None, is_last: bool) -> Keys:
    """Return keys of which the least is the best; rows without a time come after all others."""
    keys = ~times if is_last else times
    return keys if has_time is None else np.where(has_time, keys, MAX_KEY)


class Edges:
    """The right row that is first, or last, for each left row."""

    def __init__(self, size: int, is_last: bool) -> None:
        self.is_last, self.size = is_last, size
        self.candidates = Candidates(size, rank_candidates, keys_of_candidates)
        self.best = np.full(size, MIN_KEY)  # over ranges
        self._by_rank = np.empty(0, np.int32)

    def choose_pairs(self, places: Places, keys: Keys) -> Positions:
        """Return the pairs of a block that are to be added, by keys of their times."""
        return self.candidates.choose(places, keys)

    def add_pairs(self, places: Places, keys: Keys, right: pa.RecordBatch) -> None:
        """Add pairs, by keys of their times and their right rows."""
        columns = [pa.array(keys), *right.columns]
        names = [str(number) for number in range(len(columns))]
        self.candidates.add(places, pa.RecordBatch.from_arrays(columns, names))

    def merge(self, other: "Edges", places: Positions) -> None:
        """Add another state, whose entries are of these left rows."""
        self.candidates.merge(other.candidates, places)

    def index(self, keys: Keys, right: pa.RecordBatch, order: Places) -> Keys:
        """Build a tree over the ranks of right rows, in an order."""
        ranks, self._by_rank = rank_rows(keys, right)
        return build_greatest(~ranks[order])

    def add_ranges(self, index: Keys, starts: Positions, ends: Positions, rows: RowIds) -> None:
        """Look up the best right row in the ranges of some left rows."""
        greatest_in_ranges(rows, index, starts, ends, self.best)

    def found_in_ranges(self) -> tuple[Positions, Positions]:
        """Return the places of left rows that have a match, and their right rows."""
        places = np.flatnonzero(self.best != MIN_KEY)
        return places, self._by_rank[~self.best[places]]

    def found_in_pairs(self, schema: pa.Schema) -> tuple[Positions, pa.RecordBatch]:
        """Return the places of left rows that have a match, and their right rows."""
        places, rows = self.candidates.pick()
        columns = [pa.array([], each.type) for each in schema] if rows is None else rows.columns[1:]
        return places, pa.RecordBatch.from_arrays(columns, schema=schema)


def keys_of_candidates(rows: pa.RecordBatch) -> Keys:
    """Return the keys of the times of candidates."""
    keys: Keys = rows.column(0).to_numpy()
    return keys


def rank_candidates(rows: pa.RecordBatch) -> Keys:
    """Return the ranks of candidates: by the keys of their times, then by their columns."""
    return rank_rows(keys_of_candidates(rows), rows.remove_column(0))[0]
