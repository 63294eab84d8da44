"""Windows that follow the rows: a session lasts until a pause is longer than the gap.

Neighbours, of either stream, are in the same session unless the pause between them is longer than
the gap. Rows of both streams that agree in the condition's equalities form sessions of their own;
without an equality, all rows do together::

    SessionWindow("10 minutes")

    left    10:00           10:10                       10:31
    right           10:04             10:20                     10:35
            |------------- one -----------|  11 minutes  |-- two --|

A pause of exactly the gap does not end a session: Spark's ``session_window`` and Flink join windows
that touch. A gap is a fixed time: ``1 day`` is ``24 hours``. Spark's ``1 day`` follows the clocks
of its time zone, and has 23 hours when they go forward.

It treats left and right alike: flipping changes nothing.

Invariant: ``1 <= gap_us < 2**63``.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from streamjoin.errors import WindowError
from streamjoin.windows.base import EQUAL_TIMES, Shape, Window
from streamjoin.windows.durations import Duration, format_duration, parse_duration

_SESSION = re.compile(r"session\s+(?P<gap>.+)", re.IGNORECASE)


@dataclass(frozen=True, init=False, repr=False)
class SessionWindow(Window):
    """Pairs inside one session: rows of equal keys, of both streams, no pause longer than the gap.

    >>> SessionWindow("10 minutes")
    SessionWindow(gap='10 minutes')
    >>> print(SessionWindow(1500))
    SessionWindow(gap=1 second 500 milliseconds)
    """

    closes = True
    follows_rows = True
    unit = "session"
    pairs = "pairs without a long pause between them"
    example = "SessionWindow('10 minutes')"
    texts = ("session 10 minutes",)

    gap_us: int

    def __init__(self, gap: Duration) -> None:
        gap_us = parse_duration(gap)
        if gap_us == 0:
            raise WindowError(
                f"a SessionWindow with a gap of {gap!r} would be cut at every pause, and the gap "
                f'must be positive, e.g. SessionWindow("1 ms"). {EQUAL_TIMES}, and keep a '
                "positive gap."
            )
        object.__setattr__(self, "gap_us", gap_us)

    @property
    def gap(self) -> timedelta:
        """The longest pause inside a session."""
        return timedelta(microseconds=self.gap_us)

    @property
    def shape(self) -> Shape:
        return Shape(gap_us=self.gap_us)

    @property
    def span_us(self) -> int:
        """The gap: between neighbours, not between the ends of a session."""
        return self.gap_us

    def flip(self) -> Self:
        return self

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        match = _SESSION.fullmatch(text)
        return None if match is None else cls(match["gap"])

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        return cls(timedelta(microseconds=fields["gap_us"]))

    def __repr__(self) -> str:
        return f"SessionWindow(gap={format_duration(self.gap_us)!r})"
