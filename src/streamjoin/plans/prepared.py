"""A prepared batch: the rows that can match, their keys, and the order an index wants them in.

A batch is sorted at most once for each layout, and the order serves both uses of it: probing the
other side's subwindows and inserting into this side's newest (PanJoin III-A, step 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.kernels.compile import Flags, Keys, RowIds
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import Side
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.batches import copy_batch, in_one_piece, take_rows
from streamjoin.plans.plan import JoinPlan, KeyColumns, Layout


@dataclass(frozen=True)
class SortedRows:
    """A batch's rows in the order of one layout's keys."""

    order: RowIds  # positions in the batch
    keys: Keys  # index keys, ascending


def no_rows() -> NDArray[np.int64]:
    """Return the positions of no rows."""
    return np.empty(0, np.int64)


@dataclass
class Prepared:
    """The rows of one batch that can match. Positions and keys below count these rows only."""

    plan: JoinPlan
    side: Side
    rows: pa.RecordBatch
    keys: KeyColumns
    positions: NDArray[np.int64] | None = None  # where the rows stood in their batch; None: all
    ordinals: Keys | None = None  # count windows, inner order: each row's place in its stream
    visible: Range | None = None  # count windows: the other stream's ordinals that each row meets
    arrivals: Keys | None = None  # ordered joins: each row's place among the rows of both streams
    late: NDArray[np.int64] = field(default_factory=no_rows)  # where rows stood that came too late
    null_times: int = 0
    newest: int | None = None  # the latest time in the whole batch
    is_stored: Flags | None = None  # the rows that are stored after probing; None: all
    can_match: Flags | None = None  # session windows: the others only make a session longer
    _sorted: dict[Layout, SortedRows] = field(default_factory=dict, repr=False)
    _part_ranges: dict[int, list[Range]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.rows.num_rows

    @property
    def times(self) -> Keys | None:
        """The event times as keys, for time windows."""
        part = self.plan.time_part
        return None if part is None else self.keys.ranges[part]

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest time on the other side that any row's window shows it."""
        lower, upper = self._windows
        return int(lower.min()), int(upper.max())

    @property
    def common_reach(self) -> tuple[int, int]:
        """The times on the other side that every row's window shows it; empty if first > last."""
        lower, upper = self._windows
        return int(lower.max()), int(upper.min())

    @cached_property
    def _windows(self) -> Range:
        part, times = self.plan.time_part, self.times
        assert part is not None
        assert times is not None
        edges = np.array([times.min(), times.max()])
        [window] = self.plan.ranges[part].ranges(self.side, edges)
        return window

    def sorted_rows(self, layout: Layout) -> SortedRows:
        """Return the rows in the order of a layout; sorted once."""
        if layout not in self._sorted:
            keys, order = sort_with_rows(self.plan.index_keys(layout, self.keys))
            self._sorted[layout] = SortedRows(order, keys)
        return self._sorted[layout]

    def sort(self, layout: Layout) -> None:
        """Sort the rows into all orders of a layout."""
        for order in layout.orders:
            self.sorted_rows(order)

    def share_order(self, other: "Prepared") -> None:
        """Take over the order of a batch with the same keys, so that it is sorted once."""
        self._sorted = other._sorted

    def ranges(self, layout: Layout, rows: slice) -> list[Range]:
        """Return the ranges to probe indexes of this layout with, for rows in its order."""
        ordered = self.sorted_rows(layout)
        return self.plan.index_ranges(
            layout, self.side, ordered.keys[rows], self.keys, ordered.order[rows]
        )

    def part_ranges(self, part: int) -> list[Range]:
        """Return the ranges that one range part allows each row, in the batch's own order."""
        if part not in self._part_ranges:
            ranges = self.plan.ranges[part].ranges(self.side, self.keys.ranges[part])
            self._part_ranges[part] = ranges
        return self._part_ranges[part]

    @property
    def matching(self) -> Flags:
        """Which rows can match."""
        return np.ones(len(self), np.bool_) if self.can_match is None else self.can_match

    @property
    def stored_count(self) -> int:
        """How many rows are stored."""
        return len(self) if self.is_stored is None else int(np.count_nonzero(self.is_stored))

    def with_stored(self, is_stored: Flags | None) -> "Prepared":
        """Return the same rows, of which others are stored; what is sorted already serves both."""
        return replace(self, is_stored=is_stored)

    @cached_property
    def stored(self) -> "Prepared":
        """The rows that are stored."""
        return self if self.is_stored is None else self.select(self.is_stored)

    def select(self, flags: Flags) -> "Prepared":
        """Return the rows that are marked; where they are sorted already, they stay so."""
        count = int(np.count_nonzero(flags))
        if count == flags.size:
            return self
        first_ones = bool(flags[:count].all())
        selected = self.take(slice(0, count) if first_ones else np.flatnonzero(flags))
        places = np.cumsum(flags, dtype=np.int32) - np.int32(1)
        for layout, ordered in list(self._sorted.items()):  # another core may sort it meanwhile
            keep = flags[ordered.order]
            selected._sorted[layout] = SortedRows(places[ordered.order[keep]], ordered.keys[keep])
        return selected

    def copy(self) -> "Prepared":
        """Return a copy: rows and keys may share the memory of who gave them."""
        return Prepared(
            self.plan,
            self.side,
            copy_batch(self.rows),
            KeyColumns.concatenate([self.keys]),
            ordinals=self.ordinals,
            can_match=self.can_match,
        )

    def take(self, rows: slice | NDArray[Any]) -> "Prepared":
        """Select rows, in the order given."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            batch = self.rows.slice(first, last - first)
        else:
            batch = take_rows(self.rows, rows)
        return Prepared(
            self.plan,
            self.side,
            batch,
            self.keys.take(rows),
            ordinals=None if self.ordinals is None else self.ordinals[rows],
            can_match=None if self.can_match is None else self.can_match[rows],
        )


def concatenate(batches: Sequence[Prepared]) -> Prepared:
    """Return the rows of some batches of one side as one batch, to be sorted once."""
    first = batches[0]
    if len(batches) == 1:
        return first
    one = Prepared(
        first.plan,
        first.side,
        in_one_piece([batch.rows for batch in batches], first.rows.schema),
        KeyColumns.concatenate([batch.keys for batch in batches]),
    )
    if first.arrivals is not None:
        one.arrivals = np.concatenate([batch.arrivals for batch in batches])
    if first.ordinals is not None:
        one.ordinals = np.concatenate([batch.ordinals for batch in batches])
    if any(batch.can_match is not None for batch in batches):
        one.can_match = np.concatenate([batch.matching for batch in batches])
    if first.visible is not None:
        lower, upper = zip(*(batch.visible for batch in batches), strict=True)
        one.visible = np.concatenate(lower), np.concatenate(upper)
    return one
