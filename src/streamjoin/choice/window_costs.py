"""What joining one window by equality costs, from a few numbers of the machine.

Three algorithms stand for all: SHJ for those that find matches as rows come, PRJ for those that
wait, PMJ for those that sort as rows come and find most matches at the end. For each, what a tuple
takes, and what writing out a match does, was measured where everything fits into the cache, and
where less and less of it does; between and beyond, it is a straight line over the logarithm::

    keys a side     16,384   131,072   1,048,576
    SHJ, a tuple     25 ns     35 ns      110 ns       2,097,152 keys: 135 ns

SHJ over a join biclique has the same cost for both sides. Over a join matrix left rows probe the
tables of all threads and right rows one, so there are two lines.

The times are those of the clock, with as many threads as were measured; more or fewer are taken to
be faster or slower in proportion.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from typing import Any, Self

SIZES = (1 << 14, 1 << 17, 1 << 20)  # keys of a side, or rows, for which there is a number
Line = tuple[float, float, float]


def at(line: Line, size: float) -> float:
    """Return what a line says for a size.

    >>> at((10.0, 20.0, 40.0), 1 << 14), at((10.0, 20.0, 40.0), 1 << 23)
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

    tuples: Line  # each of either side
    matches: Line

    def work(self, rows: float, keys: float, matches: float) -> float:
        """Return the seconds for so many rows of both sides together, and their matches."""
        return (rows * at(self.tuples, keys) + matches * at(self.matches, rows / 2)) / 1e9

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
    matrix: tuple[Line, Line] = ((7, 16, 32), (16, 16, 22))  # SHJ-JM, a left and a right tuple
    matrix_step: float = 44_000  # ns: a few rows pushed into SHJ-JM
    biclique_step: float = 67_000  # into SHJ-JB
    few_rows: float = 1 << 14  # of both sides, up to which NPJ is not slower than PRJ
    many_matches: float = 64  # a row, from which on MPass is faster than PRJ

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
