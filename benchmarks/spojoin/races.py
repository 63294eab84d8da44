"""Races between parts of windows, and between whole joins.

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
from functools import partial
from typing import Protocol

import numpy as np

from benchmarks.harness.series import Series, make_series
from benchmarks.harness.turns import check_agreement, take_turns, time_call
from benchmarks.spojoin.chains import Arrivals
from benchmarks.spojoin.tree_parts import Part
from benchmarks.spojoin.workloads import Query, Ranges, Rows

MICROS = "us/tuple"
RATE, WINDOW = "tuples/s", "tuples in a window"  # axes
HASH, BITS = "hash sets", "bit arrays"  # kinds of rivals
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
    check_agreement(
        {name: check_part(query, each.part, checked) for name, each in entrants.items()}
    )
    rows = query.rows(rng, max(entrant.tuples for entrant in entrants.values()))
    ranges = query.ranges(rows, 0)

    def measure(part: Part, count: int) -> float:
        seconds = time_call(part.run, rows.part(0, count), ranges.part(0, count))
        part.rewind()
        return seconds / count * 1e6

    rivals = {name: partial(measure, each.part, each.tuples) for name, each in entrants.items()}
    return make_series(take_turns(rivals, rounds), MICROS)


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
    fill_joins(query, window, [runner.join for runner in runners.values()], rng)
    checked = draw_arrivals(query, rng, CHECKED)
    check_agreement({name: runner.join.run(checked) for name, runner in runners.items()})

    def measure(runner: Runner) -> float:
        steps = [draw_arrivals(query, rng, runner.batch) for _ in range(runner.steps)]
        seconds = time_call(lambda: [runner.join.run(step) for step in steps])
        return seconds / (2 * runner.batch * runner.steps) * 1e6

    rivals = {name: partial(measure, runner) for name, runner in runners.items()}
    return make_series(take_turns(rivals, rounds), MICROS)


def fill_joins(query: Query, window: int, joins: list[Join], rng: np.random.Generator) -> None:
    """Fill both windows of joins with the same tuples; those of a self-join with one stream."""
    streams = draw_streams(query, rng, window)
    for join in joins:
        for side, rows in enumerate(streams):
            join.fill(side, rows)


def draw_streams(query: Query, rng: np.random.Generator, count: int) -> tuple[Rows, Rows]:
    """Draw tuples of both streams, which are one and the same in a self-join."""
    left = query.rows(rng, count)
    return left, left if query.itself else query.rows(rng, count)


def draw_arrivals(query: Query, rng: np.random.Generator, batch: int) -> Arrivals:
    """Draw a batch of the left stream and then one of the right."""
    left, right = draw_streams(query, rng, batch)
    ranges = zip(query.ranges(left, 0), query.ranges(right, 1), strict=True)
    return Arrivals(
        np.repeat([0, 1], batch),
        Rows(*(np.concatenate(each) for each in zip(left, right, strict=True))),
        Ranges(*(np.concatenate(each) for each in ranges)),
    )
