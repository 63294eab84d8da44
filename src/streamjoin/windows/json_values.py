"""Windows and times in a form that JSON can hold."""

from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any

from streamjoin.windows import CountWindow, SessionWindow, TimeWindow, TumblingWindow, Window


def write_window(window: Window | None) -> dict[str, int] | None:
    """Return a window's fields; their names tell its kind."""
    return None if window is None else asdict(window)


def read_window(fields: dict[str, int] | None) -> Window | None:
    """Make a window from its fields."""
    if fields is None:
        return None
    if "before_us" in fields:
        before, after = (timedelta(microseconds=fields[name]) for name in ("before_us", "after_us"))
        return TimeWindow(before=before, after=after)
    if "gap_us" in fields:
        return SessionWindow(timedelta(microseconds=fields["gap_us"]))
    if "length_us" in fields:
        length, offset = (
            timedelta(microseconds=fields[name]) for name in ("length_us", "offset_us")
        )
        return TumblingWindow(length, offset)
    return CountWindow(**fields)


def write_time(watermark: Any) -> Any:
    """Return a watermark that waits in a form JSON can hold."""
    if watermark is None or isinstance(watermark, int):
        return watermark
    kind = "datetime" if isinstance(watermark, datetime) else "date"
    return [kind, watermark.isoformat()]


def read_time(saved: Any) -> Any:
    """Read what ``write_time`` returned."""
    if not isinstance(saved, list):
        return saved
    kind, text = saved
    return datetime.fromisoformat(text) if kind == "datetime" else date.fromisoformat(text)
