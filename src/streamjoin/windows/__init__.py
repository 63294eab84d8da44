"""Which pairs are close enough in time, or in arrival, to be joined: one file per window.

Nothing here loads more than the standard library.
"""

from dataclasses import fields
from typing import Any

from streamjoin.errors import WindowError
from streamjoin.windows.base import Shape, Window
from streamjoin.windows.count import CountWindow
from streamjoin.windows.session import SessionWindow
from streamjoin.windows.time import TimeWindow
from streamjoin.windows.tumbling import TumblingWindow

WINDOWS: tuple[type[Window], ...] = (  # as they are listed in messages and help
    TimeWindow,
    TumblingWindow,
    SessionWindow,
    CountWindow,
)

__all__ = [
    "WINDOWS",
    "CountWindow",
    "SessionWindow",
    "Shape",
    "TimeWindow",
    "TumblingWindow",
    "Window",
    "parse_window",
    "read_window",
]


def parse_window(text: str) -> Window:
    """Read a window from text; a text without one of the words below is a duration.

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
    for kind in WINDOWS:
        if kind is not TimeWindow and (window := kind.from_text(text)) is not None:
            return window
    return TimeWindow.from_text(text)


def read_window(saved: dict[str, Any] | None) -> Window | None:
    """Make a window from what `Window.to_json` returned; None stays None."""
    if saved is None:
        return None
    for kind in WINDOWS:
        if {field.name for field in fields(kind)} == saved.keys():
            return kind.from_json(saved)
    raise WindowError(f"no window has the fields {', '.join(saved)}")
