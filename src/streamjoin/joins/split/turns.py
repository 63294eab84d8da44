"""Whose turn it is to store: every core works it out by itself, from a counter (SplitJoin 4.2).

All cores see all rows, so their counts agree. A turn lasts until a subwindow is full, and core c
has the turns c, c + n, c + 2n, ...; the right stream is half a round ahead::

    left rows      0 ............ 1 ............ 2 ............ 3 ...      n = 2 cores
    stored by      core 0         core 1         core 0         core 1
    right rows     0 ............ 1 ............ 2 ............ 3 ...
    stored by      core 1         core 0         core 1         core 0

The paper's turns are one row long. With a nested loop that makes no difference, but searching an
index takes about the same time whether it has all rows or half of them. With turns of one row,
every core would search as many subwindows as a single core; with turns of a subwindow, each core
has its share of them. And while one core stores the rows of one stream, another stores the other's.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamjoin.joins.sliding.sizes import Sizes
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.plans.prepared import Prepared


@dataclass(frozen=True)
class Turn:
    """A turn, and how much has been stored in it so far."""

    number: int = 0
    rows: int = 0
    oldest: int = MAX_KEY
    newest: int = MIN_KEY

    def after(self, batch: Prepared, first: int, last: int) -> "Turn":
        """Return the turn after some more rows were stored in it."""
        times = batch.times
        if times is None:
            return replace(self, rows=self.rows + last - first)
        part = times[first:last]
        oldest, newest = min(self.oldest, int(part.min())), max(self.newest, int(part.max()))
        return Turn(self.number, self.rows + last - first, oldest, newest)


def assign_turns(turn: Turn, sizes: Sizes, batch: Prepared) -> tuple[NDArray[np.int64], Turn]:
    """Return the turn of each row of a batch, and the state of the last one.

    If all rows have the same turn, it is returned only once.
    """
    size = len(batch)
    if sizes.ticks is None:  # a turn is a number of rows
        before = turn.number * sizes.most + turn.rows
        after = Turn(*divmod(before + size, sizes.most))
        if turn.rows + size <= sizes.most:
            return np.array([turn.number]), after
        return (before + np.arange(size)) // sizes.most, after
    numbers, first = [], 0
    while first < size:
        room = sizes.room(turn.rows, turn.newest - turn.oldest, size - first)
        if room <= 0:
            turn = Turn(turn.number + 1)
            continue
        last = first + min(room, sizes.at_once, size - first)
        numbers.append((turn.number, last - first))
        turn = turn.after(batch, first, last)
        first = last
    if len({number for number, _ in numbers}) == 1:
        return np.array([turn.number]), turn
    each, counts = np.array(numbers, np.int64).reshape(-1, 2).T
    return np.repeat(each, counts), turn
