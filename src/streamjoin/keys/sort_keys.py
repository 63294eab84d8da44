"""Sort keys: every orderable Arrow type as an int64 that compares as Spark compares the values.

=====================  ========================================  ==============================
type                   key                                       one unit of the key is
=====================  ========================================  ==============================
integers, boolean      the value                                 1
decimal, 18 digits     the unscaled value                        one unit of the last digit
date                   days since 1970                           a day
timestamp, duration    ticks since 1970                          the type's own tick (us, ns, ...)
time of day            ticks since midnight                      the type's own tick
float, double          the bits, negative numbers flipped        the next double
=====================  ========================================  ==============================

In all types but the last, equal differences of values are equal differences of keys, so bands are
integer arithmetic on keys. Doubles: NaN's key is above that of infinity, -0.0 has the key of 0.0::

    value   -inf  ...  -1.0  ...  0.0  ...  1.0  ...  inf   NaN
    key        ascending int64 ------------------------------->

Other types have a *coarse* key, which ascends with the values but may be equal for different ones:
the first eight bytes of strings and binary, and a double near the value of longer decimals.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Keys, kernel
from streamjoin.keys.hashing import slices_of

TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
DAY_SECONDS = 86_400
MAX_DECIMAL_DIGITS = 18


@dataclass(frozen=True)
class KeyType:
    """How values of one Arrow type become keys."""

    type: pa.DataType
    floating: bool = False
    per_unit: Fraction = Fraction(1)  # keys per 1 of the number, for numbers
    per_second: Fraction | None = None  # keys per second, for dates, times and durations


def key_type(type: pa.DataType, narrow: bool = False) -> KeyType | None:
    """Return how ``type`` becomes a key, or None if it has no order an int64 can hold.

    ``narrow`` says that one side of the comparison has at most 18 digits. Then the other may have
    more: a value beyond int64 gets the first or last key, which no value of the narrow side has.
    """
    if pa.types.is_floating(type):
        return KeyType(type, floating=True)
    if pa.types.is_boolean(type) or (pa.types.is_integer(type) and not pa.types.is_uint64(type)):
        return KeyType(type)
    if pa.types.is_decimal(type) and (narrow or type.precision <= MAX_DECIMAL_DIGITS):
        return KeyType(type, per_unit=Fraction(10) ** type.scale)
    if pa.types.is_date(type):
        return KeyType(type, per_second=Fraction(1, DAY_SECONDS))
    if pa.types.is_timestamp(type) or pa.types.is_duration(type) or pa.types.is_time(type):
        return KeyType(type, per_second=Fraction(TICKS_PER_SECOND[type.unit]))
    return None


def keys_per_second(type: pa.DataType) -> Fraction:
    """Return the keys of a second, for a type of times; integers are milliseconds."""
    kind = key_type(type)
    assert kind is not None
    return Fraction(1000) if kind.per_second is None else kind.per_second


def encode(array: pa.Array) -> Keys:
    """Return the sort keys of an array of an orderable type; NULLs get arbitrary keys.

    >>> encode(pa.array([1.5, float("nan"), -0.0, 0.0])).argsort(kind="stable").tolist()
    [2, 3, 0, 1]
    """
    kind = array.type
    if pa.types.is_floating(kind):
        return encode_doubles(numpy_of(array.cast(pa.float64()), 0.0))
    if pa.types.is_decimal(kind):
        return unscaled(array)
    if pa.types.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif not (pa.types.is_boolean(kind) or pa.types.is_integer(kind)):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    return numpy_of(array.cast(pa.int64()), 0)


def encode_coarse(array: pa.Array) -> Keys:
    """Return keys that ascend with numbers, strings or binary; NULLs get arbitrary keys.

    Numbers get the key of a double that is off by at most a few units in the last place.

    >>> encode_coarse(pa.array(["b", "abcdefgh1", "abcdefgh2"])).argsort(kind="stable").tolist()
    [1, 2, 0]
    """
    kind = array.type
    if pa.types.is_decimal(kind):
        return encode_doubles(nearby_doubles(array))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return encode_doubles(numpy_of(array, 0).astype(np.float64))
    return encode_prefixes(*slices_of(array))


def nearby_doubles(array: pa.Array) -> NDArray[np.float64]:
    """Return doubles near the values of decimals; the nearest ones would cost more."""
    low, high = words_of(array)
    unscaled = low.view(np.uint64).astype(np.float64) + high.astype(np.float64) * 2.0**64
    small = high == low >> 63  # where the sum of the words would round twice, and cancel
    return np.where(small, low.astype(np.float64), unscaled) / 10.0**array.type.scale


@kernel
def encode_prefixes(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> Keys:
    """Return the first eight bytes between neighbouring offsets, in the order of bytes."""
    keys = np.empty(offsets.size - 1, np.int64)
    for i in range(keys.size):
        first, last = offsets[i], min(offsets[i + 1], offsets[i] + 8)
        prefix = np.uint64(0)
        for at in range(first, last):
            prefix |= np.uint64(data[at]) << np.uint64(56 - 8 * (at - first))
        keys[i] = np.int64(prefix ^ np.uint64(1 << 63))  # unsigned order as signed order
    return keys


def numpy_of(array: pa.Array, fill: float) -> NDArray[Any]:
    """Return the values as NumPy, ``fill`` for NULL, without a copy if there is no NULL."""
    if array.null_count:
        array = pc.fill_null(array, fill)
    return array.to_numpy(zero_copy_only=False)


def encode_doubles(values: NDArray[np.float64]) -> Keys:
    """Return order-preserving int64 keys of doubles; NaN last, -0.0 equal to 0.0."""
    canonical = np.where(np.isnan(values), np.nan, values) + 0.0  # -0.0 + 0.0 is 0.0
    bits = canonical.view(np.int64)
    return bits ^ ((bits >> 63) & MAX_KEY)


def unscaled(array: pa.Array) -> Keys:
    """Return the unscaled integers of decimals, clamped to int64."""
    low, high = words_of(array)
    return np.where(high == low >> 63, low, np.where(high < 0, MIN_KEY, MAX_KEY))


def words_of(array: pa.Array) -> tuple[Keys, Keys]:
    """Return the lower and upper 64 bits of the unscaled integers of decimals."""
    array = array.cast(pa.decimal128(38, array.type.scale))
    if array.null_count:
        array = pc.fill_null(array, 0)
    words = np.frombuffer(array.buffers()[1] or b"", np.int64)  # little-endian
    words = words[2 * array.offset : 2 * (array.offset + len(array))]
    return words[::2], words[1::2]


def digits(type: pa.DataType, scale: int) -> int | None:
    """Return how many digits a number of this type has at most, written with ``scale`` decimals.

    >>> digits(pa.int32(), 2), digits(pa.decimal128(10, 2), 4), digits(pa.float64(), 2)
    (12, 12, None)
    """
    if pa.types.is_decimal(type):
        return int(type.precision - type.scale + scale)
    if pa.types.is_integer(type):
        largest = 1 << (type.bit_width - (not pa.types.is_unsigned_integer(type)))
        return len(str(largest)) + scale
    return None
