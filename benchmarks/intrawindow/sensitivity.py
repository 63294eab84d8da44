"""What traits of a workload do (Fig. 9 to 14): all eight joins on Micro, the best of a few runs.

Some points are in two figures, such as 6,400 tuples a ms with unique keys in a window of a second:
they are measured once. One of them is measured again at the end, after minutes in which the machine
may have been slow or fast: how much its figures differ is how much one may believe of a figure.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.intrawindow.algorithms import LABELS, Outcomes, simulate_all
from benchmarks.intrawindow.simulator import encode_workload
from benchmarks.intrawindow.sizes import (
    ARRIVAL_SKEW_RATE,
    DUPE_RATE,
    DUPES,
    KEY_SKEW_RATE,
    RATES,
    SKEWS,
    WINDOW,
    WINDOWS,
    WINDOWS_RATE,
    shrink_rate,
)
from benchmarks.intrawindow.sweeps import Sweep
from benchmarks.intrawindow.workloads import make_micro

QUIET = 1.25  # times what it was: how much two runs of one thing may differ


class Traits(NamedTuple):
    """Of Micro, in the order of its parameters."""

    left: float  # tuples a ms
    right: float
    window: float
    dupe: int = 1
    key_skew: float = 0.0
    arrival_skew: float = 0.0


class KnownPoints:
    """All joins on Micro, by its traits."""

    def __init__(self, report: Report, scale: Scale) -> None:
        self.report, self.scale = report, scale
        self.known: dict[Traits, Outcomes] = {}

    def sweep(self, empty: Sweep, points: Mapping[float, Traits]) -> Sweep:
        """Run all joins at each value, unless they have been run on such a workload."""
        for value, traits in points.items():
            if traits not in self.known:
                with self.report.step(f"{empty.name}, {empty.across}: {value:g}"):
                    self.known[traits] = simulate_all(encode_workload(make_micro(*traits)))
            empty.points[value] = self.known[traits]
        return empty

    def even(self, rate: float, window: float = 0) -> Traits:
        """Return traits of two streams that are alike, without skew."""
        return Traits(rate, rate, window or self.scale.pick(WINDOW))


def measure_sensitivity(report: Report, scale: Scale) -> dict[str, Sweep]:
    """Vary one trait after the other; return what came out, by the name of the figure."""
    known_points = KnownPoints(report, scale)
    sweeps: Iterable[Sweep] = (
        vary_arrival_rate(known_points).enter(report),
        vary_relative_rate(known_points).enter(report),
        vary_duplication(known_points).enter(report),
        vary_arrival_skew(known_points).enter(report, "linear"),
        vary_key_skew(known_points).enter(report, "linear"),
        vary_window_length(known_points).enter(report, "linear"),
    )
    found = {each.name: each for each in sweeps}
    report.detail(
        "repeated: work of the second run by that of the first", repeat_point(known_points)
    )
    return found


def repeat_point(known_points: KnownPoints) -> dict[str, float]:
    """Run the point of Fig. 9 once more whose keys are then duplicated; compare what it costs."""
    traits = known_points.even(shrink_rate(known_points.scale, DUPE_RATE))
    with known_points.report.step(f"{traits.left:g} tuples a ms, once more"):
        outcomes = simulate_all(encode_workload(make_micro(*traits)))
    first = known_points.known[traits]
    ratios = {LABELS[name]: round(outcomes[name].cost / first[name].cost, 3) for name in outcomes}
    if max(*ratios.values(), *(1 / ratio for ratio in ratios.values())) > QUIET:
        text = f"the machine is not quiet; findings may be chance: {ratios}"
        known_points.report.console.print(text, markup=False, highlight=False)
    return ratios


def vary_arrival_rate(known_points: KnownPoints) -> Sweep:
    """Both streams alike, unique keys."""
    rates = [shrink_rate(known_points.scale, rate) for rate in known_points.scale.pick(RATES)]
    empty = Sweep("Fig. 9", "arrival rate", "tuples a ms, each stream")
    return known_points.sweep(empty, {rate: known_points.even(rate) for rate in rates})


def vary_relative_rate(known_points: KnownPoints) -> Sweep:
    """A slow left stream."""
    rates = [shrink_rate(known_points.scale, rate) for rate in known_points.scale.pick(RATES)]
    slow = known_points.even(rates[0])
    empty = Sweep("Fig. 10", "relative arrival rate", "tuples a ms, right stream")
    return known_points.sweep(empty, {rate: slow._replace(right=rate) for rate in rates})


def vary_duplication(known_points: KnownPoints) -> Sweep:
    """Each key so many times on each side."""
    rate = shrink_rate(known_points.scale, DUPE_RATE)
    unique = known_points.even(rate)
    empty = Sweep("Fig. 11", "key duplication", f"tuples of a key, {rate:g} tuples a ms")
    dupes = known_points.scale.pick(DUPES)
    return known_points.sweep(empty, {dupe: unique._replace(dupe=dupe) for dupe in dupes})


def vary_arrival_skew(known_points: KnownPoints) -> Sweep:
    """More tuples come early."""
    rate = shrink_rate(known_points.scale, ARRIVAL_SKEW_RATE)
    even = known_points.even(rate)
    empty = Sweep("Fig. 12", "arrival skew", f"Zipf exponent, {rate:g} tuples a ms")
    skews = known_points.scale.pick(SKEWS)
    return known_points.sweep(empty, {skew: even._replace(arrival_skew=skew) for skew in skews})


def vary_key_skew(known_points: KnownPoints) -> Sweep:
    """Some keys are frequent on the right."""
    rate = shrink_rate(known_points.scale, KEY_SKEW_RATE)
    even = known_points.even(rate)
    differs = "the left keys are unique: with Zipf(1.6) on both sides, 10^13 pairs would match"
    empty = Sweep("Fig. 13", "key skew", f"Zipf exponent, {rate:g} tuples a ms", differs)
    skews = known_points.scale.pick(SKEWS)
    return known_points.sweep(empty, {skew: even._replace(key_skew=skew) for skew in skews})


def vary_window_length(known_points: KnownPoints) -> Sweep:
    """Longer windows at the same rate."""
    rate = shrink_rate(known_points.scale, WINDOWS_RATE)
    differs = f"{rate:g} tuples a ms and not 12,800, for the time that the eager joins take"
    empty = Sweep("Fig. 14", "window length", f"ms, {rate:g} tuples a ms", differs)
    windows = known_points.scale.pick(WINDOWS)
    return known_points.sweep(
        empty, {window: known_points.even(rate, window) for window in windows}
    )
