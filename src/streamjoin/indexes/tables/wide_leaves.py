"""The leaves of a WiB+-Tree: how tuples get into them, and how a full one is divided.

A leaf is an entry of an `LLAT`, or a chain of entries if all its keys are equal: see `wib_tree`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.indexes.tables.inner_nodes import (
    Nodes,
    Path,
    add_separator,
    descend,
    find_leaves,
    is_short,
    restart,
)
from streamjoin.indexes.tables.llat import NONE, Entries, append, take_entry
from streamjoin.kernels.compile import Int, Keys, RowIds, kernel

SAMPLED_KEYS = 7  # whose median says where to divide a leaf
BLOCK_TUPLES = 128  # whose leaves are found together


class Leaves(NamedTuple):
    """What is known about each leaf, by the number of its first entry."""

    uppers: NDArray[np.int64]  # the greatest key that belongs in the leaf
    followers: NDArray[np.int32]  # the next leaf, or NONE


@kernel
def sort_tuples(keys: Keys, row_ids: RowIds) -> None:
    """Sort a leaf in place (Shellsort: a leaf is small, and nothing has to be allocated)."""
    for gap in (57, 23, 10, 4, 1):
        for i in range(gap, keys.size):
            key, row_id = keys[i], row_ids[i]
            slot = i
            while slot >= gap and keys[slot - gap] > key:
                keys[slot], row_ids[slot] = keys[slot - gap], row_ids[slot - gap]
                slot -= gap
            keys[slot], row_ids[slot] = key, row_id


@kernel
def find_cut(keys: Keys) -> Int:
    """Return where different keys meet closest to the middle of a sorted leaf; 0 if nowhere."""
    middle = keys.size // 2
    for distance in range(middle + 1):
        for cut in (middle - distance, middle + distance):
            if 0 < cut < keys.size and keys[cut - 1] < keys[cut]:
                return cut
    return 0


@kernel
def link(held: Leaves, leaf: Int, new: Int, separator: Int) -> None:
    """Link a new leaf after another, which keeps the keys up to ``separator``."""
    held.followers[new] = held.followers[leaf]
    held.followers[leaf] = new
    held.uppers[new] = held.uppers[leaf]
    held.uppers[leaf] = separator


@kernel
def find_pivot(keys: Keys) -> Int:
    """Return the median of some keys."""
    some = np.empty(SAMPLED_KEYS, np.int64)
    for i in range(SAMPLED_KEYS):
        key = keys[i * keys.size // SAMPLED_KEYS]
        slot = i
        while slot > 0 and some[slot - 1] > key:
            some[slot] = some[slot - 1]
            slot -= 1
        some[slot] = key
    return some[SAMPLED_KEYS // 2]


@kernel
def divide_leaf(nodes: Nodes, path: Path, table: Entries, held: Leaves, leaf: Int) -> None:
    """Move the upper part of a full leaf into a new one; equal keys get another entry."""
    keys, row_ids = table.keys[leaf], table.row_ids[leaf]
    separator = find_pivot(keys)
    above = np.int64(0)
    for i in range(keys.size):
        above += np.int64(keys[i] > separator)
    if not keys.size // 4 <= above <= keys.size - keys.size // 4:  # too uneven: look at all keys
        sort_tuples(keys, row_ids)
        cut = find_cut(keys)
        separator = keys[max(cut - 1, 0)]
    new = take_entry(table)
    upper, lower = np.int64(0), np.int64(0)
    for i in range(keys.size):
        key, row_id = keys[i], row_ids[i]
        table.keys[new, upper], table.row_ids[new, upper] = key, row_id
        keys[lower], row_ids[lower] = key, row_id
        goes = np.int64(key > separator)
        upper += goes
        lower += 1 - goes
    if upper == 0:
        table.nexts[leaf] = new
        table.lasts[leaf] = new
        return
    table.heads[leaf], table.heads[new] = lower, upper
    link(held, leaf, new, separator)
    add_separator(nodes, path, separator, new)


@kernel
def separate_key(
    nodes: Nodes, path: Path, table: Entries, held: Leaves, leaf: Int, key: Int, row_id: Int
) -> None:
    """Add a tuple that falls into a leaf full of another key: give each key its own leaf."""
    equal = table.keys[leaf, 0]
    new = take_entry(table)
    if key > equal:
        lone = new
        separator = equal
    else:  # the equal keys move to the new leaf, of which only the first entry is copied
        lone = leaf
        separator = key
        table.keys[new], table.row_ids[new] = table.keys[leaf], table.row_ids[leaf]
        table.heads[new] = table.heads[leaf]
        table.nexts[new], table.lasts[new] = table.nexts[leaf], table.lasts[leaf]
        table.nexts[leaf], table.lasts[leaf] = NONE, leaf
    table.keys[lone, 0], table.row_ids[lone, 0] = key, row_id
    table.heads[lone] = 1
    link(held, leaf, new, separator)
    add_separator(nodes, path, separator, new)


@kernel
def insert_batch(
    nodes: Nodes,
    path: Path,
    table: Entries,
    held: Leaves,
    keys: Keys,
    row_ids: RowIds,
    first: int,
) -> int:
    """Insert an ascending batch from ``first`` on; return where room ran out.

    Leaves lie anywhere in memory. So the leaves of a block of tuples are found and touched first,
    and the memory system loads them in parallel. When a leaf is divided, the search starts again
    for the rest.
    """
    width = table.keys.shape[1]
    found, touched = np.empty(BLOCK_TUPLES, np.int64), np.empty(BLOCK_TUPLES, np.int64)
    while first < keys.size:
        count = min(BLOCK_TUPLES, keys.size - first)
        find_leaves(nodes, path, keys[first : first + count], found)
        for i in range(count):
            head = min(np.int64(table.heads[found[i]]), width - 1)
            touched[i] = table.keys[found[i], head] + table.row_ids[found[i], head]
        done, divided = 0, False
        while done < count and not divided:
            if is_short(nodes) or table.pointer[0] + 1 >= table.heads.size:
                return first + done
            key, row_id = keys[first + done], row_ids[first + done]
            at = found[done]
            head = table.heads[at]
            if head < width:
                table.keys[at, head], table.row_ids[at, head] = key, row_id
                table.heads[at] = head + 1
            elif table.keys[at, 0] == key:
                append(table, at, key, row_id)
            if head == width - 1 or (head == width and table.keys[at, 0] != key):
                divided = True
                restart(nodes, path)
                descend(nodes, path, 0, key)
                if head == width:
                    separate_key(nodes, path, table, held, at, key, row_id)
                else:
                    divide_leaf(nodes, path, table, held, at)
            done += 1
        first += done
    return keys.size


@kernel
def count_leaf(table: Entries, leaf: Int) -> Int:
    """Count the tuples of a leaf."""
    count, entry = np.int64(table.heads[leaf]), np.int64(leaf)
    while table.heads[entry] == table.keys.shape[1]:  # full, so there may be another entry
        entry = np.int64(table.nexts[entry])
        count += table.heads[entry]
    return count
