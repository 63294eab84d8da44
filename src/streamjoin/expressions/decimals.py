"""Exact decimals: arithmetic on the unscaled integers, with Spark's precision and rounding.

A decimal(p,s) is an integer of p digits, divided by 10**s. All operators work on arrays of those
integers: int64 while everything fits 18 digits, Python integers (object arrays) beyond. Results
are rounded HALF_UP (ties away from zero) and become NULL where they do not fit the precision; the
caller decides whether that is an error.

The types of results follow Spark's DecimalPrecision rule with its cap at 38 digits, which gives up
scale before integral digits, but keeps at least 6 digits of scale
(spark.sql.decimalOperations.allowPrecisionLoss, on by default)::

    decimal(p1,s1) + decimal(p2,s2)   scale max(s1,s2)          precision max(p1-s1,p2-s2)+scale+1
    *                                 scale s1+s2               precision p1+p2+1
    /                                 scale max(6, s1+p2+1)     precision p1-s1+s2+scale
    %                                 scale max(s1,s2)          precision min(p1-s1,p2-s2)+scale
"""

import numpy as np
import pyarrow as pa

from streamjoin.expressions.datatypes import MAX_PRECISION
from streamjoin.expressions.values import Mask, Numbers, nulls_of

_WORD = (1 << 64) - 1
_SMALL = 18  # 10**18 < 2**63
_MINIMUM_SCALE = 6


def cap_precision(precision: int, scale: int) -> pa.DataType:
    """Spark's ``adjustPrecisionScale``: cap at 38 digits, giving up scale down to 6 digits."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    least = min(scale, _MINIMUM_SCALE)
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), least))


def result_type(operator: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The decimal type of ``a operator b`` for + - * / %."""
    p1, s1, p2, s2 = a.precision, a.scale, b.precision, b.scale
    if operator in "+-":
        scale = max(s1, s2)
        return cap_precision(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return cap_precision(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(_MINIMUM_SCALE, s1 + p2 + 1)
        return cap_precision(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return cap_precision(min(p1 - s1, p2 - s2) + scale, scale)


def wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The decimal type that both are compared in."""
    scale = max(a.scale, b.scale)
    integral = max(a.precision - a.scale, b.precision - b.scale)
    # Beyond 38 digits the integral ones win: decimal(38,0) and 0.5 compare as decimal(38,0), so
    # that 0.5, rounded, equals 1 there.
    scale = min(scale, MAX_PRECISION - integral)
    return pa.decimal128(integral + scale, scale)


def unscaled(array: pa.Array) -> Numbers:
    """The integers behind a decimal array: int64 up to 18 digits, else Python integers.

    NULL rows hold 1, which is safe for every operator, division included.
    """
    buffer = array.buffers()[1]
    words = np.frombuffer(buffer, dtype=np.int64) if buffer else np.empty(0, dtype=np.int64)
    words = words[2 * array.offset : 2 * (array.offset + len(array))]
    missing = nulls_of(array)
    low = np.where(missing, 1, words[0::2])
    if array.type.precision <= _SMALL:
        return low
    high = np.where(missing, 0, words[1::2]).astype(object)
    joined: Numbers = high * (1 << 64) + low.view(np.uint64).astype(object)
    return joined


def from_unscaled(values: Numbers, missing: Mask, type: pa.DataType) -> pa.Array:
    """A decimal array of unscaled integers; NULL if ``missing`` or if a value does not fit."""
    missing = missing | exceeds(values, 10**type.precision)
    words = np.empty(2 * len(values), dtype=np.int64)
    if values.dtype == object:
        values = np.where(missing, 0, values).astype(object)
        words[0::2] = (values & _WORD).astype(np.uint64).view(np.int64)
        words[1::2] = (values >> 64).astype(np.int64)
    else:
        words[0::2] = values
        words[1::2] = values >> 63
    bitmap = None
    if missing.any():
        bitmap = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
    return pa.Array.from_buffers(type, len(values), [bitmap, pa.py_buffer(words.tobytes())])


def exceeds(values: Numbers, limit: int) -> Mask:
    """Which integers do not lie strictly between -limit and limit."""
    if values.dtype != object and limit >= 1 << 63:
        return np.zeros(len(values), dtype=np.bool_)
    outside: Mask = ((values >= limit) | (values <= -limit)).astype(np.bool_)
    return outside


def rescale(values: Numbers, scale: int, new_scale: int) -> Numbers:
    """Unscaled integers at another scale, rounded HALF_UP if digits are lost."""
    if new_scale == scale or not len(values):
        return values
    factor = 10 ** abs(new_scale - scale)
    if values.dtype != object and not _stays_small(values, factor):
        values = values.astype(object)
    if new_scale < scale:
        return _half_up(values, np.asarray(factor, dtype=values.dtype))
    raised: Numbers = values * factor
    return raised


def _stays_small(values: Numbers, factor: int) -> bool:
    """Whether int64 has room for the values times the factor, doubled and rounded."""
    largest = max(int(values.max()), -int(values.min()), 1)
    return largest * 3 * factor < 1 << 63


def to_decimal(array: pa.Array, type: pa.DataType) -> pa.Array:
    """A decimal array in another decimal type; NULL where it does not fit."""
    if array.type == type:
        return array
    values = rescale(unscaled(array), array.type.scale, type.scale)
    return from_unscaled(values, nulls_of(array), type)


def to_double(array: pa.Array) -> Numbers:
    """The nearest double of each decimal; NULL rows hold some number."""
    values, divisor = unscaled(array), 10**array.type.scale
    if array.type.precision <= 15 and array.type.scale <= 22:
        # Both operands are exact doubles, so the single division rounds correctly.
        return values.astype(np.float64) / float(divisor)
    # Python divides integers of any size with correct rounding; Arrow's cast does not.
    nearest: Numbers = (values.astype(object) / divisor).astype(np.float64)
    return nearest


def calculate(operator: str, a: pa.Array, b: pa.Array) -> pa.Array:
    """``a operator b`` for + - * / %; NULL where it does not fit or the divisor is zero."""
    type, missing = result_type(operator, a.type, b.type), nulls_of(a, b)
    x, y = _operands(operator, a, b)
    s1, s2 = a.type.scale, b.type.scale
    if operator == "/":
        zero = _zeros(y)
        # Spark divides to 38 digits of scale first and rounds that to the result's scale.
        dividend = rescale(x.astype(object), s1 - s2, MAX_PRECISION)
        quotient = _half_up(dividend, np.where(zero, 1, y).astype(object))
        return from_unscaled(rescale(quotient, MAX_PRECISION, type.scale), missing | zero, type)
    if operator == "*":
        return from_unscaled(rescale(x * y, s1 + s2, type.scale), missing, type)
    scale = max(s1, s2)
    x, y = x * 10 ** (scale - s1), y * 10 ** (scale - s2)
    if operator == "%":
        zero = _zeros(y)
        rest = _sign(x) * (np.abs(x) % np.abs(np.where(zero, 1, y)))
        return from_unscaled(rescale(rest, scale, type.scale), missing | zero, type)
    total = x + y if operator == "+" else x - y
    return from_unscaled(rescale(total, scale, type.scale), missing, type)


def truncate(array: pa.Array) -> Numbers:
    """The integral part of each decimal, as Python integers; NULL rows hold some number."""
    values = unscaled(array).astype(object)
    whole: Numbers = _sign(values) * (np.abs(values) // 10**array.type.scale)
    return whole


def floor(array: pa.Array, up: bool = False) -> pa.Array:
    """Spark's floor (or ceil) of a decimal: decimal(p-s+1, 0)."""
    values, divisor = unscaled(array).astype(object), 10**array.type.scale
    whole = -(-values // divisor) if up else values // divisor
    type = array.type
    precision = type.precision if type.scale == 0 else type.precision - type.scale + 1
    return from_unscaled(whole, nulls_of(array), pa.decimal128(precision, 0))


def round_places(array: pa.Array, places: int) -> pa.Array:
    """Spark's ``round(decimal, places)``, HALF_UP."""
    type = array.type
    integral = type.precision - type.scale + 1
    if places < 0:
        target = pa.decimal128(min(max(integral, 1 - places), MAX_PRECISION), 0)
        values = rescale(unscaled(array), type.scale, places) * 10**-places
    else:
        scale = min(type.scale, places)
        target = pa.decimal128(min(integral + scale, MAX_PRECISION), scale)
        values = rescale(unscaled(array), type.scale, scale)
    return from_unscaled(values, nulls_of(array), target)


def _operands(operator: str, a: pa.Array, b: pa.Array) -> tuple[Numbers, Numbers]:
    """The unscaled operands, as Python integers unless int64 has room for the whole operation."""
    x, y = unscaled(a), unscaled(b)
    p, q, shift = a.type.precision, b.type.precision, abs(a.type.scale - b.type.scale)
    digits = p + q if operator in "*/" else max(p, q) + shift + 1
    if digits <= _SMALL:
        return x, y
    return x.astype(object), y.astype(object)


def _zeros(values: Numbers) -> Mask:
    zeros: Mask = (values == 0).astype(np.bool_)
    return zeros


def _sign(values: Numbers) -> Numbers:
    return np.where(values < 0, -1, 1).astype(values.dtype)


def _half_up(values: Numbers, divisor: Numbers) -> Numbers:
    """Division rounded to the nearest integer, ties away from zero."""
    dividend, size = np.abs(values), np.abs(divisor)
    nearest: Numbers = (2 * dividend + size) // (2 * size)
    return np.where((values < 0) == (divisor < 0), nearest, -nearest).astype(values.dtype)
