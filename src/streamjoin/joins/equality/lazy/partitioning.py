"""Cuts words into partitions by ranges of their codes, with several threads.

Each thread counts the words of its chunk by partition, then writes them to their places, after
those of earlier chunks. So no two threads write to the same place, and rows keep their order::

    chunk 0   b a b       counts  a 1, b 2      a a b b b
    chunk 1   b a                 a 1, b 1      0 1 0 0 1     written by thread
"""

from dataclasses import dataclass

import numpy as np

from streamjoin.joins.equality.words import PAD, Words
from streamjoin.kernels.compile import Int, Positions, inlined, kernel
from streamjoin.kernels.prefetch import prefetch
from streamjoin.kernels.threads import share

CHUNK_WORDS = 1 << 16  # worth a thread
SLICE = 1 << 22  # words before the next checkpoint: a tenth of a second
LINE_WORDS = 8  # per cache line


@dataclass(frozen=True)
class Partitioned:
    """Words, partition after partition."""

    words: Words
    starts: Positions  # of the partitions, and the end of the last one

    def __getitem__(self, part: int) -> Words:
        return self.words[self.starts[part] : self.starts[part + 1]]


@inlined
def part_of(word: Int, parts: Int) -> Int:
    """Return which of ``parts`` even ranges a code is in; for 2**n parts, its first n bits."""
    half = np.uint64(32)
    return np.int64(((word >> half) * parts) >> half)


@kernel
def count_words(words: Words, counts: Positions) -> None:
    """Count the words of each partition."""
    parts = np.uint64(counts.size)
    for i in range(words.size):
        counts[part_of(words[i], parts)] += 1


@kernel
def scatter(words: Words, slots: Positions, scattered: Words) -> None:
    """Write words to the next slots of their partitions.

    A partition's next cache line is prefetched while the current one fills: with thousands of
    partitions, waiting for it would take as long as all the rest.
    """
    parts = np.uint64(slots.size)
    for i in range(words.size):
        word = words[i]
        part = part_of(word, parts)
        slot = slots[part]
        slots[part] = slot + 1
        prefetch(scattered, slot + LINE_WORDS)
        scattered[slot] = word


def chunks(words: Words, threads: int) -> list[Words]:
    """Cut words into even chunks: one per thread if there are enough words, several if many."""
    count = max(min(threads, max(words.size // CHUNK_WORDS, 1)), -(-words.size // SLICE))
    cuts = [words.size * number // count for number in range(count + 1)]
    return [words[cuts[number] : cuts[number + 1]] for number in range(count)]


def split(words: Words, parts: int, threads: int) -> Partitioned:
    """Partition words by any number of even ranges of codes; rows keep their order."""
    if parts == 1:
        return Partitioned(words, np.array([0, words.size]))
    cut = chunks(words, threads)
    counts = np.zeros((len(cut), parts), np.int64)
    share(lambda n: count_words(cut[n], counts[n]), range(len(cut)), threads)
    ends = counts.T.cumsum().reshape(parts, len(cut)).T  # partition by partition, chunk by chunk
    slots = np.ascontiguousarray(ends - counts)
    scattered = np.empty(words.size + PAD, np.uint64)[: words.size]
    starts = np.append(slots[0], words.size)
    share(lambda n: scatter(cut[n], slots[n], scattered), range(len(cut)), threads)
    return Partitioned(scattered, starts)


def partition(words: Words, bits: int, threads: int) -> Partitioned:
    """Partition words by the first ``bits`` of their codes; rows keep their order."""
    return split(words, 1 << bits, threads)


def split_evenly(words: Words, count: int, threads: int) -> list[Words]:
    """Split words into ``count`` parts that share no code; rows keep their order."""
    parts = split(words, count, threads)
    return [parts[number] for number in range(count)]
