"""Keys that drift: a self-join by two threads while a Gaussian moves (figures 13a and 13b).

Three phases: keys are N(0.5, 0.125), then the mean moves by ``r`` while ten windows come, then it
stands still again. The ranges of T_I's trees follow T_S and so lag behind by a merge; what matters
is that the join is as fast afterwards as it was before. The machine's speed changes within seconds
by more than what is asked for, so a stream that stands still is joined beside it, slice by slice in
turns, and both phases are measured by that. The paper calls 0.125 the deviation in one
place and the variance in another; here it is the deviation, which is harder::

    r = 1    mean  0.5 ______/''''''  1.5         phases of 4, 10 and 4 windows
"""

from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series
from benchmarks.harness.turns import take_turns
from benchmarks.pimtree.shared_runs import CHUNK, SharedRun, Way
from benchmarks.pimtree.workloads import GAUSSIAN, SPAN, make_square
from streamjoin.indexes.trees.pim_tree import TREES
from streamjoin.kernels.compile import Keys

WINDOW = Sized(full=1 << 20, quick=1 << 17)
SHIFTS = Sized(full=(0.2, 0.4, 0.6, 0.8, 1), quick=(0.4, 1))
PHASES = (4, 10, 4)  # in windows
DEVIATION = 0.125
RECOVERED = 0.95
SEEN = 1 << 14  # tuples of a slice whose trees are looked up


class Drift:
    """A stream whose mean moves by ``shift`` in the second phase."""

    def __init__(self, window: int, shift: float, phases: tuple[int, ...] = PHASES) -> None:
        self.first, self.second, _ = (phase * window for phase in phases)
        self.total = sum(phases) * window
        self.shift, self.rng = shift, np.random.default_rng(11)
        self.drawn = 0

    def keys(self, count: int) -> Keys:
        """Draw the next keys."""
        along = (self.drawn + np.arange(count) - self.first) / self.second
        means = 0.5 + self.shift * np.clip(along, 0, 1)
        self.drawn += count
        return ((means + DEVIATION * self.rng.standard_normal(count)) * SPAN).astype(np.int64)

    def phase_of(self, place: int) -> int:
        """Return the phase of a tuple: 0, 1 or 2."""
        return 0 if place < self.first else 1 if place < self.first + self.second else 2


def measure_shares(run: SharedRun, keys: Keys) -> list[float]:
    """Return which share of the keys each tree of T_I would take now, the busiest first."""
    pim = run.join.windows[0].pim
    count = int(pim.shape[TREES])
    trees = np.searchsorted(pim.uppers[:count], keys)
    shares: list[float] = np.sort(np.bincount(trees, minlength=count) / keys.size)[::-1].tolist()
    return shares


def make_run(window: int, slice_size: int) -> SharedRun:
    """Return a self-join of two threads whose window is full of keys around 0.5."""
    load = replace(make_square(window, spread=GAUSSIAN), itself=True)
    start = np.random.default_rng(5)
    run = SharedRun(load, fill=lambda count: GAUSSIAN.keys(start, count))
    run.change(Way(2))
    run.pass_through(run.draw(slice_size))  # does not count
    return run


def follow_drift(
    window: int, shift: float, slice_size: int
) -> tuple[list[tuple[int, float, float]], list[list[float]]]:
    """Join a drifting stream with itself; return rates by slice, and shares in the second phase.

    The second rate of a slice is that of a stream that stands still.
    """
    runs = {each: make_run(window, slice_size) for each in (shift, 0.0)}
    drifts = {each: Drift(window, each) for each in runs}
    shares: list[list[float]] = []

    def pass_slice(each: float) -> float:
        run, drift, begin = runs[each], drifts[each], drifts[each].drawn
        keys = drift.keys(slice_size)
        if each == shift and drift.phase_of(begin) == 1:
            shares.append(measure_shares(run, keys[:SEEN]))
        chunks = [run.entries(keys[at : at + CHUNK]) for at in range(0, slice_size, CHUNK)]
        return slice_size / run.pass_through(chunks) / 1e6

    slices = -(-drifts[shift].total // slice_size)
    found = take_turns({each: partial(pass_slice, each) for each in runs}, slices)
    for run in runs.values():
        run.close()
    begins = [number * slice_size for number in range(slices)]
    return list(zip(begins, found[shift], found[0.0], strict=True)), shares


def measure_drifts(report: Report, scale: Scale) -> None:
    """Figures 13a and 13b, and that the join recovers."""
    window = scale.pick(WINDOW)
    slice_size = window // 2
    speeds = Figure(
        "pim13b",
        f"drifting keys, self-join, 2 threads, windows of {window:,}",
        "tuples that came",
        "throughput, times that of a stream that stands still",
        ("linear", "linear"),
    )
    spread = Figure(
        "pim13a",
        f"drifting keys, windows of {window:,}: inserts of T_I's trees",
        "tree, the busiest first",
        "share of inserts",
    )
    worst, note, busiest = np.inf, "", {}
    ours = theirs = None
    for shift in scale.pick(SHIFTS):
        name = f"r = {shift:g}"
        with report.step(f"figures 13a, 13b: drifting keys, {name}"):
            rates, shares = follow_drift(window, shift, slice_size)
        phases = Drift(window, shift)
        by_phase: list[list[float]] = [[], [], []]  # times the stream that stands still
        speed: list[list[float]] = [[], [], []]
        for begin, rate, beside in rates:
            speeds.add(name, begin + slice_size, rate / beside)
            by_phase[phases.phase_of(begin)].append(rate / beside)
            speed[phases.phase_of(begin)].append(rate)
        most = min(map(len, shares))
        means = np.mean([each[:most] for each in shares], axis=0).tolist()
        for tree, share in enumerate(means, 1):
            if share > 0 and tree & (tree - 1) == 0:
                spread.add(name, tree, share)
        first, second, third = map(median, by_phase)
        busiest[name] = {
            "times a stream that stands still, by phase": [first, second, third],
            "M tuples/s by phase": [median(each) for each in speed],
            "share of the busiest tree": means[0],
            "trees": most,
        }
        if third / first < worst:
            worst, note = third / first, f"the worst, {name}; {second / first:.2f} in the second"
            theirs, ours = (
                Series(f"drifting keys, {name}, {phase} phase", tuple(by_phase[at]), "x")
                for at, phase in ((0, "first"), (2, "third"))
            )
    report.figures += [speeds, spread]
    report.detail("figure 13b: drifting keys", busiest)
    report.at_least("drifting keys: third phase vs first", worst, RECOVERED, ours, theirs, note)
