"""The eight joins of the study, by the names that the report has for them, and as it has them.

PMJ sorts ``delta`` tuples together. A window of fewer tuples would be joined at its end only, like
a lazy join does it: so a run has a fifth of the window's tuples, as in the study, or ``DELTA`` if
this is less.
"""

from functools import partial
from operator import attrgetter
from typing import Any

from benchmarks.harness.turns import repeat
from benchmarks.intrawindow.simulator import EncodedWorkload, Outcome, run_eager, run_lazy
from streamjoin.indexes.catalogue import EAGER, LAZY
from streamjoin.joins.equality.algorithms import make_eager, make_lazy
from streamjoin.joins.equality.eager.pmj import DELTA
from streamjoin.joins.equality.protocol import Eager

THREADS = 2
RUNS, ENOUGH = 3, 5.0  # of a join; seconds after which it is not run again
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


def make_eager_for(name: str, inputs: int, threads: int = THREADS, **knobs: Any) -> Eager:
    """Make an eager join for a window of so many tuples."""
    if name in SORT:
        knobs = {"delta": max(min(DELTA, inputs // 5), 2)} | knobs
    return make_eager(name, threads, **knobs)


def simulate(name: str, arrivals: EncodedWorkload, threads: int = THREADS, **knobs: int) -> Outcome:
    """Run a join on arrivals; it has to find the matches that there are."""
    if name in LAZY:
        outcome = run_lazy(make_lazy(name, threads, **knobs), arrivals, threads)
    else:
        outcome = run_eager(
            make_eager_for(name, arrivals.workload.inputs, threads, **knobs), arrivals, threads
        )
    expected = arrivals.workload.matches
    assert outcome.matches == expected, f"{name}: {outcome.matches} matches, not {expected}"
    return outcome


def simulate_often(
    name: str, arrivals: EncodedWorkload, threads: int = THREADS, **knobs: int
) -> Outcome:
    """Run a join a few times, and return the run with the least work: others only add to it.

    One that takes long is not run again.
    """
    run = partial(simulate, name, arrivals, threads, **knobs)
    return min(repeat(run, 1, seconds=ENOUGH, most=RUNS), key=attrgetter("cost"))


def simulate_all(arrivals: EncodedWorkload) -> Outcomes:
    """Run all eight."""
    return {name: simulate_often(name, arrivals) for name in LABELS}
