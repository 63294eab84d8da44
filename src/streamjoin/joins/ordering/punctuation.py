"""The order of results (SplitJoin section 5): which of them come first, and what tells it.

Every row has an *arrival*, its place among the rows of both streams. A match is found by the later
of its two rows::

    arrival     0   1   2   3   4
    row         l0  r0  l1  r1  r2
    matches         l0r0    l0r1  l1r2      outer order: by the arrival of the row that found them
                            l1r1            inner order: those of r1 by the age of l0, l1

``outer`` promises that the matches of an earlier row come before those of a later one; ``inner``
that, in addition, the matches of one row come oldest first, by the other row's place in its
stream. A precision p promises less: the places are taken in groups of p, and only the groups are
in order.

On Spark joined rows carry what they are ordered by as columns behind their own; in process they
come in order (`arranging`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.keys.operands import Side
from streamjoin.options.ordering import Ordering
from streamjoin.plans.prepared import Prepared


def order_columns(ordering: Ordering, found: Found, probes: RowIds, rows: RowIds) -> list[pa.Array]:
    """Return the order columns of some pairs."""
    columns = [found.batch.arrivals[probes], *matched_groups(ordering, found, rows)]
    return [pa.array(column) for column in columns]


def matched_groups(ordering: Ordering, found: Found, rows: RowIds) -> list[Keys]:
    """Return the groups that matches of one row are ordered by, if they are."""
    if ordering.precision is None:
        return []
    assert isinstance(found.subwindow, Subwindow)
    assert found.subwindow.ordinals is not None
    return [found.subwindow.ordinals.of(rows) // ordering.precision]


@dataclass(frozen=True)
class Stars:
    """The punctuation of some joined rows: which row has found each, and up to where all are in.

    A star stands behind the matches of each row that has looked for some, found or not.
    """

    batches: Mapping[Side, Prepared]  # the rows that looked
    since: int
    upto: int  # of arrivals before this one, no more matches come
    places: tuple[tuple[Side, RowIds], ...]  # of the rows that found each match, in their batch

    @cached_property
    def arrivals(self) -> Keys:
        """The arrivals of the rows that found each match, ascending."""
        each = [self.batches[side].arrivals[places] for side, places in self.places]
        return np.sort(np.concatenate([np.empty(0, np.int64), *each]), kind="stable")

    def table(self) -> pa.Table:
        """Return the stars: whose row it is, its arrival, and where its matches end."""
        sides, arrivals = [], []
        for side, batch in self.batches.items():
            low, high = np.searchsorted(batch.arrivals, [self.since, self.upto])
            arrivals.append(batch.arrivals[low:high])
            sides.append(np.full(high - low, side))
        every = np.concatenate([np.empty(0, np.int64), *arrivals])
        order = np.argsort(every, kind="stable")
        ends = np.searchsorted(self.arrivals, every[order], side="right")
        names = np.concatenate([np.empty(0, "U5"), *sides])[order]
        return pa.table(
            {"side": pa.array(names, pa.string()), "arrival": every[order], "end": ends}
        )
