"""Fetches the joined rows of a shared join: from row numbers to columns, in order of arrival.

Workers find the numbers of stored rows, entry by entry. Here these become row ids in the window's
present state, the conditions that no index has answered are checked, and the columns of both sides
are fetched.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from streamjoin.indexes.matches import Matches
from streamjoin.joins.executor import Clock
from streamjoin.joins.messages import Step
from streamjoin.joins.ordering.arranging import (
    add_probing_columns,
    arrange,
    fetch_stored,
    interleave,
    name_half,
    places_of,
)
from streamjoin.joins.pairs.candidates import Found, Pairs, checks_of
from streamjoin.joins.pairs.deliver import Delivery
from streamjoin.joins.sliding.whole_window import WholeWindowSubwindow
from streamjoin.kernels.compile import Flags, Keys, Positions, RowIds
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.ordering import Ordering
from streamjoin.plans.prepared import Prepared

ORDERING = Ordering()
NUMBERS: dict[Side, int] = {"left": 0, "right": 1}

# Returns a side's window as it is now, and the number of its first row.
Glimpse = Callable[[Side], tuple[WholeWindowSubwindow, int]]


@dataclass(frozen=True)
class Published:
    """A step on its way: its entries, and what to do when all of them are done."""

    step: Step
    first: int
    last: int
    sides: Positions  # of each entry
    places: RowIds  # in the batch of its side
    row: int  # the number of the first row that the step has stored on the left
    clock: Clock


@dataclass(frozen=True)
class Fetcher:
    """Fetches joined rows; in a ``symmetric`` self-join each match counts in both orders."""

    schema: pa.Schema
    symmetric: bool
    glimpse: Glimpse

    def fetch(
        self,
        published: Published,
        inside: slice,
        starts: Positions,
        ends: Positions,
        rows: Positions,
    ) -> Delivery:
        """Fetch the matches of some entries of one step: ``rows`` from ``starts`` to ``ends``."""
        step, sides, places = published.step, published.sides[inside], published.places[inside]
        joined: list[pa.RecordBatch] = []
        arrivals: list[Keys] = []
        pairs: list[Pairs] = []
        for side, batch in step.batches.items():
            mine = np.flatnonzero(sides == NUMBERS[side])
            if not mine.size or starts[mine[0]] == ends[mine[-1]]:
                continue
            found, dropped = self._found(batch, places[mine], starts[mine], ends[mine], rows)
            roles = [(batch, [found])]
            if self.symmetric:
                others, itself = split_own_matches(found, published.row - dropped)
                roles = [(batch, [others, itself]), (step.batches[OTHER[side]], [others])]
            for role, every in roles:
                halves = [half for each in every for half in fetch_stored(each, ORDERING)]
                if halves:
                    half = arrange(halves, ORDERING)
                    joined.append(add_probing_columns(half, role, ORDERING, self.schema))
                    pairs += name_half(half, role, ORDERING)
                    place = places_of(half, ORDERING)
                    arrivals.append(
                        step.arrivals(side, place) if step.interleaved else place.astype(np.int64)
                    )
        if (step.interleaved or self.symmetric) and len(joined) == 2:
            joined = [interleave(joined, arrivals)]
        return Delivery(sum(each.num_rows for each in joined), joined, pairs=tuple(pairs))

    def _found(
        self, batch: Prepared, places: RowIds, starts: Positions, ends: Positions, rows: Positions
    ) -> tuple[Found, int]:
        """Return what some rows of a batch have found in what their window keeps now."""
        window, dropped = self.glimpse(OTHER[batch.side])
        first, last = int(starts[0]), int(ends[-1])
        row_ids = rows[first:last] - dropped
        # Rows that have left meanwhile were too old to match; other entries' rows do not matter.
        matches = Matches(starts - first, ends - first, np.maximum(row_ids, 0).astype(np.int32))
        if row_ids.min() < 0:
            matches = filter_matches(matches, row_ids >= 0)
        checks = checks_of(replace(batch, arrival=None), window)
        return Found(batch, window, matches, places, checks), dropped


def split_own_matches(found: Found, first: int) -> tuple[Found, Found]:
    """Split off the matches of rows with themselves; ``first`` is row 0's id."""
    matches = found.matches
    assert isinstance(matches, Matches)
    own = np.repeat(first + found.order, matches.ends - matches.starts)
    is_own = matches.row_ids == own
    others, itself = (filter_matches(matches, flags) for flags in (~is_own, is_own))
    return replace(found, matches=others), replace(found, matches=itself)


def filter_matches(matches: Matches, flags: Flags) -> Matches:
    """Return the matches that pass."""
    left = np.concatenate([[0], np.cumsum(flags)])
    return Matches(left[matches.starts], left[matches.ends], matches.row_ids[flags])
