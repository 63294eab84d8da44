"""Spark's view of Arrow's types: which there are, their names, and how a column becomes one.

Arrow has more types than Spark. A column is first brought to the type in which Spark would hold it:

    uint8, uint16, uint32      the next wider signed integer
    uint64                     decimal(20,0)
    halffloat                  float
    date64                     date
    timestamp, duration, time  microseconds; nanoseconds stay, being finer
    timestamp with any zone    zone UTC: it is an instant, the zone only matters for display
    dictionary, large, view,
    fixed-size binary          the plain type
    extension (uuid, json)     the type it is stored in
"""

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.expressions.values import NoAnswerError, TypeMismatchError

Kind = Literal[
    "null", "boolean", "integer", "floating", "decimal", "string", "binary", "date", "timestamp",
    "interval", "time", "other",
]  # fmt: skip

MAX_PRECISION = 38
INT32 = pa.int32()
INT64 = pa.int64()
DOUBLE = pa.float64()
BOOLEAN = pa.bool_()
STRING = pa.string()
DATE = pa.date32()
INSTANT = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")
INTERVAL = pa.duration("us")

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_INTEGER_DIGITS = dict(zip(_INTEGERS, (3, 5, 10, 20), strict=True))
_NAMES = {
    pa.null(): "void", pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint",
    pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double",
    pa.string(): "string", pa.binary(): "binary", pa.date32(): "date",
}  # fmt: skip
_RENAMED = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0), pa.float16(): pa.float32(), pa.date64(): pa.date32(),
    pa.large_string(): pa.string(), pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary(),
}  # fmt: skip


def kind(type: pa.DataType) -> Kind:
    """The family of a Spark type."""
    if type in _INTEGERS:
        return "integer"
    if pa.types.is_floating(type):
        return "floating"
    if pa.types.is_decimal(type):
        return "decimal"
    if pa.types.is_timestamp(type):
        return "timestamp"
    if pa.types.is_duration(type):
        return "interval"
    if pa.types.is_time(type):
        return "time"
    named: dict[pa.DataType, Kind] = {
        pa.null(): "null", BOOLEAN: "boolean", STRING: "string", pa.binary(): "binary", DATE: "date"
    }  # fmt: skip
    return named.get(type, "other")


def is_numeric(type: pa.DataType) -> bool:
    """Whether it is an integer, decimal or floating-point type."""
    return kind(type) in ("integer", "floating", "decimal")


def spark_type(type: pa.DataType) -> pa.DataType:
    """The type in which Spark would hold a column of this Arrow type."""
    if pa.types.is_dictionary(type):
        return spark_type(type.value_type)
    if isinstance(type, pa.BaseExtensionType):
        return spark_type(type.storage_type)
    if pa.types.is_fixed_size_binary(type):
        return pa.binary()
    if pa.types.is_timestamp(type):
        unit = "ns" if type.unit == "ns" else "us"
        return pa.timestamp(unit, None if type.tz is None else "UTC")
    if pa.types.is_duration(type):
        return pa.duration("ns" if type.unit == "ns" else "us")
    if pa.types.is_time(type):
        return pa.time64("ns" if type.unit == "ns" else "us")
    if pa.types.is_decimal(type):
        if type.precision > MAX_PRECISION or type.scale < 0:
            raise TypeMismatchError(
                f"{type} does not fit Spark's decimals (at most {MAX_PRECISION} digits, no "
                "negative scale); cast the column before the join"
            )
        return pa.decimal128(type.precision, type.scale)
    return _RENAMED.get(type, type)


def as_spark(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column converted to its `spark_type`; no copy if it has that type already."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = without_extension(array)
    target = spark_type(array.type)
    if array.type == target:
        return array
    try:
        return pc.cast(array, target)
    except pa.ArrowInvalid as error:
        raise NoAnswerError(
            f"a value of {array.type} does not fit {name(target)} ({error})"
        ) from None


def without_extension(array: pa.Array) -> pa.Array:
    """A column as it is stored; no copy."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def name(type: pa.DataType) -> str:
    """The name of a type in Spark SQL, for messages."""
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_timestamp(type):
        return "timestamp_ntz" if type.tz is None else "timestamp"
    if pa.types.is_duration(type):
        return "interval day to second"
    if pa.types.is_time(type):
        return "time"
    return _NAMES.get(type, str(type))


def wider_integer(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The wider of two integer types."""
    return max(a, b, key=_INTEGERS.index)


def integer_range(type: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    bound = 1 << (type.bit_width - 1)
    return -bound, bound - 1


def as_decimal(type: pa.DataType, digits: int | None = None) -> pa.DataType:
    """The decimal type of an integer type, or of an integer literal with this many digits."""
    if pa.types.is_decimal(type):
        return type
    return pa.decimal128(digits or _INTEGER_DIGITS[type], 0)


def finer(a: pa.DataType, b: pa.DataType) -> str:
    """The finer unit of two timestamp or interval types."""
    return "ns" if "ns" in (getattr(a, "unit", "us"), getattr(b, "unit", "us")) else "us"
