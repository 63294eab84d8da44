"""A prepared batch: the rows that can match, their keys, and the order an index wants them in.

A batch is sorted at most once for each layout, and the order serves both uses of it: probing the
other side's subwindows and inserting into this side's newest (PanJoin III-A, step 2).

What else is known of the rows comes in pieces, by how long it holds::

    ordinals    as long as a row is held, if rows are numbered
    marks       as long as a row is held, if it counts whether it matches; see `plans.marks`
    roles       as long as a row is held, which can match; until the batch is stored, which are
    arrival     until the batch is stored: when the rows came, and whom they meet
    intake      until the batch is counted: what it was like with the rows that were left out

So ``take``, which is how rows are selected to be stored, keeps the first three.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.kernels.compile import Flags, Keys, RowIds
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import Side
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.batches import copy_batch, in_one_piece, take_rows
from streamjoin.plans.marks import Marks, MarksOf, SomeMarks
from streamjoin.plans.plan import JoinPlan, KeyColumns, Layout

NO_ROWS = np.empty(0, np.int64)  # their positions


@dataclass(frozen=True)
class SortedRows:
    """A batch's rows in the order of one layout's keys."""

    order: RowIds  # positions in the batch
    keys: Keys  # index keys, ascending


class Arrival(NamedTuple):
    """When the rows of a step came, among those of both streams, and whom each of them meets."""

    numbers: Keys  # each row's place among the rows of both streams
    visible: Range  # the other stream's ordinals that each row meets

    @classmethod
    def concatenate(cls, parts: "Sequence[Arrival]") -> "Arrival":
        """Put those of some batches one after the other."""
        lower, upper = zip(*(part.visible for part in parts), strict=True)
        numbers = np.concatenate([part.numbers for part in parts])
        return cls(numbers, (np.concatenate(lower), np.concatenate(upper)))


class Roles(NamedTuple):
    """What rows are there for: by default, all can match, and all are stored after probing."""

    is_stored: Flags | None = None  # the others are stored by another core; None: all
    can_match: Flags | None = None  # the others only make a session longer; None: all

    def matching(self, size: int) -> Flags:
        """Which of so many rows can match."""
        return np.ones(size, np.bool_) if self.can_match is None else self.can_match

    @classmethod
    def concatenate(cls, parts: "Sequence[Roles]", sizes: Sequence[int]) -> "Roles":
        """Put those of some batches, of these sizes, one after the other; all are to be stored."""
        if all(part.can_match is None for part in parts):
            return EVERY_ROLE
        flags = [part.matching(size) for part, size in zip(parts, sizes, strict=True)]
        return cls(can_match=np.concatenate(flags))

    def take(self, rows: slice | NDArray[Any]) -> "Roles":
        """Select rows, to be stored."""
        return EVERY_ROLE if self.can_match is None else Roles(can_match=self.can_match[rows])


class Intake(NamedTuple):
    """What a batch was like when it came, with the rows that were left out."""

    positions: NDArray[np.int64] | None = None  # where the rows that are left stood; None: all are
    late: NDArray[np.int64] = NO_ROWS  # where rows stood that came too late
    null_times: int = 0  # rows without a time
    newest: int | None = None  # the latest time


EVERY_ROLE, NOTHING_LEFT_OUT = Roles(), Intake()


@dataclass
class Prepared:
    """The rows of one batch that can match. Positions and keys below count these rows only."""

    plan: JoinPlan
    side: Side
    rows: pa.RecordBatch
    keys: KeyColumns
    ordinals: Keys | None = None  # each row's place in its stream, if rows are numbered
    roles: Roles = EVERY_ROLE
    arrival: Arrival | None = None  # if rows are numbered
    intake: Intake = NOTHING_LEFT_OUT
    marks: SomeMarks | None = None
    _sorted: dict[Layout, SortedRows] = field(default_factory=dict, repr=False)
    _part_ranges: dict[int, list[Range]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.rows.num_rows

    @property
    def places(self) -> NDArray[np.int64]:
        """Where the rows stood in the batch that they came in."""
        places = self.intake.positions
        return np.arange(len(self)) if places is None else places

    @property
    def arrivals(self) -> Keys:
        """Each row's place among the rows of both streams, where they are numbered."""
        assert self.arrival is not None
        return self.arrival.numbers

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
        return self.roles.matching(len(self))

    @property
    def stored_count(self) -> int:
        """How many rows are stored."""
        is_stored = self.roles.is_stored
        return len(self) if is_stored is None else int(np.count_nonzero(is_stored))

    def with_stored(self, is_stored: Flags | None) -> "Prepared":
        """Return the same rows, of which others are stored; what is sorted already serves both."""
        return replace(self, roles=Roles(is_stored, self.roles.can_match))

    @cached_property
    def stored(self) -> "Prepared":
        """The rows that are stored."""
        is_stored = self.roles.is_stored
        return self if is_stored is None else self.select(is_stored)

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
        taken = self.take(slice(None))
        return replace(taken, rows=copy_batch(self.rows), keys=KeyColumns.concatenate([self.keys]))

    def rekey(self, plan: JoinPlan, keys: KeyColumns) -> "Prepared":
        """Return the same rows under another plan, by which all of them can match."""
        return Prepared(plan, self.side, self.rows, keys, self.ordinals, marks=self.marks)

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
            None if self.ordinals is None else self.ordinals[rows],
            self.roles.take(rows),
            marks=None if self.marks is None else self._marks_of(rows),
        )

    def _marks_of(self, rows: slice | NDArray[Any]) -> MarksOf:
        """Return the marks of some rows."""
        assert self.marks is not None
        if isinstance(rows, slice):
            rows = slice(*rows.indices(len(self))[:2])
        return MarksOf.select(self.marks, rows)

    def follow(self) -> "Prepared":
        """Return the same rows, with marks if there are none."""
        return self if self.marks is not None else replace(self, marks=Marks(len(self)))


def without_residuals(batch: Prepared) -> Prepared:
    """Return the same rows under a plan that knows of pairs that they match."""
    if not batch.plan.has_residuals:
        return batch
    return replace(batch, plan=replace(batch.plan, residuals=(), compared=()))


def append_marks(marks: Marks, batch: Prepared, keys: Keys) -> None:
    """Add the marks of a batch; its rows are due by ``keys``, and not settled if it has no marks.

    Rows that cannot match were given when they came, so their patience is of no interest.
    """
    settled, early = np.zeros(len(batch), np.bool_), ~batch.matching
    if batch.marks is not None:
        rows = np.arange(len(batch))
        settled, early = batch.marks.read(rows), early | batch.marks.read_early(rows)
    marks.append(settled, keys, early=early)


def concatenate(batches: Sequence[Prepared]) -> Prepared:
    """Return the rows of some batches of one side as one batch, to be sorted once."""
    first = batches[0]
    if len(batches) == 1:
        return first
    ordinals = [batch.ordinals for batch in batches if batch.ordinals is not None]
    arrivals = [batch.arrival for batch in batches if batch.arrival is not None]
    marks = [batch.marks for batch in batches if batch.marks is not None]
    return Prepared(
        first.plan,
        first.side,
        in_one_piece([batch.rows for batch in batches], first.rows.schema),
        KeyColumns.concatenate([batch.keys for batch in batches]),
        np.concatenate(ordinals) if ordinals else None,
        Roles.concatenate([batch.roles for batch in batches], [len(batch) for batch in batches]),
        Arrival.concatenate(arrivals) if arrivals else None,
        marks=MarksOf.concatenate(marks) if len(marks) == len(batches) else None,
    )
