"""Index-based window joins, one thread, one tuple at a time, over windows and streams of all kinds.

The structures by window (the paper's figure 10a) and by match rate (10b), against the nested loop
(8a), with windows of two sizes (11c), streams of two rates (11b), skewed keys (12b), and a stream
joined with itself (12c).
"""

from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.turns import take_turns
from benchmarks.pimtree.joins import (
    B_TREE,
    IM_TREE,
    PIM_TREE,
    RIVALS,
    BTreeJoin,
    NestedJoin,
    choose_pim_tree,
)
from benchmarks.pimtree.race import RATE, WINDOW, Race
from benchmarks.pimtree.sizes import (
    DISSECTED_WINDOWS,
    MATCH_RATES,
    MIDDLE_WINDOW,
    NESTED_WINDOWS,
    POINT_SECONDS,
    SOME_WINDOWS,
    WINDOWS,
)
from benchmarks.pimtree.structures import report_steps
from benchmarks.pimtree.workloads import (
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    UNIFORM,
    TupleLoad,
    make_square,
)

TARGETS = {IM_TREE: 1.5, PIM_TREE: 1.6}
SHARES = (1 / 2, 3 / 4, 7 / 8, 15 / 16)
SKEWED = 0.9
SLID, MOST = 1 << 22, 4  # how far windows slide first: tuples, and times their length
COMPARISONS, FEWEST = 1 << 27, 64  # of a nested loop's turn, and tuples of one
ROUNDS = 3


def measure_windows(report: Report, scale: Scale) -> dict[int, int]:
    """Figure 10a, and 9b for some windows; return the bytes of a B+-Tree for each window."""
    figure = Figure("pim10a", "one thread, match rate 2", WINDOW, RATE, ("log", "linear"))
    ratios: dict[str, list[float]] = {name: [] for name in TARGETS}
    memory, table = {}, {}
    for window in scale.pick(WINDOWS):
        with report.step(f"figure 10a: windows of {window:,}"):
            race = Race(make_square(window), RIVALS, slides=max(min(SLID // window, MOST), 1))
            rates = race.measure(scale.pick(POINT_SECONDS), ROUNDS)
        for name, rate in rates.items():
            figure.add(name, window, rate)
            report.add(race.series(name))
        for name in TARGETS:
            ratios[name].append(rates[name] / rates[B_TREE])
        table[f"{window:,}"] = rates | {"match rate": race.match_rate}
        memory[window] = race.joins[B_TREE].indexes[0].nbytes
        if window in scale.pick(DISSECTED_WINDOWS):
            report_steps(report, race)
    report.figures.append(figure)
    report.detail("figure 10a: M tuples/s by window", table)
    for name, target in TARGETS.items():
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios[name])
        report.at_least(
            f"one thread: {name} vs B+-Tree", float(np.mean(ratios[name])), target, note=each
        )
    return memory


def measure_match_rates(report: Report, scale: Scale) -> None:
    """Figure 10b: from few matches to many."""
    window = scale.pick(MIDDLE_WINDOW)
    figure = Figure("pim10b", f"windows of {window:,}", "matches of a tuple", RATE)
    with report.step(f"figure 10b: match rates, windows of {window:,}"):
        race = Race(make_square(window), RIVALS)
        for matches in scale.pick(MATCH_RATES):
            race.vary(matches)
            for name, rate in race.measure(0, 1).items():
                figure.add(name, matches, rate)
    report.figures.append(figure)


def measure_nested_loops(report: Report, scale: Scale) -> None:
    """Figure 8a: the nested loop, and an index."""
    figure = Figure("pim8a", "one thread, match rate 2", WINDOW, RATE)
    with report.step("figure 8a: nested loop"):
        for window in scale.pick(NESTED_WINDOWS):
            nested = Race(make_square(window), {"nested loop": NestedJoin})
            nested.run(ROUNDS, max(COMPARISONS // window, FEWEST))
            figure.add("nested loop", window, median(nested.rates["nested loop"]))
            race = Race(make_square(window), {B_TREE: BTreeJoin}, slides=1)
            figure.add(B_TREE, window, race.measure(0, ROUNDS)[B_TREE])
    report.figures.append(figure)


def measure_two_rates(report: Report, scale: Scale) -> None:
    """Figure 11b: one stream is faster than the other."""
    figure = Figure(
        "pim11b", "PIM-Tree, one thread", "share of the faster stream", RATE, ("linear", "linear")
    )
    for window in scale.pick(SOME_WINDOWS):
        with report.step(f"figure 11b: two rates, windows of {window:,}"):
            for share in SHARES:
                race = Race(
                    replace(make_square(window), share=share), {PIM_TREE: choose_pim_tree()}
                )
                rate = race.measure(scale.pick(POINT_SECONDS) / 2)[PIM_TREE]
                figure.add(f"windows of {window:,}", share, rate)
    report.figures.append(figure)


def measure_two_windows(report: Report, scale: Scale) -> None:
    """Figure 11c: one window is larger than the other."""
    figure = Figure(
        "pim11c", "PIM-Tree, one thread", "tuples in the left window", RATE, ("log", "linear")
    )
    for right in scale.pick(SOME_WINDOWS):
        with report.step(f"figure 11c: two windows, the right one of {right:,}"):
            for left in scale.pick(SOME_WINDOWS):
                race = Race(TupleLoad(left, right), {PIM_TREE: choose_pim_tree()})
                rate = race.measure(scale.pick(POINT_SECONDS) / 2)[PIM_TREE]
                figure.add(f"right window of {right:,}", left, rate)
    report.figures.append(figure)


def measure_skewed_keys(report: Report, scale: Scale) -> None:
    """Figure 12b: keys that are not uniform, with bands that give the same match rate."""
    figure = Figure("pim12b", "PIM-Tree, one thread, match rate 2", WINDOW, RATE, ("log", "linear"))
    spreads = (UNIFORM, GAUSSIAN, GAMMA, EXPONENTIAL)
    ratios: dict[str, list[float]] = {spread.name: [] for spread in spreads}
    found: dict[str, dict[str, float]] = {}
    for window in scale.pick(SOME_WINDOWS):
        with report.step(f"figure 12b: skewed keys, windows of {window:,}"):
            races = {
                spread.name: Race(make_square(window, spread=spread), {PIM_TREE: choose_pim_tree()})
                for spread in spreads
            }
            take_turns({name: partial(race.run, 1) for name, race in races.items()}, 2 * ROUNDS)
        rates = {name: median(race.rates[PIM_TREE]) for name, race in races.items()}
        for name, rate in rates.items():
            figure.add(name, window, rate)
            ratios[name].append(rate / rates[UNIFORM.name])
        found[f"{window:,}"] = {name: race.match_rate for name, race in races.items()}
    report.figures.append(figure)
    report.detail("figure 12b: match rates", found)
    for spread in spreads[1:]:
        each = ratios[spread.name]
        note = ", ".join(f"{ratio:.2f}" for ratio in each)
        report.at_least(
            f"PIM-Tree: {spread.name} vs uniform keys", float(np.mean(each)), SKEWED, note=note
        )


def measure_self_join(report: Report, scale: Scale) -> None:
    """Figure 12c: one stream, one index."""
    figure = Figure("pim12c", "self-join, one thread", WINDOW, RATE, ("log", "linear"))
    for window in scale.pick(SOME_WINDOWS):
        with report.step(f"figure 12c: self-join, windows of {window:,}"):
            race = Race(replace(make_square(window), itself=True), RIVALS, slides=1)
            for name, rate in race.measure(scale.pick(POINT_SECONDS)).items():
                figure.add(name, window, rate)
    report.figures.append(figure)
