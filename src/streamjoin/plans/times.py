"""Watermarks and delays in the units of a plan's time keys, and watermarks as JSON."""

from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import pyarrow as pa

from streamjoin.errors import WindowError
from streamjoin.keys.sort_keys import encode, keys_per_second
from streamjoin.plans.plan import JoinPlan

DAY = timedelta(days=1)


def time_type(plan: JoinPlan) -> pa.DataType:
    """Return the common type of the time columns."""
    assert plan.time_part is not None
    return plan.ranges[plan.time_part].operands.type


def ticks(microseconds: int, plan: JoinPlan) -> int:
    """Return a duration in keys of the time columns, rounded up: a delay is never shortened."""
    return ceil(Fraction(microseconds, 1_000_000) * keys_per_second(time_type(plan)))


def ticks_within(microseconds: int, plan: JoinPlan) -> int:
    """Return a duration in keys of the time columns, rounded down: what is longer exceeds it."""
    return floor(Fraction(microseconds, 1_000_000) * keys_per_second(time_type(plan)))


def check_watermark(watermark: Any) -> date | int:
    """Refuse what is no time at all; NumPy's integers and pandas' timestamps are."""
    if isinstance(watermark, SupportsIndex) and not isinstance(watermark, bool | np.bool_):
        return index(watermark)
    if isinstance(watermark, date) and watermark == watermark:  # pandas' NaT is not itself
        return watermark
    raise WindowError(
        f"the watermark {watermark!r} is not a time; give a datetime, a date or an integer "
        "(milliseconds), as the time columns are"
    )


def to_key(watermark: Any, kind: pa.DataType) -> int:
    """Return a watermark as a key of the time columns' type."""
    time = check_watermark(watermark)
    if pa.types.is_integer(kind):
        if not isinstance(time, int):
            raise WindowError(
                f"the watermark {watermark!r} does not fit the time columns, which are integers; "
                "give an integer (milliseconds)"
            )
        return time
    try:
        if isinstance(time, int):
            return int(np.int64(ceil(Fraction(time, 1000) * keys_per_second(kind))))
        return int(encode(pa.array([as_moment(time, kind)], kind))[0])
    except (OverflowError, pa.ArrowInvalid) as error:
        raise WindowError(
            f"the watermark {watermark!r} is out of the range of the time columns, which are {kind}"
        ) from error


def as_moment(time: date, kind: pa.DataType) -> date:
    """Return a time as the datetime, or for date columns the date, that rows are compared with."""
    if not pa.types.is_date(kind):
        is_moment = isinstance(time, datetime)
        return time if is_moment else datetime(time.year, time.month, time.day)
    if isinstance(time, datetime):  # a date is its midnight: later that day, it is past
        midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight if midnight == time else midnight + DAY).date()
    return time


def write_time(watermark: Any) -> Any:
    """Return a watermark that waits in a form JSON can hold."""
    if watermark is None or isinstance(watermark, int):
        return watermark
    kind = "datetime" if isinstance(watermark, datetime) else "date"
    return [kind, watermark.isoformat()]


def read_time(saved: Any) -> Any:
    """Read what ``write_time`` returned."""
    if not isinstance(saved, list):
        return saved
    kind, text = saved
    return datetime.fromisoformat(text) if kind == "datetime" else date.fromisoformat(text)
