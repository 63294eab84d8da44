"""A window of time that slides: pairs whose event times are close.

A `TimeWindow` looks at event times only. Around each left row it opens a stretch of time, and the
right rows inside it, both ends included, are its partners::

    TimeWindow(before="2 minutes", after="1 minute")

    left          l at 10:05
    right   10:02   10:03   10:05   10:06   10:07
              .       x       x       x       .        l.t - before <= r.t <= l.t + after

Seen from a right row, the two ends change places: `TimeWindow.flip` does that, so code for one side
serves both. The result depends neither on arrival nor on how the input is cut into batches.

Invariant: ``0 <= before_us``, ``0 <= after_us``, at least one of them positive, both below 2**63.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from streamjoin.errors import WindowError
from streamjoin.windows.base import EQUAL_TIMES, Shape, Window
from streamjoin.windows.durations import Duration, format_duration, parse_duration

_ONE_WAY = (
    "To look only one way, give one end: "
    'TimeWindow(before="10 minutes") or TimeWindow(after="10 minutes").'
)
_BEFORE_AFTER = re.compile(r"before\s+(?P<before>.+?)\s*,?\s+after\s+(?P<after>.+)", re.IGNORECASE)


@dataclass(frozen=True, init=False, repr=False)
class TimeWindow(Window):
    """Pairs with ``l.t - before <= r.t <= l.t + after``; one duration means both.

    >>> TimeWindow("10 minutes")
    TimeWindow(before='10 minutes', after='10 minutes')
    >>> print(TimeWindow(before="1 hour"))
    TimeWindow(before=1 hour, after=0 seconds)
    """

    pairs = "pairs whose event times are close"
    example = "TimeWindow('10 minutes')"
    texts = ("10 minutes", "before 1 hour, after 5 minutes")

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
                f'it must be positive, e.g. TimeWindow("1 ms"). {EQUAL_TIMES}, and keep a '
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

    @property
    def shape(self) -> Shape:
        """A band over the times, both ends included."""
        return Shape(band_us=(-self.after_us, self.before_us))

    @property
    def span_us(self) -> int:
        """From the earliest partner of a row to the latest."""
        return self.before_us + self.after_us

    def flip(self) -> "TimeWindow":
        return TimeWindow(before=self.after, after=self.before)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read both ends, or one duration; any text that no other window reads comes here."""
        if match := _BEFORE_AFTER.fullmatch(text):
            return cls(before=match["before"], after=match["after"])
        return cls(text)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        before, after = (timedelta(microseconds=fields[name]) for name in ("before_us", "after_us"))
        return cls(before=before, after=after)

    def __repr__(self) -> str:
        before, after = format_duration(self.before_us), format_duration(self.after_us)
        return f"TimeWindow(before={before!r}, after={after!r})"
