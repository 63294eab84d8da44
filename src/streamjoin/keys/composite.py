"""Composite keys: an equality and a range in one int64, so that every index serves both.

The upper 24 bits are a hash of the equality values, the lower 40 are the range key, rounded down
without changing the order::

    l.symbol = r.symbol and abs(l.price - r.price) <= 0.05
    key      [ hash("ACME") 24 bits | price 40 bits ]
    probe    [ hash("ACME")         | price - 0.05 ] .. [ hash("ACME") | price + 0.05 ]

Two symbols can share a hash, and two prices a rounded key, so a composite range finds candidates;
the join then compares the exact keys. Few are false: a double keeps 28 bits of its mantissa,
integers of up to 34 bits are exact, and larger ones keep their first 33 bits.
"""

import numpy as np

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Int, Keys, kernel

RANGE_BITS = 40
EXACT_BITS = 34


@kernel
def round_integer(key: Int) -> Int:
    """Map an int64 to 40 bits, monotone: a float with 33 bits of mantissa, linear below 2**34."""
    negative = key < 0
    magnitude = np.uint64(-(key + 1)) if negative else np.uint64(key)  # -1 - key cannot overflow
    code = magnitude
    if magnitude >= np.uint64(1 << EXACT_BITS):
        # Converting to double may round up to the next power of two; the order survives it.
        exponent = (np.float64(magnitude).view(np.int64) >> 52) - 1023
        shift = exponent - (EXACT_BITS - 1)
        code = (np.uint64(shift) << np.uint64(EXACT_BITS - 1)) + (magnitude >> np.uint64(shift))
    return -np.int64(code) - 1 if negative else np.int64(code)


@kernel
def compose(hashes: Keys, range_keys: Keys, floating: bool) -> Keys:
    """Combine hashes and range keys; the key of a double just loses its last 24 bits."""
    composed = np.empty(hashes.size, np.int64)
    for i in range(hashes.size):
        rounded = range_keys[i] >> 24 if floating else round_integer(range_keys[i])
        prefix = (hashes[i] >> RANGE_BITS) << RANGE_BITS
        composed[i] = prefix + (rounded + (1 << (RANGE_BITS - 1)))
    return composed


@kernel
def empty_where(lower: Keys, upper: Keys, composed_lower: Keys, composed_upper: Keys) -> None:
    """Keep empty ranges empty: rounding could open them again."""
    for i in range(lower.size):
        if lower[i] > upper[i]:
            composed_lower[i], composed_upper[i] = MAX_KEY, MIN_KEY


def compose_range(hashes: Keys, lower: Keys, upper: Keys, floating: bool) -> tuple[Keys, Keys]:
    """Return the composite range of each probe."""
    composed_lower = compose(hashes, lower, floating)
    composed_upper = compose(hashes, upper, floating)
    empty_where(lower, upper, composed_lower, composed_upper)
    return composed_lower, composed_upper
