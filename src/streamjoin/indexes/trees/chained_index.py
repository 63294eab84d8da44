"""Chained index: a window as a few links, the newest of which takes inserts.

Tuples go into the *active* link, a B+-tree. When it holds its share of the window, it is archived,
and the next one begins. A link whose tuples have all expired is dropped as a whole, so no tuple is
ever removed by itself. With a chain of length L, a link has 1 / (L - 1) of the window::

    L = 3    [ archived: some expired ] [ archived ] [ active ]       each half of the window
              rows   0 .. 499            500 .. 999   1000 ..

Every probe searches every link. ``b_chain`` archives links as they are; ``ib_chain`` turns them
into immutable trees, which are smaller and searched faster.

Invariants, asserted by ``check``:
    1. Links follow each other in order of arrival, without a gap; only the first may hold expired
       tuples.
    2. Every link keeps its own tree's invariants.
Costs for n tuples: ``insert`` O(log n); ``probe`` O(L log n + matches); ``expire`` O(1).

Source: Lin et al., SIGMOD 2015, as Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a
Multicore CPU" (arXiv:1903.00452), describe it in 2.2.2 and 5.1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from streamjoin.indexes.hits import hand_over
from streamjoin.indexes.matches import Matches
from streamjoin.indexes.trees import b_tree, blocks
from streamjoin.indexes.trees import forest as trees
from streamjoin.indexes.trees import immutable_tree as immutable
from streamjoin.indexes.trees.blocks import Forest
from streamjoin.indexes.trees.forest import ALL_ROWS, NO_ROOM
from streamjoin.indexes.trees.immutable_tree import DEPTH, Immutable
from streamjoin.indexes.trees.window_index import LEAST_TUPLES, WindowIndex, wrap
from streamjoin.kernels.compile import Keys, Positions, RowIds, bare

MOST_ROOM = 1 << 20  # tuples that an empty link has room for; after that it grows
LENGTH = 2  # links, including the active one: the shortest chain is the fastest


@bare
def find_batch(
    tree: Immutable,
    base: int,
    lower: Keys,
    upper: Keys,
    first: int,
    found: RowIds,
    starts: Positions,
    ends: Positions,
) -> tuple[int, int]:
    """Search an immutable tree for the probes from ``first`` on; see `hits.Search`."""
    count = np.int64(0)
    for probe in range(first, lower.size):
        starts[probe] = ends[probe] = count
        low, high = lower[probe], upper[probe]
        if low <= high:
            leaf = immutable.find_node(tree, low, 0, 0, tree.info[DEPTH])
            count = immutable.scan(tree, leaf, low, high, base, ALL_ROWS, found, count)
            if count == NO_ROOM:
                return probe, 2 * found.size
            ends[probe] = count
    return lower.size, 0


@dataclass
class Link:
    """Some tuples that arrived one after the other."""

    tree: Forest | Immutable
    size: int = 0  # tuples
    live: int = 0  # how many of these have not expired

    def probe(self, base: int, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Yield what the probes find here."""
        tree = self.tree
        if isinstance(tree, Forest):
            arguments = tree, base, lower, upper
            yield from hand_over(lower.size, lambda *place: b_tree.find_batch(*arguments, *place))
        else:
            fixed = tree, base, lower, upper
            yield from hand_over(lower.size, lambda *place: find_batch(*fixed, *place))

    def tuples(self, base: int) -> tuple[Keys, RowIds]:
        """Return the live tuples."""
        keys, row_ids = np.empty(self.live, np.int64), np.empty(self.live, np.int32)
        if isinstance(self.tree, Forest):
            trees.copy_out(self.tree, 1, base, keys, row_ids)
        else:
            immutable.copy_out(self.tree, base, keys, row_ids)
        return keys, row_ids

    @property
    def nbytes(self) -> int:
        if isinstance(self.tree, Forest):
            return blocks.used_bytes(self.tree)
        return self.tree.keys.nbytes + self.tree.inners.nbytes


class BChain(WindowIndex):
    """A chain of B+-trees; the module docstring gives its layout and invariants."""

    freezes: ClassVar[bool] = False

    def __init__(self, capacity: int = LEAST_TUPLES, length: int = LENGTH) -> None:
        super().__init__(capacity)
        self.length = length
        self.links = [Link(blocks.make_forest(1, LEAST_TUPLES))]

    def successor(self, capacity: int) -> Self:
        return type(self)(capacity, self.length)

    @property
    def share(self) -> int:
        """How many tuples a link holds before it is archived."""
        return max(-(-max(self.size, self.capacity) // (self.length - 1)), 1)

    def _insert(self, keys: Keys, rows: RowIds) -> None:
        """Insert oldest first, so that links follow each other in order of arrival."""
        order = np.argsort((rows - np.int64(self.base)) & trees.WRAP, kind="stable")
        first = 0
        while first < keys.size:
            active = self.links[-1]
            if active.size >= self.share:
                self.archive()
                continue
            last = min(keys.size, first + self.share - active.size)
            part = np.sort(order[first:last])
            self.fill(active, keys[part], rows[part])
            first = last

    def fill(self, link: Link, keys: Keys, rows: RowIds) -> None:
        """Insert tuples into the active link."""
        first = 0
        while first < keys.size:
            assert isinstance(link.tree, Forest)
            first = b_tree.insert_batch(link.tree, keys, rows, first)
            if first < keys.size:
                link.tree = blocks.grow_forest(link.tree)
        link.size += keys.size
        link.live += keys.size

    def archive(self) -> None:
        """Close the active link, and begin the next."""
        active = self.links[-1]
        if self.freezes:
            assert isinstance(active.tree, Forest)
            frozen = immutable.make_immutable(active.live)
            immutable.merge(immutable.make_immutable(0), active.tree, 1, self.base, frozen)
            active.tree, active.size = frozen, active.live
        self.links = [link for link in self.links if link.live]
        self.links.append(Link(blocks.make_forest(1, min(self.share, MOST_ROOM))))

    def _expire(self, keys: Keys, rows: RowIds) -> None:
        count = keys.size
        for link in self.links:
            gone = min(link.live, count)
            link.live -= gone
            count -= gone
        self.links = [link for link in self.links[:-1] if link.live] + self.links[-1:]
        if not self.links[-1].live and self.links[-1].size:
            self.links[-1] = Link(blocks.make_forest(1, LEAST_TUPLES))
        if sum(link.size for link in self.links) > 2 * self.size + LEAST_TUPLES:
            self._shrink()

    def _shrink(self) -> None:
        """Rebuild from the live tuples, after the window has shrunk. O(n)."""
        keys, row_ids = self._live()
        self.links = [Link(blocks.make_forest(1, LEAST_TUPLES))]
        self._insert(keys, wrap(row_ids + np.int64(self.base)))

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Yield what the probes find, link by link."""
        for link in self.links:
            if link.live:
                yield from link.probe(self.base, lower, upper)

    def _live(self) -> tuple[Keys, RowIds]:
        parts = [link.tuples(self.base) for link in self.links]
        keys = np.concatenate([keys for keys, _ in parts])
        row_ids = np.concatenate([row_ids for _, row_ids in parts])
        order = np.argsort(keys, kind="stable")
        return keys[order], row_ids[order]

    @property
    def nbytes(self) -> int:
        return sum(link.nbytes for link in self.links)

    def check(self) -> None:
        super().check()
        first = 0
        for link in self.links:
            _, row_ids = link.tuples(self.base)
            assert np.array_equal(np.sort(row_ids), np.arange(first, first + link.live))
            first += link.live
            if isinstance(link.tree, Forest):
                trees.check_tree(link.tree, 0)
            else:
                immutable.check_immutable(link.tree)
        assert first == self.size


class IBChain(BChain):
    """A chain whose archived links are immutable trees."""

    freezes = True
