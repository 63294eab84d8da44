"""Watermarks and delays in the units of a plan's time keys."""

from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

import pyarrow as pa

from streamjoin.errors import WindowError
from streamjoin.joins.plan import JoinPlan
from streamjoin.keys.sort_keys import encode, key_type

DAY = timedelta(days=1)


def time_type(plan: JoinPlan) -> pa.DataType:
    """Return the common type of the time columns."""
    assert plan.time_part is not None
    return plan.ranges[plan.time_part].operands.type


def ticks(microseconds: int, plan: JoinPlan) -> int:
    """Return a duration in keys of the time columns, rounded up: a delay is never shortened."""
    kind = key_type(time_type(plan))
    assert kind is not None
    per_second = Fraction(1000) if kind.per_second is None else kind.per_second
    return ceil(Fraction(microseconds, 1_000_000) * per_second)


def to_key(watermark: Any, plan: JoinPlan) -> int:
    """Return a watermark given as datetime, date or integer milliseconds as a time key."""
    kind = time_type(plan)
    is_count = isinstance(watermark, int) and not isinstance(watermark, bool)
    if pa.types.is_integer(kind):
        if not is_count:
            raise WindowError(
                f"the watermark {watermark!r} does not fit the time columns, which are integers; "
                "give an integer (milliseconds)"
            )
        return int(watermark)
    if is_count:
        watermark = datetime(1970, 1, 1) + timedelta(milliseconds=watermark)
    if not isinstance(watermark, date):
        raise WindowError(
            f"the watermark {watermark!r} is no time; the time columns are {kind}: give a "
            "datetime, a date or an integer (milliseconds since 1970)"
        )
    if pa.types.is_date(kind):
        if isinstance(watermark, datetime):  # a date is its midnight: later that day, it is past
            midnight = watermark.replace(hour=0, minute=0, second=0, microsecond=0)
            watermark = (midnight if midnight == watermark else midnight + DAY).date()
    elif not isinstance(watermark, datetime):
        watermark = datetime(watermark.year, watermark.month, watermark.day)
    return int(encode(pa.array([watermark], kind))[0])
