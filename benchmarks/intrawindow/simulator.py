"""Arrivals that nothing holds back, and a join that takes them: an open loop with a virtual clock.

Each tuple has a time of arrival. What the join does is really done, and the clock moves by what it
took; while nothing has arrived that is not taken yet, the clock jumps, and the gap counts as
waiting. So a window of a minute takes as long to measure as there is work in it::

    arrivals   |a b  c        d e f g          h        | window's end
    eager      [ab][write][c].[d][efg][write]..[h][write]close
    lazy       .........................................[join][write][write]

An eager join takes, at each step, what has arrived, at most so many rows a side. A lazy one waits
for the end of the window, or for the last arrival if data are at rest. Pairs are written out in
blocks, by several threads where a step finds many, and come out at the end of their block.

The breakdown is of the time until all is done, by phases: what joins say of themselves (partition,
build or sort, merge, probe: matches are found), ``write`` (pairs are written out), waiting, and
other things. An eager join tells the seconds of all its threads together, except for partitioning,
which one does for all: the others are divided by the number of threads, so that what a thread idles
is among the other things. Keys are words when they arrive, as in the study, whose tuples are 8
bytes.
"""

import gc
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter
from typing import TypeVar

import numpy as np

from benchmarks.intrawindow.ledger import Curve, Ledger
from benchmarks.intrawindow.workloads import Times, Workload
from streamjoin.joins.equality.phases import PHASES as JOINING
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.protocol import Eager, Lazy
from streamjoin.joins.equality.words import Words, encode
from streamjoin.kernels.threads import share

STEP = 1 << 16  # rows a side that an eager join takes at once, at most
BLOCK = 1 << 16  # pairs
SHARED = 4 * BLOCK  # pairs from which on threads share the writing: waking one takes 0.1 ms
SAMPLE = 2_000_000  # latencies that are counted, or up to twice as many
PHASES = ("wait", *JOINING, "write", "other")

R = TypeVar("R")


@dataclass(frozen=True)
class EncodedWorkload:
    """A workload as joins get it."""

    workload: Workload
    left: Words
    right: Words

    @property
    def last(self) -> float:
        """When the last tuple comes, ms."""
        times = self.workload.left_times, self.workload.right_times
        return max((float(each[-1]) for each in times if each.size), default=0.0)


def encode_workload(workload: Workload) -> EncodedWorkload:
    """Return a workload with its keys as words."""
    encoded = encode(workload.left_keys, workload.right_keys)
    return EncodedWorkload(workload, encoded.left, encoded.right)


@dataclass(frozen=True)
class Outcome:
    """What one join did with one workload."""

    inputs: int
    matches: int
    finished: float  # when the last match is out, ms
    latency: float  # ms, which 95 of 100 matches do not exceed
    half: float  # when half of the matches are out, ms
    curve: Curve
    breakdown: dict[str, float]  # ns an input tuple, by phase

    @property
    def throughput(self) -> float:
        """Inputs by the time of the last match, in millions a second."""
        return self.inputs / self.finished / 1e3 if self.finished else 0.0

    @property
    def cost(self) -> float:
        """Work, without waiting: ns an input tuple."""
        return sum(self.breakdown.values()) - self.breakdown["wait"]

    def figures(self) -> dict[str, float]:
        """What goes into a table."""
        return {
            "M tuples/s": round(self.throughput, 3),
            "p95 latency, ms": round(self.latency, 4),
            "half of the matches, ms": round(self.half, 3),
            "work, ns a tuple": round(self.cost, 2),
            "matches": self.matches,
        }


class Clock:
    """The virtual clock, in ms: it moves by what is done, and jumps over what is waited for."""

    def __init__(self, tick: Callable[[], float] = perf_counter) -> None:
        self.tick = tick
        self.now = self.waited = self.wrote = 0.0

    def wait(self, until: float) -> None:
        """Jump, if it is not that late already."""
        self.waited += max(until - self.now, 0.0)
        self.now = max(until, self.now)

    def run(self, function: Callable[..., R], *arguments: Words) -> R:
        """Do something."""
        begin = self.tick()
        result = function(*arguments)
        self.now += (self.tick() - begin) * 1e3
        return result

    def write(self, pieces: list[Piece], ledger: Ledger, threads: int) -> None:
        """Write out the pairs of some pieces; what the ledger takes is not counted."""
        begin, aside = self.tick(), defaultdict[int, float](float)  # by thread, s
        ends = [self.now]

        def write_piece(piece: Piece) -> None:
            me = get_ident()
            for left, right in piece.pairs(BLOCK):
                done = self.tick()
                ends.append(self.now + (done - begin - aside[me]) * 1e3)
                ledger.add(me, ends[-1], left, right)
                aside[me] += self.tick() - done

        found = [piece for piece in pieces if len(piece)]
        share(write_piece, found, threads if sum(map(len, found)) >= SHARED else 1)
        self.wrote += max(ends) - self.now
        self.now = max(ends)


def run_lazy(
    join: Lazy, arrivals: EncodedWorkload, threads: int, tick: Callable[[], float] = perf_counter
) -> Outcome:
    """Let a lazy join wait for its window, and join it."""
    clock, ledger = start_run(arrivals, tick)
    clock.wait(arrivals.workload.window or arrivals.last)
    pieces = clock.run(join.join, arrivals.left, arrivals.right)
    clock.write(pieces, ledger, threads)
    return make_outcome(arrivals, clock, ledger, join.seconds)


def run_eager(
    join: Eager,
    arrivals: EncodedWorkload,
    threads: int,
    tick: Callable[[], float] = perf_counter,
    step: int = STEP,
) -> Outcome:
    """Let an eager join take tuples as they come."""
    clock, ledger = start_run(arrivals, tick)
    sides = arrivals.left, arrivals.right
    times = arrivals.workload.left_times, arrivals.workload.right_times
    taken = [0, 0]
    while taken[0] < sides[0].size or taken[1] < sides[1].size:
        ready = [count_arrived(each, clock.now, taken[i] + step) for i, each in enumerate(times)]
        if ready == taken:
            clock.wait(min(float(times[i][taken[i]]) for i in (0, 1) if taken[i] < times[i].size))
            continue
        parts = (side[taken[i] : ready[i]] for i, side in enumerate(sides))
        pieces = clock.run(join.push, *parts)
        clock.write(pieces, ledger, threads)
        taken = ready
    clock.wait(arrivals.workload.window)
    clock.write(clock.run(join.close), ledger, threads)
    seconds = join.seconds
    each = {phase: spent / threads for phase, spent in seconds.items() if phase != "partition"}
    return make_outcome(arrivals, clock, ledger, seconds | each)


def start_run(arrivals: EncodedWorkload, tick: Callable[[], float]) -> tuple[Clock, Ledger]:
    """Return a clock at 0 and an empty ledger; no run pays for the garbage of the one before."""
    gc.collect()
    workload = arrivals.workload
    stride = max(workload.matches // SAMPLE, 1) | 1
    return Clock(tick), Ledger(workload.left_times, workload.right_times, stride)


def count_arrived(times: Times, now: float, most: int) -> int:
    """Return how many tuples of a stream are there, or ``most``."""
    return min(int(np.searchsorted(times[:most], now, "right")), most)


def make_outcome(
    arrivals: EncodedWorkload, clock: Clock, ledger: Ledger, seconds: dict[str, float]
) -> Outcome:
    """Sum up a run."""
    inputs = arrivals.workload.inputs
    spent = {phase: seconds.get(phase, 0.0) * 1e3 for phase in JOINING}
    other = clock.now - clock.waited - clock.wrote - sum(spent.values())
    phases = {"wait": clock.waited, **spent, "write": clock.wrote, "other": other}
    return Outcome(
        inputs,
        ledger.matches,
        ledger.reached(1.0),
        ledger.latency(0.95),
        ledger.reached(0.5),
        ledger.curve(),
        {phase: phases[phase] / inputs * 1e6 for phase in PHASES},
    )
