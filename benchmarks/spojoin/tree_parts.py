"""What a permutation is measured by: two trees, one for each predicate, and sets of rows.

Four rivals, each a kernel that takes one tuple after the other and writes down the rows it meets:

    mutable      two B+-trees, in which every tuple is searched for and then inserted
    immutable    two immutable trees (the paper's CSS-trees), which are only searched

each with a hash set and with bit arrays (`sets`). The mutable ones are one `Forest` with a
tree for each predicate. The immutable ones may be cut into pieces, whose sets fit into the cache. A
part can be *rewound* to what it was when it was made, so that every round measures the same.

Source: SPO-Join, sections 3.1 and 5.4 ("Mutable-Immutable join structure").
"""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import ClassVar

import numpy as np

from benchmarks.spojoin.sets import (
    Work,
    make_work,
    mark_forest,
    mark_immutable,
    meet_by_bits,
    meet_by_hash,
)
from benchmarks.spojoin.workloads import Ranges, Rows
from streamjoin.indexes.trees import blocks
from streamjoin.indexes.trees import forest as trees
from streamjoin.indexes.trees import immutable_tree as immutable
from streamjoin.indexes.trees.blocks import Forest
from streamjoin.indexes.trees.forest import ALL_ROWS
from streamjoin.indexes.trees.immutable_tree import DEPTH, TUPLES, Immutable
from streamjoin.kernels.compile import Int, Keys, RowIds, bare, inlined

FIRST, SECOND = 0, 1  # the trees of a forest

Trees = tuple[Immutable, ...]


@inlined
def search_forest_by_hash(
    forest: Forest, tree: Int, base: Int, last: Int, ranges: Ranges, i: Int, work: Work, count: Int
) -> Int:
    """Write down the matches of probe i in the trees from ``tree`` on, with a hash set."""
    firsts = trees.collect(
        forest,
        tree + FIRST,
        ranges.first_lower[i],
        ranges.first_upper[i],
        base,
        last,
        work.firsts,
        np.int64(0),
    )
    seconds = trees.collect(
        forest,
        tree + SECOND,
        ranges.second_lower[i],
        ranges.second_upper[i],
        base,
        last,
        work.seconds,
        np.int64(0),
    )
    return meet_by_hash(work, firsts, seconds, count)


@inlined
def search_forest_by_bits(
    forest: Forest, tree: Int, base: Int, last: Int, ranges: Ranges, i: Int, work: Work, count: Int
) -> Int:
    """Write down the matches of probe i in the trees from ``tree`` on, with bit arrays."""
    lower, upper = ranges.first_lower[i], ranges.first_upper[i]
    mark_forest(forest, tree + FIRST, lower, upper, base, last, work.first_bits)
    lower, upper = ranges.second_lower[i], ranges.second_upper[i]
    mark_forest(forest, tree + SECOND, lower, upper, base, last, work.second_bits)
    return meet_by_bits(work, last + 1, count)


@bare
def run_mutable(
    forest: Forest, size: int, rows: Rows, ranges: Ranges, hashed: bool, work: Work
) -> Int:
    """Search for tuples and insert them, one after the other; return how many matches they have."""
    matches = np.int64(0)
    for i in range(rows.first.size):
        row = size + i
        if hashed:
            matches += search_forest_by_hash(forest, 0, 0, row - 1, ranges, i, work, np.int64(0))
        else:
            matches += search_forest_by_bits(forest, 0, 0, row - 1, ranges, i, work, np.int64(0))
        trees.insert(forest, FIRST, rows.first[i], row)
        trees.insert(forest, SECOND, rows.second[i], row)
    return matches


@inlined
def search_immutable(
    first: Immutable, second: Immutable, ranges: Ranges, i: Int, hashed: bool, work: Work
) -> Int:
    """Write down the matches of probe i in a pair of immutable trees."""
    lower, upper = ranges.first_lower[i], ranges.first_upper[i]
    low, high = ranges.second_lower[i], ranges.second_upper[i]
    if hashed:
        leaf = immutable.find_node(first, lower, 0, 0, first.info[DEPTH])
        firsts = immutable.scan(first, leaf, lower, upper, 0, ALL_ROWS, work.firsts, np.int64(0))
        leaf = immutable.find_node(second, low, 0, 0, second.info[DEPTH])
        seconds = immutable.scan(second, leaf, low, high, 0, ALL_ROWS, work.seconds, np.int64(0))
        return meet_by_hash(work, firsts, seconds, np.int64(0))
    last = first.info[TUPLES] - 1
    mark_immutable(first, lower, upper, last, work.first_bits)
    mark_immutable(second, low, high, last, work.second_bits)
    return meet_by_bits(work, last + 1, np.int64(0))


@bare
def run_immutable(firsts: Trees, seconds: Trees, ranges: Ranges, hashed: bool, work: Work) -> Int:
    """Search for tuples, one after the other, piece by piece; return how many matches they have."""
    matches = np.int64(0)
    for i in range(ranges.first_lower.size):
        for place in range(len(firsts)):
            matches += search_immutable(firsts[place], seconds[place], ranges, i, hashed, work)
    return matches


@bare
def load_tree(tree: Immutable, keys: Keys, rows: RowIds) -> None:
    """Load an immutable tree, keys ascending."""
    for at in range(keys.size):
        immutable.put(tree, at, keys[at], rows[at])
    immutable.build(tree, keys.size)


class Part(ABC):
    """Some tuples of a window that can be searched for matches, and may take more."""

    takes_tuples: ClassVar[bool] = False

    @abstractmethod
    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Take tuples one after the other; return how many matches they have."""

    @abstractmethod
    def rewind(self) -> None:
        """Be as when it was made."""


class MutableTrees(Part):
    """B+-trees, with room for some tuples that are still to come."""

    takes_tuples = True

    def __init__(self, stored: Rows, room: int, hashed: bool) -> None:
        self.size, self.stored, self.hashed = stored.first.size, stored.first.size, hashed
        self.work = make_work(self.size + room)
        self.forest = blocks.make_forest(2, 2 * (self.size + room))
        fill_forest(self.forest, FIRST, stored, 0)
        self.saved = self.forest.keys.copy(), self.forest.supply.copy()

    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Search for tuples and insert them."""
        matches = int(run_mutable(self.forest, self.size, rows, ranges, self.hashed, self.work))
        self.size += rows.first.size
        return matches

    def rewind(self) -> None:
        """Forget what was inserted."""
        self.size = self.stored
        self.forest.keys[:], self.forest.supply[:] = self.saved


class ImmutableTrees(Part):
    """Immutable trees: a pair for all tuples, or for each of some pieces, as merges make them."""

    def __init__(self, stored: Rows, hashed: bool, pieces: int = 1) -> None:
        size = stored.first.size
        cuts = [size * place // pieces for place in range(pieces + 1)]
        self.hashed, self.work = hashed, make_work(size)
        parts = [stored.part(*ends) for ends in pairwise(cuts)]
        self.firsts = tuple(make_tree(part.first) for part in parts)
        self.seconds = tuple(make_tree(part.second) for part in parts)

    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Search for tuples."""
        return int(run_immutable(self.firsts, self.seconds, ranges, self.hashed, self.work))

    def rewind(self) -> None:
        """Do nothing: searching changes nothing."""


def make_tree(keys: Keys) -> Immutable:
    """Return an immutable tree of keys whose rows are their places."""
    tree, order = immutable.make_immutable(keys.size), np.argsort(keys, kind="stable")
    load_tree(tree, keys[order], order.astype(np.int32))
    return tree


@bare
def fill_forest(forest: Forest, tree: int, rows: Rows, base: int) -> None:
    """Insert tuples without searching for them, into the trees from ``tree`` on."""
    for i in range(rows.first.size):
        trees.insert(forest, tree + FIRST, rows.first[i], base + i)
        trees.insert(forest, tree + SECOND, rows.second[i], base + i)
