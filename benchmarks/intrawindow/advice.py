"""How often the decision tree names an algorithm that is about as good as the best of the eight.

Workloads are drawn over the study's ranges, on a logarithmic scale: rates, how much slower one
stream is, windows, duplication, and, for every other one, skew. The tree knows what the engine
knows when a window opens: sketches of the window before it, which here has the same traits and
other rows. Its costs are measured first, as `streamjoin calibrate` does it; what it would have
chosen by the defaults, which are those of another machine or of a slower hour, is told beside. All
eight algorithms are then run in the simulator, in turns; of several runs the best counts, as other
work on the machine can only make one worse.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, log
from operator import attrgetter

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.turns import take_turns
from benchmarks.intrawindow.algorithms import LABELS, THREADS, simulate
from benchmarks.intrawindow.simulator import Outcome, encode_workload
from benchmarks.intrawindow.workloads import Workload, make_micro
from streamjoin.calibration.window_costs import measure_windows
from streamjoin.choice.decision_tree import Decision, Traits, choose
from streamjoin.choice.sketches import Sketch
from streamjoin.choice.window_costs import DEFAULT_WINDOW_COSTS

SEED = 8_000  # not one of those that the tree was made with
WORKLOADS, SHRINK = Sized(full=20, quick=2), Sized(full=1, quick=20)  # windows are divided by it
MOST_ROWS, MOST_MATCHES = 5_000_000, 40_000_000
RATES, SLOWER, WINDOWS = (60, 12_800), (1, 16), (250, 4_000)  # tuples a ms, a factor, ms
DUPES, SKEWS = (1, 100), (0.1, 1.6)
# Of each algorithm; more if all take less than so many seconds.
RUNS, MOST_RUNS, ENOUGH = Sized(full=3, quick=1), 7, Sized(full=30.0, quick=0.0)
CLOSE, SHARE = 1.15, 0.9

METRICS: dict[str, Callable[[Outcome], float]] = {  # less is better
    "throughput": attrgetter("finished"),  # the time in which all tuples are through
    "latency": attrgetter("latency"),
    "progressiveness": attrgetter("half"),
}


@dataclass(frozen=True)
class Drawn:
    """The traits of a random workload; rates are tuples a ms, the window ms."""

    rate_left: float
    rate_right: float
    window: float
    dupe: int
    key_skew: float

    @classmethod
    def draw(cls, seed: int, shrink: int = 1) -> "Drawn":
        """Draw traits, of which none makes a window too large."""
        random = np.random.default_rng(seed)

        def between(ends: tuple[float, float]) -> float:
            return exp(random.uniform(log(ends[0]), log(ends[1])))

        rate, slower, window = between(RATES), between(SLOWER), between(WINDOWS)
        window = min(window, MOST_ROWS / rate) / shrink
        dupe = max(int(min(between(DUPES), MOST_MATCHES / rate / window)), 1)
        rates = random.permutation([rate, rate / slower])
        skew = between(SKEWS) if random.random() < 0.5 else 0.0
        return cls(float(rates[0]), float(rates[1]), window, dupe, skew)

    def make(self, seed: int) -> Workload:
        """Draw a window with these traits."""
        return make_micro(**vars(self), seed=seed)

    def traits(self, seed: int) -> Traits:
        """Return what is known of a window with these traits, once it has closed."""
        workload = self.make(seed)
        sketches = Sketch.of(workload.left_keys), Sketch.of(workload.right_keys)
        return Traits.of(sketches, THREADS, self.window / 1e3)


def measure_advice(report: Report, scale: Scale) -> None:
    """Let the tree choose for random workloads, and all algorithms run them."""
    count, shrink = scale.pick(WORKLOADS), scale.pick(SHRINK)
    first = report.seed("advice", SEED)
    with report.step("advice: calibrating"):
        costs = measure_windows(THREADS)
    report.settings["advice, costs"] = asdict(costs)
    ratios: dict[str, list[float]] = {goal: [] for goal in METRICS}
    by_default: dict[str, list[float]] = {goal: [] for goal in METRICS}
    for seed in range(first, first + count):
        drawn = Drawn.draw(seed, shrink)
        with report.step(f"advice: workload {seed}"):
            traits, outcomes = drawn.traits(seed + count), run_all(drawn.make(seed), scale)
        chosen = {goal: choose(traits, goal, "auto", costs) for goal in METRICS}
        for goal, decision in chosen.items():
            values = best_values(outcomes, goal)
            best = min(values.values())
            ratios[goal].append(values[decision.algorithm] / best)
            default = choose(traits, goal, "auto", DEFAULT_WINDOW_COSTS)
            by_default[goal].append(values[default.algorithm] / best)
        report.detail(f"advice, workload {seed}", describe(drawn, outcomes, chosen))
    for goal, each in ratios.items():
        report.at_least(
            f"workloads whose advice for {goal} is within 15 % of the best",
            count_close(each),
            SHARE,
            note=f"{count} workloads{list_others(each)}",
        )
    told = {
        goal: f"{count_close(each):.2f}{list_others(each)}" for goal, each in by_default.items()
    }
    report.detail("advice by the default costs: share within 15 %", told)


def count_close(ratios: list[float]) -> float:
    """Return which share of the choices is about as good as the best."""
    return sum(ratio <= CLOSE for ratio in ratios) / len(ratios)


def list_others(ratios: list[float]) -> str:
    """Tell how far off the other choices are."""
    others = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios) if ratio > CLOSE)
    return f"; others: {others}" if others else ""


def run_all(workload: Workload, scale: Scale) -> dict[str, list[Outcome]]:
    """Run all algorithms in turns, often enough."""
    arrivals = encode_workload(workload)
    rivals = {name: partial(simulate, name, arrivals) for name in LABELS}
    return take_turns(rivals, scale.pick(RUNS), seconds=scale.pick(ENOUGH), most=MOST_RUNS)


def best_values(outcomes: dict[str, list[Outcome]], goal: str) -> dict[str, float]:
    """Return the best value of each algorithm, ms."""
    return {name: min(map(METRICS[goal], each)) for name, each in outcomes.items()}


def describe(
    drawn: Drawn, outcomes: dict[str, list[Outcome]], chosen: dict[str, Decision]
) -> dict[str, object]:
    """Return what was drawn, chosen and measured."""
    return {
        **vars(drawn),
        "chosen": {goal: str(decision) for goal, decision in chosen.items()},
        "ms": {
            goal: {LABELS[name]: round(ms, 4) for name, ms in best_values(outcomes, goal).items()}
            for goal in METRICS
        },
    }
