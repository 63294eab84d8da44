"""Rows that wait until their tumbling windows close, of one side.

Batches are kept as they come, small ones put together, and what is due is cut out of them: a row is
copied when it comes, and once more if a part of its batch is due before the rest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from streamjoin.batches import owned
from streamjoin.joins.prepared import Prepared, concatenate
from streamjoin.kernels import Keys
from streamjoin.keys.operands import Side

WINDOW = -1  # the window is the last of a row's equalities
SMALL = 1 << 12  # rows of a batch that others are put together with


@dataclass(frozen=True)
class Waiting:
    """A batch that waits, and the numbers of its first and its last window."""

    batch: Prepared
    first: int
    last: int


def window_numbers(batch: Prepared) -> Keys:
    """Return the numbers of the windows that rows are in."""
    return batch.keys.equalities[WINDOW]


def by_window(batches: Mapping[Side, Prepared]) -> Iterator[tuple[int, dict[Side, Prepared]]]:
    """Cut what is kept by the windows that rows are in, oldest first; rows stay in order."""
    parts: dict[int, dict[Side, Prepared]] = {}
    for side, each in batches.items():
        batch = each.kept
        if not len(batch):
            continue
        numbers = window_numbers(batch)
        if numbers.min() == numbers.max():
            parts.setdefault(int(numbers[0]), {})[side] = batch
            continue
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for rows in np.split(order, cuts):
            parts.setdefault(int(numbers[rows[0]]), {})[side] = batch.take(rows)
    yield from sorted(parts.items())


class Pending:
    """The rows of one side that wait."""

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []

    def __len__(self) -> int:
        return sum(len(each.batch) for each in self.waiting)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their keys."""
        return sum(each.batch.rows.nbytes + each.batch.keys.nbytes for each in self.waiting)

    def add(self, batch: Prepared) -> None:
        """Let rows wait."""
        if len(batch):
            numbers = window_numbers(batch)
            kept = batch.with_rows(owned(batch.rows))
            self._append(Waiting(kept, int(numbers.min()), int(numbers.max())))

    def _append(self, new: Waiting) -> None:
        """Add a batch, together with the last ones that are not much larger if it is small."""
        together, size = [new], len(new.batch)
        while self.waiting and size < SMALL and len(self.waiting[-1].batch) < 2 * size:
            together.append(self.waiting.pop())
            size += len(together[-1].batch)
        if len(together) > 1:
            new = Waiting(
                concatenate([each.batch for each in reversed(together)]),
                min(each.first for each in together),
                max(each.last for each in together),
            )
        self.waiting.append(new)

    def due(self, bound: int) -> Prepared | None:
        """Return the rows of windows before ``bound``; they go on waiting."""
        due = [self._before(each, bound) for each in self.waiting if each.first < bound]
        return concatenate(due) if due else None

    def drop(self, bound: int) -> set[int]:
        """Forget the rows of windows before ``bound``; return the numbers of these."""
        due = self.due(bound)
        kept: list[Waiting] = []
        for each in self.waiting:
            if each.first >= bound:
                kept.append(each)
            elif each.last >= bound:
                numbers = window_numbers(each.batch)
                rest = each.batch.take(np.flatnonzero(numbers >= bound))
                kept.append(Waiting(rest, int(numbers[numbers >= bound].min()), each.last))
        self.waiting = kept
        return set() if due is None else set(np.unique(window_numbers(due)).tolist())

    def _before(self, each: Waiting, bound: int) -> Prepared:
        if each.last < bound:
            return each.batch
        return each.batch.take(np.flatnonzero(window_numbers(each.batch) < bound))
