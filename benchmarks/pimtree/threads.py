"""Index-based window joins by threads that share PIM-Trees.

What two threads are worth by window (the paper's figures 13c and 12c), by the number of threads
(12a), insertion depth (8d), merge ratio (9a) and task size (10c), and with skewed keys (12b). Ways
that are compared take turns; every round has a merge of each index.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series
from benchmarks.harness.turns import take_turns
from benchmarks.pimtree.joins import B_TREE
from benchmarks.pimtree.race import RATE, WINDOW, Race
from benchmarks.pimtree.shared_runs import LoadedPIMTreeJoin, SharedRun, Way
from benchmarks.pimtree.sizes import MERGE_RATIOS, MIDDLE_WINDOW, SOME_WINDOWS, WINDOWS
from benchmarks.pimtree.workloads import (
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    UNIFORM,
    TupleLoad,
    make_square,
)
from streamjoin.indexes.trees.pim_tree import LOWEST

ALONE = "PIM-Tree, no concurrency control"
ONE, TWO, BLOCKING = "shared, 1 thread", "shared, 2 threads", "shared, 2 threads, blocking merge"
WAYS = {ONE: Way(1), TWO: Way(2), BLOCKING: Way(2, blocking=True)}
SPEEDUP, SPEEDUP_FROM = 1.5, 1 << 18  # of two threads, in windows from this size on
SKEWED = 0.9
DEPTHS = (0, 1, 2, LOWEST)
TASKS = (*range(1, 11), 16, 32, 64, 256)
THREADS = (1, 2, 4)
LARGE = 1 << 22  # windows with fewer rounds
ROUNDS, LARGE_ROUNDS = Sized(full=5, quick=2), Sized(full=3, quick=2)
TASK_ROUNDS, SKEW_ROUNDS = Sized(full=3, quick=1), Sized(full=20, quick=2)


def make_window_series(name: str, window: int, rates: list[float]) -> Series:
    """Return the rates of one way, with the window in the name."""
    return Series(f"{name}, windows of {window:,}", tuple(rates), "M tuples/s")


def race_ways(
    load: TupleLoad, ways: dict[str, Way], rounds: int, had: dict[str, list[float]] | None = None
) -> dict[str, list[float]]:
    """Measure ways to run a shared join, and one thread without concurrency control, in turns.

    ``had`` takes how many processors each round had.
    """
    race, run = Race(load, {ALONE: LoadedPIMTreeJoin}), SharedRun(load)

    def alone() -> float:
        race.run(1, run.round)
        return race.rates[ALONE][-1]

    def shared(name: str) -> float:
        rate = run.rate(ways[name])
        if had is not None:
            had.setdefault(name, []).append(run.processors)
        return rate

    rivals: dict[str, Callable[[], float]] = {ALONE: alone}
    rivals |= {name: partial(shared, name) for name in ways}
    try:
        return take_turns(rivals, rounds, warmup=1)
    finally:
        run.close()


def pick_rounds(window: int, scale: Scale) -> int:
    """Return how many rounds a window is given."""
    return scale.pick(ROUNDS if window < LARGE else LARGE_ROUNDS)


def measure_windows(report: Report, scale: Scale) -> None:
    """Figure 13c: one thread and two, and merges that block."""
    figure = Figure("pim13c", "two-way join, match rate 2", WINDOW, RATE, ("log", "linear"))
    for other in report.figures:
        if other.name == "pim10a":
            figure.lines[B_TREE] = list(other.lines[B_TREE])
    table = {}
    for window in scale.pick(WINDOWS):
        with report.step(f"figure 13c: threads, windows of {window:,}"):
            had: dict[str, list[float]] = {}
            rates = race_ways(make_square(window), WAYS, pick_rounds(window, scale), had)
        processors = median(had[TWO])
        medians = {name: median(each) for name, each in rates.items()}
        for name, rate in medians.items():
            figure.add(name, window, rate)
        one, two, alone = (
            make_window_series(name, window, rates[name]) for name in (ONE, TWO, ALONE)
        )
        report.add(alone)
        table[f"{window:,}"] = medians | {
            "2 threads vs 1": two.median / one.median,
            "2 threads vs no concurrency control": two.median / alone.median,
            "processors that 2 threads had": processors,
        }
        if window >= SPEEDUP_FROM:
            report.rate_ratio(
                f"2 threads vs 1, windows of {window:,}",
                two,
                one,
                SPEEDUP,
                f"{two.median / alone.median:.2f} times one without concurrency control; "
                f"2 threads had {processors:.1f} processors",
            )
    report.figures.append(figure)
    report.detail("figure 13c: M tuples/s by window", table)


def measure_self_join(report: Report, scale: Scale) -> None:
    """Figure 12c: one stream, one index."""
    figure = Figure("pim12c_threads", "self-join, match rate 2", WINDOW, RATE, ("log", "linear"))
    for window in scale.pick(SOME_WINDOWS):
        with report.step(f"figure 12c: self-join by threads, windows of {window:,}"):
            load = replace(make_square(window), itself=True)
            ways = {name: WAYS[name] for name in (ONE, TWO)}
            for name, rates in race_ways(load, ways, pick_rounds(window, scale)).items():
                figure.add(name, window, median(rates))
    report.figures.append(figure)


def measure_numbers(report: Report, scale: Scale) -> None:
    """Figure 12a: more threads, and one without concurrency control."""
    window = scale.pick(MIDDLE_WINDOW)
    figure = Figure("pim12a", f"windows of {window:,}", "threads", RATE, ("linear", "linear"))
    ways = {f"{threads}": Way(threads) for threads in THREADS}
    with report.step(f"figure 12a: numbers of threads, windows of {window:,}"):
        for label, itself in (("two-way join", False), ("self-join", True)):
            load = replace(make_square(window), itself=itself)
            rates = race_ways(load, ways, pick_rounds(window, scale))
            for threads in THREADS:
                figure.add(label, threads, median(rates[f"{threads}"]))
                figure.add(f"{label}, no concurrency control", threads, median(rates[ALONE]))
    report.figures.append(figure)


def race_runs(runs: dict[str, SharedRun], rounds: int) -> dict[str, list[float]]:
    """Measure two threads over different joins, in turns."""
    way = WAYS[TWO]
    try:
        rivals = {name: partial(run.rate, way) for name, run in runs.items()}
        return take_turns(rivals, rounds, warmup=1)
    finally:
        for run in runs.values():
            run.close()


def measure_insertion_depths(report: Report, scale: Scale) -> None:
    """Figure 8d: where the trees of T_I are attached; the last is as deep as can be."""
    window = scale.pick(MIDDLE_WINDOW)
    figure = Figure(
        "pim8d",
        f"PIM-Tree, 2 threads, windows of {window:,}",
        "trees of T_I",
        RATE,
        ("log", "linear"),
    )
    with report.step(f"figure 8d: insertion depths, 2 threads, windows of {window:,}"):
        runs = {f"depth {depth}": SharedRun(make_square(window), depth=depth) for depth in DEPTHS}
        trees = {name: int(run.join.windows[0].pim.shape[1]) for name, run in runs.items()}
        rates = race_runs(runs, pick_rounds(window, scale))
    for name, each in rates.items():
        figure.add("2 threads", trees[name], median(each))
    report.figures.append(figure)
    report.detail(
        "figure 8d: M tuples/s by insertion depth",
        {f"{name}, trees: {trees[name]}": median(each) for name, each in rates.items()},
    )


def measure_merge_ratios(report: Report, scale: Scale) -> None:
    """Figure 9a: how much of the window T_I holds before it is merged."""
    window = scale.pick(MIDDLE_WINDOW)
    figure = Figure(
        "pim9a",
        f"PIM-Tree, 2 threads, windows of {window:,}",
        "merge ratio",
        RATE,
        ("log", "linear"),
    )
    with report.step(f"figure 9a: merge ratios, 2 threads, windows of {window:,}"):
        runs = {
            f"{ratio}": SharedRun(make_square(window), ratio=ratio)
            for ratio in scale.pick(MERGE_RATIOS)
        }
        for ratio, rates in race_runs(runs, 2).items():
            figure.add("2 threads", float(ratio), median(rates))
    report.figures.append(figure)


def measure_task_sizes(report: Report, scale: Scale) -> None:
    """Figure 10c: how many tuples a thread takes at once."""
    window = scale.pick(MIDDLE_WINDOW)
    figure = Figure(
        "pim10c", f"2 threads, windows of {window:,}", "tuples of a task", RATE, ("log", "linear")
    )
    with report.step(f"figure 10c: task sizes, windows of {window:,}"):
        run = SharedRun(make_square(window))
        ways = {f"{task}": Way(2, task=task) for task in TASKS}
        rivals = {name: partial(run.rate, way) for name, way in ways.items()}
        rates = take_turns(rivals, rounds=scale.pick(TASK_ROUNDS))
        run.close()
    for task, each in rates.items():
        figure.add("2 threads", float(task), median(each))
    report.figures.append(figure)


def measure_skewed_keys(report: Report, scale: Scale) -> None:
    """Figure 12b: keys that are not uniform, with bands that give the same match rate."""
    window = scale.pick(MIDDLE_WINDOW)
    spreads = (UNIFORM, GAUSSIAN, GAMMA, EXPONENTIAL)
    with report.step(f"figure 12b: skewed keys, 2 threads, windows of {window:,}"):
        runs = {spread.name: SharedRun(make_square(window, spread=spread)) for spread in spreads}
        rates = race_runs(runs, scale.pick(SKEW_ROUNDS))
    found = {name: run.matches / run.delivered for name, run in runs.items()}
    report.detail("figure 12b, 2 threads: match rates", found)
    report.detail(
        "figure 12b, 2 threads: M tuples/s", {name: median(each) for name, each in rates.items()}
    )
    uniform = make_window_series(f"{TWO}, {UNIFORM.name}", window, rates[UNIFORM.name])
    for spread in spreads[1:]:
        ours = make_window_series(f"{TWO}, {spread.name}", window, rates[spread.name])
        report.rate_ratio(f"2 threads: {spread.name} vs uniform keys", ours, uniform, SKEWED)
