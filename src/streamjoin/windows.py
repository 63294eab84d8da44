"""Which pairs are close enough in time, or in arrival, to be joined.

A `TimeWindow` looks at event times only. Around each left row it opens a stretch of time, and the
right rows inside it, both ends included, are its partners::

    TimeWindow(before="2 minutes", after="1 minute")

    left          l at 10:05
    right   10:02   10:03   10:05   10:06   10:07
              .       x       x       x       .        l.t - before <= r.t <= l.t + after

Seen from a right row the two ends change places: that is `TimeWindow.flip`, so code for one side
serves both. The result depends neither on arrival nor on how the input is cut into batches.

A `CountWindow` looks at arrival only: an arriving row meets the last ``left`` (or ``right``) rows
of the other stream that arrived before it.

Durations are held as whole microseconds, the resolution of Spark's timestamps, and are computed
exactly: ``"0.1 seconds"`` is 100,000 microseconds, not a rounded double. Months and years have no
fixed length, so they are refused.

Invariants:

1. ``0 <= before_us``, ``0 <= after_us``, at least one of them positive, both below 2**63.
2. ``1 <= left``, ``1 <= right``, both below 2**63.
3. ``window.flip().flip() == window``.
4. ``parse_duration(format_duration(us)) == us``, and ``repr(window)`` builds an equal window.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from operator import index
from typing import SupportsIndex, TypeAlias

from streamjoin.errors import WindowError

Duration: TypeAlias = str | timedelta | int

_LARGEST = 2**63 - 1
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
_BEFORE_AFTER = re.compile(r"before\s+(?P<before>.+?)\s*,?\s+after\s+(?P<after>.+)", re.IGNORECASE)
_COUNT = re.compile(r"count\s+(?P<left>\S+?)(?:\s*,\s*|\s+|$)(?P<right>\S+)?", re.IGNORECASE)


def parse_duration(value: Duration) -> int:
    """Give a duration in whole microseconds; an integer counts milliseconds.

    >>> parse_duration("10 minutes"), parse_duration("1h 30min"), parse_duration(500)
    (600000000, 5400000000, 500000)
    >>> parse_duration("interval 1.5 seconds") == parse_duration(timedelta(seconds=1.5))
    True
    >>> parse_duration("1 month")
    Traceback (most recent call last):
    ...
    streamjoin.errors.WindowError: duration '1 month': a 'month' has no fixed length. Use days or \
weeks, e.g. "30 days".
    """
    microseconds = _exact_microseconds(value)
    if microseconds.denominator != 1:
        raise WindowError(
            f"duration {value!r}: times have microsecond resolution, and this is not a whole "
            "number of microseconds. Round it, e.g. to "
            f'"{format_duration(max(1, round(microseconds)))}".'
        )
    if microseconds < 0:
        raise WindowError(
            f"duration {value!r}: a duration cannot be negative. To look only one way, give one "
            'end: TimeWindow(before="10 minutes") or TimeWindow(after="10 minutes").'
        )
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


@dataclass(frozen=True, init=False, repr=False)
class TimeWindow:
    """Pairs with ``l.t - before <= r.t <= l.t + after``; one duration means both.

    >>> TimeWindow("10 minutes")
    TimeWindow(before='10 minutes', after='10 minutes')
    >>> print(TimeWindow(before="1 hour"))
    TimeWindow(before=1 hour, after=0 seconds)
    """

    before_us: int
    after_us: int

    def __init__(
        self,
        duration: Duration | None = None,
        *,
        before: Duration | None = None,
        after: Duration | None = None,
    ) -> None:
        if duration is not None and (before is not None or after is not None):
            raise WindowError(
                f"TimeWindow({duration!r}, before={before!r}, after={after!r}): give either one "
                "duration, which means both ends, or before and after."
            )
        if duration is None and before is None and after is None:
            raise WindowError(
                "TimeWindow() has no length. Give a duration, "
                'e.g. TimeWindow("10 minutes") or TimeWindow(before="1 hour", after="5 minutes").'
            )
        if duration is not None:
            before = after = duration
        before_us = parse_duration(0 if before is None else before)
        after_us = parse_duration(0 if after is None else after)
        if before_us == after_us == 0:
            raise WindowError(
                f"a TimeWindow of {duration if duration is not None else 0!r} has no length, and "
                'it must be positive, e.g. TimeWindow("1 ms"). To pair equal times only, put the '
                "equality into the condition, e.g. l.ts = r.ts, and keep a positive window."
            )
        object.__setattr__(self, "before_us", before_us)
        object.__setattr__(self, "after_us", after_us)

    @property
    def before(self) -> timedelta:
        """How much earlier than the left row a right row may be."""
        return timedelta(microseconds=self.before_us)

    @property
    def after(self) -> timedelta:
        """How much later than the left row a right row may be."""
        return timedelta(microseconds=self.after_us)

    def flip(self) -> "TimeWindow":
        """The same pairs, with left and right exchanged."""
        return TimeWindow(before=self.after, after=self.before)

    def __str__(self) -> str:
        before, after = format_duration(self.before_us), format_duration(self.after_us)
        return f"TimeWindow(before={before}, after={after})"

    def __repr__(self) -> str:
        before, after = format_duration(self.before_us), format_duration(self.after_us)
        return f"TimeWindow(before={before!r}, after={after!r})"


@dataclass(frozen=True, init=False, repr=False)
class CountWindow:
    """An arriving row meets the last ``left`` or ``right`` rows of the other stream.

    >>> CountWindow(1000)
    CountWindow(left=1000, right=1000)
    >>> print(CountWindow(left=10, right=20).flip())
    CountWindow(left=20, right=10)
    """

    left: int
    right: int

    def __init__(
        self,
        size: SupportsIndex | None = None,
        *,
        left: SupportsIndex | None = None,
        right: SupportsIndex | None = None,
    ) -> None:
        if size is not None and (left is not None or right is not None):
            raise WindowError(
                f"CountWindow({size!r}, left={left!r}, right={right!r}): give either one size, "
                "which means both sides, or left and right."
            )
        if size is not None:
            left = right = size
        if left is None or right is None:
            raise WindowError(
                f"CountWindow(left={left!r}, right={right!r}): both sides need a size. "
                "Give one size for both, e.g. CountWindow(1000), or left=... and right=...."
            )
        object.__setattr__(self, "left", _count(left))
        object.__setattr__(self, "right", _count(right))

    def flip(self) -> "CountWindow":
        """The same pairs, with left and right exchanged."""
        return CountWindow(left=self.right, right=self.left)

    def __repr__(self) -> str:
        return f"CountWindow(left={self.left}, right={self.right})"


Window: TypeAlias = TimeWindow | CountWindow


def parse_window(text: str) -> Window:
    """Read a window as it is written on the command line.

    >>> parse_window("10 minutes")
    TimeWindow(before='10 minutes', after='10 minutes')
    >>> parse_window("before 1 hour, after 5 minutes")
    TimeWindow(before='1 hour', after='5 minutes')
    >>> parse_window("count 1000"), parse_window("count 1000, 2000")
    (CountWindow(left=1000, right=1000), CountWindow(left=1000, right=2000))
    """
    text = text.strip()
    if match := _COUNT.fullmatch(text):
        left, right = match["left"], match["right"] or match["left"]
        if not (left + right).isdecimal():
            raise WindowError(
                f"window {text!r}: a count is a whole number of rows, e.g. 'count 1000' "
                "or, left and right, 'count 1000, 2000'."
            )
        return CountWindow(left=int(left), right=int(right))
    if match := _BEFORE_AFTER.fullmatch(text):
        return TimeWindow(before=match["before"], after=match["after"])
    return TimeWindow(text)


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
    hint = f'; for milliseconds write "{value} ms"' if isinstance(value, float) else ""
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
                f"duration {text!r}: a {unit!r} has no fixed length. "
                'Use days or weeks, e.g. "30 days".'
            )
        if unit.lower() not in _MICROSECONDS:
            raise WindowError(
                f"duration {text!r}: unknown unit {unit!r}. Use weeks, days, hours, minutes, "
                "seconds, milliseconds or microseconds (or w, d, h, min, s, ms, us)."
            )
        total += Fraction(amount) * _MICROSECONDS[unit.lower()]
        position = match.end()
    if position == 0 or rest[position:].strip():
        raise WindowError(f"duration {text!r} cannot be read: a duration is {_EXAMPLES}.")
    return total


def _count(value: SupportsIndex) -> int:
    if not isinstance(value, bool):
        try:
            count = index(value)
        except TypeError:
            pass
        else:
            if 1 <= count <= _LARGEST:
                return count
    raise WindowError(
        f"a CountWindow size of {value!r}: a size is a whole number of rows from 1 to 2**63 - 1, "
        "e.g. CountWindow(1000)."
    )
