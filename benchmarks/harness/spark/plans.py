"""Spark's own plan for tables without an equality: every pair (`BroadcastNestedLoopJoin`).

It may take minutes. So its first run, by which our result is checked, also tells whether it can
take turns with us, or whether that run has to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.harness.series import Series
from benchmarks.harness.spark.session import Workbench
from benchmarks.harness.turns import time_call, time_turns

LONG_SECONDS = 30.0  # after which one run has to do

Sums = tuple[Any, ...]  # the number of joined rows, and what depends on all their columns


@dataclass(frozen=True)
class PlanRace:
    """What came out of our join and of Spark's own plan."""

    found: Sums
    ours: Series
    theirs: Series
    has_turns: bool  # or there is one run of theirs only


def rename_right(table: DataFrame) -> DataFrame:
    """Return the right table under the names that its columns have in the result."""
    return table.toDF(*(f"{name}_right" for name in table.columns))


def join_every_pair(left: DataFrame, right: DataFrame, on: str) -> DataFrame:
    """Let Spark compare every pair of rows."""
    return left.crossJoin(F.broadcast(rename_right(right))).where(on)


def check_equal(name: str, ours: Sums, theirs: Sums) -> None:
    """Refuse to compare joins with different results."""
    if ours != theirs:
        raise RuntimeError(f"{name}: streamjoin's result is {ours}, the other one {theirs}")


def race_plan(
    bench: Workbench,
    name: str,
    ours: Callable[[], Sums],
    theirs: Callable[[], Sums],
    rounds: int,
) -> PlanRace:
    """Measure our join and Spark's own plan, in turns unless that takes too long."""
    labels = f"{name}: streamjoin", f"{name}: BroadcastNestedLoopJoin"
    found: list[Sums] = []
    with bench.report.step(labels[1]):
        first = time_call(lambda: found.append(theirs()))
    check_equal(name, ours(), found[0])
    has_turns = first < LONG_SECONDS
    functions: dict[str, Callable[[], object]] = {labels[0]: ours}
    functions |= {labels[1]: theirs} if has_turns else {}
    with bench.report.step(f"{name}: streamjoin{' and Spark' * has_turns}"):
        times = time_turns(functions, rounds)
    other = times.get(labels[1]) or Series(labels[1], (first,))
    return PlanRace(found[0], times[labels[0]], other, has_turns)
