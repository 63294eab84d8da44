"""Mathematical functions: rounding, roots, logarithms, trigonometry.

Roots, rounding and the four operators give Spark's value bit for bit. The transcendental functions
come from the C library, Spark's from Java's, so the last digit may differ (1 ulp).
"""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa

from streamjoin.expressions import decimals
from streamjoin.expressions.casts import cast
from streamjoin.expressions.datatypes import DOUBLE, INT64, integer_range, is_numeric, kind, name
from streamjoin.expressions.values import (
    Mask,
    Numbers,
    TypeMismatchError,
    Value,
    demand,
    from_numbers,
    nulls_of,
    numbers,
    typed,
)

_ROUNDING = Context(prec=800, rounding=ROUND_HALF_UP)


def as_double(value: Value) -> pa.Array:
    """A number, or a string that holds one, as double."""
    if not is_numeric(value.type) and kind(value.type) not in ("string", "null"):
        raise TypeMismatchError(f"{name(value.type)} is not a number; cast it to double")
    return cast(value.array, DOUBLE)


def function(compute: Callable[..., Numbers]) -> Callable[..., Value]:
    """A function of doubles that gives a double."""

    def operate(*values: Value) -> Value:
        arrays = [as_double(value) for value in values]
        with np.errstate(all="ignore"):
            result = compute(*map(numbers, arrays))
        return typed(from_numbers(result, nulls_of(*arrays)))

    return operate


def logarithm(a: Value) -> Value:
    """``ln(a)``: NULL for zero and below, where Spark does not raise."""
    array = as_double(a)
    values = numbers(array)
    with np.errstate(all="ignore"):
        return typed(from_numbers(np.log(values), nulls_of(array) | (values <= 0)))


def sign(values: Numbers) -> Numbers:
    """-1, 0 or 1; zeros keep their sign and NaN stays."""
    return np.where(values == 0, values, np.sign(values))


def power(base: Numbers, exponent: Numbers) -> Numbers:
    """Java's power: unlike in C, 1 to the power of NaN and -1 to that of infinity are NaN."""
    result = np.power(base, exponent)
    undefined = np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent))
    return np.where(undefined, np.nan, result)


def angle(y: Numbers, x: Numbers) -> Numbers:
    """``atan2(y, x)``, with negative zeros made positive first, as Spark does."""
    return np.arctan2(y + 0.0, x + 0.0)


def whole(up: bool) -> Callable[[Value], Value]:
    """``ceil`` and ``floor``: a bigint, or a decimal without fraction."""
    towards = np.ceil if up else np.floor

    def operate(a: Value) -> Value:
        if kind(a.type) == "decimal":
            return typed(decimals.floor(a.array, up))
        if kind(a.type) == "integer":
            return typed(cast(a.array, INT64))
        array = as_double(a)
        values, missing = numbers(array), nulls_of(array)
        # Spark gives 0 for NaN, as Java's conversion to long does, but raises for infinity.
        values = np.where(np.isnan(values), 0.0, values)
        return typed(cast(from_numbers(towards(values), missing), INT64))

    return operate


def round_places(a: Value, places: int) -> Value:
    """``round(a, places)``, ties away from zero, of the decimal that a number prints as."""
    family = kind(a.type)
    if family == "decimal":
        return typed(decimals.round_places(a.array, places))
    if family == "integer":
        return _rounded_integers(a, places)
    array = a.array if family == "floating" else as_double(a)
    values = numbers(array).astype(np.float64)
    rounded_values, certain = _rounded_quickly(values, places)
    step = Decimal(1).scaleb(-places)
    for row in np.flatnonzero(~certain):
        rounded_values[row] = _round(float(values[row]), step)
    return typed(from_numbers(rounded_values.astype(array.type.to_pandas_dtype()), nulls_of(array)))


def _rounded_quickly(values: Numbers, places: int) -> tuple[Numbers, Mask]:
    """Rounded values, and where they are certain: away from ties, with exact steps.

    The rounded integer is below 2**53 and powers of ten up to 10**22 are exact doubles, so their
    quotient is the double nearest to the decimal.
    """
    if not 0 <= places <= 15:
        return values.copy(), np.zeros(len(values), dtype=np.bool_)
    with np.errstate(all="ignore"):
        scaled = values * 10.0**places
        nearest = np.rint(scaled)
        certain = (np.abs(scaled) < 2.0**40) & (np.abs(np.abs(scaled - nearest) - 0.5) > 1e-3)
        return nearest / 10.0**places + 0.0, certain


def _round(value: float, step: Decimal) -> float:
    if not math.isfinite(value):
        return value
    # By way of a decimal, which has no negative zero.
    return float(Decimal(repr(value)).quantize(step, context=_ROUNDING)) + 0.0


def _rounded_integers(a: Value, places: int) -> Value:
    if places >= 0:
        return a
    values = numbers(a.array).astype(object)
    exact = decimals.rescale(values, 0, places) * 10**-places
    low, high = integer_range(INT64)
    outside = ((exact < low) | (exact > high)).astype(np.bool_)
    integers = np.where(outside, 0, exact).astype(np.int64)
    array = from_numbers(integers, nulls_of(a.array) | outside)
    message = "the rounded number overflows bigint; Spark raises here too. Cast it to decimal"
    return Value(demand(array, [a.array], lambda row: message), a.type)


def is_nan(a: Value) -> Value:
    """``isnan(a)``: false for NULL."""
    array = as_double(a)
    return typed(pa.array(np.isnan(numbers(array)) & ~nulls_of(array)))
