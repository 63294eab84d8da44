"""Measures the costs of joining windows by equality on this machine, in a few seconds.

Rows come in large steps, as when a join lags behind. Of several measurements, the shortest counts,
since other activity on the machine makes them longer; of many small steps, the median. Two
algorithms that are compared take turns. They are those of Zhang et al., "Parallelizing Intra-Window
Join on Multicores: An Experimental Study" (SIGMOD 2021).
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

import numpy as np

from streamjoin.choice.window_costs import SIZES, Line, Spent, WindowCosts, line_of
from streamjoin.indexes.catalogue import LAZY
from streamjoin.joins.equality.algorithms import make_eager, make_lazy
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.words import NO_WORDS, Words, encode
from streamjoin.kernels.threads import share

REPEATED = 8  # occurrences of each key on either side, to measure matches
SECONDS, LEAST_TURNS, MOST_TURNS = 0.2, 3, 25  # per measurement
SMALL_STEPS, SMALL_STEP_ROWS = 300, 8  # how many small steps, with how many rows per side
STEP_ROWS, BLOCK_PAIRS = 1 << 16, 1 << 16  # rows per side pushed together, pairs written together
ROWS = tuple(1 << bits for bits in range(10, 19))  # per side, to compare NPJ with PRJ
MATCHES = (1, 4, 16, 64)  # per row, to compare MPass with PRJ
MATCHES_ROWS = 1 << 16  # rows per side in that comparison
MARGIN = 0.9  # MPass must be faster than PRJ by more than noise, and enough to be worth it

Sides = tuple[Words, Words]


def draw(rows: int, repeated: int, seed: int) -> Sides:
    """Return words of both sides, each key ``repeated`` times, in random order."""
    random = np.random.default_rng(seed)
    left, right = (random.permutation(np.arange(rows) // repeated) for _ in range(2))
    encoded = encode(left, right)
    return encoded.left, encoded.right


def write(piece: Piece) -> int:
    """Write out all pairs, block by block, and forget them."""
    return sum(left.size for left, _ in piece.pairs(BLOCK_PAIRS))


def time_best(*calls: Callable[[], object]) -> list[float]:
    """Return, for each call, the nanoseconds of the fastest of some turns."""
    times: list[list[float]] = [[] for _ in calls]
    begin = perf_counter()
    while takes_turn(len(times[0]), begin):
        for call, of_call in zip(calls, times, strict=True):
            start = perf_counter()
            call()
            of_call.append(1e9 * (perf_counter() - start))
    return [min(each) for each in times]


def takes_turn(turns: int, begin: float) -> bool:
    """Whether to measure once more, after ``turns`` turns since ``begin``."""
    return turns < LEAST_TURNS or (turns < MOST_TURNS and perf_counter() - begin < SECONDS)


def is_faster(one: str, other: str, sides: Sides, threads: int, margin: float = 1.0) -> bool:
    """Tell whether an algorithm takes less time than another, with pairs written out."""

    def run(name: str) -> list[int]:
        return share(write, make_lazy(name, threads).join(*sides), threads)

    ones, others = time_best(partial(run, one), partial(run, other))
    return ones <= margin * others


def time_parts(name: str, sides: Sides, threads: int) -> tuple[float, float]:
    """Return the nanoseconds of finding matches, step by step, and of writing them out."""
    times: list[tuple[float, float]] = []
    begin = perf_counter()
    while takes_turn(len(times), begin):
        spent = [0.0, 0.0]
        for step in steps_of(name, sides, threads):
            start = perf_counter()
            pieces = step()
            found = perf_counter()
            share(write, pieces, threads)
            spent[0] += found - start
            spent[1] += perf_counter() - found
        times.append((1e9 * spent[0], 1e9 * spent[1]))
    finding, writing = (min(each) for each in zip(*times, strict=True))
    return finding, writing


def steps_of(name: str, sides: Sides, threads: int) -> Iterator[Callable[[], list[Piece]]]:
    """Yield the steps of an algorithm, to be called one after the other."""
    if name in LAZY:
        yield partial(make_lazy(name, threads).join, *sides)
        return
    eager, (left, right) = make_eager(name, threads), sides
    for first in range(0, left.size, STEP_ROWS):
        yield partial(eager.push, left[first : first + STEP_ROWS], right[first : first + STEP_ROWS])
    yield eager.close


def measure_spent(name: str, threads: int, seed: int) -> Spent:
    """Measure the cost of tuples and of matches, by size."""
    tuples, matches = [], []
    for rows in SIZES:
        finding, _ = time_parts(name, draw(rows, 1, seed), threads)
        _, writing = time_parts(name, draw(rows, REPEATED, seed), threads)
        tuples.append(finding / 2 / rows)
        matches.append(writing / REPEATED / rows)
    return Spent(make_rising(tuples), make_rising(matches))


def make_rising(numbers: list[float]) -> Line:
    """Make a line monotone: larger is never faster."""
    return line_of(np.maximum.accumulate(numbers).tolist())


def measure_matrix(threads: int, seed: int) -> tuple[Line, Line]:
    """Measure the cost of a left and of a right tuple in SHJ over a join matrix, by size."""
    costs: tuple[list[float], list[float]] = ([], [])
    for rows in SIZES:
        sides = draw(rows, 1, seed)
        for side, spent in enumerate(time_sides(sides, threads)):
            costs[side].append(spent / rows)
    return make_rising(costs[0]), make_rising(costs[1])


def time_sides(sides: Sides, threads: int) -> list[float]:
    """Return the nanoseconds that SHJ-JM spends on left and on right steps, which take turns."""

    def run() -> list[float]:
        eager, spent = make_eager("shj_jm", threads), [0.0, 0.0]
        for first in range(0, sides[0].size, STEP_ROWS):
            for side, words in enumerate(sides):
                step = [NO_WORDS, NO_WORDS]
                step[side] = words[first : first + STEP_ROWS]
                begin = perf_counter()
                eager.push(*step)
                spent[side] += 1e9 * (perf_counter() - begin)
        return spent

    begin, times = perf_counter(), [run() for _ in range(LEAST_TURNS)]
    while len(times) < MOST_TURNS and perf_counter() - begin < SECONDS:
        times.append(run())
    return [min(each) for each in zip(*times, strict=True)]


def measure_step(name: str, threads: int, seed: int) -> float:
    """Return the median nanoseconds of pushing a few rows."""
    left, right = draw(SMALL_STEP_ROWS * SMALL_STEPS, 1, seed)
    eager, times = make_eager(name, threads), []
    for first in range(0, left.size, SMALL_STEP_ROWS):
        step = slice(first, first + SMALL_STEP_ROWS)
        begin = perf_counter()
        for piece in eager.push(left[step], right[step]):
            write(piece)
        times.append(1e9 * (perf_counter() - begin))
    return float(np.median(times))


def measure_windows(threads: int | None = None, seed: int = 1) -> WindowCosts:
    """Measure everything, by default with one thread per processor."""
    threads = threads or os.cpu_count() or 1
    for name in ("npj", "prj", "mpass", "shj_jm", "shj_jb", "pmj_jb"):  # compile them
        time_parts(name, draw(SIZES[0], 2, seed), threads)
    few, many = 0, float("inf")
    for rows in ROWS:
        if not is_faster("npj", "prj", draw(rows, 1, seed), threads):
            break
        few = 2 * rows
    for matches in reversed(MATCHES):
        if not is_faster("mpass", "prj", draw(MATCHES_ROWS, matches, seed), threads, MARGIN):
            break
        many = matches
    return WindowCosts(
        threads,
        measure_spent("shj_jb", threads, seed),
        measure_spent("prj", threads, seed),
        measure_spent("pmj_jb", threads, seed),
        measure_matrix(threads, seed),
        measure_step("shj_jm", threads, seed),
        measure_step("shj_jb", threads, seed),
        few,
        many,
    )
