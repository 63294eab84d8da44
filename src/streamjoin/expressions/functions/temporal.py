"""Dates, timestamps and intervals. The session's time zone is UTC.

All three are integers underneath: days, microseconds (or nanoseconds) since 1970, and microseconds.
A date plus an INTERVAL DAY is a date, plus any finer interval a timestamp. ``date - date`` and
``timestamp - timestamp`` are intervals, held as Arrow durations.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.expressions.casts import cast
from streamjoin.expressions.datatypes import (
    DATE,
    INSTANT,
    INT32,
    INT64,
    INTERVAL,
    finer,
    integer_range,
    kind,
    name,
)
from streamjoin.expressions.values import (
    NoAnswerError,
    TypeMismatchError,
    Value,
    from_numbers,
    nulls_of,
    numbers,
    typed,
)

_DAY_MICROS = 86_400_000_000


def binary(operator: str, a: Value, b: Value) -> Value | None:
    """``+ - *`` with a date, timestamp or interval among the operands; None if there is none."""
    kinds = (kind(a.type), kind(b.type))
    date_last = operator == "+" and kinds[1] in ("date", "timestamp")
    if date_last or (operator == "*" and kinds[1] == "interval"):
        a, b, kinds = b, a, kinds[::-1]
    rule = _RULES.get((operator, *kinds))
    return None if rule is None else rule(operator, a, b)


def add_days(a: Value, b: Value) -> Value:
    """``date_add(a, b)``: b days later."""
    return _shift_date("+", typed(to_date(a)), b)


def to_date(a: Value) -> pa.Array:
    """``to_date(a)``: the day of a date, timestamp or string."""
    if kind(a.type) not in ("date", "timestamp", "string", "null"):
        raise TypeMismatchError(f"{name(a.type)} is not a date; cast it to date")
    return cast(a.array, DATE)


def days_between(a: Value, b: Value) -> Value:
    """``datediff(a, b)``: the days from b to a, an int."""
    return typed(pc.subtract(_days(to_date(a)), _days(to_date(b))))


def _days(array: pa.Array) -> pa.Array:
    return array.cast(INT32)


def _shift_date(operator: str, a: Value, b: Value) -> Value:
    if kind(b.type) == "string":
        b = typed(cast(b.array, INT32))
    if kind(b.type) == "null":
        return typed(pa.nulls(len(a.array), DATE))
    if kind(b.type) != "integer" or b.type == INT64:
        raise TypeMismatchError(f"a date shifts by int days, not by {name(b.type)}; cast it to int")
    days = numbers(_days(a.array)).astype(np.int64)
    step = numbers(b.array).astype(np.int64)
    moved = days + step if operator == "+" else days - step
    missing = nulls_of(a.array, b.array)
    low, high = integer_range(INT32)
    if (((moved < low) | (moved > high)) & ~missing).any():
        raise NoAnswerError("the date is outside the calendar; Spark raises or wraps here")
    return typed(from_numbers(moved.astype(np.int32), missing).cast(DATE))


def _shift_date_by_interval(operator: str, a: Value, b: Value) -> Value:
    if b.whole_days:
        days = numbers(cast(b.array, INTERVAL).cast(INT64)) // _DAY_MICROS
        step = typed(from_numbers(days.astype(np.int32), nulls_of(b.array)))
        return _shift_date(operator, a, step)
    return _shift_instant(operator, typed(cast(a.array, INSTANT)), b)


def _shift_instant(operator: str, a: Value, b: Value) -> Value:
    unit = finer(a.type, b.type)
    type = pa.timestamp(unit, a.type.tz)
    ticks = _ticks(operator, cast(a.array, type), cast(b.array, pa.duration(unit)))
    return typed(ticks.cast(type))


def _unknown(operator: str, a: Value, b: Value) -> Value:
    """A date or timestamp plus NULL: Spark takes the NULL for an interval."""
    return typed(pa.nulls(len(a.array), a.type if kind(a.type) == "timestamp" else INSTANT))


def _difference(operator: str, a: Value, b: Value) -> Value:
    """``-`` between dates and timestamps, or strings that hold such: an interval."""
    whole_days = "timestamp" not in (kind(a.type), kind(b.type))
    if whole_days:
        a, b = typed(cast(a.array, DATE)), typed(cast(b.array, DATE))
    type = pa.timestamp(finer(a.type, b.type), "UTC")
    ticks = _ticks("-", cast(a.array, type), cast(b.array, type))
    interval = pa.duration(type.unit)
    return Value(ticks.cast(interval), interval, whole_days=whole_days)


def _add_intervals(operator: str, a: Value, b: Value) -> Value:
    type = pa.duration(finer(a.type, b.type))
    ticks = _ticks(operator, cast(a.array, type), cast(b.array, type))
    return Value(ticks.cast(type), type, whole_days=a.whole_days and b.whole_days)


def _multiply_interval(operator: str, a: Value, b: Value) -> Value:
    ticks = _ticks("*", a.array, cast(b.array, INT64))
    return typed(ticks.cast(a.type))


def _ticks(operator: str, a: pa.Array, b: pa.Array) -> pa.Array:
    """``+ - *`` on the integers underneath; an overflow is an error."""
    functions = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
    try:
        return functions[operator](a.cast(INT64), b.cast(INT64))
    except pa.ArrowInvalid:
        raise NoAnswerError("the timestamp or interval overflows; Spark raises here too") from None


def date_part(part: Callable[[pa.Array], pa.Array]) -> Callable[[Value], Value]:
    """year, month, day of a date."""

    def operate(a: Value) -> Value:
        return typed(part(to_date(a)).cast(INT32))

    return operate


def clock_part(part: Callable[[pa.Array], pa.Array]) -> Callable[[Value], Value]:
    """hour, minute, second of a timestamp."""

    def operate(a: Value) -> Value:
        return typed(part(to_timestamp(a)).cast(INT32))

    return operate


def to_timestamp(a: Value) -> pa.Array:
    """The timestamp of a timestamp, date or string."""
    if kind(a.type) not in ("date", "timestamp", "string", "null"):
        raise TypeMismatchError(f"{name(a.type)} is not a timestamp; cast it to timestamp")
    return a.array if kind(a.type) == "timestamp" else cast(a.array, INSTANT)


def unix_seconds(a: Value) -> Value:
    """``unix_timestamp(a)``: whole seconds since 1970."""
    if kind(a.type) not in ("date", "timestamp"):
        raise TypeMismatchError(
            f"unix_timestamp takes a date or timestamp here, not {name(a.type)}; cast it"
        )
    array = to_timestamp(a)
    ticks = numbers(array.cast(INT64))
    per_second = 10**9 if array.type.unit == "ns" else 10**6
    # Rounds towards zero, unlike a cast to bigint, which rounds down.
    seconds = np.sign(ticks) * (np.abs(ticks) // per_second)
    return typed(from_numbers(seconds, nulls_of(array)))


_RULES: dict[tuple[str, str, str], Callable[[str, Value, Value], Value]] = {
    ("+", "date", "integer"): _shift_date,
    ("-", "date", "integer"): _shift_date,
    ("+", "date", "null"): _unknown,
    ("+", "timestamp", "null"): _unknown,
    ("-", "date", "null"): _difference,
    ("-", "timestamp", "null"): _difference,
    ("-", "date", "string"): _difference,
    ("-", "string", "date"): _difference,
    ("-", "timestamp", "string"): _difference,
    ("-", "string", "timestamp"): _difference,
    ("+", "date", "interval"): _shift_date_by_interval,
    ("-", "date", "interval"): _shift_date_by_interval,
    ("+", "timestamp", "interval"): _shift_instant,
    ("-", "timestamp", "interval"): _shift_instant,
    ("-", "date", "date"): _difference,
    ("-", "date", "timestamp"): _difference,
    ("-", "timestamp", "date"): _difference,
    ("-", "timestamp", "timestamp"): _difference,
    ("+", "interval", "interval"): _add_intervals,
    ("-", "interval", "interval"): _add_intervals,
    ("*", "interval", "integer"): _multiply_interval,
}
