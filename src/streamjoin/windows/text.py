"""Windows as text: in Python, on the command line and in job files."""

import re

from streamjoin.errors import WindowError
from streamjoin.windows import CountWindow, SessionWindow, TimeWindow, TumblingWindow, Window
from streamjoin.windows.durations import MOST_DIGITS

_BEFORE_AFTER = re.compile(r"before\s+(?P<before>.+?)\s*,?\s+after\s+(?P<after>.+)", re.IGNORECASE)
_TUMBLING = re.compile(
    r"tumbling\s+(?P<length>.+?)(?:\s*,?\s+offset\s+(?P<offset>.+))?", re.IGNORECASE
)
_SESSION = re.compile(r"session\s+(?P<gap>.+)", re.IGNORECASE)
_COUNT = re.compile(r"count\s+(?P<left>\S+?)(?:\s*,\s*|\s+|$)(?P<right>\S+)?", re.IGNORECASE)


def parse_window(text: str) -> Window:
    """Read a window as it is written.

    >>> parse_window("10 minutes")
    TimeWindow(before='10 minutes', after='10 minutes')
    >>> parse_window("before 1 hour, after 5 minutes")
    TimeWindow(before='1 hour', after='5 minutes')
    >>> parse_window("count 1000"), parse_window("count 1000, 2000")
    (CountWindow(left=1000, right=1000), CountWindow(left=1000, right=2000))
    >>> parse_window("tumbling 1 hour"), parse_window("tumbling 1 hour offset 15 minutes")
    (TumblingWindow(length='1 hour'), TumblingWindow(length='1 hour', offset='15 minutes'))
    >>> parse_window("session 10 minutes")
    SessionWindow(gap='10 minutes')
    """
    text = text.strip()
    if match := _COUNT.fullmatch(text):
        left, right = match["left"], match["right"] or match["left"]
        if not (left + right).isdecimal() or max(len(left), len(right)) > MOST_DIGITS:
            raise WindowError(
                f"window {text[:80]!r}: a count is a whole number of rows, e.g. 'count 1000' "
                "or, left and right, 'count 1000, 2000'."
            )
        return CountWindow(left=int(left), right=int(right))
    if match := _BEFORE_AFTER.fullmatch(text):
        return TimeWindow(before=match["before"], after=match["after"])
    if match := _TUMBLING.fullmatch(text):
        return TumblingWindow(match["length"], match["offset"] or 0)
    if match := _SESSION.fullmatch(text):
        return SessionWindow(match["gap"])
    return TimeWindow(text)
