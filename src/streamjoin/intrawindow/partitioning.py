"""Cutting words into partitions by the upper end of their codes, with several threads.

Each thread counts its chunk, then writes it to where its words of each partition belong: behind
those of the chunks before it. So no two threads write to one place, and rows stay in their order::

    chunk 0   b a b       counts  a 1, b 2      a a b b b
    chunk 1   b a                 a 1, b 1      0 1 0 0 1     written by thread
"""

from dataclasses import dataclass

import numpy as np

from streamjoin.intrawindow.words import Words
from streamjoin.kernels import Int, Positions, inlined, kernel
from streamjoin.threads import share

CHUNK = 1 << 16  # words that are worth a thread


@dataclass(frozen=True)
class Partitioned:
    """Words, partition after partition."""

    words: Words
    starts: Positions  # of the partitions, and the end of the last one

    def __getitem__(self, part: int) -> Words:
        return self.words[self.starts[part] : self.starts[part + 1]]


@inlined
def part_of(word: Int, parts: Int) -> Int:
    """Return the partition of a word: its code, scaled down from 2**32 to ``parts``."""
    half = np.uint64(32)
    return np.int64(((word >> half) * np.uint64(parts)) >> half)


@kernel
def count_words(words: Words, parts: Int, counts: Positions) -> None:
    """Count the words of each partition."""
    for i in range(words.size):
        counts[part_of(words[i], parts)] += 1


@kernel
def scatter(words: Words, parts: Int, slots: Positions, scattered: Words) -> None:
    """Write words to the next slots of their partitions."""
    for i in range(words.size):
        word = words[i]
        part = part_of(word, parts)
        slot = slots[part]
        slots[part] = slot + 1
        scattered[slot] = word


def chunks(words: Words, threads: int) -> list[Words]:
    """Cut words into even chunks, one a thread if there are enough."""
    count = min(threads, max(words.size // CHUNK, 1))
    cuts = [words.size * number // count for number in range(count + 1)]
    return [words[cuts[number] : cuts[number + 1]] for number in range(count)]


def partition(words: Words, bits: int, threads: int) -> Partitioned:
    """Return words by the first ``bits`` of their codes; rows in their order."""
    return split(words, 1 << bits, threads)


def split(words: Words, parts: int, threads: int) -> Partitioned:
    """Return words as so many partitions, each of codes that no other has; rows in their order."""
    if parts == 1:
        return Partitioned(words, np.array([0, words.size]))
    cut = chunks(words, threads)
    counts = np.zeros((len(cut), parts), np.int64)
    share(lambda n: count_words(cut[n], parts, counts[n]), range(len(cut)), threads)
    ends = counts.T.cumsum().reshape(parts, len(cut)).T  # partition by partition, chunk by chunk
    slots = np.ascontiguousarray(ends - counts)
    scattered = np.empty_like(words)
    starts = np.append(slots[0], words.size)
    share(lambda n: scatter(cut[n], parts, slots[n], scattered), range(len(cut)), threads)
    return Partitioned(scattered, starts)
