"""Radix sort of int64 keys that carries row numbers along.

Eleven bits a pass, least significant first, over ``key - min`` so that keys from a narrow range
need few passes: prices in cents take two, full doubles six. Stable. Several times faster than
``np.argsort(kind="stable")`` on int64, which has no radix sort for more than 16 bits.
"""

import numpy as np

from streamjoin.kernels import Keys, RowIds, kernel

DIGIT_BITS = 11
BUCKETS = 1 << DIGIT_BITS
SMALL = 48  # below this, insertion sort beats clearing the counters


@kernel
def sort_small(keys: Keys) -> tuple[Keys, RowIds]:
    """Insertion sort, for batches of a few rows."""
    ordered = keys.copy()
    order = np.arange(keys.size).astype(np.int32)
    for i in range(1, keys.size):
        key, row = ordered[i], order[i]
        at = i
        while at > 0 and ordered[at - 1] > key:
            ordered[at], order[at] = ordered[at - 1], order[at - 1]
            at -= 1
        ordered[at], order[at] = key, row
    return ordered, order


@kernel
def sort_with_rows(keys: Keys) -> tuple[Keys, RowIds]:
    """Sort ``keys``; return them ascending, with the position each came from. Stable."""
    size = keys.size
    if size < SMALL:
        return sort_small(keys)
    low = np.uint64(keys.min())
    span = np.uint64(keys.max()) - low
    source, target = np.empty(size, np.uint64), np.empty(size, np.uint64)
    rows, target_rows = np.empty(size, np.int32), np.empty(size, np.int32)
    for i in range(size):
        source[i] = np.uint64(keys[i]) - low
        rows[i] = i
    shift, mask = np.uint64(0), np.uint64(BUCKETS - 1)
    next_slot = np.empty(BUCKETS + 1, np.int64)
    while shift < np.uint64(64) and (span >> shift) != np.uint64(0):
        next_slot[:] = 0
        for i in range(size):
            next_slot[np.int64((source[i] >> shift) & mask) + 1] += 1
        for bucket in range(BUCKETS):
            next_slot[bucket + 1] += next_slot[bucket]
        for i in range(size):
            digit = np.int64((source[i] >> shift) & mask)
            slot = next_slot[digit]
            next_slot[digit] = slot + 1
            target[slot] = source[i]
            target_rows[slot] = rows[i]
        source, target = target, source
        rows, target_rows = target_rows, rows
        shift += np.uint64(DIGIT_BITS)
    ordered = np.empty(size, np.int64)
    for i in range(size):
        ordered[i] = np.int64(source[i] + low)
    return ordered, rows
