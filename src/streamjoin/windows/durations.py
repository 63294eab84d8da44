"""Durations: read from text, from timedeltas and from numbers, without rounding.

A duration is held as whole microseconds, the resolution of Spark's timestamps, and is computed
exactly: ``"0.1 seconds"`` is 100,000 microseconds, not a rounded double. A day has 24 hours and a
week 7 days, whatever the clocks of a time zone do. Months and years have no fixed length, so they
are refused.

Invariant: ``parse_duration(format_duration(us)) == us``.
"""

import re
from datetime import timedelta
from fractions import Fraction
from math import isfinite
from operator import index
from typing import TypeAlias

from streamjoin.errors import WindowError

Duration: TypeAlias = str | timedelta | int

_LARGEST = 2**63 - 1
MOST_DIGITS = 1000  # of an amount; Python itself reads up to 4,300
_EXAMPLES = '"10 minutes", "1 hour 30 minutes", "500 ms", a timedelta, or an integer (milliseconds)'

_MICROSECONDS = {
    unit: length
    for length, units in (
        (Fraction(1, 1000), "ns nanosecond nanoseconds"),
        (Fraction(1), "us µs μs microsecond microseconds"),
        (Fraction(1_000), "ms milli millis millisecond milliseconds"),
        (Fraction(1_000_000), "s sec secs second seconds"),
        (Fraction(60_000_000), "m min mins minute minutes"),
        (Fraction(3_600_000_000), "h hr hrs hour hours"),
        (Fraction(86_400_000_000), "d day days"),
        (Fraction(604_800_000_000), "w week weeks"),
    )
    for unit in units.split()
}
_NO_FIXED_LENGTH = re.compile(r"mo|mon|months?|q|quarters?|y|yr|years?", re.IGNORECASE)
_PRINTED = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)
_TERM = re.compile(r"\s*,?\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-zA-Zµμ]+)", re.ASCII)


def parse_duration(value: Duration, *, instead: str = "Write it without the sign.") -> int:
    """Return a duration in whole microseconds; an integer counts milliseconds.

    ``instead`` is the way out that the message for a negative duration gives.

    >>> parse_duration("10 minutes"), parse_duration("1h 30min"), parse_duration(500)
    (600000000, 5400000000, 500000)
    >>> parse_duration("interval 1.5 seconds") == parse_duration(timedelta(seconds=1.5))
    True
    >>> parse_duration("1 month")
    Traceback (most recent call last):
    ...
    streamjoin.errors.WindowError: duration '1 month': the unit 'month' has no fixed length. Use \
days or weeks, e.g. "30 days".
    """
    microseconds = _exact_microseconds(value)
    if microseconds.denominator != 1:
        raise WindowError(
            f"duration {value!r}: times have microsecond resolution, and this is not a whole "
            "number of microseconds. Round it, e.g. to "
            f'"{format_duration(max(1, round(microseconds)))}".'
        )
    if microseconds < 0:
        raise WindowError(f"duration {value!r}: a duration cannot be negative. {instead}")
    if microseconds > _LARGEST:
        raise WindowError(
            f"duration {value!r}: at most 2**63 - 1 microseconds (about 292,000 years) can be "
            "held. For finite tables, leave the window out to join without one."
        )
    return int(microseconds)


def format_duration(microseconds: int) -> str:
    """Write a duration so that `parse_duration` reads it back.

    >>> format_duration(5_400_000_000), format_duration(250_000), format_duration(0)
    ('1 hour 30 minutes', '250 milliseconds', '0 seconds')
    """
    terms = []
    for unit, length in _PRINTED:
        amount, microseconds = divmod(microseconds, length)
        if amount:
            terms.append(f"{amount} {unit}{'' if amount == 1 else 's'}")
    return " ".join(terms) or "0 seconds"


def _exact_microseconds(value: Duration) -> Fraction:
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, timedelta):
        return Fraction(value // timedelta(microseconds=1))
    if not isinstance(value, bool):
        try:
            return Fraction(index(value)) * 1_000
        except TypeError:
            pass
    is_number = isinstance(value, float) and isfinite(value)
    hint = f'; for milliseconds write "{value} ms"' if is_number else ""
    raise WindowError(
        f"duration {value!r} is a {type(value).__name__}: a duration is {_EXAMPLES}{hint}."
    )


def _parse_text(text: str) -> Fraction:
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).replace("'", "").strip()
    total, position = Fraction(0), 0
    while match := _TERM.match(rest, position):
        amount, unit = match.groups()
        if _NO_FIXED_LENGTH.fullmatch(unit) or unit == "M":
            raise WindowError(
                f"duration {text!r}: the unit {unit!r} has no fixed length. "
                'Use days or weeks, e.g. "30 days".'
            )
        if unit.lower() not in _MICROSECONDS:
            raise WindowError(
                f"duration {text!r}: unknown unit {unit!r}. Use weeks, days, hours, minutes, "
                "seconds, milliseconds or microseconds (or w, d, h, min, s, ms, us)."
            )
        if len(amount) > MOST_DIGITS:
            raise WindowError(
                f"duration {text[:80]!r}...: an amount has {len(amount):,} digits, and at most "
                f"{MOST_DIGITS:,} are read. For finite tables, leave the window out."
            )
        total += Fraction(amount) * _MICROSECONDS[unit.lower()]
        position = match.end()
    if position == 0 or rest[position:].strip():
        raise WindowError(f"duration {text!r} cannot be read: a duration is {_EXAMPLES}.")
    return total
