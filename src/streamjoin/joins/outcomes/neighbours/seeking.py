"""Kernels that look for the neighbours of sorted values: the last key before each, and the next.

Rows of left ask, each with a *bound*; keys are those of right. Both ascend, so one pass over both
finds the last key up to each bound, or with equalities the last one that has the same *code*.
Codes are small numbers that stand for the values of equalities; the place of the last key of each
code is all that has to be remembered::

    bounds     10 b          14 a   15 c
    keys            12 a   13 b           15 a         places 0, 1, 2
    latest     --   a: 0   b: 1           a: 2
    found      -1           0      -1

Cost: O(n + m), and 4 bytes for each code and thread. A branch for each step would be mispredicted
half of the time, so there is none: each step writes what it has found so far, and moves on in one
of the two arrays.
"""

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import Flags, Int, Keys, Positions, RowIds, inlined, kernel
from streamjoin.keys.key_ranges import NEGATIVE_INFINITY, POSITIVE_INFINITY, decode_double

RowIds2D = NDArray[np.int32]  # some per row
FAR = 8  # equal keys that are looked at for a distance that is rounded


@kernel
def count_order(keys: Keys) -> tuple[int, int]:
    """Count the keys that are less than the one before, and those that are equal to it."""
    less = equal = 0
    for i in range(1, keys.size):
        less += keys[i] < keys[i - 1]
        equal += keys[i] == keys[i - 1]
    return less, equal


@kernel
def code_at(keys: Keys, i: Int, base: Int, codes: Int) -> Int:
    """Return the code of a key: its difference from the base, or ``codes`` if it has none."""
    return np.int64(min(np.uint64(keys[i] - base), np.uint64(codes)))


@kernel
def seek(bounds: Keys, keys: Keys, first: Int, last: Int, found: RowIds) -> None:
    """Find the last key up to each bound from ``first`` to ``last``.

    Two merges run side by side, which takes little longer than one: each waits for its own loads.
    """
    middle = first + (last - first) // 2
    if middle == last:
        return
    i, j = first, np.searchsorted(keys, bounds[first])
    p, q = middle, np.searchsorted(keys, bounds[middle])
    size = keys.size
    while i < middle and j < size and p < last and q < size:
        for _ in range(min(min(middle - i, size - j), min(last - p, size - q))):
            one, other = np.int64(keys[j] <= bounds[i]), np.int64(keys[q] <= bounds[p])
            found[i], found[p] = j - 1, q - 1
            j, i = j + one, i + 1 - one
            q, p = q + other, p + 1 - other
    finish_seeking(bounds, keys, i, middle, j, found)
    finish_seeking(bounds, keys, p, last, q, found)


@kernel
def finish_seeking(bounds: Keys, keys: Keys, i: Int, last: Int, j: Int, found: RowIds) -> None:
    """Go on with one of the merges."""
    while i < last and j < keys.size:
        for _ in range(min(last - i, keys.size - j)):
            passed = np.int64(keys[j] <= bounds[i])
            found[i] = j - 1
            j, i = j + passed, i + 1 - passed
    while i < last:
        found[i] = j - 1
        i += 1


@kernel
def note_latest(codes: Keys, base: Int, first: Int, last: Int, latest: RowIds) -> None:
    """Note the last place of each code in a stretch of keys."""
    for j in range(first, last):
        latest[code_at(codes, j, base, latest.size - 1)] = j


@kernel
def seek_coded(
    bounds: Keys,
    keys: Keys,
    left_codes: Keys,
    right_codes: Keys,
    base: Int,
    stretch: tuple[int, int, int],
    latest: RowIds,
    found: RowIds,
) -> Int:
    """Find the last key of the same code up to each bound of a stretch: first, last, next key.

    ``latest`` knows the keys before that one. Its last element is for codes that no key has.
    Returns the next key for the stretch that follows.
    """
    i, last, j = np.int64(stretch[0]), stretch[1], np.int64(stretch[2])
    size, codes = keys.size, latest.size - 1
    while i < last and j < size:
        for _ in range(min(last - i, size - j)):
            passed = keys[j] <= bounds[i]
            key = right_codes[j] if passed else left_codes[i]
            code = np.int64(min(np.uint64(key - base), np.uint64(codes)))
            place = latest[code]
            found[i] = place
            latest[code] = np.int32(j) if passed else place
            j, i = j + np.int64(passed), i + 1 - np.int64(passed)
    while i < last:
        found[i] = latest[code_at(left_codes, i, base, codes)]
        i += 1
    return j


@kernel
def link(
    codes: Keys, base: Int, latest: RowIds, heads: RowIds, previous: RowIds, following: RowIds
) -> None:
    """Write for each key the places of its neighbours of the same code, and of each code's first.

    -1 stands for none, also in ``latest`` and ``heads`` to begin with.
    """
    for j in range(codes.size):
        code = code_at(codes, j, base, latest.size - 1)
        place = latest[code]
        previous[j], following[j] = place, -1
        if place >= 0:
            following[place] = j
        else:
            heads[code] = j
        latest[code] = j


@kernel
def mark_equal(keys: Keys, previous: RowIds, is_tied: Flags) -> int:
    """Mark the keys to which another of the same code is equal; return how many follow such one.

    Without links, keys are linked by their places, in all that follows here.
    """
    count = 0
    is_tied[:] = False
    for j in range(keys.size):
        place = previous[j] if previous.size else j - 1
        if place >= 0 and keys[place] == keys[j]:
            is_tied[place] = is_tied[j] = True
            count += 1
    return count


@kernel
def step_up(
    before: RowIds, codes: Keys, base: Int, heads: RowIds, following: RowIds, after: RowIds
) -> None:
    """Write the place of the key after the one before, of the same code."""
    for i in range(before.size):
        if before[i] >= 0:
            after[i] = following[before[i]]
        else:
            after[i] = heads[code_at(codes, i, base, heads.size - 1)]


@kernel
def keep_near(found: RowIds, values: Keys, keys: Keys, low: Int, high: Int) -> None:
    """Forget the keys whose difference, value - key, is not in [low, high]."""
    for i in range(found.size):
        if found[i] >= 0:
            difference = values[i] - keys[found[i]]
            if difference < low or difference > high:
                found[i] = -1


@kernel
def keep_between(found: RowIds, keys: Keys, lower: Keys, upper: Keys) -> None:
    """Forget the keys that are not between two others."""
    for i in range(found.size):
        if found[i] >= 0:
            key = keys[found[i]]
            if key < lower[i] or key > upper[i]:
                found[i] = -1


@kernel
def choose_nearer(before: RowIds, after: RowIds, values: Keys, keys: Keys) -> int:
    """Put the nearer of two keys into ``before``; count those that are level, and leave both."""
    level = 0
    for i in range(before.size):
        one, other = before[i], after[i]
        if other < 0:
            continue
        if one < 0:
            before[i], after[i] = other, -1
            continue
        down, up = values[i] - keys[one], keys[other] - values[i]
        before[i] = one if down <= up else other
        after[i] = other if down == up else -1
        level += down == up
    return level


@kernel
def distance_of(value: Int, key: Int, single: bool) -> float:
    """Return the distance of two doubles, given by their keys, rounded as it is computed."""
    distance = abs(decode_double(value) - decode_double(key))
    return np.float64(np.float32(distance)) if single else distance


@kernel
def has_level(place: Int, value: Int, keys: Keys, links: RowIds, step: Int, single: bool) -> bool:
    """Tell whether a key further away may be at the same distance, rounded."""
    distance, there = distance_of(value, keys[place], single), place
    for _ in range(FAR):
        there = links[there] if links.size else there + step
        if there < 0 or there >= keys.size:
            return False
        if keys[there] != keys[place]:
            return distance_of(value, keys[there], single) == distance
    return True


@kernel
def choose_nearer_double(
    before: RowIds,
    after: RowIds,
    values: Keys,
    keys: Keys,
    previous: RowIds,
    following: RowIds,
    single: bool,
    is_open: Flags,
) -> int:
    """Do as `choose_nearer` does for doubles; mark the rows for which rounding matters.

    Those are also the ones whose own value is infinite or NaN: all keys are equally far from it.
    """
    level = 0
    for i in range(before.size):
        one, other = before[i], after[i]
        if one < 0 and other < 0:
            continue
        value = values[i]
        if value >= POSITIVE_INFINITY or value <= NEGATIVE_INFINITY:
            is_open[i] = True
            continue
        down = distance_of(value, keys[one], single) if one >= 0 else np.nan
        up = distance_of(value, keys[other], single) if other >= 0 else np.nan
        takes_one = other < 0 or (one >= 0 and not up < down)
        takes_other = one < 0 or (other >= 0 and up <= down)
        if takes_one and takes_other:
            level += 1
        else:
            before[i], after[i] = one if takes_one else other, -1
        is_open[i] = (takes_one and has_level(one, value, keys, previous, -1, single)) or (
            takes_other and has_level(other, value, keys, following, 1, single)
        )
    return level


@kernel
def list_tied(
    places: Positions, keys: Keys, previous: RowIds, following: RowIds, starts: Positions
) -> RowIds:
    """Return the keys equal to each of some, of the same code; groups end at ``starts``."""
    members = np.empty(2 * keys.size, np.int32)
    count = 0
    for group in range(places.size):
        starts[group] = count
        place = places[group]
        while place >= 0 and keys[place] == keys[places[group]]:
            members[count] = place
            count += 1
            place = previous[place] if previous.size else place - 1
        place = following[places[group]] if following.size else places[group] + 1
        while 0 <= place < keys.size and keys[place] == keys[places[group]]:
            members[count] = place
            count += 1
            place = following[place] if following.size else place + 1
    starts[places.size] = count
    return members[:count]


@kernel
def take_kept(rows: RowIds, places: RowIds, taken: RowIds) -> None:
    """Write the rows at some places; -1 where there is none."""
    for i in range(places.size):
        taken[i] = rows[places[i]] if places[i] >= 0 else -1


@kernel
def take_flags(flags: Flags, places: RowIds, taken: Flags) -> None:
    """Write the flags of some places; False where there is none."""
    for i in range(places.size):
        taken[i] = flags[max(places[i], 0)] & (places[i] >= 0)


@inlined
def next_place(place: Int, value: Int, keys: Keys, links: RowIds, step: Int, ends: Keys) -> Int:
    """Return the next place of the same code, -1 if there is none in the range of a value."""
    there = np.int64(links[place]) if links.size else place + step
    if there < 0 or there >= keys.size:
        return np.int64(-1)
    difference = value - keys[there]
    return there if ends[0] <= difference <= ends[1] else np.int64(-1)


@kernel
def walk_away(
    before: RowIds,
    after: RowIds,
    values: Keys,
    keys: Keys,
    previous: RowIds,
    following: RowIds,
    ends: Keys,
    by_key: bool,
    nearest: RowIds2D,
    is_open: Flags,
) -> None:
    """Write the nearest keys on both sides, the nearest first; -1 where there are no more.

    If the last of them is level with one that has no seat, the row is open; ``by_key``, the lesser
    of two keys counts that are level.
    """
    for i in range(before.size):
        value, down, up = values[i], np.int64(before[i]), np.int64(after[i])
        distance = np.int64(-1)
        is_down: Int = False
        for seat in range(nearest.shape[1]):
            is_down = down >= 0 and (up < 0 or value - keys[down] <= keys[up] - value)
            place = down if is_down else up
            nearest[i, seat] = place
            if place < 0:
                break
            distance = abs(value - keys[place])
            if is_down:
                down = next_place(down, value, keys, previous, -1, ends)
            else:
                up = next_place(up, value, keys, following, 1, ends)
        else:
            is_lower = down >= 0 and abs(value - keys[down]) == distance
            is_upper = up >= 0 and abs(keys[up] - value) == distance
            is_open[i] = is_lower or (is_upper and not (by_key and is_down))
            continue
        nearest[i, seat:] = -1
