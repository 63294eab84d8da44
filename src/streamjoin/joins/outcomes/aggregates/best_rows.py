"""Candidates: rows of which each left row gets the best one, where pairs come in blocks.

A block is searched for the best of each left row by a key. If keys mean something in this block
only, as places among its decimals do, each block leaves one candidate per left row that it has met.
If keys are good for all blocks, as times are, a candidate is not worse than all before it, and
those that are level stay, to be told apart by more than the key::

    block 1    row 0: 12:05, 12:01 *, 12:01 *       row 1: 12:07 *
    block 2    row 0: 12:03, 12:01 *                row 1: 12:06 *

When there are many, they are reduced to the best of each left row.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.aggregates.states import Places
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Keys, Positions, kernel
from streamjoin.plans.batches import in_one_piece, take_rows

MOST_PER_ROW = 4  # candidates, before they are reduced
FEW = 1 << 18  # candidates that are never too many
GiveKeys = Callable[[pa.RecordBatch], Keys]  # of rows; the least is the best


@kernel
def choose_best(places: Places, keys: Keys, best: Keys, is_lasting: bool) -> Positions:
    """Return the pairs with the least key of their left row, all of them if keys are lasting."""
    if not is_lasting:
        for place in places:
            best[place] = MAX_KEY
    for i in range(places.size):
        best[places[i]] = min(best[places[i]], keys[i])
    chosen = np.empty(places.size, np.int64)
    count = 0
    for i in range(places.size):
        if keys[i] == best[places[i]]:
            chosen[count] = i
            count += 1
            if not is_lasting:
                best[places[i]] = MIN_KEY
    return chosen[:count]


class Candidates:
    """Rows by the places of their left rows.

    ``rank`` gives keys that are only good among the rows that it is given, ``keys`` such that are
    good among all, if there are any, but may be level.
    """

    def __init__(self, size: int, rank: GiveKeys, keys: GiveKeys | None) -> None:
        self.size, self.rank, self.keys = size, rank, keys
        self.best = np.full(size, MAX_KEY)
        self.places: list[Positions] = []
        self.rows: list[pa.RecordBatch] = []
        self.count = 0

    def choose(self, places: Places, keys: Keys) -> Positions:
        """Return the pairs of a block that are candidates; the least key is the best."""
        return choose_best(places, keys, self.best, self.keys is not None)

    def add(self, places: Places, rows: pa.RecordBatch) -> None:
        """Add candidates."""
        if not places.size:
            return
        self.places.append(places.astype(np.int64))
        self.rows.append(rows)
        self.count += places.size
        if self.count > MOST_PER_ROW * self.size + FEW:
            places, rows = self.pick()
            self.places, self.rows, self.count = [places], [rows], places.size

    def merge(self, other: "Candidates", places: Positions) -> None:
        """Add other candidates, whose entries are of these left rows."""
        for runs, rows in zip(other.places, other.rows, strict=True):
            lefts = places[runs]
            if self.keys is None:
                self.add(lefts, rows)
            else:
                chosen = self.choose(lefts, self.keys(rows))
                self.add(lefts[chosen], take_rows(rows, chosen))

    def take(self, other: "Candidates", chosen: Positions) -> None:
        """Take over the candidates of some left rows, which are entries of another."""
        entries = np.full(other.size, -1)
        entries[chosen] = np.arange(chosen.size)
        self.best = other.best[chosen]
        for places, rows in zip(other.places, other.rows, strict=True):
            is_chosen = np.flatnonzero(entries[places] >= 0)
            self.add(entries[places[is_chosen]], take_rows(rows, is_chosen))

    @property
    def nbytes(self) -> int:
        """Bytes of all candidates."""
        return self.best.nbytes + sum(rows.nbytes for rows in self.rows)

    def pick(self) -> tuple[Positions, pa.RecordBatch | None]:
        """Return the best of each left row that has one, by its place; None if there is nothing."""
        if not self.rows:
            return np.empty(0, np.int64), None
        rows = in_one_piece(self.rows, self.rows[0].schema)
        places = np.concatenate(self.places)
        order = np.lexsort((self.rank(rows), places))
        ordered = places[order]
        is_first = np.ones(order.size, np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        return ordered[is_first], take_rows(rows, order[is_first])
