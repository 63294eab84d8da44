"""The type that Spark (ANSI mode) compares two columns in, and comparison itself.

Types that differ are compared in a common type. Two rules may surprise: a float and an integer or
decimal meet in double, not in float; and a string becomes the other side's type (bigint for all
integers, double for decimals), not the other way round::

              integer   decimal          float   double  string   date   timestamp
    integer   wider     wider decimal    double  double  bigint   -      -
    decimal             wider decimal    double  double  double   -      -
    float                                float   double  double   -      -
    string                                                        date   timestamp
    date                                                                 timestamp

Floating point compares as Spark's total order: NaN equals NaN and is larger than everything, and
-0.0 equals 0.0. Strings compare by their UTF-8 bytes, timestamps as instants.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.errors import UnsupportedExpressionError
from streamjoin.expressions import decimals
from streamjoin.expressions.casts import cast
from streamjoin.expressions.datatypes import (
    DOUBLE,
    INT64,
    as_decimal,
    as_spark,
    finer,
    is_numeric,
    kind,
    name,
    spark_type,
    wider_integer,
)
from streamjoin.expressions.values import (
    NoAnswerError,
    TypeMismatchError,
    Value,
    from_numbers,
    nulls_of,
    numbers,
)

_COMPARISONS = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip

_LAST = 2**63 - 1


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type that Spark compares both in; None if they do not compare."""
    a, b = spark_type(a), spark_type(b)
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    kinds = {kind(a), kind(b)}
    if "string" in kinds:
        return _common_with_string(b if kind(a) == "string" else a)
    if kinds <= {"date", "timestamp"}:
        zone = "UTC" if "UTC" in (getattr(a, "tz", None), getattr(b, "tz", None)) else None
        return pa.timestamp(finer(a, b), zone)
    if kinds == {"interval"}:
        return pa.duration(finer(a, b))
    if kinds == {"time"}:
        return pa.time64(finer(a, b))
    return None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    kinds = {kind(a), kind(b)}
    if "floating" in kinds:
        return DOUBLE
    if kinds == {"integer"}:
        return wider_integer(a, b)
    return decimals.wider(as_decimal(a), as_decimal(b))


def _common_with_string(other: pa.DataType) -> pa.DataType | None:
    family = kind(other)
    if family == "integer":
        return INT64
    if family in ("floating", "decimal"):
        return DOUBLE
    return other if family in ("date", "timestamp", "boolean", "binary") else None


def cast_to(array: pa.Array, type: pa.DataType) -> pa.Array:
    """The array in another type, like Spark's ANSI cast; raises if a value does not fit it."""
    return cast(as_spark(array), type)


def is_coarser(type: pa.DataType, common: pa.DataType) -> bool:
    """Whether values of a type may be too far from 1970 for the nanoseconds of a common type."""
    a = spark_type(type)
    known = kind(a) in ("date", "timestamp", "interval")
    return known and getattr(common, "unit", "") == "ns" and getattr(a, "unit", "us") == "us"


def clamp_to_nanoseconds(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Times that compare correctly with times of the other unit, however far from 1970.

    Times that nanoseconds cannot hold become the first or the last nanosecond. Times that are
    already nanoseconds make room for these two by moving to their neighbour, which compares the
    same: no microsecond lies in between.
    """
    array = as_spark(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type)
    missing = nulls_of(array)
    if getattr(array.type, "unit", "") == "ns":
        held = np.clip(numbers(array.cast(INT64)), -_LAST, _LAST - 1)
    else:
        if pa.types.is_date(array.type):
            array = cast(array, pa.timestamp("us"))
        given, most = numbers(array.cast(INT64)), _LAST // 1000
        held = np.where(given > most, _LAST, np.where(given < -most, -_LAST - 1, given * 1000))
    return from_numbers(held, missing).view(type)


def coerce(value: Value, type: pa.DataType) -> pa.Array:
    """The array of a value as that type; integers that no longer fit it stay int64."""
    if value.constant and len(value.array) > 1:
        once = coerce(Value(value.array[:1], value.type), type)
        return pa.repeat(once[0], len(value.array))
    if kind(value.type) == "integer" and kind(type) == "integer":
        return (
            value.array if value.array.type.bit_width >= type.bit_width else cast(value.array, type)
        )
    return cast(value.array, type)


def coerce_both(a: Value, b: Value) -> tuple[pa.Array, pa.Array, pa.DataType]:
    """Both arrays in their common type, and that type; integers may be stored wider."""
    type = _meeting_type(a, b)
    if type is None:
        raise TypeMismatchError(
            f"{name(a.type)} and {name(b.type)} do not compare; cast one of them"
        )
    x, y = coerce(a, type), coerce(b, type)
    if x.type != y.type:
        x, y = cast(x, INT64), cast(y, INT64)
    return x, y, type


def _meeting_type(a: Value, b: Value) -> pa.DataType | None:
    """The common type, with an integer literal as narrow as its digits next to a decimal."""
    if {kind(a.type), kind(b.type)} == {"integer", "decimal"}:
        return decimals.wider(as_decimal(a.type, a.digits), as_decimal(b.type, b.digits))
    return common_type(a.type, b.type)


def compare(op: str, a: pa.Array, b: pa.Array) -> pa.BooleanArray:
    """``a op b`` row by row, for = <> < <= > >= and <=>, in the common type of both."""
    a, b = as_spark(a), as_spark(b)
    return compare_values(op, Value(a, a.type), Value(b, b.type))


def compare_values(op: str, a: Value, b: Value) -> pa.BooleanArray:
    """Like `compare`, for values whose Spark type may differ from their array's."""
    try:
        x, y, type = coerce_both(a, b)
    except NoAnswerError:
        common = common_type(a.type, b.type)
        if common is None or not (is_coarser(a.type, common) or is_coarser(b.type, common)):
            raise
        x, y, type = (
            clamp_to_nanoseconds(a.array, common),
            clamp_to_nanoseconds(b.array, common),
            common,
        )
    if pa.types.is_nested(type) or kind(type) == "other":
        raise UnsupportedExpressionError(
            f"values of type {name(type)} are not compared in process, though Spark may; "
            "compare their fields"
        )
    if op == "<=>":
        both = nulls_of(x) & nulls_of(y)
        return pc.or_(pc.fill_null(compare_same("=", x, y), False), pa.array(both))
    return compare_same(op, x, y)


def compare_same(op: str, a: pa.Array, b: pa.Array) -> pa.BooleanArray:
    """A comparison of two arrays of one type, NULL where one is NULL."""
    if pa.types.is_null(a.type):
        return pa.nulls(len(a), pa.bool_())
    if pa.types.is_floating(a.type) and (_has_nan(a) or _has_nan(b)):
        a, b = order_keys(a), order_keys(b)
    return _COMPARISONS[op](a, b)


def _has_nan(array: pa.Array) -> bool:
    # Without NaN, IEEE 754's comparison is Spark's.
    return bool(np.isnan(numbers(array)).any())


def order_keys(array: pa.Array) -> pa.Array:
    """int64 keys that order doubles as Spark does: one zero, NaN above infinity.

    The bits of a double, read as an integer, ascend for positive numbers and descend for negative
    ones; flipping the lower 63 bits of the negative ones makes both ascend.
    """
    values = numbers(array).astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    bits = values.view(np.int64)
    keys = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    keys[np.isnan(values)] = 2**63 - 1
    return from_numbers(keys, nulls_of(array))
