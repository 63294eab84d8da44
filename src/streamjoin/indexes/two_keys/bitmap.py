"""A bitmap with levels for skipping: which of n positions are marked, and which words have marks.

A word of 64 bits has one bit in the level above, which is set if any of its own bits is; two such
levels are enough for 2^31 positions. Here with words of four bits::

    top      1 . .
    middle   1 . 1 . | . . . .          word 0 and word 2 have bits
    words    .1.. .... 11.. .... | ...

So finding the next marked position takes a few steps, however far away it is, and a range without
marks costs almost nothing. `Counts` instead keeps how many bits are set in 64 words, and in 64
times as many, so that a range can be counted without looking at its words.

Invariants: a bit of ``middle`` or ``top`` is set if and only if the word it stands for is not zero;
a number of `Counts` is the number of bits set below it.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from streamjoin.kernels.atomics import instruction
from streamjoin.kernels.compile import Int, inlined

Words = NDArray[np.uint64]

ONE, FULL, LOW = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(63)
SIX, TWELVE, EIGHTEEN = np.uint64(6), np.uint64(12), np.uint64(18)


class Bitmap(NamedTuple):
    """Bits, and two levels that say which words have any."""

    words: Words
    middle: Words
    top: Words


class Counts(NamedTuple):
    """Bits, and how many are set in 64 words, and in 4,096."""

    words: Words
    middle: NDArray[np.int64]
    top: NDArray[np.int64]


def level_sizes(positions: int) -> tuple[int, int, int]:
    """Return how many words each level has.

    >>> level_sizes(64), level_sizes(65)
    ((1, 1, 1), (2, 1, 1))
    """
    words = max(-(-positions // 64), 1)
    middle = -(-words // 64)
    return words, middle, -(-middle // 64)


def make_bitmap(positions: int) -> Bitmap:
    """Make a bitmap without marks."""
    words, middle, top = (np.zeros(size, np.uint64) for size in level_sizes(positions))
    return Bitmap(words, middle, top)


def make_counts(positions: int) -> Counts:
    """Make a bitmap without marks that counts."""
    words, middle, top = level_sizes(positions)
    return Counts(np.zeros(words, np.uint64), np.zeros(middle, np.int64), np.zeros(top, np.int64))


@instruction
def count_ones(typing: Any, word: Any) -> Any:
    """Count the bits that are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@instruction
def first_one(typing: Any, word: Any) -> Any:
    """Return the place of the lowest bit that is set; 64 if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.int64(types.uint64), generate


@inlined
def wipe(words: Words, middle: NDArray[Any], top: NDArray[Any]) -> None:
    """Clear all bits, or numbers, of all levels."""
    words[:] = 0
    middle[:] = 0
    top[:] = 0


@inlined
def mark(words: Words, middle: Words, top: Words, position: Int) -> None:
    """Set a bit."""
    at = np.uint64(position)
    word = at >> SIX
    before = words[word]
    words[word] = before | (ONE << (at & LOW))
    if before == np.uint64(0):
        middle[at >> TWELVE] |= ONE << (word & LOW)
        top[at >> EIGHTEEN] |= ONE << ((at >> TWELVE) & LOW)


@inlined
def unmark(words: Words, middle: Words, top: Words, position: Int) -> None:
    """Clear a bit."""
    at = np.uint64(position)
    word, group = at >> SIX, at >> TWELVE
    after = words[word] & ~(ONE << (at & LOW))
    words[word] = after
    if after == np.uint64(0):
        rest = middle[group] & ~(ONE << (word & LOW))
        middle[group] = rest
        if rest == np.uint64(0):
            top[at >> EIGHTEEN] &= ~(ONE << (group & LOW))


@inlined
def flip_counted(
    words: Words, middle: NDArray[np.int64], top: NDArray[np.int64], position: Int, change: Int
) -> None:
    """Flip a bit of a bitmap that counts; ``change`` is 1 if that sets it, -1 if it clears it."""
    at = np.uint64(position)
    words[at >> SIX] ^= ONE << (at & LOW)
    middle[at >> TWELVE] += change
    top[at >> EIGHTEEN] += change


@inlined
def next_word(words: Words, middle: Words, top: Words, first: Int, last: Int) -> Int:
    """Return the first word from ``first`` to ``last`` that is not zero; ``last + 1`` if none."""
    if first > last:
        return last + 1
    at = np.uint64(first)
    if words[at] != np.uint64(0):
        return first
    group = at >> SIX
    bits = middle[group] & (FULL << (at & LOW))
    if bits == np.uint64(0):
        last_group = np.uint64(last) >> SIX
        group += ONE
        if group > last_group:
            return last + 1
        part = group >> SIX
        bits = top[part] & (FULL << (group & LOW))
        while bits == np.uint64(0):
            part += ONE
            if part > (last_group >> SIX):
                return last + 1
            bits = top[part]
        group = (part << SIX) + np.uint64(first_one(bits))
        bits = middle[group]
    found = np.int64((group << SIX) + np.uint64(first_one(bits)))
    return min(found, last + 1)


@inlined
def count_words(words: Words, first: Int, last: Int) -> Int:
    """Count the bits of some words."""
    count = np.int64(0)
    for word in range(first, last):
        count += count_ones(words[np.uint64(word)])
    return count


@inlined
def count_below(
    words: Words, middle: NDArray[np.int64], top: NDArray[np.int64], first: Int, last: Int
) -> Int:
    """Count the bits from position ``first`` to before ``last``."""
    if first >= last:
        return np.int64(0)
    begin, end = np.uint64(first), np.uint64(last - 1)
    word, last_word = np.int64(begin >> SIX), np.int64(end >> SIX)
    head = words[np.uint64(word)] & (FULL << (begin & LOW))
    keep = FULL >> (LOW - (end & LOW))
    if word == last_word:
        return count_ones(head & keep)
    count = count_ones(head) + count_ones(words[np.uint64(last_word)] & keep)
    word += 1
    group, last_group = (word + 63) >> 6, last_word >> 6
    if group >= last_group:
        return count + count_words(words, word, last_word)
    count += count_words(words, word, group << 6) + count_words(words, last_group << 6, last_word)
    part, last_part = (group + 63) >> 6, last_group >> 6
    if part >= last_part:
        for each in range(group, last_group):
            count += middle[np.uint64(each)]
        return count
    for each in range(group, part << 6):
        count += middle[np.uint64(each)]
    for each in range(last_part << 6, last_group):
        count += middle[np.uint64(each)]
    for each in range(part, last_part):
        count += top[np.uint64(each)]
    return count
