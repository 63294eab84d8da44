"""CAST between types. A caster gives NULL where a value has no counterpart in the target type.

That is the answer of ``try_cast``; `cast` with ``safe=False`` turns it into an error, as Spark's
ANSI mode does. `_CASTERS` lists casters by the kinds of both types. A pair that is missing there
does not cast in Spark either, or has a text form of Java's (double to string) that this engine does
not imitate.
"""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.errors import UnsupportedExpressionError
from streamjoin.expressions import decimals, text
from streamjoin.expressions.datatypes import INT64, STRING, Kind, integer_range, kind, name
from streamjoin.expressions.values import NoAnswerError, demand, from_numbers, nulls_of, numbers

Caster = Callable[[pa.Array, pa.DataType], pa.Array]
_MICROS = 1_000_000


def cast(array: pa.Array, type: pa.DataType, safe: bool = False) -> pa.Array:
    """The array in another type; values without a counterpart are NULL, or an error if not safe."""
    if array.type == type:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type)
    caster = _CASTERS.get((kind(array.type), kind(type)))
    if caster is None:
        raise UnsupportedExpressionError(
            f"a cast from {name(array.type)} to {name(type)} is not evaluated in process; "
            "docs/guide/conditions.md lists the casts that are"
        )
    result = caster(array, type)
    if safe:
        return result
    given = array
    if kind(array.type) == "floating" and kind(type) == "decimal":
        # NaN and infinity become NULL even in ANSI mode; Spark raises only for numbers too large.
        given = pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))
    return demand(result, [given], lambda row: _unreadable(array, type, row))


def _unreadable(array: pa.Array, type: pa.DataType, row: int) -> str:
    return (
        f"the value {array[row].as_py()!r} of type {name(array.type)} cannot be cast to "
        f"{name(type)}; Spark raises here too. Use try_cast to get NULL instead"
    )


def _integer_to_integer(array: pa.Array, type: pa.DataType) -> pa.Array:
    values = numbers(array)
    low, high = integer_range(type)
    missing = nulls_of(array) | (values < low) | (values > high)
    return from_numbers(values.astype(type.to_pandas_dtype()), missing)


def _integer_to_decimal(array: pa.Array, type: pa.DataType) -> pa.Array:
    values = decimals.rescale(numbers(array).astype(np.int64), 0, type.scale)
    return decimals.from_unscaled(values, nulls_of(array), type)


def _floating_to_integer(array: pa.Array, type: pa.DataType) -> pa.Array:
    values = numbers(array).astype(np.float64)
    low, high = integer_range(type)
    # As Java compares: the largest bigint becomes 2**63, which passes and saturates.
    with np.errstate(invalid="ignore"):
        fits = (np.floor(values) <= float(high)) & (np.ceil(values) >= float(low))
    whole = np.trunc(np.where(fits, values, 0.0))
    saturated = whole >= 2.0**63
    integers = np.where(saturated, 0.0, whole).astype(np.int64)
    integers[saturated] = high
    return from_numbers(integers.astype(type.to_pandas_dtype()), nulls_of(array) | ~fits)


def _floating_to_decimal(array: pa.Array, type: pa.DataType) -> pa.Array:
    # The decimal that the double prints as, not its exact binary fraction.
    scale = type.scale
    values = np.empty(len(array), dtype=object)
    missing = nulls_of(array)
    for row, value in enumerate(array.to_pylist()):
        values[row] = 0
        if value is None:
            continue
        number = Decimal(repr(value))
        if number.is_finite():
            values[row] = _unscaled_half_up(number, scale)
        else:
            missing[row] = True
    return decimals.from_unscaled(values, missing, type)


def _unscaled_half_up(number: Decimal, scale: int) -> int:
    sign, digits, exponent = number.as_tuple()
    whole = int("".join(map(str, digits)))
    shift = scale + int(exponent)
    if shift < -400:
        return 0
    size: int = whole * 10**shift if shift >= 0 else (2 * whole + 10**-shift) // (2 * 10**-shift)
    return -size if sign else size


def _floating_to_floating(array: pa.Array, type: pa.DataType) -> pa.Array:
    with np.errstate(over="ignore"):
        values = numbers(array).astype(type.to_pandas_dtype())
    return from_numbers(values, nulls_of(array))


def _decimal_to_integer(array: pa.Array, type: pa.DataType) -> pa.Array:
    values = decimals.truncate(array)
    low, high = integer_range(type)
    outside = ((values < low) | (values > high)).astype(np.bool_)
    integers = np.where(outside, 0, values).astype(np.int64).astype(type.to_pandas_dtype())
    return from_numbers(integers, nulls_of(array) | outside)


def _decimal_to_floating(array: pa.Array, type: pa.DataType) -> pa.Array:
    values = decimals.to_double(array).astype(type.to_pandas_dtype())
    return from_numbers(values, nulls_of(array))


def _decimal_to_boolean(array: pa.Array, type: pa.DataType) -> pa.Array:
    return from_numbers((decimals.unscaled(array) != 0).astype(np.bool_), nulls_of(array))


def _number_to_boolean(array: pa.Array, type: pa.DataType) -> pa.Array:
    return from_numbers(numbers(array) != 0, nulls_of(array))


def _boolean_to_decimal(array: pa.Array, type: pa.DataType) -> pa.Array:
    return _integer_to_decimal(pc.cast(array, INT64), type)


def _timestamp_to_integer(array: pa.Array, type: pa.DataType) -> pa.Array:
    seconds = numbers(array.cast(INT64)) // (_MICROS * (1000 if array.type.unit == "ns" else 1))
    return _integer_to_integer(from_numbers(seconds, nulls_of(array)), type)


def _timestamp_to_floating(array: pa.Array, type: pa.DataType) -> pa.Array:
    per_second = float(_MICROS * (1000 if array.type.unit == "ns" else 1))
    seconds = numbers(array.cast(INT64)).astype(np.float64) / per_second
    return from_numbers(seconds.astype(type.to_pandas_dtype()), nulls_of(array))


def _timestamp_to_date(array: pa.Array, type: pa.DataType) -> pa.Array:
    per_day = 86_400 * _MICROS * (1000 if array.type.unit == "ns" else 1)
    days = numbers(array.cast(INT64)) // per_day
    return from_numbers(days.astype(np.int32), nulls_of(array)).cast(type)


def _by_arrow(array: pa.Array, type: pa.DataType) -> pa.Array:
    return pc.cast(array, type, safe=False)


def _change_unit(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Dates, timestamps and intervals in another unit; both of them are instants in UTC."""
    try:
        if pa.types.is_date(array.type):
            return pc.cast(pc.cast(array, pa.timestamp(type.unit)), type)
        # Coarser units drop digits, as Spark does with nanoseconds; finer ones may overflow.
        return pc.cast(array, type, safe=type.unit == "ns")
    except pa.ArrowInvalid:
        raise NoAnswerError(
            f"a {name(array.type)} is too far from 1970 to be held in the unit "
            f"{type.unit}; cast the nanosecond column to microseconds"
        ) from None


def _from_string(array: pa.Array, type: pa.DataType) -> pa.Array:
    parse = text.parser(type)
    # Each distinct text is read once: a literal compared with a column is repeated on every row.
    encoded = array.dictionary_encode()
    parsed = pa.array([parse(each) for each in encoded.dictionary.to_pylist()], type=type)
    return parsed.take(encoded.indices)


def _to_string(array: pa.Array, type: pa.DataType) -> pa.Array:
    formatted = text.formatter(array.type)
    encoded = array.dictionary_encode()
    written = [formatted(each) for each in encoded.dictionary]
    return pa.array(written, type=STRING).take(encoded.indices)


_CASTERS: dict[tuple[Kind, Kind], Caster] = {
    ("integer", "integer"): _integer_to_integer,
    ("integer", "floating"): _by_arrow,
    ("integer", "decimal"): _integer_to_decimal,
    ("integer", "boolean"): _number_to_boolean,
    ("integer", "string"): _by_arrow,
    ("floating", "integer"): _floating_to_integer,
    ("floating", "floating"): _floating_to_floating,
    ("floating", "decimal"): _floating_to_decimal,
    ("floating", "boolean"): _number_to_boolean,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "floating"): _decimal_to_floating,
    ("decimal", "decimal"): decimals.to_decimal,
    ("decimal", "boolean"): _decimal_to_boolean,
    ("decimal", "string"): _to_string,
    ("boolean", "integer"): _by_arrow,
    ("boolean", "floating"): _by_arrow,
    ("boolean", "decimal"): _boolean_to_decimal,
    ("boolean", "string"): _by_arrow,
    ("string", "integer"): _from_string,
    ("string", "floating"): _from_string,
    ("string", "decimal"): _from_string,
    ("string", "boolean"): _from_string,
    ("string", "date"): _from_string,
    ("string", "timestamp"): _from_string,
    ("string", "binary"): _by_arrow,
    ("date", "timestamp"): _change_unit,
    ("date", "string"): _to_string,
    ("time", "time"): _by_arrow,
    ("timestamp", "timestamp"): _change_unit,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "integer"): _timestamp_to_integer,
    ("timestamp", "floating"): _timestamp_to_floating,
    ("timestamp", "string"): _to_string,
    ("interval", "interval"): _change_unit,
}
