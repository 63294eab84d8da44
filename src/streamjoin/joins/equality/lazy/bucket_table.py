"""A hash table without slack: words in the order of their buckets, equal codes side by side.

The first bits of a code, after those that all words here share, are its bucket. So buckets are
ranges of codes, and a table is an array of almost sorted words::

    ends     0 . 2 . 2 . 5        bucket b has the words from ends[b] to ends[b + 1]
    words    17 1C | | 3A 3A 3F   sorted within a bucket: equal codes lie side by side

There are about as many buckets as words, so most have no word, one or two. A key that repeats a
million times makes a bucket of a million words, which are already in order.
"""

import numpy as np

from streamjoin.joins.equality.lazy.word_merge import merge_passes
from streamjoin.joins.equality.words import Words
from streamjoin.kernels.compile import Int, RowIds, inlined, kernel

Ends = RowIds  # places in a table have 32 bits
SMALL_WORDS = 32  # up to this many are sorted by insertion


def bits_for(rows: int) -> int:
    """Return how many bits give about one bucket per row; at least one.

    >>> bits_for(0), bits_for(1), bits_for(1000), bits_for(1 << 20)
    (1, 1, 10, 20)
    """
    return max((rows - 1).bit_length(), 1)


@kernel
def merge_rising(words: Words) -> None:
    """Sort words by merging the stretches that already ascend.

    A bucket with one frequent key and a few others has few such stretches. Numba's quicksort would
    take quadratic time: its pivots come from the ends and the middle.
    """
    runs = 1
    for i in range(1, words.size):
        runs += words[i] < words[i - 1]
    starts, run = np.zeros(runs + 1, np.int64), 1
    for i in range(1, words.size):
        if words[i] < words[i - 1]:
            starts[run] = i
            run += 1
    starts[runs] = words.size
    spare = np.empty_like(words)
    if merge_passes(words, starts, spare):
        words[:] = spare


@kernel
def sort_buckets(words: Words, ends: Ends) -> None:
    """Bring equal codes in each bucket together."""
    for bucket in range(ends.size - 1):
        first, last = ends[bucket], ends[bucket + 1]
        if last - first < 2:
            continue
        at = first + 1
        while at < last and words[at - 1] <= words[at]:
            at += 1
        if at == last:
            continue
        if last - first > SMALL_WORDS:
            merge_rising(words[first:last])
            continue
        for i in range(at, last):
            word, slot = words[i], i
            while slot > first and words[slot - 1] > word:
                words[slot] = words[slot - 1]
                slot -= 1
            words[slot] = word


@inlined
def skip_below(words: Words, first: Int, last: Int, code: Int) -> Int:
    """Return the first place from ``first`` on whose code is not below ``code``; words ascend."""
    half, step = np.uint64(32), 1
    low = high = first
    while high < last and (words[high] >> half) < code:
        low, high = high + 1, high + step
        step *= 2
    high = min(high, last)
    while low < high:
        middle = (low + high) >> 1
        if (words[middle] >> half) < code:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def find_run(words: Words, first: Int, last: Int, word: Int) -> tuple[Int, Int]:
    """Return where the words with the code of ``word`` begin in a bucket, and how many they are."""
    half = np.uint64(32)
    code = word >> half
    if last - first > 2:
        if (words[first] >> half) == code and (words[last - 1] >> half) == code:
            return first, last - first
        start = skip_below(words, first, last, code)
        return start, skip_below(words, start, last, code + np.uint64(1)) - start
    one = np.int32((last - first > 0) & ((words[first] >> half) == code))
    two = np.int32((last - first > 1) & ((words[first + 1] >> half) == code))
    return first + 1 - one, one + two
