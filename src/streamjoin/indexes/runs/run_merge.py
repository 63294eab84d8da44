"""Merging a batch into a sorted run, in place and from the back (PanJoin III-D).

With several threads (III-G3), the run is cut into pieces of about equal work. Each piece moves up
by the number of batch keys before it, into the beginning of the next piece; so every piece first
saves its own beginning::

    run    [ 1 3 4 | 6 7 9 ] . . .      batch [ 2 5 8 ]      cut at 5: two keys before it
    saved            6 7
    move   [ 1 2 3 4 5 | 6 7 8 9 ]      one thread writes the left part, one the right
"""

from itertools import pairwise

import numpy as np

from streamjoin.kernels.compile import Keys, RowIds, kernel
from streamjoin.kernels.threads import share

PIECE_TUPLES = 1 << 17  # that are worth a thread
NO_KEYS, NO_IDS = np.empty(0, np.int64), np.empty(0, np.int32)


@kernel
def merge_down(
    keys: Keys,
    row_ids: RowIds,
    slot: int,
    old_keys: Keys,
    old_ids: RowIds,
    new_keys: Keys,
    new_ids: RowIds,
    new: int,
) -> tuple[int, int]:
    """Merge old tuples and the first ``new`` + 1 new ones from the back, down from ``slot``.

    Stops when the old tuples are used up; returns the place below the last tuple written, and how
    many new ones are left. Where keys are equal, new tuples count as younger.
    """
    old = old_keys.size - 1
    while new >= 0:
        key = new_keys[new]
        while old >= 0 and old_keys[old] > key:
            keys[slot], row_ids[slot] = old_keys[old], old_ids[old]
            old -= 1
            slot -= 1
        if old < 0:
            return slot, new
        keys[slot], row_ids[slot] = key, new_ids[new]
        new -= 1
        slot -= 1
    if slot > old:  # else the rest is already in place
        while old >= 0:
            keys[slot], row_ids[slot] = old_keys[old], old_ids[old]
            old -= 1
            slot -= 1
    return slot, new


@kernel
def merge_piece(
    keys: Keys,
    row_ids: RowIds,
    first: int,
    last: int,
    saved_keys: Keys,
    saved_ids: RowIds,
    new_keys: Keys,
    new_ids: RowIds,
    shift: int,
) -> None:
    """Merge a part of the batch into the tuples ``first`` to ``last``, which move by ``shift``.

    The first of these tuples are read from their saved copies.
    """
    kept = first + saved_keys.size  # from here on, tuples are still where they were
    slot, new = last + new_keys.size + shift - 1, new_keys.size - 1
    there = keys[kept:last], row_ids[kept:last]
    slot, new = merge_down(keys, row_ids, slot, *there, new_keys, new_ids, new)
    slot, new = merge_down(keys, row_ids, slot, saved_keys, saved_ids, new_keys, new_ids, new)
    while new >= 0:
        keys[slot], row_ids[slot] = new_keys[new], new_ids[new]
        new -= 1
        slot -= 1


def merge(
    keys: Keys, row_ids: RowIds, size: int, new_keys: Keys, new_ids: RowIds, threads: int = 1
) -> None:
    """Merge an ascending batch into a run of ``size`` tuples, which has room for it at the end."""
    count = min(threads, size // PIECE_TUPLES)
    if count < 2:
        merge_piece(keys, row_ids, 0, size, NO_KEYS, NO_IDS, new_keys, new_ids, 0)
        return
    cuts = [size * number // count for number in range(count + 1)]
    # Where keys are equal, the batch's tuples are younger, so those equal to a cut come after it.
    places = [0, *(int(np.searchsorted(new_keys, keys[cut])) for cut in cuts[1:-1]), new_keys.size]
    pieces = []
    for (first, last), (begin, end) in zip(pairwise(cuts), pairwise(places), strict=True):
        head = slice(first, min(first + begin, last))
        pieces.append(
            (
                first,
                last,
                keys[head].copy(),
                row_ids[head].copy(),
                new_keys[begin:end],
                new_ids[begin:end],
                begin,
            )
        )
    share(lambda piece: merge_piece(keys, row_ids, *piece), pieces, count)
