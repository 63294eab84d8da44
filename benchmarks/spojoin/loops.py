"""Nested loops over two predicates, by threads: every tuple is compared with a whole window.

The two ways of the paper to spread them over processing elements, here threads::

    SplitJoin    a row is stored by one thread, in turns; every thread looks at every tuple
    broadcast    every thread stores all rows; a tuple is looked at by one thread, in turns

Both make the same comparisons. In broadcast, each thread goes through a window of its own, and in
SplitJoin through a half, so that with two threads half as much memory is read for a tuple and
thread. Some hundred rows are compared without a branch, which compiles to SIMD code, and only where
some match are they written down. A *plain* loop compares one pair after the other, as the papers'
do; measured beside the others, it tells how much of a ratio is owed to that.

Source: SPO-Join, section 5.4 ("Partitioning based stream join").
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from benchmarks.spojoin.chains import Arrivals
from benchmarks.spojoin.workloads import Ranges, Rows
from streamjoin.kernels.compile import Int, Keys, Positions, RowIds, bare, inlined

TILE = 256
NEXT_ROW, SIZE, STORES, LOOKS, THREAD = range(5)  # places in ``info``


class Ring(NamedTuple):
    """What a thread stores of one window, as kernels take it."""

    first: Keys
    second: Keys
    info: Positions  # the constants above name the places


def make_ring(window: int, thread: int, stores: int, looks: int) -> Ring:
    """Allocate what a thread stores that takes each of ``stores`` rows, and looks likewise."""
    room = -(-window // stores)
    keys = np.empty(room, np.int64), np.empty(room, np.int64)
    return Ring(*keys, np.array([0, 0, stores, looks, thread]))


@inlined
def store(ring: Ring, first: Int, second: Int) -> None:
    """Store a tuple in the place of the oldest one, if this thread has to."""
    info = ring.info
    row = info[NEXT_ROW]
    info[NEXT_ROW] = row + 1
    if info[STORES] == 1 or row % info[STORES] == info[THREAD]:
        place = row // info[STORES] % ring.first.size
        ring.first[place], ring.second[place] = first, second
        info[SIZE] = min(info[SIZE] + 1, ring.first.size)


@inlined
def count_hits(ring: Ring, begin: Int, end: Int, ranges: Ranges, i: Int) -> Int:
    """Count the rows of a tile that probe i matches."""
    lower, upper = ranges.first_lower[i], ranges.first_upper[i]
    low, high = ranges.second_lower[i], ranges.second_upper[i]
    hits = np.int64(0)
    for at in range(begin, end):
        first, second = ring.first[np.uint64(at)], ring.second[np.uint64(at)]
        hits += np.int64((first >= lower) & (first <= upper) & (second >= low) & (second <= high))
    return hits


@inlined
def compare(ring: Ring, ranges: Ranges, i: Int, found: RowIds) -> Int:
    """Write down the rows that probe i matches; return how many there are."""
    lower, upper = ranges.first_lower[i], ranges.first_upper[i]
    low, high = ranges.second_lower[i], ranges.second_upper[i]
    count, size = np.int64(0), ring.info[SIZE]
    for begin in range(0, size, TILE):
        end = min(begin + TILE, size)
        if count_hits(ring, begin, end, ranges, i) == 0:
            continue
        for at in range(begin, end):
            first, second = ring.first[at], ring.second[at]
            found[count] = at
            count += np.int64(
                (first >= lower) & (first <= upper) & (second >= low) & (second <= high)
            )
    return count


@inlined
def compare_plainly(ring: Ring, ranges: Ranges, i: Int, found: RowIds) -> Int:
    """Do as `compare`, one row after the other, and the second predicate only if it must be."""
    lower, upper = ranges.first_lower[i], ranges.first_upper[i]
    low, high = ranges.second_lower[i], ranges.second_upper[i]
    count = np.int64(0)
    for at in range(ring.info[SIZE]):
        if lower <= ring.first[at] <= upper and low <= ring.second[at] <= high:
            found[count] = at
            count += 1
    return count


@bare
def run_loops(left: Ring, right: Ring, arrivals: Arrivals, plain: bool, found: RowIds) -> Int:
    """Take tuples one after the other; return how many matches this thread finds."""
    matches, rows = np.int64(0), arrivals.rows
    looks, thread = left.info[LOOKS], left.info[THREAD]
    for i in range(arrivals.sides.size):
        own, other = (left, right) if arrivals.sides[i] == 0 else (right, left)
        if looks == 1 or i % looks == thread:
            if plain:
                matches += compare_plainly(other, arrivals.ranges, i, found)
            else:
                matches += compare(other, arrivals.ranges, i, found)
        store(own, rows.first[i], rows.second[i])
    return matches


@bare
def fill_ring(ring: Ring, rows: Rows) -> None:
    """Store tuples that look for nothing."""
    for i in range(rows.first.size):
        store(ring, rows.first[i], rows.second[i])


class LoopJoin:
    """A join of two streams by nested loops, on some threads."""

    def __init__(self, window: int, splits: bool, threads: int = 2, plain: bool = False) -> None:
        if splits and window % threads:
            raise ValueError(f"a window of {window} rows cannot be split among {threads} threads")
        stores, looks = (threads, 1) if splits else (1, threads)
        self.rings = [
            [make_ring(window, thread, stores, looks) for _ in "lr"] for thread in range(threads)
        ]
        self.found = [np.empty(window + 1, np.int32) for _ in range(threads)]
        self.plain, self.pool = plain, ThreadPoolExecutor(threads)

    def fill(self, side: int, rows: Rows) -> None:
        """Let tuples come that look for nothing."""
        for rings in self.rings:
            fill_ring(rings[side], rows)

    def run(self, arrivals: Arrivals) -> int:
        """Take tuples one after the other, all threads; return how many matches they have."""
        running = [
            self.pool.submit(run_loops, left, right, arrivals, self.plain, found)
            for (left, right), found in zip(self.rings, self.found, strict=True)
        ]
        return sum(int(each.result()) for each in running)
