"""Joins that take one tuple at a time, each over the indexes of two full windows.

A join owns its indexes, gives their arrays to the functions of `kernels`, and merges or
archives when they stop for that. What it is told of expired tuples keeps the indexes as they would
be had they been used by batches, so ``check`` and ``nbytes`` hold.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from benchmarks.pimtree import kernels as kernels
from benchmarks.pimtree.kernels import Feed
from benchmarks.pimtree.workloads import KeyRings, Sides
from streamjoin.indexes.trees import blocks
from streamjoin.indexes.trees.b_tree import BTree
from streamjoin.indexes.trees.blocks import Forest
from streamjoin.indexes.trees.chained_index import BChain
from streamjoin.indexes.trees.im_tree import IMTree
from streamjoin.indexes.trees.immutable_tree import Immutable, make_immutable
from streamjoin.indexes.trees.pim_tree import MERGE_RATIO, PIMTree
from streamjoin.indexes.trees.window_index import WindowIndex
from streamjoin.kernels.compile import Keys, Positions

ROOM = 1 << 16  # matches that one tuple may have
NEVER = 1 << 62
LINKS = 7  # archived ones that kernels can take
B_TREE, IM_TREE, PIM_TREE = "B+-Tree", "IM-Tree", "PIM-Tree"

Index = TypeVar("Index", bound=WindowIndex)


class TupleJoin(ABC, Generic[Index]):
    """A join over two full windows with an index for each, or one if a stream joins itself."""

    def __init__(self, streams: KeyRings, make: Callable[[int], Index]) -> None:
        self.streams = streams
        windows = streams.windows.tolist()
        self.indexes = [make(windows[0])]
        self.indexes.append(self.indexes[0] if streams.load.itself else make(windows[1]))
        self.bases, self.stops = np.zeros(2, np.int64), np.full(2, NEVER)
        self.found = np.empty(ROOM, np.int32)

    @property
    def sides(self) -> range:
        """The streams that have an index."""
        return range(1 if self.streams.load.itself else 2)

    def insert(self, side: int, keys: Keys, order: Positions) -> None:
        """Insert tuples at once, keys ascending, that come in this order; without probing."""
        index = self.indexes[side]
        index.insert(keys, (len(index) + order).astype(np.int32))

    def expire(self, side: int, keys: Keys) -> None:
        """Let the oldest tuples expire at once."""
        self.indexes[side].expire(keys)
        self.bases[side] += keys.size

    def prepare(self) -> None:
        """Make ready for tuples."""
        for side in self.sides:
            self.attend(side, 0)

    def run(self, sides: Sides) -> int:
        """Join tuples; return how many matches they have."""
        load, (left, right) = self.streams.load, self.streams.rings
        feed = Feed(
            sides,
            left,
            right,
            self.streams.windows,
            self.bases,
            self.stops,
            self.found,
            load.reach,
            0 if load.itself else 1,
        )
        begin, matches = 0, 0
        while begin < sides.size:
            before = self.bases.tolist()
            begin, found = self.join(feed, begin)
            matches += found
            for side in self.sides:
                self.attend(side, int(self.bases[side]) - before[side])
        return matches

    @abstractmethod
    def join(self, feed: Feed, begin: int) -> tuple[int, int]:
        """Join tuples until an index needs attention; see `kernels.run_b_tree`."""

    def attend(self, side: int, count: int) -> None:
        """Note that so many tuples came and as many expired; do what is due."""
        self.indexes[side].base += count

    def period(self, side: int) -> int:
        """After how many tuples of a stream the same comes again."""
        return 1


class BTreeJoin(TupleJoin[BTree]):
    """With B+-trees, from which every expired tuple is removed."""

    def __init__(self, streams: KeyRings) -> None:
        super().__init__(streams, BTree)

    def join(self, feed: Feed, begin: int) -> tuple[int, int]:
        """Join tuples until room runs out."""
        left, right = (index.forest for index in self.indexes)
        return kernels.run_b_tree(left, right, feed, begin)

    def attend(self, side: int, count: int) -> None:
        """Make room."""
        super().attend(side, count)
        index = self.indexes[side]
        if not blocks.has_room(index.forest):
            index.forest = blocks.grow_forest(index.forest)


class PIMTreeJoin(TupleJoin[PIMTree]):
    """With IM-Trees or PIM-Trees."""

    def prepare(self) -> None:
        """Merge, whether or not it is time."""
        for side in self.sides:
            self.indexes[side].merge()
        super().prepare()

    def join(self, feed: Feed, begin: int) -> tuple[int, int]:
        """Join tuples until a T_I is full."""
        left, right = (index.pim for index in self.indexes)
        return kernels.run_pim_tree(left, right, feed, begin)

    def attend(self, side: int, count: int) -> None:
        """Merge a full T_I."""
        super().attend(side, count)
        index = self.indexes[side]
        index.fresh_count += count
        if index.fresh_count >= index.limit:
            index.merge()
        self.stops[side] = self.bases[side] + index.limit - index.fresh_count

    def period(self, side: int) -> int:
        """After how many tuples of a stream its index is merged."""
        return self.indexes[side].limit


class BChainJoin(TupleJoin[BChain]):
    """With chains of B+-trees, or of immutable trees and one B+-tree."""

    def join(self, feed: Feed, begin: int) -> tuple[int, int]:
        """Join tuples until an active link is full."""
        (left, lefts), (right, rights) = (self.links(index) for index in self.indexes)
        length = max(len(index.links) for index in self.indexes) - 1
        run: Any = kernels.run_ib_chain if self.indexes[0].freezes else kernels.run_b_chain
        reached, matches = run(left, right, lefts, rights, length, feed, begin)
        return reached, matches

    @staticmethod
    def links(index: BChain) -> tuple[Forest, tuple[Forest | Immutable, ...]]:
        """Return the active link, and the others with empty ones behind them: always as many."""
        *archived, active = (link.tree for link in index.links)
        assert isinstance(active, Forest)
        empty = make_immutable(0) if index.freezes else blocks.make_forest(1, 0)
        return active, (*archived, *[empty] * (LINKS - len(archived)))

    def attend(self, side: int, count: int) -> None:
        """Drop an expired link; archive a full one; make room."""
        index = self.indexes[side]
        active = index.links[-1]
        active.size, active.live, index.size = (
            each + count for each in (active.size, active.live, index.size)
        )
        index.expire(np.empty(count, np.int64))
        if index.links[-1].size >= index.share:
            index.archive()
        active = index.links[-1]
        assert isinstance(active.tree, Forest)
        if not blocks.has_room(active.tree):
            active.tree = blocks.grow_forest(active.tree)
        self.stops[side] = self.bases[side] + index.share - active.size

    def period(self, side: int) -> int:
        """After how many tuples of a stream a link is archived."""
        return self.indexes[side].share


class NestedJoin(TupleJoin[BTree]):
    """Without an index: every tuple is compared with all of the other window."""

    def __init__(self, streams: KeyRings) -> None:
        super().__init__(streams, BTree)

    def insert(self, side: int, keys: Keys, order: Positions) -> None:
        """Do nothing: the ring is the window."""

    def expire(self, side: int, keys: Keys) -> None:
        """Go on in the ring."""
        self.bases[side] += keys.size

    def join(self, feed: Feed, begin: int) -> tuple[int, int]:
        """Join all tuples."""
        return kernels.run_nested(feed, begin)


Make = Callable[[KeyRings], TupleJoin[Any]]


def choose_im_tree(ratio: float = MERGE_RATIO) -> Make:
    """Return how a join with IM-Trees is made."""
    return partial(PIMTreeJoin, make=partial(IMTree, merge_ratio=ratio))


def choose_pim_tree(ratio: float = MERGE_RATIO, **options: int) -> Make:
    """Return how a join with PIM-Trees is made."""
    return partial(PIMTreeJoin, make=partial(PIMTree, merge_ratio=ratio, **options))


RIVALS: dict[str, Make] = {
    B_TREE: BTreeJoin,
    IM_TREE: choose_im_tree(),
    PIM_TREE: choose_pim_tree(),
}
