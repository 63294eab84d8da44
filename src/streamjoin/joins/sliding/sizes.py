"""How large subwindows are: few and large is best, since each costs every probe a search."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, SUBWINDOWS_PER_WINDOW, JoinPlan
from streamjoin.windows import Shape, Window


@dataclass(frozen=True)
class Sizes:
    """When a subwindow is full: at ``most`` rows, or at ``least`` rows that span ``ticks``.

    Before a ``large`` batch, a large subwindow that spans a sixth of that is full too: to merge
    the two would cost more than to search both.
    """

    most: int
    least: int = 0
    ticks: int | None = None
    large: int = np.iinfo(np.int32).max
    at_once: int = np.iinfo(np.int32).max  # rows of one batch before it is asked again
    rows: int = 0  # of the whole window, or of a core's part, if that is known

    @cached_property
    def finer(self) -> "Sizes":
        """Three subwindows where there would be two: an index by two parts holds more bytes a row.

        One is searched in more time than one by one part, but it is the marks that cost most, and
        these do not depend on the cut.
        """
        ticks = None if self.ticks is None else max(2 * self.ticks // 3, 1)
        return replace(self, most=max(-(-2 * self.most // 3), 1), ticks=ticks)

    def room(self, rows: int, span: int, coming: int) -> int:
        """Return how many more rows fit beside so many that span so much, of those that come."""
        left = self.most - rows
        if self.ticks is None or rows < self.least:
            return left
        enough = self.ticks // 6 if min(rows, coming) >= self.large else self.ticks
        return 0 if span >= enough else left


def sizes_of(window: Window | None, plan: JoinPlan, side: Side, cores: int = 1) -> Sizes:
    """Return when a subwindow of this side is full; each core should have one."""
    subwindows = max(SUBWINDOWS_PER_WINDOW, cores)
    shape, limits = Shape() if window is None else window.shape, plan.limits
    if shape.counts is not None:
        rows = shape.counts[SIDES.index(side)]
        least, most = limits.least_counted_rows, limits.most_counted_rows
        most = min(max(-(-rows // subwindows), least), most)
        return Sizes(most, rows=-(-rows // cores))
    if shape.band_us is not None:
        assert plan.time_part is not None
        [(low, high)] = plan.ranges[plan.time_part].exact
        ticks = max(int(high - low) // subwindows, 1)
        large = limits.large_batch_rows
        return Sizes(limits.most_timed_rows, limits.least_timed_rows, ticks, large, at_once=large)
    return Sizes(most=np.iinfo(np.int32).max)
