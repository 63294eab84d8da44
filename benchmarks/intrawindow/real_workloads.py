"""The four workloads that are not synthetic (Fig. 5 to 7): throughput, latency, progress, phases.

Stock and Rovio are the study's files, or streams that are like them; YSB and DEBS are generated.
In the paper, the best join has half of Rovio's matches after 11.7 seconds, of a window of one: its
stream was far denser than the file that belongs to it, with which all joins keep pace.
"""

from collections.abc import Callable
from functools import partial

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.intrawindow.algorithms import LABELS, Outcomes, simulate_all
from benchmarks.intrawindow.inputs import make_rovio, make_stock
from benchmarks.intrawindow.simulator import encode_workload
from benchmarks.intrawindow.sizes import DEBS_ROWS, WINDOW, YSB_RATE, shrink_rate, shrink_rows
from benchmarks.intrawindow.sweeps import METRICS, draw_breakdown, make_file_name, round_breakdown
from benchmarks.intrawindow.workloads import Workload, make_debs, make_ysb


def make_workloads(scale: Scale) -> dict[str, Callable[[], Workload]]:
    """Return what makes the four of them."""
    return {
        "Stock": make_stock,
        "Rovio": make_rovio,
        "YSB": partial(make_ysb, shrink_rate(scale, YSB_RATE), scale.pick(WINDOW)),
        "DEBS": partial(make_debs, shrink_rows(scale, DEBS_ROWS)),
    }


def measure_real_workloads(report: Report, scale: Scale) -> dict[str, Outcomes]:
    """Run all joins on the four workloads."""
    found = {}
    for name, make in make_workloads(scale).items():
        workload = make()
        with report.step(f"Fig. 5 to 7, {name}: eight joins as tuples come"):
            found[name] = simulate_all(encode_workload(workload))
        report.detail(f"Fig. 5 to 7, {name}: workload", describe(workload))
        enter_outcomes(report, name, found[name])
    report.figures.extend(draw_metric(metric, found) for metric in ("throughput", "latency"))
    return found


def draw_metric(metric: str, found: dict[str, Outcomes]) -> Figure:
    """Return a metric by workload (Fig. 5)."""
    up, get = METRICS[metric]
    title = f"Four workloads: {metric}"
    figure = Figure(f"fig-5-{metric}", title, "", up, ("linear", "log"), ticks=tuple(found))
    for x, outcomes in enumerate(found.values()):
        for name, outcome in outcomes.items():
            figure.add(LABELS[name], x, get(outcome))
    return figure


def describe(workload: Workload) -> dict[str, str | float]:
    """Return what a workload is."""
    return {
        "source": workload.source,
        "left": workload.left_keys.size,
        "right": workload.right_keys.size,
        "window, ms": workload.window,
        "matches": workload.matches,
    }


def enter_outcomes(report: Report, name: str, outcomes: Outcomes) -> None:
    """Enter the tables of a workload, its curves (Fig. 6) and its phases (Fig. 7)."""
    bars = {LABELS[each]: outcome for each, outcome in outcomes.items()}
    report.detail(f"Fig. 5, {name}", {label: each.figures() for label, each in bars.items()})
    table = {label: round_breakdown(each) for label, each in bars.items()}
    report.detail(f"Fig. 7, {name}: ns a tuple", table)
    curves = Figure(
        f"fig-6-{make_file_name(name)}",
        f"{name}: progress",
        "ms",
        "share of the matches that is out",
        ("linear", "linear"),
        {label: each.curve for label, each in bars.items() if each.curve},
    )
    report.figures.append(curves)
    title = f"{name}: where the time goes, without waiting"
    report.figures.append(draw_breakdown(f"Fig. 7 {name}", title, "", bars))
