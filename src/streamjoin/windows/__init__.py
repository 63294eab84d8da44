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
of the other stream that arrived before it::

    CountWindow(left=2, right=3)

    arrival    l1  l2  r1  l3  r2
                    x       x   ^        r2 meets the last two left rows

A `TumblingWindow` cuts time into stretches of one length, the same for all rows, and pairs the rows
inside a stretch, its beginning included and its end not. The stretches are counted from 1970-01-01
00:00 UTC plus the offset, before 1970 too, whatever the time zone: a day is 24 hours from midnight
UTC. Spark's ``window`` function and Flink count alike::

    TumblingWindow("10 minutes", offset="5 minutes")

          09:55              10:05              10:15
    left    |  l1              l2        l3       |
    right   |        r1        |    r2            r3         (l1, r1), (l2, r2), (l3, r2)

A `SessionWindow` follows the rows: a session lasts while no pause between neighbours, of whichever
stream, is longer than the gap, and ends where one is. Rows of both streams with equal values in the
equalities of the condition make sessions of their own; without an equality, all rows together do::

    SessionWindow("10 minutes")

    left    10:00           10:10                       10:31
    right           10:04             10:20                     10:35
            |------------- one -----------|  11 minutes  |-- two --|

A pause of exactly the gap does not end a session: Spark's ``session_window`` and Flink join windows
that touch. A gap is a fixed time; Spark's gap of ``1 day`` follows the clocks of its time zone and
has 23 hours when they go forward, where ``24 hours`` is ours.

These two look at event times only and treat left and right alike: flipping changes nothing.

Invariants:

1. ``0 <= before_us``, ``0 <= after_us``, at least one of them positive, both below 2**63.
2. ``1 <= left``, ``1 <= right``, both below 2**63.
3. ``0 <= offset_us < length_us < 2**63``, and ``1 <= gap_us < 2**63``.
4. ``window.flip().flip() == window``.
5. ``repr(window)`` builds an equal window.
"""

from dataclasses import dataclass
from datetime import timedelta
from operator import index
from typing import SupportsIndex, TypeAlias

from streamjoin.errors import WindowError
from streamjoin.windows.durations import Duration, format_duration, parse_duration

_LARGEST = 2**63 - 1
_ONE_WAY = (
    "To look only one way, give one end: "
    'TimeWindow(before="10 minutes") or TimeWindow(after="10 minutes").'
)
_REPEATING = (
    "Windows repeat, so add their length to the offset: for windows of a day that begin at 22:00 "
    'UTC, TumblingWindow("1 day", offset="22 hours").'
)
_EQUAL_TIMES = "To pair equal times only, put the equality into the condition, e.g. l.ts = r.ts"


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
                f'it must be positive, e.g. TimeWindow("1 ms"). {_EQUAL_TIMES}, and keep a '
                "positive window."
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
        return _without_quotes(self)

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


@dataclass(frozen=True, init=False, repr=False)
class TumblingWindow:
    """Pairs inside one stretch ``[offset + k * length, offset + (k + 1) * length)`` of time.

    >>> TumblingWindow("1 minute")
    TumblingWindow(length='1 minute')
    >>> print(TumblingWindow("1 hour", offset="15 minutes"))
    TumblingWindow(length=1 hour, offset=15 minutes)
    """

    length_us: int
    offset_us: int

    def __init__(self, length: Duration, offset: Duration = 0) -> None:
        length_us = parse_duration(length)
        if length_us == 0:
            raise WindowError(
                f"a TumblingWindow of {length!r} has no length, and it must be positive, "
                f'e.g. TumblingWindow("1 ms"). {_EQUAL_TIMES}, and keep a positive length.'
            )
        offset_us = parse_duration(offset, instead=_REPEATING) % length_us
        object.__setattr__(self, "length_us", length_us)
        object.__setattr__(self, "offset_us", offset_us)

    @property
    def length(self) -> timedelta:
        """How long each window is."""
        return timedelta(microseconds=self.length_us)

    @property
    def offset(self) -> timedelta:
        """How long after 1970-01-01 00:00 UTC a window begins; less than the length."""
        return timedelta(microseconds=self.offset_us)

    def flip(self) -> "TumblingWindow":
        """The same pairs, with left and right exchanged."""
        return self

    def __str__(self) -> str:
        return _without_quotes(self)

    def __repr__(self) -> str:
        offset = f", offset={format_duration(self.offset_us)!r}" if self.offset_us else ""
        return f"TumblingWindow(length={format_duration(self.length_us)!r}{offset})"


@dataclass(frozen=True, init=False, repr=False)
class SessionWindow:
    """Pairs inside one session: rows of equal keys, of both streams, no pause longer than the gap.

    >>> SessionWindow("10 minutes")
    SessionWindow(gap='10 minutes')
    >>> print(SessionWindow(1500))
    SessionWindow(gap=1 second 500 milliseconds)
    """

    gap_us: int

    def __init__(self, gap: Duration) -> None:
        gap_us = parse_duration(gap)
        if gap_us == 0:
            raise WindowError(
                f"a SessionWindow with a gap of {gap!r} would be cut at every pause, and the gap "
                f'must be positive, e.g. SessionWindow("1 ms"). {_EQUAL_TIMES}, and keep a '
                "positive gap."
            )
        object.__setattr__(self, "gap_us", gap_us)

    @property
    def gap(self) -> timedelta:
        """The longest pause inside a session."""
        return timedelta(microseconds=self.gap_us)

    def flip(self) -> "SessionWindow":
        """The same pairs, with left and right exchanged."""
        return self

    def __str__(self) -> str:
        return _without_quotes(self)

    def __repr__(self) -> str:
        return f"SessionWindow(gap={format_duration(self.gap_us)!r})"


Window: TypeAlias = TimeWindow | CountWindow | TumblingWindow | SessionWindow


def _without_quotes(window: Window) -> str:
    return repr(window).replace("'", "")


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
