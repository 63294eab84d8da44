"""The rows of one side that wait until their tumbling windows close.

Batches are kept as they arrive, with small ones combined. The rows of a batch are in the order of
their windows, and within a window in order of arrival. So rows that are due are at the front of a
batch, and dropping them only moves the place where the batch begins::

    windows     3 3 3 4 4 4 4 5 5 5 5 6 6 6 6
    bound 4    |due .|still waits . . . . . .|
    bound 6    |gone .|due . . . . . .|waits |   then 4 of 15 are left: they are copied

Invariants, of each batch (`check`):

1. the numbers of its windows never fall, and ``first`` and ``last`` are those at its ends;
2. more than half of the rows in its memory still wait.

Nothing looks for matches of rows that wait, so none of them is settled; but where rows are given
early, it is noted beside each batch whose patience has run out (`plans.marks`).

A row is copied when it arrives and, on average, less than once more to free the memory of dropped
rows: the rest is copied when at least half are gone. Small batches that are combined are copied a
few times.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from streamjoin.errors import SchemaError
from streamjoin.joins.outcomes.outcome import Alone, give_early
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import Side
from streamjoin.plans.batches import take_rows
from streamjoin.plans.limits import DEFAULT_LIMITS, Limits
from streamjoin.plans.marks import Marks
from streamjoin.plans.prepared import Prepared, append_marks, concatenate
from streamjoin.plans.window_keys import Places, window_numbers


@dataclass(frozen=True)
class Waiting:
    """A batch in the order of its windows, and its last rows, which still wait."""

    whole: Prepared
    batch: Prepared
    marks: Marks | None = None  # of the rows that wait, if they may be given early

    @classmethod
    def of(cls, batch: Prepared) -> "Waiting":
        """Let all rows of a batch wait, in its memory."""
        marks = batch.plan.make_marks(batch.side) if batch.plan.patience is not None else None
        if marks is not None:
            assert batch.times is not None
            append_marks(marks, batch, batch.times)
        batch = replace(batch, marks=None)
        return cls(batch, batch, marks)

    @property
    def marked(self) -> Prepared:
        """The rows that wait, with their marks."""
        return self.batch if self.marks is None else replace(self.batch, marks=self.marks)

    @property
    def first(self) -> int:
        """The number of its first window."""
        return int(window_numbers(self.batch)[0])

    @property
    def last(self) -> int:
        """The number of its last window."""
        return int(window_numbers(self.batch)[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of its memory."""
        marks = 0 if self.marks is None else self.marks.nbytes
        return self.whole.rows.nbytes + self.whole.keys.nbytes + marks

    def count_before(self, bound: int) -> int:
        """Return how many rows are in windows before ``bound``."""
        if self.last < bound:  # which may be greater than any key
            return len(self.batch)
        return int(np.searchsorted(window_numbers(self.batch), bound))

    def without(self, count: int) -> "Waiting":
        """Return the batch without its first rows."""
        if 2 * (len(self.batch) - count) > len(self.whole):
            if self.marks is not None:
                self.marks.drop_first(count)
            return Waiting(self.whole, self.batch.take(slice(count, None)), self.marks)
        return Waiting.of(self.marked.take(np.arange(count, len(self.batch))))


def distinct_numbers(numbers: Keys) -> set[int]:
    """Return the distinct ones of numbers that never fall."""
    return set(numbers[np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))].tolist())


def take_places(
    batches: Mapping[Side, Prepared], places: Mapping[Side, Places]
) -> dict[Side, Prepared]:
    """Return some of the rows that are kept."""
    return {side: batches[side].stored.take(rows) for side, rows in places.items()}


def sort_by_window(batch: Prepared) -> Prepared | None:
    """Return a copy sorted stably by window; None if the batch is sorted already."""
    numbers = window_numbers(batch)
    if (numbers[1:] >= numbers[:-1]).all():
        return None
    return batch.take(np.argsort(numbers, kind="stable"))


class Pending:
    """The rows of one side that wait."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.waiting: list[Waiting] = []
        self._before: list[tuple[int, list[Waiting]]] | None = None  # what was combined since

    def begin(self) -> None:
        """Begin a step that `undo` can remove, as long as nothing is dropped."""
        self._before = []

    def undo(self) -> None:
        """Remove what was inserted since `begin`."""
        while self._before:
            first, replaced = self._before.pop()
            self.waiting[first:] = replaced

    def conclude(self) -> None:
        """Keep what was inserted since `begin`."""
        self._before = None

    def __len__(self) -> int:
        return sum(len(each.batch) for each in self.waiting)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their keys, including dropped ones not yet freed."""
        return sum(each.nbytes for each in self.waiting)

    @property
    def windows(self) -> set[int]:
        """The numbers of windows that have rows here."""
        return {
            number
            for each in self.waiting
            for number in distinct_numbers(window_numbers(each.batch))
        }

    def insert(self, batch: Prepared) -> None:
        """Store rows until their windows close."""
        if len(batch):
            batch = batch.follow() if batch.plan.patience is not None else batch
            self._append(sort_by_window(batch) or batch.copy())

    def _append(self, new: Prepared) -> None:
        """Add a batch, together with the last ones that are not much larger if it is small."""
        first, size, small = len(self.waiting), len(new), self.limits.small_batch_rows
        while first and size < small and len(self.waiting[first - 1].batch) < 2 * size:
            first -= 1
            size += len(self.waiting[first].batch)
        if first < len(self.waiting):
            try:
                one = concatenate([*(each.marked for each in self.waiting[first:]), new])
            except SchemaError:  # more text than fits into one batch: they stay separate
                first = len(self.waiting)
            else:
                new = sort_by_window(one) or one
        if self._before is not None:
            self._before.append((first, self.waiting[first:]))
        self.waiting[first:] = [Waiting.of(new)]

    def select_windows(self, first: int, bound: int) -> Prepared | None:
        """Return the rows of windows from ``first`` to before ``bound``, and keep them."""
        selected = [
            each.marked.take(slice(each.count_before(first), each.count_before(bound)))
            for each in self.waiting
            if each.first < bound and each.last >= first
        ]
        return concatenate(selected) if selected else None

    def take_early(self, bound: int) -> Iterator[Alone]:
        """Give the rows before a time, each once."""
        for each in self.waiting:
            if each.marks is not None and each.batch.times is not None:
                rows, are_open = each.marks.take_early(bound, each.batch.times)
                if rows.size:
                    batch = take_rows(each.batch.rows, are_open)
                    yield give_early(each.batch.side, batch, each.marks, rows)

    def expire(self, bound: int) -> set[int]:
        """Drop the rows of windows before ``bound``; return the numbers of these."""
        gone: set[int] = set()
        for each in self.waiting:
            if each.first < bound:
                gone |= distinct_numbers(window_numbers(each.batch)[: each.count_before(bound)])
        self.waiting = [
            each if each.first >= bound else each.without(each.count_before(bound))
            for each in self.waiting
            if each.last >= bound
        ]
        return gone

    def check(self) -> None:
        """Raise an error unless the invariants hold."""
        for each in self.waiting:
            assert (np.diff(window_numbers(each.batch)) >= 0).all(), "1: not in order"
            assert len(each.whole) < 2 * len(each.batch), "2: too much memory"
