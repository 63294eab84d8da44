"""Matches by marks: marks the tuples of the second range in a bitmap, then reads the first range.

Probes come in the order of their second ranges, so the marks of one serve the next, and only the
difference is marked or unmarked::

    probe 0   second range [0, 3)   marks 3 0 1         probe 1   second range [1, 4)
    bitmap    1 1 . 1               first range finds   bitmap    1 1 1 .     3 unmarked, 2 marked

A batch marks every tuple once or twice. Beyond that, the cost of a probe does not depend on how
many tuples its ranges hold: the bitmap skips what is not marked (IE-Join; SPO-Join, 3.4).

Kernels return after a `SLICE` of work; ``state`` says where to go on, and what is marked.
"""

import numpy as np

from streamjoin.indexes.two_keys.bitmap import (
    FULL,
    LOW,
    ONE,
    Bitmap,
    Counts,
    Words,
    count_below,
    first_one,
    flip_counted,
    mark,
    next_word,
    unmark,
    wipe,
)
from streamjoin.indexes.two_keys.places import Sought
from streamjoin.kernels.compile import Int, Positions, RowIds, bare, inlined

WORD = 64
FRESH = -1  # the position in a probe that has not begun
SLICE = 1 << 26  # marks set or cleared before the next checkpoint: some tenths of a second
PROBE_MARKS = 32  # the cost of looking for the marks of a probe, in marks


@inlined
def mark_all(words: Words, middle: Words, top: Words, size: Int) -> None:
    """Mark all of ``size`` positions."""
    for position in range(0, size, WORD):
        mark(words, middle, top, position)
    for word in range(size >> 6):
        words[word] = FULL
    if size & 63:
        words[size >> 6] = (ONE << np.uint64(size & 63)) - ONE


@inlined
def move_marks(bitmap: Bitmap, places: RowIds, low: Int, high: Int, start: Int, stop: Int) -> None:
    """Mark the tuples from ``start`` to ``stop`` instead of those from ``low`` to ``high``."""
    words, middle, top = bitmap.words, bitmap.middle, bitmap.top
    if start >= high or stop <= low:
        if high - low > words.size:
            wipe(words, middle, top)
        else:
            for i in range(low, high):
                unmark(words, middle, top, places[i])
        low = high = start
        if 2 * (stop - start) > places.size:
            mark_all(words, middle, top, places.size)
            low, high = 0, places.size
    for i in range(start, low):
        mark(words, middle, top, places[i])
    for i in range(high, stop):
        mark(words, middle, top, places[i])
    for i in range(low, start):
        unmark(words, middle, top, places[i])
    for i in range(stop, high):
        unmark(words, middle, top, places[i])


@inlined
def count_moves(low: Int, high: Int, start: Int, stop: Int) -> Int:
    """Return how many marks are set or cleared, at most, to go from one range to another."""
    if start >= high or stop <= low:
        return high - low + stop - start
    return abs(start - low) + abs(stop - high)


@bare
def list_marked(
    rows: RowIds,
    places: RowIds,
    sought: Sought,
    bitmap: Bitmap,
    state: Positions,
    names: RowIds,
    found_probes: RowIds,
    found_rows: RowIds,
) -> int:
    """Write down matches, probe by probe, while room and slice suffice; return how many.

    ``state`` says where to go on: the probe, its next place, and the range that is marked.
    """
    words, middle, top = bitmap.words, bitmap.middle, bitmap.top
    count, room, work = 0, found_rows.size, np.int64(0)
    probe, position, low, high = state[0], state[1], state[2], state[3]
    while probe < sought.lows.size and work < SLICE:
        begin, end = sought.lows[probe], sought.highs[probe]
        start, stop = sought.starts[probe], sought.stops[probe]
        if begin < end and start < stop:
            if position == FRESH:
                work += count_moves(low, high, start, stop)
                move_marks(bitmap, places, low, high, start, stop)
                low, high, position = start, stop, begin
            name, last = names[probe], (end - 1) >> 6
            word = position >> 6
            bits = words[np.uint64(word)] & (FULL << (np.uint64(position) & LOW))
            while word <= last:
                if count + WORD > room:
                    state[0], state[1], state[2], state[3] = probe, position, low, high
                    return count
                if word == last:
                    bits &= FULL >> (LOW - (np.uint64(end - 1) & LOW))
                base = word << 6
                while bits != np.uint64(0):
                    found_probes[np.uint64(count)] = name
                    found_rows[np.uint64(count)] = rows[np.uint64(base + first_one(bits))]
                    count += 1
                    bits &= bits - ONE
                word = next_word(words, middle, top, word + 1, last)
                if word <= last:
                    bits = words[np.uint64(word)]
                    position = word << 6
        probe += 1
        work += PROBE_MARKS
        position = np.int64(FRESH)
    state[0], state[1], state[2], state[3] = probe, position, low, high
    return count


@bare
def count_marked(
    places: RowIds, sought: Sought, marks: Counts, state: Positions, lengths: Positions
) -> None:
    """Count the matches of each probe without writing down any, until the slice is done.

    ``state`` says where to go on: the probe, and the range that is marked.
    """
    words, middle, top = marks.words, marks.middle, marks.top
    probe, low, high, work = state[0], state[1], state[2], np.int64(0)
    while probe < sought.lows.size and work < SLICE:
        begin, end = sought.lows[probe], sought.highs[probe]
        start, stop = sought.starts[probe], sought.stops[probe]
        lengths[probe] = 0
        work += PROBE_MARKS
        if begin >= end or start >= stop:
            probe += 1
            continue
        work += count_moves(low, high, start, stop)
        if start >= high or stop <= low:
            if high - low > words.size:
                wipe(words, middle, top)
            else:
                for i in range(low, high):
                    flip_counted(words, middle, top, places[i], -1)
            low = high = start
        for i in range(start, low):
            flip_counted(words, middle, top, places[i], 1)
        for i in range(high, stop):
            flip_counted(words, middle, top, places[i], 1)
        for i in range(low, start):
            flip_counted(words, middle, top, places[i], -1)
        for i in range(stop, high):
            flip_counted(words, middle, top, places[i], -1)
        low, high = start, stop
        lengths[probe] = count_below(words, middle, top, begin, end)
        probe += 1
    state[0], state[1], state[2] = probe, low, high
