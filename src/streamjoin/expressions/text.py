"""Values as text: what Spark's CAST reads from a string, and how it writes one.

Parsers return None for text that is not a value of the type. Like Spark, they ignore surrounding
white space and read dates and timestamps in Spark's own formats. A timestamp without a zone is in
the session's time zone, which is UTC here.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from streamjoin.expressions.datatypes import integer_range, kind

Parser = Callable[[str], Any]

_SPACE = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SUFFIX = re.compile(r"[dDfF]")
_SPECIAL = {
    "nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf",
    "-inf": "-inf", "-infinity": "-inf",
}  # fmt: skip
_BOOLEANS = {
    "t": True, "true": True, "y": True, "yes": True, "1": True,
    "f": False, "false": False, "n": False, "no": False, "0": False,
}  # fmt: skip
_DAY = r"([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_DATE = re.compile(_DAY + r"(?:[ T].*)?)?)?", re.DOTALL)
_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?"
_TIMESTAMP = re.compile(_DAY + rf"(?:[ T]{_CLOCK}\s*([^\s].*)?)?)?)?")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::([0-9]{1,2}))?")
_EPOCH = date(1970, 1, 1).toordinal()


def parser(type: pa.DataType) -> Parser:
    """Return the function that reads a value of the type from a string."""
    family = kind(type)
    if family == "integer":
        low, high = integer_range(type)
        return lambda text: _integer(text, low, high)
    if family == "decimal":
        return lambda text: _decimal(text, type.precision, type.scale)
    if family == "timestamp":
        return lambda text: _timestamp(text, type)
    return {"floating": _floating, "boolean": _boolean, "date": _date}[family]


def _integer(text: str, low: int, high: int) -> int | None:
    stripped = text.strip(_SPACE)
    if not _INTEGER.fullmatch(stripped):
        return None
    value = int(stripped)
    return value if low <= value <= high else None


def _floating(text: str) -> float | None:
    stripped = text.strip(_SPACE)
    special = "nan" if stripped in ("+NaN", "-NaN") else _SPECIAL.get(stripped.lower())
    if special is not None:
        return float(special)
    if stripped and _SUFFIX.fullmatch(stripped[-1]):
        stripped = stripped[:-1]
    return float(stripped) if _NUMBER.fullmatch(stripped) else None


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    stripped = text.strip(_SPACE)
    if not _NUMBER.fullmatch(stripped):
        return None
    sign, digits, exponent = Decimal(stripped).as_tuple()
    whole, shift = int("".join(map(str, digits))), scale + int(exponent)
    if shift > precision + len(digits):
        return None if whole else Decimal(0)
    if -shift > len(digits) + 1:
        return Decimal(0)
    size = whole * 10**shift if shift >= 0 else (2 * whole + 10**-shift) // (2 * 10**-shift)
    if size >= 10**precision:
        return None
    return Decimal((sign, tuple(map(int, str(size))), -scale))


def _boolean(text: str) -> bool | None:
    return _BOOLEANS.get(text.strip(_SPACE).lower())


def _ordinal(year: str, month: str | None, day: str | None) -> int | None:
    """Days since 1970, None if there is no such day."""
    try:
        return date(int(year), int(month or 1), int(day or 1)).toordinal() - _EPOCH
    except ValueError:
        return None


def _date(text: str) -> int | None:
    match = _DATE.fullmatch(text.strip(_SPACE))
    return None if match is None else _ordinal(*match.groups())


def _timestamp(text: str, type: pa.DataType) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip(_SPACE))
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    days = _ordinal(year, month, day)
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    micros = micros * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
    if zone is not None:
        offset = _offset(zone, micros)
        if offset is None:
            return None
        # A TIMESTAMP_NTZ keeps the clock's reading and drops the zone.
        micros -= 0 if type.tz is None else offset
    return micros * 1000 if type.unit == "ns" else micros


def _offset(zone: str, micros: int) -> int | None:
    """Microseconds by which a zone is ahead of UTC at that local time; None for unknown zones."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is not None:
        sign, hours, minutes = match.groups()
        size = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if size > timedelta(hours=18) or int(minutes or 0) > 59:
            return None
        return (-1 if sign == "-" else 1) * size // timedelta(microseconds=1)
    return _region_offset(zone, micros)


def _region_offset(zone: str, micros: int) -> int | None:
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    moment = date.fromordinal(micros // 86_400_000_000 + _EPOCH)
    local = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    local += timedelta(microseconds=micros % 86_400_000_000)
    offset = local.replace(tzinfo=info).utcoffset()
    return None if offset is None else offset // timedelta(microseconds=1)


def formatter(type: pa.DataType) -> Callable[[pa.Scalar], str | None]:
    """Return the function that writes a value of the type as Spark's CAST to string does."""
    return {"decimal": _write_decimal, "date": _write_date, "timestamp": _write_timestamp}[
        kind(type)
    ]


def _write_decimal(value: pa.Scalar) -> str:
    return format(value.as_py(), "f")


def _write_date(value: pa.Scalar) -> str:
    return str(value.as_py().isoformat())


def _write_timestamp(value: pa.Scalar) -> str:
    per_second = 10**9 if value.type.unit == "ns" else 10**6
    seconds, fraction = divmod(value.value, per_second)
    days, clock = divmod(seconds, 86_400)
    written = f"{date.fromordinal(days + _EPOCH).isoformat()} "
    written += f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
    digits = f"{fraction:0{len(str(per_second)) - 1}}".rstrip("0")
    return f"{written}.{digits}" if digits else written
