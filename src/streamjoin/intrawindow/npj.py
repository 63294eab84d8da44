"""NPJ, the no-partitioning join: one hash table for all threads (3.1).

Left rows are built into it, right rows probe it, an even chunk a thread. While they build, threads
would have to latch buckets; instead each has its own range of buckets and takes from all left words
those that belong there. Reading words twice costs less than one locked instruction each, which
would wait for its cache miss before the next could begin.
"""

from itertools import pairwise

import numpy as np

from streamjoin.intrawindow.partitioning import chunks
from streamjoin.intrawindow.phases import Phases
from streamjoin.intrawindow.pieces import Piece, even
from streamjoin.intrawindow.tables import Ends, bits_for, find_run, sort_buckets
from streamjoin.intrawindow.words import PAD, Words
from streamjoin.kernels import Int, RowIds, inlined, kernel
from streamjoin.prefetching import BLOCK, prefetch
from streamjoin.threads import share

LINE = 16  # places between what two threads write to


@inlined
def place_of(word: Int, shift: Int, low: Int, own: Int, spare: Int) -> Int:
    """Return the place of a word's bucket, one behind it; for those of others, the spare one."""
    bucket = word >> shift
    return np.int64(bucket) + 1 if bucket - low < own else spare


@kernel
def count_own(words: Words, shift: Int, first: Int, last: Int, ends: Ends, spare: Int) -> None:
    """Count the words of own buckets, from ``first`` to ``last``, each one place behind.

    Those of others are counted too, in a spare place: a branch would be a guess.
    """
    bits, low, own = np.uint64(shift), np.uint64(first), np.uint64(last - first)
    for begin in range(0, words.size, BLOCK):
        block = words[begin : begin + BLOCK]
        for i in range(block.size):
            prefetch(ends, place_of(block[i], bits, low, own, spare))
        for i in range(block.size):
            ends[place_of(block[i], bits, low, own, spare)] += 1


@kernel
def build_own(
    words: Words, shift: Int, first: Int, last: Int, ends: Ends, table: Words, spare: Int, away: Int
) -> None:
    """Put the words of own buckets in, and those of others into a place that is ``away``."""
    bits, low, own = np.uint64(shift), np.uint64(first), np.uint64(last - first)
    ends[spare] = away
    for begin in range(0, words.size, BLOCK):
        block = words[begin : begin + BLOCK]
        for i in range(block.size):
            prefetch(ends, place_of(block[i], bits, low, own, spare))
        for i in range(block.size):
            prefetch(table, ends[place_of(block[i], bits, low, own, spare)])
        for i in range(block.size):
            place = place_of(block[i], bits, low, own, spare)
            slot = ends[place]
            ends[place] = slot + np.int32(place != spare)
            table[slot] = block[i]


@kernel
def add_up(ends: Ends, first: Int, last: Int, start: Int) -> int:
    """Turn the counts of buckets, each one place behind, into where they begin."""
    at: Int = np.int32(start)
    for bucket in range(first, last):
        count = ends[bucket + 1]
        ends[bucket + 1] = at
        at += count
    return at


@kernel
def probe(
    words: Words, shift: Int, ends: Ends, table: Words, starts: RowIds, counts: RowIds
) -> int:
    """Find the run of each word in the table; return the number of matches."""
    bits, total = np.uint64(shift), 0
    firsts, lasts = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    for begin in range(0, words.size, BLOCK):
        block = words[begin : begin + BLOCK]
        for i in range(block.size):
            prefetch(ends, np.int64(block[i] >> bits))
        for i in range(block.size):
            bucket = np.int64(block[i] >> bits)
            firsts[i], lasts[i] = ends[bucket], ends[bucket + 1]
            prefetch(table, firsts[i])
        for i in range(block.size):
            start, count = find_run(table, firsts[i], lasts[i], block[i])
            starts[begin + i], counts[begin + i] = start, count
            total += count
    return total


class NPJ:
    """The algorithm; see the module docstring."""

    def __init__(self, threads: int = 1) -> None:
        self.threads, self.phases = threads, Phases()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        return self.phases.seconds

    def join(self, left: Words, right: Words) -> list[Piece]:
        """Find all pairs of equal codes."""
        if not left.size or not right.size:
            return []
        bits, threads = bits_for(left.size), self.threads
        shift, buckets = 64 - bits, 1 << bits
        with self.phases.time("build"):
            ends, table = self._build(left, shift, buckets)
        with self.phases.time("probe"):

            def look(words: Words) -> Piece:
                starts, counts = np.empty(words.size, np.int32), np.empty(words.size, np.int32)
                total = probe(words, shift, ends, table, starts, counts)
                return Piece.of("right", words, starts, counts, total, table)

            return even(share(look, chunks(right, threads), threads), threads)

    def _build(self, words: Words, shift: int, buckets: int) -> tuple[Ends, Words]:
        """Make the table, each thread its range of buckets."""
        threads = self.threads
        ends = np.empty(buckets + 1 + LINE * threads, np.int32)  # zeros would have small pages
        ends.fill(0)
        table = np.empty(words.size + PAD + LINE * threads, np.uint64)
        cuts = [buckets * number // threads for number in range(threads + 1)]
        own = list(pairwise(cuts))
        spare = [buckets + 1 + LINE * number for number in range(threads)]
        away = [words.size + PAD + LINE * number for number in range(threads)]
        numbers = range(threads)
        share(lambda n: count_own(words, shift, *own[n], ends, spare[n]), numbers, threads)
        start = 0
        for first, last in own:
            start = add_up(ends, first, last, start)
        share(
            lambda n: build_own(words, shift, *own[n], ends, table, spare[n], away[n]),
            numbers,
            threads,
        )
        share(lambda each: sort_buckets(table, ends[each[0] : each[1] + 1]), own, threads)
        return ends, table
