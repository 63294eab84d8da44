"""What traits of a workload do (Fig. 9 to 14): all eight joins on Micro, one run a point."""

from collections.abc import Iterable

from streamjoin.benchmarks.harness import Report
from streamjoin.benchmarks.intrawindow_algorithms import simulate_all
from streamjoin.benchmarks.intrawindow_scale import Scale
from streamjoin.benchmarks.intrawindow_simulator import arrivals_of
from streamjoin.benchmarks.intrawindow_sweeps import Sweep
from streamjoin.benchmarks.intrawindow_workloads import Workload, micro

Points = Iterable[tuple[float, Workload]]


def sweep(report: Report, empty: Sweep, points: Points) -> Sweep:
    """Run all joins on each workload, which is drawn when its turn comes."""
    for value, workload in points:
        with report.step(f"{empty.name}, {empty.across}: {value:g}"):
            empty.points[value] = simulate_all(arrivals_of(workload))
    return empty


def sensitivity(report: Report, scale: Scale) -> dict[str, Sweep]:
    """Vary one trait after the other; return what came out, by the name of the figure."""
    sweeps = (
        arrival_rate(report, scale),
        relative_rate(report, scale),
        duplication(report, scale),
        arrival_skew(report, scale),
        key_skew(report, scale),
        window_length(report, scale),
    )
    return {each.name: each for each in sweeps}


def arrival_rate(report: Report, scale: Scale) -> Sweep:
    """Both streams alike, unique keys."""
    empty = Sweep("Fig. 9", "arrival rate", "tuples a ms, each stream")
    rates = [scale.rate(rate) for rate in scale.rates]
    points = ((rate, micro(rate, rate, scale.window)) for rate in rates)
    return sweep(report, empty, points).enter(report)


def relative_rate(report: Report, scale: Scale) -> Sweep:
    """A slow left stream."""
    empty = Sweep("Fig. 10", "relative arrival rate", "tuples a ms, right stream")
    rates = [scale.rate(rate) for rate in scale.rates]
    points = ((rate, micro(rates[0], rate, scale.window)) for rate in rates)
    return sweep(report, empty, points).enter(report)


def duplication(report: Report, scale: Scale) -> Sweep:
    """Each key so many times on each side."""
    rate = scale.rate(scale.dupe_rate)
    empty = Sweep("Fig. 11", "key duplication", f"tuples of a key, {rate:g} tuples a ms")
    points = ((dupe, micro(rate, rate, scale.window, dupe)) for dupe in scale.dupes)
    return sweep(report, empty, points).enter(report)


def arrival_skew(report: Report, scale: Scale) -> Sweep:
    """More tuples come early."""
    rate = scale.rate(scale.arrival_rate)
    empty = Sweep("Fig. 12", "arrival skew", f"Zipf exponent, {rate:g} tuples a ms")
    points = ((skew, micro(rate, rate, scale.window, arrival_skew=skew)) for skew in scale.skews)
    return sweep(report, empty, points).enter(report, "linear")


def key_skew(report: Report, scale: Scale) -> Sweep:
    """Some keys are frequent on the right."""
    rate = scale.rate(scale.key_rate)
    empty = Sweep(
        "Fig. 13",
        "key skew",
        f"Zipf exponent, {rate:g} tuples a ms",
        "the left keys are unique: with Zipf(1.6) on both sides, 10^13 pairs would match",
    )
    points = ((skew, micro(rate, rate, scale.window, key_skew=skew)) for skew in scale.skews)
    return sweep(report, empty, points).enter(report, "linear")


def window_length(report: Report, scale: Scale) -> Sweep:
    """Longer windows at the same rate."""
    rate = scale.rate(scale.window_rate)
    differs = f"{rate:g} tuples a ms and not 12,800, for the time that the eager joins take"
    empty = Sweep("Fig. 14", "window length", f"ms, {rate:g} tuples a ms", differs)
    points = ((window, micro(rate, rate, window)) for window in scale.windows)
    return sweep(report, empty, points).enter(report, "linear")
