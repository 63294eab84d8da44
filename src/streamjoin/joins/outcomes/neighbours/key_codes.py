"""Small numbers for the values of equalities: what a kernel can index an array with.

Keys whose span is no larger than the tables are numbered by subtraction alone: a ticker or an
account as an integer. Others get a number each, in the order of their first rows, from a hash table
over the keys of right; keys of left that it does not have match nothing::

    right  800  17  800  -3       slots  [ 17: 1 | 800: 0 | -- | -3: 2 ]     at most half full
    codes    0   1    0   2
    left   -3  5  800             codes  2  -1  0

The place of a key depends on a secret, so keys cannot be chosen to share one.
"""

from typing import NamedTuple

import numpy as np

from streamjoin.kernels.compile import Int, Keys, RowIds, kernel
from streamjoin.kernels.threads import share
from streamjoin.keys.hashing import Secrets, mix_secretly, process_seed, secrets_of

SPARSE = 2  # a span of so many times the rows is numbered by subtraction
FEWEST_SLOTS = 1 << 12
GROWTH = 4
STRETCH = 1 << 18  # rows, between which threads take turns and look for interrupts
NO_SECRETS: Secrets = np.empty(0, np.uint64)


class Codes(NamedTuple):
    """The codes of both sides: ``keys - base``, if that is in range(number)."""

    left: Keys
    right: Keys
    base: int
    number: int


@kernel
def slot_of(key: Int, slots: Keys, codes: RowIds, secrets: Secrets) -> Int:
    """Return the slot of a key, or the empty one where it belongs; hashes need no secrets."""
    mask = slots.size - 1
    slot = (mix_secretly(key, secrets) if secrets.size else key) & mask
    while codes[slot] >= 0 and slots[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def number_keys(
    keys: Keys, first: Int, count: Int, slots: Keys, codes: RowIds, secrets: Secrets, numbers: Keys
) -> tuple[int, int]:
    """Number keys from ``first`` on, until half of the slots are taken; return where that was."""
    for i in range(first, keys.size):
        slot = slot_of(keys[i], slots, codes, secrets)
        if codes[slot] < 0:
            if 2 * count >= slots.size:
                return i, count
            slots[slot], codes[slot] = keys[i], count
            count += 1
        numbers[i] = codes[slot]
    return keys.size, count


@kernel
def move_slots(old: Keys, old_codes: RowIds, slots: Keys, codes: RowIds, secrets: Secrets) -> None:
    """Copy all keys to a larger table."""
    for i in range(old.size):
        if old_codes[i] >= 0:
            slot = slot_of(old[i], slots, codes, secrets)
            slots[slot], codes[slot] = old[i], old_codes[i]


@kernel
def look_up_keys(keys: Keys, slots: Keys, codes: RowIds, secrets: Secrets, numbers: Keys) -> None:
    """Write the numbers of keys; -1 for those that have none."""
    for i in range(keys.size):
        numbers[i] = codes[slot_of(keys[i], slots, codes, secrets)]


def make_codes(left: Keys, right: Keys, threads: int, are_hashes: bool = False) -> Codes:
    """Number the keys of both sides, which may be secret hashes already; right has some.

    >>> make_codes(np.array([-3, 5, 800]), np.array([800, 17, 800, -3]), 1).left.tolist()
    [2, -1, 0]
    """
    base = int(right.min())
    span = int(right.max()) - base + 1
    if span <= SPARSE * (left.size + right.size):
        return Codes(left, right, base, span)
    secrets = NO_SECRETS if are_hashes else secrets_of(process_seed(), "codes")
    slots, codes = np.empty(FEWEST_SLOTS, np.int64), np.full(FEWEST_SLOTS, -1, np.int32)
    numbers = np.empty(right.size, np.int64)
    first, count = number_keys(right, 0, 0, slots, codes, secrets, numbers)
    while first < right.size:
        old = slots, codes
        slots = np.empty(GROWTH * slots.size, np.int64)
        codes = np.full(slots.size, -1, np.int32)
        move_slots(*old, slots, codes, secrets)
        first, count = number_keys(right, first, count, slots, codes, secrets, numbers)
    found = np.empty(left.size, np.int64)
    share(lambda s: look_up_keys(left[s], slots, codes, secrets, found[s]), cut(left.size), threads)
    return Codes(found, numbers, 0, count)


def cut(size: int) -> list[slice]:
    """Cut so many rows into stretches."""
    return [slice(at, min(at + STRETCH, size)) for at in range(0, size, STRETCH)]
