"""NPJ, the no-partitioning join: one hash table for all threads (3.1).

Left rows are inserted, right rows probe, an even chunk per thread. To insert side by side, threads
would have to latch buckets. Instead each has its own range of buckets, and first copies the left
words that belong there. Reading all words and copying some costs less than a locked instruction per
word, which would wait for its cache miss before the next could begin.
"""

from itertools import pairwise

import numpy as np

from streamjoin.joins.equality.lazy.bucket_table import Ends, bits_for, find_run, sort_buckets
from streamjoin.joins.equality.lazy.partitioning import SLICE, chunks
from streamjoin.joins.equality.phases import Phases
from streamjoin.joins.equality.pieces import Piece, even_out
from streamjoin.joins.equality.words import PAD, Words
from streamjoin.kernels.compile import Int, RowIds, inlined, kernel
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.kernels.prefetch import AHEAD, prefetch
from streamjoin.kernels.threads import share


@inlined
def bucket_of(words: Words, place: Int, shift: Int) -> Int:
    """Return the bucket of a word; past the end, that of the last word."""
    return np.int64(words[min(place, words.size - 1)] >> shift)


@kernel
def take_own(words: Words, shift: Int, first: Int, last: Int, taken: Words) -> int:
    """Copy the words of the buckets from ``first`` to ``last``; return how many there are.

    Other words are written too, and overwritten by the next: a branch would be unpredictable.
    """
    bits, low, own = np.uint64(shift), np.uint64(first), np.uint64(last - first)
    count: Int = 0
    for i in range(words.size):
        taken[count] = words[i]
        count += np.int64((words[i] >> bits) - low < own)
    return count


@kernel
def count_words(words: Words, shift: Int, ends: Ends) -> None:
    """Count the words of each bucket, one place further on."""
    bits = np.uint64(shift)
    for i in range(words.size):
        prefetch(ends, bucket_of(words, i + AHEAD, bits) + 1)
        ends[bucket_of(words, i, bits) + 1] += 1


@kernel
def build(words: Words, shift: Int, ends: Ends, table: Words) -> None:
    """Put words into their buckets; ``ends`` are starts until the buckets are full."""
    bits = np.uint64(shift)
    for i in range(words.size):
        prefetch(ends, bucket_of(words, i + 2 * AHEAD, bits) + 1)
        prefetch(table, ends[bucket_of(words, i + AHEAD, bits) + 1])
        place = bucket_of(words, i, bits) + 1
        slot = ends[place]
        ends[place] = slot + 1
        table[slot] = words[i]


@kernel
def add_up(ends: Ends, first: Int, last: Int, start: Int) -> int:
    """Turn the counts of buckets, each one place further on, into where they begin."""
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
    for i in range(words.size):
        prefetch(ends, bucket_of(words, i + 2 * AHEAD, bits))
        prefetch(table, ends[bucket_of(words, i + AHEAD, bits)])
        bucket = bucket_of(words, i, bits)
        start, count = find_run(table, ends[bucket], ends[bucket + 1], words[i])
        starts[i], counts[i] = start, count
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

            return even_out(share(look, chunks(right, threads), threads), threads)

    def _build(self, words: Words, shift: int, buckets: int) -> tuple[Ends, Words]:
        """Make the table; each thread fills its range of buckets."""
        threads = self.threads
        ends = np.empty(buckets + 1, np.int32)  # np.zeros would use small pages
        ends.fill(0)
        table = np.empty(words.size + PAD, np.uint64)
        ranges = list(pairwise(buckets * number // threads for number in range(threads + 1)))

        def count_own(own: tuple[int, int]) -> Words:
            taken = words
            if threads > 1:
                taken = np.empty(words.size + 1, np.uint64)
                taken = taken[: take_own(words, shift, *own, taken)]
            for part in chunks(taken, threads=1):
                checkpoint()
                count_words(part, shift, ends)
            return taken

        def build_own(taken: Words) -> None:
            for part in chunks(taken, threads=1):
                checkpoint()
                build(part, shift, ends, table)

        shares = share(count_own, ranges, threads)
        start = 0
        for first, last in ranges:
            start = add_up(ends, first, last, start)
        share(build_own, shares, threads)
        parts = max(threads, -(-words.size // SLICE))
        ranges = list(pairwise(buckets * number // parts for number in range(parts + 1)))
        share(lambda own: sort_buckets(table, ends[own[0] : own[1] + 1]), ranges, threads)
        return ends, table
