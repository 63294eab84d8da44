"""Races between parts of windows, and between whole joins; rivals take turns.

Rivals differ a hundredfold, so that each gets as many tuples as it can take in a moment. All of
them begin with the same tuples over the same windows, and have to find the same matches there; what
comes after that is measured::

    hash set       | 32 tuples: 410 matches |  32  |  32  |  32        a turn each, in a circle
    permutation    | 32 tuples: 410 matches |  4096  |  4096  |  4096

Times are microseconds a tuple: a tuple of a part is searched for, and inserted if the part takes
tuples; a tuple of a join is searched for in one window and goes into the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np

from benchmarks.harness.report import Series
from benchmarks.spojoin.baselines import Part
from benchmarks.spojoin.chains import Arrivals
from benchmarks.spojoin.workloads import Query, Ranges, Rows

MICROS = "us/tuple"
CHECKED = 32  # tuples with which rivals are held against each other, of each stream


class Join(Protocol):
    """A join of two streams."""

    def fill(self, side: int, rows: Rows) -> None:
        """Let tuples come that look for nothing."""
        ...

    def run(self, arrivals: Arrivals) -> int:
        """Take tuples; return how many matches they have."""
        ...


@dataclass(frozen=True)
class Entrant:
    """A part, and how many tuples it gets in a turn."""

    part: Part
    tuples: int


@dataclass(frozen=True)
class Runner:
    """A join, and how many tuples of each stream it gets: in a batch, and batches in a turn."""

    join: Join
    batch: int
    steps: int = 1


def race_parts(
    query: Query, entrants: Mapping[str, Entrant], rounds: int, seed: int
) -> dict[str, Series]:
    """Measure parts that hold the same tuples."""
    rng = np.random.default_rng(seed)
    checked = query.rows(rng, CHECKED)
    agree({name: check_part(query, entrant.part, checked) for name, entrant in entrants.items()})
    rows = query.rows(rng, max(entrant.tuples for entrant in entrants.values()))
    ranges = query.ranges(rows, 0)
    times: dict[str, list[float]] = {name: [] for name in entrants}
    for _ in range(rounds):
        for name, entrant in entrants.items():
            count = entrant.tuples
            some, sought = rows.part(0, count), ranges.part(0, count)
            begin = perf_counter()
            entrant.part.run(some, sought)
            times[name].append((perf_counter() - begin) / count * 1e6)
            entrant.part.rewind()
    return {name: Series(name, tuple(each), MICROS) for name, each in times.items()}


def check_part(query: Query, part: Part, rows: Rows) -> int:
    """Return how many matches some tuples have; one by one if what has come has to be found."""
    step = 1 if part.takes_tuples else CHECKED
    matches = 0
    for begin in range(0, CHECKED, step):
        some = rows.part(begin, begin + step)
        matches += part.run(some, query.ranges(some, 0))
    part.rewind()
    return matches


def race_joins(
    query: Query, window: int, runners: Mapping[str, Runner], rounds: int, seed: int
) -> dict[str, Series]:
    """Measure joins over full windows."""
    rng = np.random.default_rng(seed)
    fill(query, window, [runner.join for runner in runners.values()], rng)
    checked = arrivals_of(query, rng, CHECKED)
    agree({name: runner.join.run(checked) for name, runner in runners.items()})
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, runner in runners.items():
            steps = [arrivals_of(query, rng, runner.batch) for _ in range(runner.steps)]
            begin = perf_counter()
            for step in steps:
                runner.join.run(step)
            seconds = perf_counter() - begin
            times[name].append(seconds / (2 * runner.batch * runner.steps) * 1e6)
    return {name: Series(name, tuple(each), MICROS) for name, each in times.items()}


def fill(query: Query, window: int, joins: list[Join], rng: np.random.Generator) -> None:
    """Fill both windows of joins with the same tuples; those of a self-join with one stream."""
    streams = streams_of(query, rng, window)
    for join in joins:
        for side, rows in enumerate(streams):
            join.fill(side, rows)


def streams_of(query: Query, rng: np.random.Generator, count: int) -> tuple[Rows, Rows]:
    """Draw tuples of both streams, which are one and the same in a self-join."""
    left = query.rows(rng, count)
    return left, left if query.itself else query.rows(rng, count)


def arrivals_of(query: Query, rng: np.random.Generator, batch: int) -> Arrivals:
    """Draw a batch of the left stream and then one of the right."""
    left, right = streams_of(query, rng, batch)
    ranges = zip(query.ranges(left, 0), query.ranges(right, 1), strict=True)
    return Arrivals(
        np.repeat([0, 1], batch),
        Rows(*(np.concatenate(each) for each in zip(left, right, strict=True))),
        Ranges(*(np.concatenate(each) for each in ranges)),
    )


def agree(found: Mapping[str, int]) -> None:
    """Assert that all rivals have found as many matches."""
    assert len(set(found.values())) == 1, f"matches differ: {dict(found)}"


def renamed(series: Series, text: str) -> Series:
    """Return a series under a name that tells where it was measured."""
    return Series(f"{series.name}, {text}", series.values, series.unit)
