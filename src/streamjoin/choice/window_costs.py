"""Predicts the cost of joining one window by equality from a few numbers of the machine.

Three algorithms stand for all: SHJ for those that find matches as rows arrive, PRJ for those that
wait, PMJ for those that sort as rows arrive and find most matches at the end. For each, the time
per tuple and per match written out was measured where everything fits into the cache, and where
less and less of it does; between and beyond, it is a straight line over the logarithm::

    keys per side   16,384   131,072   1,048,576
    SHJ, per tuple   25 ns     35 ns      110 ns       2,097,152 keys: 135 ns

SHJ over a join biclique costs the same for both sides. Over a join matrix, left rows probe the
tables of all threads and right rows only one, so there are two lines.

Times are wall-clock times, with as many threads as were measured; with more or fewer threads they
are assumed to change in proportion. The algorithms are those of Zhang et al., "Parallelizing
Intra-Window Join on Multicores: An Experimental Study" (SIGMOD 2021).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from typing import Any, Self

SIZES = (1 << 14, 1 << 17, 1 << 20)  # keys or rows per side for which a line has a number
Line = tuple[float, float, float]


def interpolate(line: Line, size: float) -> float:
    """Return the value of a line at a size.

    >>> interpolate((10.0, 20.0, 40.0), 1 << 14), interpolate((10.0, 20.0, 40.0), 1 << 23)
    (10.0, 60.0)
    """
    place = max(log(max(size, 1) / SIZES[0], SIZES[1] / SIZES[0]), 0.0)
    first = min(int(place), 1)
    return line[first] + (line[first + 1] - line[first]) * (place - first)


def line_of(numbers: Iterable[float]) -> Line:
    """Return three numbers as a line."""
    first, second, third = map(float, numbers)
    return first, second, third


@dataclass(frozen=True)
class Spent:
    """Nanoseconds of an algorithm, by size."""

    tuples: Line  # per tuple of either side
    matches: Line

    def work(self, rows: float, keys: float, matches: float) -> float:
        """Return the seconds for ``rows`` rows of both sides together, and their matches."""
        tuples_ns = rows * interpolate(self.tuples, keys)
        return (tuples_ns + matches * interpolate(self.matches, rows / 2)) / 1e9

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        return cls(line_of(saved["tuples"]), line_of(saved["matches"]))


@dataclass(frozen=True)
class WindowCosts:
    """The numbers of a machine; the defaults are measured."""

    threads: int = 2
    eager: Spent = Spent((11, 14, 32), (1.7, 2.2, 6.3))  # SHJ-JB
    lazy: Spent = Spent((8, 8, 8), (1.5, 1.5, 1.5))  # PRJ
    sorting: Spent = Spent((7, 7, 17), (1.5, 1.5, 2))  # PMJ-JB
    matrix: tuple[Line, Line] = ((7, 16, 32), (16, 16, 22))  # SHJ-JM, per left and right tuple
    matrix_step: float = 44_000  # ns: a few rows pushed into SHJ-JM
    biclique_step: float = 67_000  # into SHJ-JB
    few_rows: float = 1 << 14  # of both sides, up to which NPJ is not slower than PRJ
    many_matches: float = 64  # per row, from which MPass is faster than PRJ

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        eager, lazy, sorting = (
            Spent.from_dict(saved[name]) for name in ("eager", "lazy", "sorting")
        )
        left, right = map(line_of, saved["matrix"])
        names = ("matrix_step", "biclique_step", "few_rows", "many_matches")
        numbers = (float(saved[name]) for name in names)
        return cls(int(saved["threads"]), eager, lazy, sorting, (left, right), *numbers)


DEFAULT_WINDOW_COSTS = WindowCosts()
