"""The adviser: picks the algorithm that joins a window, by what came before, and remembers why.

Rows that are all there are looked at when they are joined: how many they are is known, and a sample
of their keys is sketched. A window that opens is taken to be like the last one that closed: while
windows are open, the keys of their rows are sketched as they come, and a clock tells how fast
that is, and for how long the join has rested meanwhile. So each window is joined as the last one
suggests that has closed; here windows close at once::

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

MOST = 64  # open windows that are watched; of thousands, others are like them
SAMPLE = 1 << 18  # rows of a side that are looked at, where all are there


@dataclass
class Watched:
    """An open window: since when rows come, what was rested before, and what has come so far."""

    since: float
    rested: float
    sketches: dict[Side, Sketch] = field(default_factory=lambda: {side: Sketch() for side in SIDES})


class Adviser:
    """Decides for one join, unless the user has; ``clock`` gives seconds."""

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
        self.traits: Traits | None = None  # of the window that was the last to close
        self.watched: dict[int, Watched] = {}  # open windows, by number
        self.rested = 0.0  # seconds in which the join had nothing to do
        self.resting_since: float | None = None

    def begin_work(self) -> None:
        """Note that the join has something to do."""
        if self.resting_since is not None:
            self.rested += self.clock() - self.resting_since
            self.resting_since = None

    def end_work(self) -> None:
        """Note that it waits, for more or for others."""
        if self.resting_since is None:
            self.resting_since = self.clock()

    def choose_closed(self, sides: Mapping[Side, Prepared]) -> str:
        """Return the algorithm for rows that are all there."""
        self.decision = choose(self._closed_traits(sides), self.optimize, "close", self.costs)
        return self.decision.algorithm

    def _closed_traits(self, sides: Mapping[Side, Prepared]) -> Traits:
        left, right = (sides[side] for side in SIDES)
        rows = (len(left), len(right))
        if sum(rows) <= self.costs.few_rows:  # so few that it does not matter what their keys are
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
        """Look at rows that have come, of any windows; a few of them if there are many."""
        now = self.clock()
        for number, places in group_by_window(batches):
            if number not in self.watched and len(self.watched) >= MOST:
                last = max(self.watched)
                if number > last:
                    continue
                del self.watched[last]  # the windows that close first are watched
            window = self.watched.setdefault(number, Watched(now, self.rested))
            for side, rows in places.items():
                taken = first_keys(batches[side].stored.keys.take(rows), within_one)
                keys, _ = word_keys(within_one, taken)
                window.sketches[side].add(np.ascontiguousarray(keys))

    def close(self, bound: int) -> None:
        """Take leave of the windows before ``bound``; the next ones are taken to be like them."""
        for number in sorted(self.watched):
            if number < bound:
                window = self.watched.pop(number)
                sketches = window.sketches["left"], window.sketches["right"]
                seconds = self.clock() - window.since
                worked = 1 - (self.rested - window.rested) / seconds if seconds > 0 else 0.0
                self.traits = Traits.of(sketches, self.threads, seconds, worked=worked)


def sketch_some(batch: Prepared) -> Sketch:
    """Sketch the keys of rows that are spread evenly over a batch."""
    every = -(-len(batch) // SAMPLE)
    keys, _ = word_keys(batch.plan, batch.keys.take(slice(None, None, every)))
    return Sketch.of(np.ascontiguousarray(keys))
