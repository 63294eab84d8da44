"""What the settings of the joins do (Fig. 15, 16 and 18): Micro at rest, the best of some runs.

The step of sorting is the share of all tuples that PMJ sorts together. The group is the number of
threads that a tuple is sent to by the join-biclique: with one, streams are cut by keys; with all of
them, there is one group left. Eight threads are measured too, on the processors that there are: the
work that groups add shows there, speed does not.
"""

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.intrawindow.algorithms import LABELS, THREADS, simulate_often
from benchmarks.intrawindow.simulator import Outcome, encode_workload
from benchmarks.intrawindow.sizes import (
    KNOB_ROWS,
    RADIX_BITS,
    RADIX_ROWS,
    SORTING_STEPS,
    shrink_rows,
)
from benchmarks.intrawindow.sweeps import draw_breakdown, round_breakdown
from benchmarks.intrawindow.workloads import make_static_foreign, make_static_micro

MANY = 8  # threads, more than there are processors

Costs = dict[str, dict[str, float]]  # ns a tuple: by line, by value


def vary_knobs(report: Report, scale: Scale) -> dict[str, Costs]:
    """Vary one setting after the other; return what a tuple costs, by the name of the figure."""
    return {
        "Fig. 15": vary_sorting_step(report, scale),
        "Fig. 16": vary_group_size(report, scale),
        "Fig. 18": vary_radix_bits(report, scale),
    }


def vary_sorting_step(report: Report, scale: Scale) -> Costs:
    """PMJ's runs: of few rows or of many."""
    rows, steps = shrink_rows(scale, KNOB_ROWS), scale.pick(SORTING_STEPS)
    arrivals = encode_workload(make_static_micro(rows))
    costs: Costs = {}
    for name in ("pmj_jm", "pmj_jb"):
        bars: dict[str, Outcome] = {}
        with report.step(f"Fig. 15, {LABELS[name]}: {len(steps)} steps of sorting"):
            for share in steps:
                bars[f"{share} %"] = simulate_often(name, arrivals, delta=2 * rows * share // 100)
        costs[LABELS[name]] = enter_phases(
            report, f"Fig. 15 {LABELS[name]}", "step of sorting", bars
        )
    report.detail("Fig. 15: differs from the paper", describe_sizes(rows, rows))
    return costs


def vary_group_size(report: Report, scale: Scale) -> Costs:
    """Threads in a group of the join-biclique, and the join-matrix beside it."""
    rows = shrink_rows(scale, KNOB_ROWS) // 2
    arrivals = encode_workload(make_static_micro(rows))
    costs: Costs = {}
    figure = Figure("fig-16", "Group size", "threads in a group", "ns a tuple", ("log", "linear"))
    for biclique, matrix in (("shj_jb", "shj_jm"), ("pmj_jb", "pmj_jm")):
        for threads in (THREADS, MANY):
            groups = [1 << bit for bit in range(threads.bit_length())]
            ending = f", {threads} threads" + " on 2 processors" * (threads == MANY)
            with report.step(f"Fig. 16, {LABELS[biclique]}{ending}: {len(groups)} group sizes"):
                line = {
                    group: simulate_often(biclique, arrivals, threads, group=group).cost
                    for group in groups
                }
                level = simulate_often(matrix, arrivals, threads).cost
            for group, cost in line.items():
                figure.add(f"{LABELS[biclique]}{ending}", group, cost)
                figure.add(f"{LABELS[matrix]}{ending}", group, level)
            costs[f"{LABELS[biclique]}{ending}"] = {str(each): line[each] for each in groups}
            costs[f"{LABELS[matrix]}{ending}"] = {"any": level}
    report.figures.append(figure)
    report.detail("Fig. 16: group size, ns a tuple", costs)
    report.detail("Fig. 16: differs from the paper", describe_sizes(rows, rows))
    return costs


def vary_radix_bits(report: Report, scale: Scale) -> Costs:
    """PRJ's partitions."""
    lefts, rights = (shrink_rows(scale, rows) for rows in RADIX_ROWS)
    arrivals = encode_workload(make_static_foreign(lefts, rights))
    every = scale.pick(RADIX_BITS)
    with report.step(f"Fig. 18, {arrivals.workload.name}: {len(every)} numbers of radix bits"):
        bars = {f"{bits}": simulate_often("prj", arrivals, bits=bits) for bits in every}
    return {"PRJ": enter_phases(report, "Fig. 18", "radix bits", bars)}


def enter_phases(
    report: Report, name: str, across: str, bars: dict[str, Outcome]
) -> dict[str, float]:
    """Enter phases by setting into the report; return what a tuple costs."""
    report.detail(
        f"{name}: {across}, ns a tuple", {each: round_breakdown(bars[each]) for each in bars}
    )
    report.figures.append(draw_breakdown(name, f"{name}: {across}", across, bars))
    return {each: outcome.cost for each, outcome in bars.items()}


def describe_sizes(lefts: int, rights: int) -> str:
    """Say how many rows are joined instead of the paper's."""
    return f"{lefts:,} and {rights:,} rows, not 12,800,000 and 128,000,000"
