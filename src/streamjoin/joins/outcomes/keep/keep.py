"""``keep`` and ``k``: of each left row, the k pairs of the best rank.

Blocks of pairs are reduced as they are confirmed: what a left row keeps of a block is all that it
can keep of it in the end. The rest is put together in one thread, and reduced again whenever it has
doubled, so memory follows the result and not the number of pairs::

    block   l0:r3 l0:r1 l0:r8 l1:r1        k = 1, nearest
    kept    l0:r1             l1:r1        as row numbers, and ranks
    next    l0:r9 l1:r2 l1:r7              -> l0:r9, l1:r2
    in all  l0:r1 l1:r2
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.indexes.matches import Matches
from streamjoin.joins.outcomes.keep.best_pairs import Kept, keep_best
from streamjoin.joins.outcomes.keep.kept_store import KeptStore
from streamjoin.joins.outcomes.neighbours.beside import find_beside, find_several
from streamjoin.joins.outcomes.neighbours.recognition import recognise
from streamjoin.joins.outcomes.neighbours.search import find_neighbours
from streamjoin.joins.outcomes.ranking.ranks import Ranking
from streamjoin.joins.outcomes.ranking.selection import select
from streamjoin.joins.outcomes.reduction import (
    Deliver,
    Matched,
    Reducer,
    Sides,
    Store,
    found_of_pairs,
    places_of_left,
)
from streamjoin.joins.pairs.candidates import Found, rows_of_pairs
from streamjoin.kernels.compile import Positions
from streamjoin.plans.batches import in_one_piece, take_rows
from streamjoin.plans.prepared import Prepared

MOST_PAIRS = 1 << 20  # that wait to be reduced, if they are not more than those kept so far


@dataclass
class KeepReducer:
    """The best pairs of a closed set of left rows."""

    ranking: Ranking
    k: int
    sources: list[Found] = field(default_factory=list)  # one for each batch and holder
    parts: list[tuple[int, Kept]] = field(default_factory=list)  # with the number of the source
    waiting: int = 0  # pairs in the parts
    most: int = MOST_PAIRS
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)

    def reduce(self, found: Found) -> Iterator[Kept]:
        """Yield the best pairs of each block."""
        return keep_best(self.ranking, self.k, found, places_of_left)

    def add(self, partial: Kept) -> None:
        """Take pairs in; reduce all if there are many."""
        found = partial.found
        key = id(found.batch), id(found.subwindow)
        if key not in self._numbers:
            self._numbers[key] = len(self.sources)
            nothing = np.empty(0, np.int64)
            matches = Matches(nothing, nothing, nothing.astype(np.int32))
            self.sources.append(replace(found, matches=matches))  # which may be large
        number = self._numbers[key]
        self.parts.append((number, replace(partial, found=self.sources[number])))
        self.waiting += partial.lefts.size
        if self.waiting > self.most:
            self._compact()
            self.most = max(MOST_PAIRS, 2 * self.waiting)

    def _compact(self) -> None:
        """Reduce all pairs so far."""
        if len(self.parts) < 2:
            return
        numbers = [np.full(kept.lefts.size, number) for number, kept in self.parts]
        source = np.concatenate(numbers)
        lefts, ranks, probes, rows = (
            np.concatenate([getattr(kept, name) for _, kept in self.parts])
            for name in ("lefts", "ranks", "probes", "rows")
        )

        def fetch(pairs: Positions, names: tuple[str, ...]) -> pa.RecordBatch:
            places, parts = [], []
            for number in np.unique(source[pairs]):
                at = np.flatnonzero(source[pairs] == number)
                of_it = pairs[at]
                parts.append(
                    rows_of_pairs(self.sources[number], probes[of_it], rows[of_it], "right", names)
                )
                places.append(at)
            whole = in_one_piece(parts, parts[0].schema)
            return take_rows(whole, np.argsort(np.concatenate(places)))

        schema = self.sources[0].batch.plan.schemas["right"]
        best = select(lefts, ranks, self.k, schema, fetch)
        source = source[best]
        self.parts = []
        for number in np.unique(source):
            of_it = best[source == number]
            kept = Kept(
                self.sources[number], lefts[of_it], ranks[of_it], probes[of_it], rows[of_it]
            )
            self.parts.append((int(number), kept))
        self.waiting = best.size

    def finish(self, deliver: Deliver) -> Iterator[Any]:
        """Give the best pairs."""
        self._compact()
        for _, kept in self.parts:
            yield from deliver(found_of_pairs(kept.found, kept.probes, kept.rows))


@dataclass(frozen=True)
class Keep:
    """The k best pairs of each left row."""

    ranking: Ranking
    k: int

    @property
    def parts(self) -> frozenset[int]:
        """The range parts that distances are computed from."""
        return self.ranking.parts

    def begin(self, left: Prepared) -> Reducer:
        """Begin with a closed set of left rows."""
        return KeepReducer(self.ranking, self.k)

    def match(self, sides: Sides, threads: int) -> Matched | None:
        """Find what left rows keep by the order of one key, if that tells (`neighbours`)."""
        left, right = sides["left"], sides["right"]
        neighbours = recognise(left.plan, self.ranking, self.k)
        if neighbours is None:
            return None
        kept = find_neighbours(neighbours, left, right, threads)
        if kept is None:
            return None
        find = find_beside if self.k == 1 else find_several
        if kept.is_open is None:
            return Matched([find(left, right, kept.rows, threads)])
        settled, rest = np.flatnonzero(~kept.is_open), np.flatnonzero(kept.is_open)
        return Matched([find(left.take(settled), right, kept.rows[settled], threads)], rest)

    def open_store(self, schema: pa.Schema) -> Store:
        """Make an empty store for a count window."""
        return KeptStore(self.ranking, self.k, schema)
