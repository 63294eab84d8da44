"""Key ranges: for each probing key, the closed ranges of stored keys that satisfy a band.

Every check of a join comes down to this form: an int64 key per stored row, and per probe a range
[lower, upper] in which the key must lie. All ranges are closed: ``< v`` becomes ``<= v - 1``, and a
bound past the last key gives an empty range, never a wrapped one.

With probe p, stored s and an interval of the difference p - s:

* exact types: ``p - s`` in [low, high] is ``s`` in [p - high, p - low], in saturating arithmetic;
* floating point: the end of the range is the *exact* double where the comparison, computed as
  written and rounded, changes its answer. It is monotone in s, so the kernel starts from a guess
  (usually right or one off) and gallops to the change::

      p = 0.3, v = 0.1, form difference: fl(0.3 - s) <= 0.1
      s        0.19999999999999996   0.19999999999999998   0.2
      holds    no                    yes <- lower          yes

  So a range never holds a false candidate, and needs no second check.

NaN and infinity follow Spark, which orders NaN above infinity: ``inf - inf`` is NaN, and whether a
NaN difference passes depends on the direction the comparison was written in (`Bound.nan_passes`).
"""

from itertools import pairwise
from math import isinf

import numpy as np

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Int, Keys, kernel

Range = tuple[Keys, Keys]  # lower and upper bounds, one of each per probe

DIFFERENCE, SHIFT_PROBE, SHIFT_STORED = 0, 1, 2  # which side the constant was written on
WIDE_PROBE, WIDE_STORED = 3, 4  # the same, widened a little
WIDER = 2.0**-48  # widening relative to the numbers added: many times what rounding can take away

NEGATIVE_INFINITY = -0x7FF0000000000001  # keys of the special doubles
POSITIVE_INFINITY = 0x7FF0000000000000
NAN = 0x7FF8000000000000
LONGEST_STEP = 1 << 61  # of a search over keys: two longer ones would overflow int64


@kernel
def shift_saturating(key: int, shift: int) -> tuple[int, int]:
    """Return ``key + shift`` clamped to int64, and the direction in which it overflowed."""
    if shift > 0 and key > MAX_KEY - shift:
        return MAX_KEY, 1
    if shift < 0 and key < MIN_KEY - shift:
        return MIN_KEY, -1
    return key + shift, 0


@kernel
def shift_ranges(keys: Keys, low_parts: Keys, high_parts: Keys, lower: Keys, upper: Keys) -> None:
    """Write the range [key + low, key + high] of each key, each shift given in parts."""
    for i in range(keys.size):
        low, high, passed_top, passed_bottom = keys[i], keys[i], 0, 0
        for part in low_parts:
            low, direction = shift_saturating(low, part)
            passed_top |= direction > 0
        for part in high_parts:
            high, direction = shift_saturating(high, part)
            passed_bottom |= direction < 0
        if passed_top or passed_bottom:  # the whole range lies past the last key
            low, high = MAX_KEY, MIN_KEY
        lower[i], upper[i] = low, high


def split_shift(shift: int | float) -> Keys:
    """Split a shift into three int64 parts of its sign, enough for any difference of two keys.

    >>> split_shift(5).tolist(), split_shift(-(2**63) - 1).tolist()
    ([5, 0, 0], [-9223372036854775807, -2, 0])
    """
    left = 3 * MAX_KEY if shift > 3 * MAX_KEY else max(shift, -3 * MAX_KEY)
    parts = []
    for _ in range(3):
        parts.append(int(max(min(left, MAX_KEY), -MAX_KEY)))
        left -= parts[-1]
    return np.array(parts, np.int64)


@kernel
def encode_double(value: Int) -> Int:
    """Return the sort key of one double, like ``sort_keys.encode_doubles``."""
    if value != value:
        return NAN
    bits = np.float64(value + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & MAX_KEY)


@kernel
def decode_double(key: Int) -> Int:
    """Return the double of a sort key."""
    return np.int64(key ^ ((key >> 63) & MAX_KEY)).view(np.float64)


@kernel
def widening(value: float, bound: float) -> float:
    """Return how far beyond ``value + bound`` a range must reach so as not to lose a match."""
    total = abs(value) + abs(bound)
    return total * WIDER if total < np.inf else 0.0


@kernel
def is_within(
    probe: float, stored: float, bound: float, form: int, single: bool, strict: bool
) -> bool:
    """Tell whether probe - stored <= bound (< if strict), rounded as written.

    The wide forms widen an interval: at its high end, which is not strict, they hold for slightly
    more values; at its low end, which is strict, for slightly fewer. They are not monotone to the
    last digit, but away from the end all values agree, so `first_within` leaves out no match.
    """
    if form == WIDE_PROBE:
        more = widening(probe, bound)
        computed, against = probe - bound + (more if strict else -more), stored
    elif form == WIDE_STORED:
        more = widening(stored, bound)
        computed, against = probe, stored + bound + (-more if strict else more)
    elif form == DIFFERENCE:
        computed, against = probe - stored, bound
        if single:
            computed = np.float64(np.float32(computed))
    elif form == SHIFT_PROBE:
        computed, against = probe - bound, stored
        if single:
            computed = np.float64(np.float32(computed))
    else:
        computed, against = probe, stored + bound
        if single:
            against = np.float64(np.float32(against))
    # One rounding to double and one to float gives the float result: 53 >= 2 * 24 + 2 bits.
    if strict:
        return encode_double(computed) < encode_double(against)
    return encode_double(computed) <= encode_double(against)


@kernel
def first_within(
    probe: float, bound: float, form: int, single: bool, strict: bool, last: int
) -> int:
    """Find the first stored key up to ``last`` that is within; ``last + 1`` if none.

    Keys below it are not within, it and all later keys are: rounding is monotone.
    """
    guess = encode_double(probe - bound)
    guess = min(max(guess, NEGATIVE_INFINITY), last)
    step = 1
    if is_within(probe, decode_double(guess), bound, form, single, strict):
        high, low = guess, guess - 1  # high is within; look for a low that is not
        while low >= NEGATIVE_INFINITY and is_within(
            probe, decode_double(low), bound, form, single, strict
        ):
            high = low
            low = max(low, NEGATIVE_INFINITY - 1 + step) - step
            step = min(2 * step, LONGEST_STEP)
        low = max(low, NEGATIVE_INFINITY - 1)
    else:
        low, high = guess, guess + 1  # low is not within; look for a high that is
        while high <= last and not is_within(
            probe, decode_double(high), bound, form, single, strict
        ):
            low = high
            high = min(high, last + 1 - step) + step
            step = min(2 * step, LONGEST_STEP)
        high = min(high, last + 1)
    while high - low > 1:
        middle = low + (high - low) // 2
        if is_within(probe, decode_double(middle), bound, form, single, strict):
            high = middle
        else:
            low = middle
    return high


@kernel
def special_range(probe: int, has_low: bool, has_high: bool, passes: bool) -> tuple[int, int]:
    """Return the stored keys for a NaN or infinite probe, form difference; for -inf without NaN.

    ``passes`` says whether a NaN difference passes. An infinite difference passes where the
    interval has no bound in its direction.
    """
    if probe == NAN:
        return (NEGATIVE_INFINITY, NAN) if passes else (MAX_KEY, MIN_KEY)
    if probe == POSITIVE_INFINITY:  # inf - inf is NaN, inf - other is inf
        return (
            POSITIVE_INFINITY if has_high else NEGATIVE_INFINITY,
            NAN if passes else POSITIVE_INFINITY - 1,
        )
    return (
        NEGATIVE_INFINITY if passes else NEGATIVE_INFINITY + 1,
        NEGATIVE_INFINITY if has_low else POSITIVE_INFINITY,
    )


@kernel
def double_ranges(keys: Keys, low: Keys, high: Keys, lower: Keys, upper: Keys) -> None:
    """Write the stored keys whose difference from each probing key lies in [low, high].

    ``low`` and ``high`` are (present, bound as double bits, form, single, open, nan passes).
    """
    has_low, has_high = low[0] != 0, high[0] != 0
    low_bound, high_bound = low[1:2].view(np.float64)[0], high[1:2].view(np.float64)[0]
    is_difference = (has_low and low[2] == DIFFERENCE) or (has_high and high[2] == DIFFERENCE)
    passes = (not has_low or low[5] != 0) and (not has_high or high[5] != 0)
    last = POSITIVE_INFINITY if is_difference else NAN
    for i in range(keys.size):
        key = keys[i]
        if is_difference and (key >= POSITIVE_INFINITY or key <= NEGATIVE_INFINITY):
            lower[i], upper[i] = special_range(key, has_low, has_high, passes)
            continue
        probe = decode_double(key)
        lower[i], upper[i] = NEGATIVE_INFINITY, last
        if has_high:
            lower[i] = first_within(probe, high_bound, high[2], high[3] != 0, high[4] != 0, last)
        if has_low:  # at least the bound is: not below it
            upper[i] = first_within(probe, low_bound, low[2], low[3] != 0, low[4] == 0, last) - 1


@kernel
def nan_ranges(keys: Keys, lower: Keys, upper: Keys) -> None:
    """Write the range that holds only NaN, for probes whose own range does not include it."""
    for i in range(keys.size):
        if keys[i] < POSITIVE_INFINITY:
            lower[i], upper[i] = NAN, NAN
        else:  # infinity and NaN: special_range covers it
            lower[i], upper[i] = MAX_KEY, MIN_KEY


def exact_range(keys: Keys, low: float, high: float) -> Range:
    """Return the stored keys s with low <= key - s <= high; infinite ends are open."""
    if not saturates(keys, low) and not saturates(keys, high):
        return shift(keys, high, MIN_KEY), shift(keys, low, MAX_KEY)
    lower, upper = np.empty_like(keys), np.empty_like(keys)
    shift_ranges(keys, split_shift(-high), split_shift(-low), lower, upper)
    return lower, upper


def saturates(keys: Keys, end: float) -> bool:
    """Tell whether the end, or key - end for any key, overflows int64."""
    if isinf(end):
        return False
    if not MIN_KEY <= end <= MAX_KEY or not keys.size:
        return True
    return int(keys.min()) - end < MIN_KEY or int(keys.max()) - end > MAX_KEY


def shift(keys: Keys, end: float, unbounded: int) -> Keys:
    """Return key - end for each key, or ``unbounded`` if the end is infinite."""
    return np.full(keys.size, unbounded) if isinf(end) else keys - int(end)


def make_disjoint(ranges: list[Range]) -> list[Range]:
    """Cut the ranges of each probe so that no key lies in two; rounding may overlap them.

    They ascend, as the intervals do that they come from, but for special doubles: a NaN equals
    itself, and its difference from every number, NaN, is above all intervals.
    """
    if any((after[0] < before[0]).any() for before, after in pairwise(ranges)):
        ranges = sort_ranges(ranges)
    covered = np.full(ranges[0][0].shape, MIN_KEY)
    for lower, upper in ranges:
        np.maximum(lower, covered + 1, out=lower)
        covered = np.where(lower <= upper, np.maximum(covered, upper), covered)
    return ranges


def sort_ranges(ranges: list[Range]) -> list[Range]:
    """Return the same ranges, for each probe by their lower ends."""
    lowers, uppers = (np.stack(ends) for ends in zip(*ranges, strict=True))
    order = np.argsort(lowers, axis=0, kind="stable")
    lowers, uppers = (np.take_along_axis(ends, order, axis=0) for ends in (lowers, uppers))
    return list(zip(lowers, uppers, strict=True))
