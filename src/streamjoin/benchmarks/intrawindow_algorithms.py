"""The eight joins of the study, by the names that the report has for them."""

from streamjoin.benchmarks.intrawindow_simulator import Arrivals, Outcome, run_eager, run_lazy
from streamjoin.intrawindow.registry import EAGER, LAZY, make_eager, make_lazy

THREADS = 2
LABELS = {
    "npj": "NPJ",
    "prj": "PRJ",
    "mway": "MWay",
    "mpass": "MPass",
    "shj_jm": "SHJ-JM",
    "shj_jb": "SHJ-JB",
    "pmj_jm": "PMJ-JM",
    "pmj_jb": "PMJ-JB",
}
HASH = ("npj", "prj", "shj_jm", "shj_jb")
SORT = ("mway", "mpass", "pmj_jm", "pmj_jb")

Outcomes = dict[str, Outcome]  # by name

assert set(LABELS) == {*LAZY, *EAGER} == {*HASH, *SORT}


def simulate(name: str, arrivals: Arrivals, threads: int = THREADS, **knobs: int) -> Outcome:
    """Run a join on arrivals; it has to find the matches that there are."""
    if name in LAZY:
        outcome = run_lazy(make_lazy(name, threads, **knobs), arrivals, threads)
    else:
        outcome = run_eager(make_eager(name, threads, **knobs), arrivals, threads)
    expected = arrivals.workload.matches
    assert outcome.matches == expected, f"{name}: {outcome.matches} matches, not {expected}"
    return outcome


def simulate_all(arrivals: Arrivals) -> Outcomes:
    """Run all eight."""
    return {name: simulate(name, arrivals) for name in LABELS}
