"""Count windows: the best pairs so far of each left row that is still in its window.

In a count window, pairs come as rows arrive. The best of them wait here, with copies of their right
rows, until their left row has left its window. They lie in segments, ordered by the ordinals of
left rows, each at least twice as large as the next, so that a pair is copied O(log n) times::

    segments   [ 5 5 6 8 9 9 ][ 6 9 ][ 9 ]        ordinals of left rows, k = 2
    take 5, 6  [ . . . 8 9 9 ][ . 9 ][ 9 ]        5 5 6 6 are given

Two segments are put together by keeping the k best of each left row. So no more than k pairs per
left row and segment are held.

Invariants, asserted by ``check``:
    1. In a segment, ordinals ascend, and each comes at most k times.
    2. A segment has a rank, and a right row, for each pair.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.indexes.matches import Matches
from streamjoin.indexes.saved_tuples import read_numbers, refuse_unless
from streamjoin.joins.outcomes.keep.best_pairs import Kept, keep_best
from streamjoin.joins.outcomes.ranking.ranks import Ranking
from streamjoin.joins.outcomes.ranking.selection import Ranks, select
from streamjoin.joins.outcomes.reduction import Deliver, ordinals_of_left
from streamjoin.joins.pairs.candidates import Found, rows_of_pairs
from streamjoin.joins.pairs.rows import Rows
from streamjoin.kernels.compile import Keys, Positions, RowIds
from streamjoin.plans.batches import copy_batch, in_one_piece, take_rows
from streamjoin.plans.marks import SomeMarks
from streamjoin.plans.prepared import Prepared, without_residuals


@dataclass(frozen=True)
class Segment:
    """Pairs: the ordinals of their left rows, ascending, their ranks and their right rows."""

    lefts: Keys
    ranks: Ranks
    right: pa.RecordBatch

    def take(self, pairs: Positions) -> "Segment":
        """Select pairs."""
        return Segment(self.lefts[pairs], self.ranks[pairs], take_rows(self.right, pairs))

    def cut(self, first: int, last: int | None = None) -> "Segment":
        """Return some neighbours, which share the memory of the others."""
        right = self.right.slice(first, None if last is None else last - first)
        return Segment(self.lefts[first:last], self.ranks[first:last], right)

    def copy(self) -> "Segment":
        """Return a copy that shares no memory."""
        return Segment(self.lefts.copy(), self.ranks.copy(), copy_batch(self.right))

    @property
    def nbytes(self) -> int:
        """Bytes of all pairs."""
        return self.lefts.nbytes + self.ranks.nbytes + self.right.nbytes


@dataclass(frozen=True)
class Copies:
    """Right rows that are held for the pairs they are in."""

    rows: Rows
    marks: SomeMarks | None = None

    def ordinals_of(self, rows: RowIds) -> Keys:
        """Refuse: copies have no numbers."""
        raise NotImplementedError

    def keys_of(self, part: int, rows: RowIds) -> Keys:
        """Refuse: copies have no keys."""
        raise NotImplementedError


class KeptStore:
    """The best pairs of left rows; see the module docstring."""

    def __init__(self, ranking: Ranking, k: int, schema: pa.Schema) -> None:
        self.ranking, self.k, self.schema = ranking, k, schema
        self.segments: list[Segment] = []
        self.held: list[int] = []  # pairs whose memory each segment keeps

    def reduce(self, found: Found) -> Iterator[Kept]:
        """Yield the best pairs of each block."""
        return keep_best(self.ranking, self.k, found, ordinals_of_left)

    def add(self, partial: Kept) -> None:
        """Take pairs in, with copies of their right rows."""
        right = rows_of_pairs(partial.found, partial.probes, partial.rows, "right")
        self._append(Segment(partial.lefts, partial.ranks, right))

    def _append(self, segment: Segment) -> None:
        """Add a segment, put together with those that are not much larger."""
        while self.segments and self.segments[-1].lefts.size < 2 * segment.lefts.size:
            self.held.pop()
            segment = self._merge([self.segments.pop(), segment])
        self.segments.append(segment)
        self.held.append(segment.lefts.size)

    def _merge(self, segments: list[Segment]) -> Segment:
        """Return the best pairs of some segments."""
        lefts = np.concatenate([each.lefts for each in segments])
        ranks = np.concatenate([each.ranks for each in segments])
        right = in_one_piece([each.right for each in segments], self.schema)

        def fetch(pairs: Positions, names: tuple[str, ...]) -> pa.RecordBatch:
            return take_rows(right.select(names), pairs)

        best = select(lefts, ranks, self.k, self.schema, fetch)
        return Segment(lefts, ranks, right).take(best)

    def take(self, left: Prepared, deliver: Deliver) -> Iterator[Any]:
        """Give the best pairs of left rows, and forget them; their ordinals ascend."""
        assert left.ordinals is not None
        parts = self._cut_before(int(left.ordinals[-1]) + 1)
        if not parts:
            return iter(())
        best = self._merge(parts)
        best = best.take(np.flatnonzero(np.isin(best.lefts, left.ordinals)))  # a forged one may not
        probes = np.searchsorted(left.ordinals, best.lefts).astype(np.int32)
        rows = Rows(copies=False)
        rows.append(best.right)
        starts, ids = np.arange(probes.size), np.arange(probes.size, dtype=np.int32)
        pairs = Matches(starts, starts + 1, ids)
        return deliver(Found(without_residuals(left), Copies(rows), pairs, probes, []))

    def _cut_before(self, bound: int) -> list[Segment]:
        """Cut off the pairs of left rows before a bound."""
        parts, segments, held = [], [], []
        for segment, size in zip(self.segments, self.held, strict=True):
            count = int(np.searchsorted(segment.lefts, bound))
            if count:
                parts.append(segment.cut(0, count))
                segment = segment.cut(count)
                if 2 * segment.lefts.size < size:
                    segment, size = segment.copy(), segment.lefts.size
            if segment.lefts.size:
                segments.append(segment)
                held.append(size)
        self.segments, self.held = segments, held
        return parts

    @property
    def nbytes(self) -> int:
        """Bytes of all pairs and their right rows."""
        return sum(each.nbytes for each in self.segments)

    @property
    def saved(self) -> dict[str, pa.RecordBatch]:
        """All pairs, as one segment."""
        if not self.segments:
            return {}
        whole = self._merge(self.segments)
        columns = {"left": whole.lefts}
        columns |= {f"rank {place}": keys for place, keys in enumerate(whole.ranks.T.copy())}
        return {"pairs": pa.record_batch(columns), "right": whole.right}

    def restore(self, saved: Mapping[str, pa.RecordBatch]) -> None:
        """Go on with pairs that were saved; refuse what cannot be."""
        if not saved:
            return
        pairs, right = saved["pairs"], saved["right"]
        width = self.ranking.width
        refuse_unless(pairs.num_columns == 1 + width, "pairs have other ranks")
        lefts, *ranks = (np.array(read_numbers(column)) for column in pairs.columns)
        refuse_unless(all(each.dtype == np.int64 for each in (lefts, *ranks)), "a rank is none")
        refuse_unless(right.schema.equals(self.schema), "right rows have another schema")
        refuse_unless(right.num_rows == lefts.size > 0, "a right row is missing")
        refuse_unless(bool((lefts[1:] >= lefts[:-1]).all()), "pairs are not in order")
        refuse_unless(bool((lefts[self.k :] > lefts[: -self.k]).all()), "pairs are too many")
        self._append(Segment(lefts, np.stack(ranks, axis=1), copy_batch(right)))

    def check(self) -> None:
        """Assert the invariants; tests call this after every step."""
        for segment in self.segments:
            lefts = segment.lefts
            assert lefts.size == len(segment.ranks) == segment.right.num_rows > 0
            assert (lefts[1:] >= lefts[:-1]).all()
            assert (lefts[self.k :] > lefts[: -self.k]).all()
