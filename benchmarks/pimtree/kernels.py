"""Joins that take one tuple at a time, over the indexes of whole windows, for the benchmarks.

For each tuple in the order of arrival: the rows of the other window within a band of its key are
written down, the oldest tuple of its own window expires, and it takes that one's place. Both
windows are full and stay so::

    left    [ row 7 .. row 7 + w - 1 ]   the next: row 7 + w, as soon as row 7 has expired
    right   [ row 6 .. row 6 + w - 1 ]

One kernel for each kind of index does that for many tuples, with the index's own kernels. It stops
where an index needs attention, because it has to be merged or archived or has no room, so that
this happens exactly when it is due; `joins` gives it that. Keys come from a ring for each
stream, which holds the window and what comes next.

A kernel's call passes every array number by number, so what is done for a tuple is inlined, twice:
once for either stream.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.indexes.trees import blocks, pim_tree
from streamjoin.indexes.trees import forest as trees
from streamjoin.indexes.trees import immutable_tree as immutable
from streamjoin.indexes.trees.blocks import Forest
from streamjoin.indexes.trees.immutable_tree import DEPTH, Immutable
from streamjoin.indexes.trees.pim_tree import Pim
from streamjoin.kernels.compile import Int, Keys, Positions, RowIds, bare, inlined

Links = tuple[Forest, ...]
Frozen = tuple[Immutable, ...]


class Feed(NamedTuple):
    """What kernels know of both streams; numbers of two are for left and right."""

    sides: NDArray[np.uint8]  # whose tuple comes: 0 or 1
    left: Keys  # rings of keys, whose sizes are powers of two
    right: Keys
    windows: Positions
    bases: Positions  # the oldest row of each window
    stops: Positions  # the value of ``bases`` at which an index needs attention
    found: RowIds  # where the matches of a tuple are written
    reach: int  # of the band
    across: int  # whose window left tuples search: 1, or 0 if a stream is joined with itself


@inlined
def key_of(ring: Keys, row: Int) -> Int:
    """Return the key of a row of a stream."""
    return ring[np.uint64(row & (ring.size - 1))]


@inlined
def join_b_tree(own: Forest, other: Forest, ring: Keys, feed: Feed, side: Int, across: Int) -> Int:
    """Take a tuple with B+-trees; return how many matches it has."""
    base, first, last = feed.bases[side], feed.bases[across], feed.windows[across] - 1
    row = base + feed.windows[side]
    key = key_of(ring, row)
    count = trees.collect(
        other, 0, key - feed.reach, key + feed.reach, first, last, feed.found, np.int64(0)
    )
    trees.remove(own, 0, key_of(ring, base), base)
    trees.insert(own, 0, key, row)
    feed.bases[side] = base + 1
    return count


@bare
def run_b_tree(left: Forest, right: Forest, feed: Feed, begin: int) -> tuple[int, int]:
    """Take tuples from ``begin`` on; return where an index needs attention, and all matches."""
    matches = 0
    for i in range(begin, feed.sides.size):
        if not blocks.has_room(left) or not blocks.has_room(right):
            return i, matches
        if feed.sides[i] == 0:
            matches += join_b_tree(left, right, feed.left, feed, 0, feed.across)
        else:
            matches += join_b_tree(right, left, feed.right, feed, 1, 0)
    return feed.sides.size, matches


@inlined
def join_pim_tree(own: Pim, other: Pim, ring: Keys, feed: Feed, side: Int, across: Int) -> Int:
    """Take a tuple with PIM-Trees or IM-Trees; return how many matches it has."""
    base, first, last = feed.bases[side], feed.bases[across], feed.windows[across] - 1
    row = base + feed.windows[side]
    key = key_of(ring, row)
    count = pim_tree.collect(
        other, key - feed.reach, key + feed.reach, first, last, feed.found, np.int64(0), False
    )
    pim_tree.insert(own, key, row, False)
    feed.bases[side] = base + 1
    return count


@bare
def run_pim_tree(left: Pim, right: Pim, feed: Feed, begin: int) -> tuple[int, int]:
    """Take tuples from ``begin`` on; see `run_b_tree`."""
    matches = 0
    for i in range(begin, feed.sides.size):
        side = feed.sides[i]
        if feed.bases[side] == feed.stops[side]:
            return i, matches
        if side == 0:
            matches += join_pim_tree(left, right, feed.left, feed, 0, feed.across)
        else:
            matches += join_pim_tree(right, left, feed.right, feed, 1, 0)
    return feed.sides.size, matches


@inlined
def join_b_chain(
    own: Forest,
    other: Forest,
    links: Links,
    length: Int,
    ring: Keys,
    feed: Feed,
    side: Int,
    across: Int,
) -> Int:
    """Take a tuple with chains of B+-trees; return how many matches it has."""
    base, first, last = feed.bases[side], feed.bases[across], feed.windows[across] - 1
    row = base + feed.windows[side]
    key = key_of(ring, row)
    lower, upper, found = key - feed.reach, key + feed.reach, feed.found
    count = trees.collect(other, 0, lower, upper, first, last, found, np.int64(0))
    for place in range(length):
        count = trees.collect(links[place], 0, lower, upper, first, last, found, count)
    trees.insert(own, 0, key, row)
    feed.bases[side] = base + 1
    return count


@inlined
def join_ib_chain(
    own: Forest,
    other: Forest,
    links: Frozen,
    length: Int,
    ring: Keys,
    feed: Feed,
    side: Int,
    across: Int,
) -> Int:
    """Take a tuple with chains whose archived links are immutable; return its matches."""
    base, first, last = feed.bases[side], feed.bases[across], feed.windows[across] - 1
    row = base + feed.windows[side]
    key = key_of(ring, row)
    lower, upper, found = key - feed.reach, key + feed.reach, feed.found
    count = trees.collect(other, 0, lower, upper, first, last, found, np.int64(0))
    for place in range(length):
        link = links[place]
        leaf = immutable.find_node(link, lower, 0, 0, link.info[DEPTH])
        count = immutable.scan(link, leaf, lower, upper, first, last, found, count)
    trees.insert(own, 0, key, row)
    feed.bases[side] = base + 1
    return count


@bare
def run_b_chain(
    left: Forest,
    right: Forest,
    lefts: Links,
    rights: Links,
    length: int,
    feed: Feed,
    begin: int,
) -> tuple[int, int]:
    """Take tuples from ``begin`` on; see `run_b_tree`."""
    matches = 0
    for i in range(begin, feed.sides.size):
        side = feed.sides[i]
        if feed.bases[side] == feed.stops[side]:
            return i, matches
        if not blocks.has_room(left) or not blocks.has_room(right):
            return i, matches
        if side == 0:
            matches += join_b_chain(left, right, rights, length, feed.left, feed, 0, feed.across)
        else:
            matches += join_b_chain(right, left, lefts, length, feed.right, feed, 1, 0)
    return feed.sides.size, matches


@bare
def run_ib_chain(
    left: Forest,
    right: Forest,
    lefts: Frozen,
    rights: Frozen,
    length: int,
    feed: Feed,
    begin: int,
) -> tuple[int, int]:
    """Take tuples from ``begin`` on; see `run_b_tree`."""
    matches = 0
    for i in range(begin, feed.sides.size):
        side = feed.sides[i]
        if feed.bases[side] == feed.stops[side]:
            return i, matches
        if not blocks.has_room(left) or not blocks.has_room(right):
            return i, matches
        if side == 0:
            matches += join_ib_chain(left, right, rights, length, feed.left, feed, 0, feed.across)
        else:
            matches += join_ib_chain(right, left, lefts, length, feed.right, feed, 1, 0)
    return feed.sides.size, matches


@inlined
def join_nested(ring: Keys, other: Keys, feed: Feed, side: Int, across: Int) -> Int:
    """Compare a tuple with every one of the other window, one after the other."""
    key = key_of(ring, feed.bases[side] + feed.windows[side])
    lower, upper, count = key - feed.reach, key + feed.reach, 0
    first = feed.bases[across]
    for distance in range(feed.windows[across]):
        if lower <= key_of(other, first + distance) <= upper:
            feed.found[count] = distance
            count += 1
    feed.bases[side] += 1
    return count


@bare
def run_nested(feed: Feed, begin: int) -> tuple[int, int]:
    """Take tuples from ``begin`` on; see `run_b_tree`."""
    matches = 0
    for i in range(begin, feed.sides.size):
        if feed.sides[i] == 0:
            other = feed.right if feed.across == 1 else feed.left
            matches += join_nested(feed.left, other, feed, 0, feed.across)
        else:
            matches += join_nested(feed.right, feed.left, feed, 1, 0)
    return feed.sides.size, matches
