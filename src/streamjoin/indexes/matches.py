"""Matches: which rows of an index each probe found, as ranges, not yet as pairs.

Probe ``i`` found the rows ``row_ids[starts[i]:ends[i]]``. A sorted structure returns its own
``row_ids``, so a probe costs the same whether it matches one row or a million; an unsorted
structure writes what it finds into a separate array. Pairs are written only on request, in blocks
of bounded size::

    starts [0 2 2]   ends [2 2 5]   row_ids [7 4 9 1 0]
    candidates   0 1 2 3 4         numbered through
    probes       0 0 2 2 2         pairs()
    rows         7 4 9 1 0
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np

from streamjoin.kernels.compile import Flags, Positions, RowIds, kernel

WRITES_AT_ONCE = 4  # without a branch, per range


@kernel
def sum_lengths(starts: Positions, ends: Positions) -> Positions:
    """Return the running total of range lengths: entry i counts the candidates before probe i."""
    totals = np.empty(starts.size + 1, np.int64)
    total = 0
    for i in range(starts.size):
        totals[i] = total
        total += max(ends[i] - starts[i], 0)
    totals[starts.size] = total
    return totals


@kernel
def expand(
    starts: Positions | RowIds,
    totals: Positions,
    row_ids: RowIds,
    names: RowIds,
    first: int,
    last: int,
) -> tuple[RowIds, RowIds]:
    """Write out the candidates numbered ``first`` to ``last``, as (name of probe, row) pairs.

    Most ranges are short and of unpredictable length, so each begins with ``WRITES_AT_ONCE`` writes
    without a branch; the next range overwrites those that were too many.
    """
    size = last - first
    probes, rows = (
        np.empty(size + WRITES_AT_ONCE, np.int32),
        np.empty(size + WRITES_AT_ONCE, np.int32),
    )
    probe = np.searchsorted(totals, first, side="right") - 1
    slot = 0
    while slot < size:
        position = starts[probe] + (first + slot - totals[probe])
        length = min(totals[probe + 1] - first, size) - slot
        name = names[probe]
        if position + WRITES_AT_ONCE <= row_ids.size:
            for i in range(WRITES_AT_ONCE):
                probes[slot + i] = name
                rows[slot + i] = row_ids[position + i]
        if length > WRITES_AT_ONCE or position + WRITES_AT_ONCE > row_ids.size:
            for i in range(length):
                probes[slot + i] = name
                rows[slot + i] = row_ids[position + i]
        slot += length
        probe += 1
    return probes[:size], rows[:size]


class Candidates(Protocol):
    """What probes have found, or will find when the pairs are needed."""

    def __len__(self) -> int:
        """Count the pairs, without writing them out."""
        ...

    @property
    def lengths(self) -> Positions:
        """How many pairs each probe has."""
        ...

    def of(self, flags: Flags) -> Self:
        """Return the pairs of some probes only."""
        ...

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all pairs in blocks of about ``size``: the probe's name or number, the row id."""
        ...


@dataclass(frozen=True)
class Matches:
    """The ranges that a batch of probes found in one run of rows."""

    starts: Positions
    ends: Positions  # an end at or before its start is an empty range
    row_ids: RowIds
    totals: Positions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "totals", sum_lengths(self.starts, self.ends))

    def __len__(self) -> int:
        return int(self.totals[-1])

    @property
    def lengths(self) -> Positions:
        return np.diff(self.totals)

    def of(self, flags: Flags) -> "Matches":
        return Matches(self.starts, np.where(flags, self.ends, self.starts), self.row_ids)

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all pairs in blocks of at most ``size``: the probe's name or number, the row id."""
        if names is None:
            names = np.arange(self.starts.size, dtype=np.int32)
        for first in range(0, len(self), size):
            last = min(first + size, len(self))
            yield expand(self.starts, self.totals, self.row_ids, names, first, last)

    def pairs(self) -> tuple[RowIds, RowIds]:
        """Return all pairs at once: the number of the probe, the row id."""
        empty = np.empty(0, np.int32)
        return next(self.blocks(max(len(self), 1)), (empty, empty))
