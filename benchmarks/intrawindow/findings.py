"""What the study found, held against what comes out here: confirmed or refuted, with numbers.

The study holds joins against each other by three metrics. A finding comes out if the joins that it
names are ahead by some and behind by none; if it is about several points, at all of them.
"""

from collections.abc import Iterable
from typing import Any

from benchmarks.harness.report import Report
from benchmarks.intrawindow.algorithms import HASH, LABELS, SORT, Outcomes
from benchmarks.intrawindow.knobs import Costs
from benchmarks.intrawindow.sweeps import METRICS, Sweep
from streamjoin.indexes.catalogue import EAGER, LAZY

Finding = dict[str, Any]
LEVEL = 0.1  # below this difference, figures of so few runs say nothing
CONFIRMED, REFUTED = "comes out", "is refuted"
MIXED, UNDECIDED = "comes out in part", "is undecided: no difference above a tenth"


def judge_findings(
    report: Report, real: dict[str, Outcomes], sweeps: dict[str, Sweep], costs: dict[str, Costs]
) -> None:
    """Enter each finding, and say it."""
    found = {
        "lazy joins are ahead at a high rate (Fig. 9)": judge_high_rates(sweeps["Fig. 9"]),
        "SHJ-JM is ahead at a low rate (Fig. 9)": judge_low_rates(sweeps["Fig. 9"]),
        "SHJ-JM is ahead with one slow stream (Fig. 10)": judge_slow_stream(sweeps["Fig. 10"]),
        "sorting is ahead at high duplication (Fig. 11)": judge_sorting(sweeps["Fig. 11"]),
        "SHJ-JM gains throughput with arrival skew (Fig. 12)": judge_arrival_skew(
            sweeps["Fig. 12"]
        ),
        "PRJ suffers from key skew, others do not (Fig. 13)": judge_key_skew(sweeps["Fig. 13"]),
        "throughput does not depend on the window (Fig. 14)": judge_windows(sweeps["Fig. 14"]),
        "the join-matrix beats the join-biclique (Fig. 16)": judge_matrix(costs["Fig. 16"]),
        "SHJ-JM has half of Stock's matches first (Fig. 6)": judge_stock(real["Stock"]),
        "lazy joins have the best throughput on each workload (Fig. 5)": judge_lazy_throughput(
            real
        ),
    }
    report.detail("findings", found)
    for text, finding in found.items():
        report.console.print(f"{text}: {finding['verdict']}", highlight=False, markup=False)


def find_best(outcomes: Outcomes, metric: str, names: Iterable[str]) -> tuple[str, float]:
    """Return which of some joins is the best by a metric, and its figure."""
    get = METRICS[metric][1]
    choose = max if metric == "throughput" else min
    name = choose(names, key=lambda each: get(outcomes[each]))
    return LABELS[name], get(outcomes[name])


def name_standing(ratio: float) -> str:
    """Say whether one is better than another, of which it is ``ratio`` times as good.

    >>> name_standing(1.02), name_standing(1.5)
    ('level', 'ahead')
    """
    return "ahead" if ratio > 1 + LEVEL else "behind" if ratio < 1 / (1 + LEVEL) else "level"


def compare_best(outcomes: Outcomes, ours: Iterable[str], others: Iterable[str]) -> Finding:
    """Hold the best of some joins against the best of others, by all three metrics."""
    ours, others = list(ours), list(others)
    finding: Finding = {}
    for metric in METRICS:
        (name, figure), (rival, other) = (
            find_best(outcomes, metric, each) for each in (ours, others)
        )
        ratio = figure / other if metric == "throughput" else other / figure
        finding[metric] = {
            "is": name_standing(ratio),
            name: round(figure, 4),
            rival: round(other, 4),
        }
    return {"verdict": sum_up(each["is"] for each in finding.values()), **finding}


def sum_up(standings: Iterable[str]) -> str:
    """Return what several standings together say of a finding."""
    said = set(standings)
    if said == {"level"}:
        return UNDECIDED
    return REFUTED if said == {"behind"} else MIXED if "behind" in said else CONFIRMED


def join_findings(each: dict[str, Finding]) -> Finding:
    """Return the finding that several are, if they say the same."""
    said = {finding["verdict"] for finding in each.values()}
    return {"verdict": said.pop() if len(said) == 1 else MIXED, **each}


def decide(truth: bool, **numbers: object) -> Finding:
    """Return a finding that a number decides."""
    return {"verdict": CONFIRMED if truth else REFUTED, **numbers}


def judge_high_rates(sweep: Sweep) -> Finding:
    """At the highest rate."""
    return compare_best(sweep.points[max(sweep.points)], LAZY, EAGER)


def judge_low_rates(sweep: Sweep) -> Finding:
    """At the lowest rate."""
    return compare_best(sweep.points[min(sweep.points)], ["shj_jm"], set(LABELS) - {"shj_jm"})


def judge_slow_stream(sweep: Sweep) -> Finding:
    """At each relative rate."""
    each = {
        f"{value:g}": compare_best(outcomes, ["shj_jm"], set(LABELS) - {"shj_jm"})
        for value, outcomes in sweep.points.items()
    }
    return join_findings(each)


def judge_sorting(sweep: Sweep) -> Finding:
    """Above ten tuples a key, among lazy and among eager joins."""
    each = {
        f"{kind}, {value:g}": compare_best(
            outcomes, [name for name in names if name in SORT], set(names) & set(HASH)
        )
        for value, outcomes in sweep.points.items()
        if value > 10
        for kind, names in (("lazy", LAZY), ("eager", EAGER))
    }
    return join_findings(each)


def judge_arrival_skew(sweep: Sweep) -> Finding:
    """The strongest skew against none: which others gain is said too."""
    gains = compare_throughput(sweep, max(sweep.points), min(sweep.points))
    others = [gain for name, gain in gains.items() if name != "SHJ-JM"]
    return decide(gains["SHJ-JM"] > 1 + LEVEL > max(others), gain=gains)


def judge_key_skew(sweep: Sweep) -> Finding:
    """The strongest skew against none."""
    gains = compare_throughput(sweep, max(sweep.points), min(sweep.points))
    others = [gain for name, gain in gains.items() if name != "PRJ"]
    return decide(gains["PRJ"] < 1 - LEVEL < min(others), gain=gains)


def judge_windows(sweep: Sweep) -> Finding:
    """The longest against the shortest."""
    gains = compare_throughput(sweep, max(sweep.points), min(sweep.points))
    return decide(all(0.8 < gain < 1.25 for gain in gains.values()), gain=gains)


def compare_throughput(sweep: Sweep, one: float, other: float) -> dict[str, float]:
    """Return how throughput at one value compares with that at another."""
    return {
        LABELS[name]: round(outcome.throughput / sweep.points[other][name].throughput, 3)
        for name, outcome in sweep.points[one].items()
    }


def judge_matrix(costs: Costs) -> Finding:
    """With every number of threads and every group."""
    pairs = {
        name: (min(line.values()), costs[name.replace("-JB", "-JM")]["any"])
        for name, line in costs.items()
        if "-JB" in name
    }
    compared = {name: {"JB, best group": a, "JM": b} for name, (a, b) in pairs.items()}
    return {"verdict": sum_up(name_standing(a / b) for a, b in pairs.values()), **compared}


def judge_stock(outcomes: Outcomes) -> Finding:
    """The study: 674 ms, and 1014 ms for the first lazy join."""
    name, half = find_best(outcomes, "progress", LAZY)
    ours = outcomes["shj_jm"].half
    return decide(ours < half, **{"SHJ-JM, ms": ours, f"{name}, ms": half})


def judge_lazy_throughput(real: dict[str, Outcomes]) -> Finding:
    """Better or comparable."""
    each, leads = {}, []
    for name, outcomes in real.items():
        (lazy, ours), (eager, theirs) = (
            find_best(outcomes, "throughput", names) for names in (LAZY, EAGER)
        )
        each[name] = {lazy: ours, eager: theirs}
        leads.append(name_standing(ours / theirs))
    return {"verdict": sum_up(leads), **each}
