"""What an algorithm finds: for each tuple that probes, a run of tuples of the other side.

No algorithm writes pairs. Each arranges one side's words so that those with equal codes are
contiguous, or form a list (`code_table`), and says where; so counting costs nothing extra, and
pairs are written in blocks, on demand. A window's matches come in pieces, one or more per thread,
which can be written in parallel::

    probes    5 1 8         rows of one side
    starts    0 2 3         probe 8 has found the rows 4 and 6
    lengths   2 0 2
    rows      3 7 | 0 | 4 6       of the other side
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np

from streamjoin.indexes.matches import Candidates, expand
from streamjoin.joins.equality.words import Words, rows_of
from streamjoin.kernels.compile import Flags, Positions, RowIds
from streamjoin.keys.operands import Side

THREAD_PAIRS = 1 << 16  # that are worth a thread


@dataclass(frozen=True)
class Counted:
    """What probes have found, with the number of pairs of each."""

    counts: RowIds
    total: int

    def __len__(self) -> int:
        return self.total

    @property
    def lengths(self) -> Positions:
        """How many pairs each probe has."""
        return self.counts.astype(np.int64)

    @cached_property
    def totals(self) -> Positions:
        """The number of pairs before each probe, and of all."""
        totals = np.empty(self.counts.size + 1, np.int64)
        totals[0] = 0
        np.cumsum(self.counts, dtype=np.int64, out=totals[1:])
        return totals

    def of(self, flags: Flags) -> Self:
        """Return the pairs of some probes only."""
        counts = np.where(flags, self.counts, np.int32(0))
        return replace(self, counts=counts, total=int(counts.sum(dtype=np.int64)))


@dataclass(frozen=True)
class Runs(Counted):
    """The runs of rows that probes have found."""

    starts: RowIds
    row_ids: RowIds

    def __getitem__(self, probes: slice) -> "Runs":
        first, last, _ = probes.indices(self.counts.size)
        total = int(self.totals[last] - self.totals[first])
        return Runs(self.counts[probes], total, self.starts[probes], self.row_ids)

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all pairs in blocks of at most ``size``: the probe's name or number, the row id."""
        if names is None:
            names = np.arange(self.starts.size, dtype=np.int32)
        for first in range(0, self.total, size):
            last = min(first + size, self.total)
            yield expand(self.starts, self.totals, self.row_ids, names, first, last)


@dataclass(frozen=True)
class Piece:
    """Some matches: which rows have probed, and what each of them found."""

    probing: Side
    probes: RowIds  # rows of the probing side, by the number of the probe
    matches: Candidates  # rows of the other side

    @classmethod
    def of(
        cls, probing: Side, probes: Words, starts: RowIds, counts: RowIds, total: int, stored: Words
    ) -> "Piece":
        """Make a piece from runs of the other side's words."""
        return cls(probing, rows_of(probes), Runs(counts, total, starts, rows_of(stored)))

    def __len__(self) -> int:
        return len(self.matches)

    def split_pairs(self, pairs: int) -> list["Piece"]:
        """Split into pieces of about ``pairs`` pairs; a probe's run stays whole."""
        runs = self.matches
        assert isinstance(runs, Runs)
        wanted = np.arange(0, len(runs) + pairs, pairs)
        cuts = np.unique(np.searchsorted(runs.totals, wanted).clip(max=runs.counts.size))
        return [
            Piece(self.probing, self.probes[first:last], runs[first:last])
            for first, last in pairwise(cuts.tolist())
        ]

    def pairs(self, size: int) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield pairs of a left and a right row, in blocks of about ``size``."""
        for probes, rows in self.matches.blocks(size, self.probes):
            yield (probes, rows) if self.probing == "left" else (rows, probes)


def even_out(pieces: list[Piece], threads: int) -> list[Piece]:
    """Split pieces so that several threads each have about the same number of pairs to write.

    The threads that find pairs get equal numbers of tuples, but a few may get most of the pairs.
    """
    if threads == 1:
        return pieces
    share = max(sum(map(len, pieces)) // threads, THREAD_PAIRS)
    most = share + share // 2
    return [
        part
        for each in pieces
        for part in (each.split_pairs(share) if len(each) > most else [each])
    ]
