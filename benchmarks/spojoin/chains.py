"""Chained index for two predicates: a window as some links, each with a B+-tree for either.

Tuples go into the *active* link. When it has its share of the window, the next becomes active; a
link whose tuples have all left is emptied and used again. All links of a window are trees of one
`Forest`, so this happens inside the kernel (drawn with shares of 4 tuples and a window of 8)::

    link           0 (oldest)      1            2 (active)    3
    rows           0 .. 3          4 .. 7       8, 9          empty
    trees          0 and 1         2 and 3      4 and 5       6 and 7
                   rows 0, 1 have left: they are found, and not counted

A tuple is searched for in every link: rows that pass one predicate and rows that pass the other,
and what they have in common, by a hash set as in the paper or by bit arrays. With sets as large as
the share of a link, many links cost little more than few, and stay in the cache.

Source: SPO-Join, section 5.4 ("Chained Index structure"); Lin et al., SIGMOD 2015.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.spojoin.sets import Work, make_work
from benchmarks.spojoin.tree_parts import (
    FIRST,
    SECOND,
    search_forest_by_bits,
    search_forest_by_hash,
)
from benchmarks.spojoin.workloads import Ranges, Rows
from streamjoin.indexes.trees import blocks
from streamjoin.indexes.trees import forest as trees
from streamjoin.indexes.trees.blocks import NONE, Forest
from streamjoin.kernels.compile import Int, Positions, bare, inlined

LINKS = 10  # shares of a window
NEXT_ROW, WINDOW, SHARE, SLOTS = range(4)  # places in ``info``


class Links(NamedTuple):
    """The links of one window, as kernels take them; link k has the rows from k * share on."""

    forest: Forest  # trees 2 s and 2 s + 1 for link s, modulo the number of slots
    info: Positions  # the row that comes next, the window, the share of a link, slots for links


class Arrivals(NamedTuple):
    """Tuples of both streams in the order in which they come."""

    sides: Positions  # 0 for left, 1 for right
    rows: Rows
    ranges: Ranges  # what each looks for in the other window


def make_links(window: int, links: int = LINKS) -> Links:
    """Allocate the links of an empty window."""
    share = -(-window // links)
    slots = -(-window // share) + 2  # the active one, and one of which some rows have left
    forest = blocks.make_forest(2 * slots, 2 * (slots + 1) * share)
    return Links(forest, np.array([0, window, share, slots]))


@bare
def empty_tree(forest: Forest, tree: int) -> None:
    """Give the blocks of a tree back, level by level, but for its root's."""
    block = tree
    for _ in range(blocks.height_of(forest, tree)):
        below = blocks.child_of(forest, block, 0)
        while block != NONE:
            behind = blocks.next_of(forest, block)
            if block != tree:
                blocks.give_back(forest, block)
            block = behind
        block = below
    while block != NONE and block != tree:
        behind = blocks.next_of(forest, block)
        blocks.give_back(forest, block)
        block = behind
    blocks.pad(forest, tree, 0)
    blocks.set_header(forest, tree, 0, NONE, 0)


@inlined
def insert(links: Links, first: Int, second: Int) -> None:
    """Add a tuple; what has its slot from before has left."""
    info, row = links.info, links.info[NEXT_ROW]
    tree = 2 * (row // info[SHARE] % info[SLOTS])
    if row % info[SHARE] == 0:
        empty_tree(links.forest, tree + FIRST)
        empty_tree(links.forest, tree + SECOND)
    trees.insert(links.forest, tree + FIRST, first, row)
    trees.insert(links.forest, tree + SECOND, second, row)
    info[NEXT_ROW] = row + 1


@inlined
def search(links: Links, ranges: Ranges, i: Int, hashed: bool, work: Work) -> Int:
    """Write down the matches of probe i, link by link; return how many there are."""
    info = links.info
    base = max(info[NEXT_ROW] - info[WINDOW], 0)
    matches, row = np.int64(0), base
    while row < info[NEXT_ROW]:
        link = row // info[SHARE]
        end = min((link + 1) * info[SHARE], info[NEXT_ROW])
        tree, last = 2 * (link % info[SLOTS]), end - row - 1
        # What is found counts from ``row``, and is written over by what the next link gives.
        if hashed:
            matches += search_forest_by_hash(
                links.forest, tree, row, last, ranges, i, work, np.int64(0)
            )
        else:
            matches += search_forest_by_bits(
                links.forest, tree, row, last, ranges, i, work, np.int64(0)
            )
        row = end
    return matches


@bare
def run_chains(left: Links, right: Links, arrivals: Arrivals, hashed: bool, work: Work) -> Int:
    """Take tuples one after the other; return how many matches they have."""
    matches, rows = np.int64(0), arrivals.rows
    for i in range(arrivals.sides.size):
        if arrivals.sides[i] == 0:
            matches += search(right, arrivals.ranges, i, hashed, work)
            insert(left, rows.first[i], rows.second[i])
        else:
            matches += search(left, arrivals.ranges, i, hashed, work)
            insert(right, rows.first[i], rows.second[i])
    return matches


@bare
def fill_links(links: Links, rows: Rows) -> None:
    """Insert tuples without searching for them."""
    for i in range(rows.first.size):
        insert(links, rows.first[i], rows.second[i])


class ChainJoin:
    """A join of two streams whose windows are chains."""

    def __init__(self, window: int, hashed: bool, links: int = LINKS) -> None:
        self.hashed, self.links = hashed, (make_links(window, links), make_links(window, links))
        self.work = make_work(int(self.links[0].info[SHARE]))

    def fill(self, side: int, rows: Rows) -> None:
        """Let tuples come that look for nothing."""
        fill_links(self.links[side], rows)

    def run(self, arrivals: Arrivals) -> int:
        """Take tuples one after the other; return how many matches they have."""
        return int(run_chains(*self.links, arrivals, self.hashed, self.work))

    @property
    def nbytes(self) -> int:
        """Bytes of both windows."""
        return sum(blocks.used_bytes(links.forest) for links in self.links)
