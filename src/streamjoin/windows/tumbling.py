"""Windows of one length, side by side: pairs in the same stretch of time.

A `TumblingWindow` cuts time into stretches of one length, the same for all rows, and pairs the rows
inside a stretch, including its beginning but not its end. Stretches are counted from 1970-01-01
00:00 UTC plus the offset (backwards before 1970), whatever the time zone: a day is 24 hours from
midnight UTC. Spark's ``window`` function and Flink count the same way::

    TumblingWindow("10 minutes", offset="5 minutes")

          09:55              10:05              10:15
    left    |  l1              l2        l3       |
    right   |        r1        |    r2            r3         (l1, r1), (l2, r2), (l3, r2)

It treats left and right alike: flipping changes nothing.

Invariant: ``0 <= offset_us < length_us < 2**63``.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from streamjoin.errors import WindowError
from streamjoin.windows.base import EQUAL_TIMES, Shape, Window
from streamjoin.windows.durations import Duration, format_duration, parse_duration

_REPEATING = (
    "Windows repeat, so add their length to the offset: for windows of a day that begin at 22:00 "
    'UTC, TumblingWindow("1 day", offset="22 hours").'
)
_TUMBLING = re.compile(
    r"tumbling\s+(?P<length>.+?)(?:\s*,?\s+offset\s+(?P<offset>.+))?", re.IGNORECASE
)


@dataclass(frozen=True, init=False, repr=False)
class TumblingWindow(Window):
    """Pairs inside one stretch ``[offset + k * length, offset + (k + 1) * length)`` of time.

    >>> TumblingWindow("1 minute")
    TumblingWindow(length='1 minute')
    >>> print(TumblingWindow("1 hour", offset="15 minutes"))
    TumblingWindow(length=1 hour, offset=15 minutes)
    """

    closes = True
    pairs = "pairs in the same stretch of time"
    example = "TumblingWindow('1 minute')"
    texts = ("tumbling 1 hour", "tumbling 1 hour offset 15 minutes")

    length_us: int
    offset_us: int

    def __init__(self, length: Duration, offset: Duration = 0) -> None:
        length_us = parse_duration(length)
        if length_us == 0:
            raise WindowError(
                f"a TumblingWindow of {length!r} has no length, and it must be positive, "
                f'e.g. TumblingWindow("1 ms"). {EQUAL_TIMES}, and keep a positive length.'
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

    @property
    def shape(self) -> Shape:
        return Shape(buckets_us=(self.length_us, self.offset_us))

    @property
    def span_us(self) -> int:
        return self.length_us

    def flip(self) -> Self:
        return self

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read a length, and an offset if there is one."""
        match = _TUMBLING.fullmatch(text)
        return None if match is None else cls(match["length"], match["offset"] or 0)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        length, offset = (
            timedelta(microseconds=fields[name]) for name in ("length_us", "offset_us")
        )
        return cls(length, offset)

    def __repr__(self) -> str:
        offset = f", offset={format_duration(self.offset_us)!r}" if self.offset_us else ""
        return f"TumblingWindow(length={format_duration(self.length_us)!r}{offset})"
