"""A tuple as one 64-bit word: 32 bits of a code of its key above, its row number below.

The algorithms of Zhang et al. move tuples of eight bytes. A 64-bit key does not fit into one
together with a row number, so a word holds a code instead::

    key - base   0000 0000 | 0000 002A        the upper half hashed into the lower, then scrambled
    word         9D41 6B07 | 0000 0003        code 9D416B07, row 3

Scrambling is one to one, so if the upper halves (of ``key - base``) of all keys are 0, different
keys have different codes: codes are *exact*. Otherwise equal codes are candidates, whose keys must
be compared; with n and m distinct keys, about ``n * m / 2**32`` pairs are false. Any bits of a code
are as good as a hash, whatever the keys look like: both steps depend on secrets of this process, so
an attacker cannot choose keys whose codes, or bits of codes, are equal. The upper half is hashed by
a strongly universal function (Dietzfelbinger, "Universal hashing and k-wise independent random
variables via integer arithmetic without primes", 1996): two different keys have equal codes with a
probability of 2**-32, whoever chose them.

Sorted words are in the order of their codes, equal ones in the order of their rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.errors import StreamJoinError
from streamjoin.kernels.compile import Int, Keys, RowIds, kernel
from streamjoin.keys.hashing import Secrets, process_seed, secrets_of

Words = NDArray[np.uint64]

CODE_BITS = 32
BASE = -(2**31)  # while later keys are unknown, this makes 32-bit keys exact
MOST_ROWS = 2**31 - 2**12  # row ids and places have 31 bits, and a table has places to spare
PAD = 2  # words after those of a table that a probe may look at
NO_WORDS: Words = np.empty(0, np.uint64)


class Encoded(NamedTuple):
    """Both sides as words, and whether equal codes mean equal keys."""

    left: Words
    right: Words
    exact: bool


@kernel
def scramble(code: Int, factor: Int) -> Int:
    """Map 32 bits to 32 bits, one to one, so that every input bit affects every output bit.

    The factor is odd.
    """
    # Numba computes with 64 bits in any case, so each step is cut to 32.
    bits = np.uint32(np.uint32(code) * np.uint32(factor))
    bits = np.uint32(np.uint32(bits ^ (bits >> 16)) * np.uint32(0x85EBCA6B))
    bits = np.uint32(np.uint32(bits ^ (bits >> 13)) * np.uint32(0xC2B2AE35))
    return np.uint32(bits ^ (bits >> 16))


@kernel
def pack(keys: Keys, base: Int, first: Int, secrets: Secrets, words: Words) -> bool:
    """Write the words of keys, with rows from ``first`` on; return whether codes are exact."""
    upper = np.uint32(0)
    multiplier, summand, factor = secrets[0], secrets[1], np.uint32(secrets[2])
    for i in range(keys.size):
        offset = np.uint64(keys[i] - base)
        high = np.uint32(offset >> np.uint64(32))
        upper |= high
        hashed = np.uint32((multiplier * np.uint64(high) + summand) >> np.uint64(32))
        code = scramble(np.uint32(offset) ^ hashed, factor)
        words[i] = np.uint64(code) << np.uint64(32) | np.uint64(np.uint32(first + i))
    return upper == np.uint32(0)


def make_words(keys: Keys, base: int = BASE, first: int = 0) -> tuple[Words, bool]:
    """Return the words of keys, whose rows count from ``first``, and whether codes are exact."""
    if first + keys.size > MOST_ROWS:
        raise StreamJoinError(
            f"a side of this window has {first + keys.size:,} rows or more, and at most "
            f"{MOST_ROWS:,} can be numbered; give a shorter window"
        )
    words = np.empty(keys.size, np.uint64)
    exact = pack(keys, base, first, secrets_of(process_seed(), "words", 3), words)
    return words, bool(exact)


def encode(left: Keys, right: Keys) -> Encoded:
    """Return both sides as words whose rows are positions in the arrays."""
    base = min((int(keys.min()) for keys in (left, right) if keys.size), default=0)
    (left_words, exact_left), (right_words, exact_right) = (
        make_words(keys, base) for keys in (left, right)
    )
    return Encoded(left_words, right_words, exact_left and exact_right)


def rows_of(words: Words) -> RowIds:
    """Return the row numbers of words, as a view."""
    rows: RowIds = words.view(np.int32)[0 if np.little_endian else 1 :: 2]
    return rows


def uppers_of(words: Words) -> RowIds:
    """Return the upper halves of words, as a view: codes, or whatever replaced them."""
    uppers: RowIds = words.view(np.int32)[1 if np.little_endian else 0 :: 2]
    return uppers
