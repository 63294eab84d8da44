"""The adviser: picks the algorithm that joins a window, judging by earlier ones; remembers why.

If all rows are known, they are looked at when they are joined: their number is known, and a sample
of their keys is sketched. A window that opens is assumed to be like the last one that closed: while
windows are open, the keys of their rows are sketched as they arrive, and a clock measures how fast
they do, and how long the join has been idle. So each window is joined as the last closed window
suggests; here windows close at once::

    window    1                    2                    3
    rows      slow                 fast                 fast
    joined    by the default       eagerly, like 1      lazily, like 2
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from streamjoin.choice.decision_tree import Decision, Traits, choose
from streamjoin.choice.sketches import Sketch
from streamjoin.choice.window_costs import WindowCosts
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import first_keys, group_by_window, word_keys

MOST_WATCHED = 64  # open windows; if there are thousands, the others are like these
SAMPLED_ROWS = 1 << 18  # per side, if all rows are known


@dataclass
class Watched:
    """An open window: when its rows began, idle seconds before that, and sketches so far."""

    since: float
    rested: float
    sketches: dict[Side, Sketch] = field(default_factory=lambda: {side: Sketch() for side in SIDES})


class Adviser:
    """Decides for one join, unless the user has decided; ``clock`` returns seconds."""

    def __init__(
        self,
        optimize: str,
        emit: str,
        threads: int,
        costs: WindowCosts,
        decides: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.optimize, self.emit, self.threads, self.clock = optimize, emit, threads, clock
        self.decides, self.costs = decides, costs
        self.decision: Decision | None = None  # the last one
        self.traits: Traits | None = None  # of the last window that closed
        self.watched: dict[int, Watched] = {}  # open windows, by number
        self.rested = 0.0  # seconds in which the join had nothing to do
        self.resting_since: float | None = None

    def begin_work(self) -> None:
        """Note that the join has something to do."""
        if self.resting_since is not None:
            self.rested += self.clock() - self.resting_since
            self.resting_since = None

    def end_work(self) -> None:
        """Note that the join waits, for rows or for other threads."""
        if self.resting_since is None:
            self.resting_since = self.clock()

    def choose_closed(self, sides: Mapping[Side, Prepared]) -> str:
        """Return the algorithm for rows that are all known."""
        self.decision = choose(self._closed_traits(sides), self.optimize, "close", self.costs)
        return self.decision.algorithm

    def _closed_traits(self, sides: Mapping[Side, Prepared]) -> Traits:
        left, right = (sides[side] for side in SIDES)
        rows = (len(left), len(right))
        if sum(rows) <= self.costs.few_rows:  # so few that their keys do not matter
            return Traits.of((Sketch(), Sketch()), self.threads, rows=rows)
        return Traits.of((sketch_some(left), sketch_some(right)), self.threads, rows=rows)

    def choose_open(self) -> str:
        """Return the algorithm for a window that opens."""
        if self.traits is None:
            waits = self.emit == "auto" and self.optimize == "throughput"
            told = f"first window: nothing is known yet, the default for {self.optimize}"
            self.decision = Decision("prj" if waits else "shj_jb", (told,))
        else:
            self.decision = choose(self.traits, self.optimize, self.emit, self.costs)
        return self.decision.algorithm

    def watch(self, batches: Mapping[Side, Prepared], within_one: JoinPlan) -> None:
        """Look at new rows, of any windows; only at some of them if there are many."""
        now = self.clock()
        for number, places in group_by_window(batches):
            if number not in self.watched and len(self.watched) >= MOST_WATCHED:
                last = max(self.watched)
                if number > last:
                    continue
                del self.watched[last]  # keep watching those that close first
            window = self.watched.setdefault(number, Watched(now, self.rested))
            for side, rows in places.items():
                taken = first_keys(batches[side].stored.keys.take(rows), within_one)
                keys, _ = word_keys(within_one, taken)
                window.sketches[side].add(np.ascontiguousarray(keys))

    def close(self, bound: int) -> None:
        """Close the windows before ``bound``; the next ones are assumed to be like them."""
        for number in sorted(self.watched):
            if number < bound:
                window = self.watched.pop(number)
                sketches = window.sketches["left"], window.sketches["right"]
                seconds = self.clock() - window.since
                worked = 1 - (self.rested - window.rested) / seconds if seconds > 0 else 0.0
                self.traits = Traits.of(sketches, self.threads, seconds, worked=worked)


def sketch_some(batch: Prepared) -> Sketch:
    """Sketch the keys of rows sampled evenly from a batch."""
    every = -(-len(batch) // SAMPLED_ROWS)
    keys, _ = word_keys(batch.plan, batch.keys.take(slice(None, None, every)))
    return Sketch.of(np.ascontiguousarray(keys))
