"""Warns, once per join, when the join would grow for ever, and says what to do.

Rows leave a window of time when the watermark has passed them. Without ``delay`` or `advance`
nothing moves the watermark; with ``delay`` it follows the slower stream, so a stream that has
stopped keeps every row of the other one in memory. Neither is an error: a join may be short, a
stream may come back. So a warning comes when no row has left for a while, and the join has taken
many rows spanning many windows meanwhile::

    event time    0         1         2   ...   10 windows
    watermark     |  stands still                        > 100,000 rows since: a warning

It costs a few comparisons per push. The warning comes before the push, so if it is turned into an
error, the join is unchanged and can go on.
"""

import sys
import warnings
from dataclasses import dataclass

from streamjoin.errors import StreamJoinWarning
from streamjoin.joins.engine import Engine
from streamjoin.kernels.compile import MIN_KEY
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.plan import SIDES
from streamjoin.plans.times import ticks

MANY_ROWS = 100_000
MANY_WINDOWS = 10


@dataclass
class Growth:
    """What a join had taken when its watermark last moved."""

    watermark: int | None = None
    rows: int = 0
    newest: int | None = None
    is_told: bool = False

    def watch(self, config: JoinOptions, engine: Engine) -> None:
        """Warn if no row leaves the windows; call this before each push."""
        span_us = None if config.window is None else config.window.span_us
        if self.is_told or span_us is None or not engine.newest:
            return
        rows, newest = sum(engine.counters.rows.values()), max(engine.newest.values())
        if self.newest is None or engine.watermark != self.watermark:
            self.watermark, self.rows, self.newest = engine.watermark, rows, newest
            return
        if config.delay_us is None and engine.watermark is not None:  # moved by hand, now and then
            return
        if rows - self.rows <= MANY_ROWS:
            return
        if newest - self.newest > MANY_WINDOWS * ticks(span_us, engine.plan):
            self.is_told = True
            message = describe(config, engine, rows - self.rows)
            warnings.warn(message, StreamJoinWarning, stacklevel=depth_of_package())


def describe(config: JoinOptions, engine: Engine, rows: int) -> str:
    """Say what grows, and what to do about it."""
    grown = (
        f"{rows:,} rows, over more than {MANY_WINDOWS} times {config.window}, are all still held"
    )
    if config.reduces and not config.closes:
        grown += ", and their matches are not given before the watermark has passed their window"
    if config.delay_us is None:
        return (
            f"{grown}, since nothing moves the watermark; pass delay='5 seconds', the longest that "
            "rows come late, or call advance(time) now and then"
        )
    idle = min(SIDES, key=lambda side: engine.newest.get(side, MIN_KEY))
    return (
        f"{grown}: the watermark follows the slower stream, and {idle} has not moved on; push what "
        f"it has, or, if it has stopped, call advance(time) to go on without it"
    )


def depth_of_package() -> int:
    """Return how many frames there are from here to the caller of this package."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, depth = frame.f_back, depth + 1
    return depth
