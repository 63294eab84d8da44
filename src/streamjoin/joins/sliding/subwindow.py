"""A subwindow: some tuples of one stream, their index, and their columns (PanJoin III-A).

Row ids count the subwindow's rows from 0 in the order of their arrival::

    rows      0 1 2 3 4 5 | 6 7           columns of the input, gathered only for matches
    index     by key: 3 0 5 1 4 2         tuples that arrived while it was the newest
    late      by key:               7 6   late tuples, in a small index of their own (III-G2)

The keys that its index does not answer exactly are kept as plain columns, to filter candidates.

Invariants, asserted by ``check``:
    1. ``index`` and ``late_index`` together hold each row id once.
    2. Every key column has one entry a row.
    3. ``oldest`` and ``newest`` are the least and the greatest event time of the rows.
    4. ``late_index`` holds at most a quarter of the rows.
    5. ``marks``, if there are any, have one bit per row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from streamjoin.indexes.matches import Candidates
from streamjoin.indexes.protocol import Sorted, Structure
from streamjoin.joins.pairs.rows import Column, Ordinals, Rows
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Keys, Positions, RowIds
from streamjoin.plans.limits import Limits
from streamjoin.plans.marks import NO_KEYS, Marks, SomeMarks
from streamjoin.plans.plan import JoinPlan, Layout
from streamjoin.plans.prepared import Prepared, append_marks


@dataclass
class Subwindow:
    """Rows, index and key columns; the module docstring gives the layout."""

    plan: JoinPlan
    layout: Layout
    structure: str  # the name of its index
    rows: Rows
    index: Structure
    late_index: Structure | None = None
    start: int = MIN_KEY  # time windows: rows from this time on belong here or to a later one
    equality_keys: list[Column] = field(default_factory=list)
    range_keys: dict[int, Column] = field(default_factory=dict)
    ordinals: Ordinals | None = None
    oldest: int = MAX_KEY
    newest: int = MIN_KEY
    is_sealed: bool = False
    marks: SomeMarks | None = None  # if it counts whether rows match

    @classmethod
    def create(
        cls,
        plan: JoinPlan,
        layout: Layout,
        structure: str,
        index: Structure,
        numbered: bool,
        start: int = MIN_KEY,
        copies: bool = True,
        follows: bool = False,
    ) -> Self:
        """Make an empty subwindow with the key columns that its layout leaves to filter."""
        needless = plan.answered(layout) - plan.ranked - {plan.time_part}
        limits = plan.limits
        kept = () if plan.is_exact(layout) else plan.equalities
        return cls(
            plan,
            layout,
            structure,
            cls.make_rows(limits, copies),
            index,
            start=start,
            equality_keys=[Column(limits) for _ in kept],
            range_keys={i: Column(limits) for i in range(len(plan.ranges)) if i not in needless},
            ordinals=Ordinals(limits) if numbered else None,
            marks=Marks(is_early=plan.patience is not None) if follows else None,
        )

    @classmethod
    def make_rows(cls, limits: Limits, copies: bool) -> Rows:
        """Make what keeps the columns."""
        return Rows(copies, limits=limits)

    def __len__(self) -> int:
        return self.rows.size

    @property
    def kind(self) -> tuple[Layout, str]:
        """What the index is sorted by, and how it is made."""
        return self.layout, self.structure

    def insert(self, batch: Prepared) -> None:
        """Add rows to the index."""
        self._insert(batch, self.index)

    @property
    def late_room(self) -> int:
        """How many more late rows the late index takes: it stays below a quarter of the whole."""
        held = 0 if self.late_index is None else len(self.late_index)
        return max((len(self) - held) // 3 - held, 0)

    def insert_late(self, batch: Prepared, make_index: Callable[[], Structure]) -> None:
        """Add rows that came after this subwindow was closed to its late index."""
        if self.late_index is None:
            self.late_index = make_index()
        self._insert(batch, self.late_index)

    def _insert(self, batch: Prepared, index: Structure) -> None:
        self.insert_tuples([self._numbered(batch, order) for order in self.layout.orders], index)
        self.append(batch)

    def _numbered(self, batch: Prepared, order: Layout) -> Sorted:
        """Return a batch's keys in an order, with the row ids that its rows are going to have."""
        ordered = batch.sorted_rows(order)
        return ordered.keys, ordered.order + np.int32(len(self)) if len(self) else ordered.order

    def insert_tuples(self, orders: list[Sorted], index: Any) -> None:
        """Add tuples to an index, given in all orders of the layout."""
        [(keys, row_ids)] = orders
        index.insert(keys, row_ids)

    def ranges_for(self, batch: Prepared, rows: slice) -> Any:
        """Return what rows of a batch, in its order of probing, look for; see `probe`."""
        return batch.ranges(self.layout, rows)

    def probe(self, ranges: Any) -> Iterator[Candidates]:
        """Look in all indexes for what `ranges_for` a subwindow of the same layout has given."""
        for lower, upper in ranges:
            for index in self.indexes:
                for matches in index.probe(lower, upper):
                    if len(matches):
                        yield matches

    def append(self, batch: Prepared) -> None:
        """Keep a batch's rows and keys; its tuples are in an index already."""
        self.rows.append(batch.rows)
        for column, keys in zip(self.equality_keys, batch.keys.equalities, strict=False):
            column.append(keys)
        for part, column in self.range_keys.items():
            column.append(batch.keys.ranges[part])
        if self.ordinals is not None:
            assert batch.ordinals is not None
            self.ordinals.append(batch.ordinals)
        self._append_marks(batch)
        times = batch.times
        if times is not None and times.size:
            self.oldest = min(self.oldest, int(times.min()))
            self.newest = max(self.newest, int(times.max()))

    def _append_marks(self, batch: Prepared) -> None:
        """Keep whether rows are settled, and when they are due."""
        if isinstance(self.marks, Marks):
            keys = batch.ordinals if batch.times is None else batch.times
            assert keys is not None
            append_marks(self.marks, batch, keys)

    def take_due(self, bound: int) -> Positions:
        """Settle the rows that are not, whose time or ordinal is before a bound; return them."""
        assert isinstance(self.marks, Marks)
        if self.plan.time_part is not None:
            return self.marks.settle_due(bound, self.range_keys[self.plan.time_part].values)
        assert self.ordinals is not None
        column = self.ordinals.column
        keys = NO_KEYS if column is None else column.values
        return self.marks.settle_due(bound, keys, self.ordinals.first)

    def take_early(self, bound: int) -> tuple[Positions, Positions]:
        """Note the rows whose time is before a bound; return them, and those not settled."""
        assert isinstance(self.marks, Marks)
        assert self.plan.time_part is not None
        return self.marks.take_early(bound, self.range_keys[self.plan.time_part].values)

    def seal(self) -> None:
        """Close for inserts: the rows become one piece, the index drops its slack."""
        if not self.is_sealed:
            self.rows.seal()
            self.index.seal()
            self.is_sealed = True

    def ordinals_of(self, rows: RowIds) -> Keys:
        """Return the ordinals of rows, if these are numbered."""
        assert self.ordinals is not None
        return self.ordinals.of(rows)

    def keys_of(self, part: int, rows: RowIds) -> Keys:
        """Return the keys of rows for a range part that is ranked, or not answered."""
        return self.range_keys[part].values[rows]

    @property
    def last(self) -> int:
        """The last ordinal or, in time windows, the greatest time."""
        if self.ordinals is None or self.plan.time_part is not None:
            return self.newest
        return self.ordinals.last

    @property
    def indexes(self) -> list[Any]:
        """The index, and the late index if there is one."""
        return [self.index] if self.late_index is None else [self.index, self.late_index]

    @property
    def nbytes(self) -> int:
        """Bytes of rows, keys and indexes."""
        parts: list[Rows | Column | Structure] = [
            self.rows,
            *self.equality_keys,
            *self.range_keys.values(),
            *self.indexes,
        ]
        held = sum(part.nbytes for part in parts)
        if isinstance(self.marks, Marks):
            held += self.marks.nbytes
        return held if self.ordinals is None else held + self.ordinals.nbytes

    def check(self) -> None:
        """Assert the invariants; tests call this after every step."""
        for index in self.indexes:
            index.check()
        held = np.concatenate([index.to_arrow()["row_ids"].to_numpy() for index in self.indexes])
        assert np.array_equal(np.sort(held), np.arange(len(self)))
        columns = [*self.equality_keys, *self.range_keys.values()]
        assert all(column.size == len(self) for column in columns)
        assert self.late_index is None or 4 * len(self.late_index) <= len(self)
        if isinstance(self.marks, Marks):
            assert len(self.marks) == len(self)
        if self.plan.time_part is not None and len(self):
            times = self.range_keys[self.plan.time_part].values
            assert (self.oldest, self.newest) == (times.min(), times.max())
