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

Invariants:

1. ``0 <= before_us``, ``0 <= after_us``, at least one of them positive, both below 2**63.
2. ``1 <= left``, ``1 <= right``, both below 2**63.
3. ``window.flip().flip() == window``.
4. ``repr(window)`` builds an equal window.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from operator import index
from typing import SupportsIndex, TypeAlias

from streamjoin.durations import Duration, format_duration, parse_duration
from streamjoin.errors import WindowError

_LARGEST = 2**63 - 1
_ONE_WAY = (
    "To look only one way, give one end: "
    'TimeWindow(before="10 minutes") or TimeWindow(after="10 minutes").'
)
_BEFORE_AFTER = re.compile(r"before\s+(?P<before>.+?)\s*,?\s+after\s+(?P<after>.+)", re.IGNORECASE)
_COUNT = re.compile(r"count\s+(?P<left>\S+?)(?:\s*,\s*|\s+|$)(?P<right>\S+)?", re.IGNORECASE)


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
        before_us = parse_duration(0 if before is None else before, instead=_ONE_WAY)
        after_us = parse_duration(0 if after is None else after, instead=_ONE_WAY)
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
