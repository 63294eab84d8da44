"""B+-tree: sorted leaves below sorted inner nodes, the structure that everybody knows.

::

    inner nodes          [ 20             | 50            ]
    leaves       [ 1 7 20 . ]  ->  [ 31 32 44 50 ]  ->  [ 77 80 . . ]       linked, to walk a range

A tuple goes from the root to its leaf, and into its place there, behind equal keys; a full leaf is
divided in the middle. Batches have no use here: this is what the other structures are measured by.

Invariants, asserted by ``check``:
    1. Keys ascend within a leaf and from leaf to leaf; no leaf but the first may be empty.
    2. A leaf has keys from the separator before it up to its own.
Costs for n tuples: ``insert`` O(log n + width) a tuple; ``probe`` O(log n +
matches) a range.
"""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.indexes.hits import hand_over
from streamjoin.indexes.inner_nodes import (
    Nodes,
    Path,
    add_separator,
    descend,
    grow_nodes,
    is_short,
    leaves,
    make_path,
    restart,
)
from streamjoin.indexes.llat import NONE
from streamjoin.indexes.matches import Matches
from streamjoin.indexes.tree import Tree
from streamjoin.kernels import MAX_KEY, Int, Keys, Positions, RowIds, copy_into, kernel

WIDTH = 64  # tuples of a leaf


class Leaves(NamedTuple):
    """The arrays of all leaves, as kernels take them."""

    keys: NDArray[np.int64]  # one row a leaf
    row_ids: NDArray[np.int32]
    sizes: NDArray[np.int32]
    uppers: NDArray[np.int64]  # the separator behind the leaf
    followers: NDArray[np.int32]  # the next leaf, or NONE
    used: NDArray[np.int64]  # one number: leaves in use


def make_leaves(count: int, width: int) -> Leaves:
    """Allocate room for so many leaves; the first is in use."""
    return Leaves(
        np.empty((count, width), np.int64),
        np.empty((count, width), np.int32),
        np.zeros(count, np.int32),
        np.full(count, MAX_KEY),
        np.full(count, NONE, np.int32),
        np.array([1], np.int64),
    )


@kernel
def place_of(keys: Keys, size: Int, key: Int) -> Int:
    """Return the place behind the keys of a leaf that are not greater, without branches."""
    place = np.int64(0)
    for i in range(size):
        place += np.int64(keys[i] <= key)
    return place


@kernel
def divide_leaf(nodes: Nodes, path: Path, held: Leaves, leaf: Int, full: int) -> None:
    """Move the upper half of a full leaf into a new one."""
    new = held.used[0]
    held.used[0] = new + 1
    cut = full // 2
    moved = full - cut
    held.keys[new, :moved] = held.keys[leaf, cut:full]
    held.row_ids[new, :moved] = held.row_ids[leaf, cut:full]
    held.sizes[leaf], held.sizes[new] = cut, moved
    separator = held.keys[leaf, cut - 1]
    held.followers[new], held.followers[leaf] = held.followers[leaf], new
    held.uppers[new], held.uppers[leaf] = held.uppers[leaf], separator
    add_separator(nodes, path, separator, new)


@kernel
def insert_batch(
    nodes: Nodes, path: Path, held: Leaves, keys: Keys, row_ids: RowIds, first: int
) -> int:
    """Insert an ascending batch from ``first`` on; return where room ran out."""
    width = held.keys.shape[1]
    restart(nodes, path)
    for i in range(first, keys.size):
        key = keys[i]
        leaf = descend(nodes, path, 0, key)
        if is_short(nodes) or held.used[0] >= held.sizes.size:
            return i
        size = np.int64(held.sizes[leaf])
        place = place_of(held.keys[leaf], size, key)
        for slot in range(size, place, -1):
            held.keys[leaf, slot] = held.keys[leaf, slot - 1]
            held.row_ids[leaf, slot] = held.row_ids[leaf, slot - 1]
        held.keys[leaf, place], held.row_ids[leaf, place] = key, row_ids[i]
        held.sizes[leaf] = size + 1
        if size + 1 == width:
            divide_leaf(nodes, path, held, leaf, width)
            restart(nodes, path)
    return keys.size


@kernel
def walk(
    nodes: Nodes,
    path: Path,
    held: Leaves,
    lower: Keys,
    upper: Keys,
    first: int,
    found: RowIds,
    starts: Positions,
    ends: Positions,
) -> tuple[int, int]:
    """Walk the leaves for the probes from ``first`` on, until ``found`` is full; see `Search`."""
    count = np.int64(0)
    restart(nodes, path)
    for probe in range(first, lower.size):
        low, high = lower[probe], upper[probe]
        starts[probe] = count
        if low <= high:
            leaf, at = descend(nodes, path, 0, low), np.int64(0)
            if low > held.keys[leaf, 0]:
                at = place_of(held.keys[leaf], np.int64(held.sizes[leaf]), low - 1)
            while leaf != NONE:
                size = np.int64(held.sizes[leaf])
                while at < size and held.keys[leaf, at] <= high and count < found.size:
                    found[count] = held.row_ids[leaf, at]
                    count += 1
                    at += 1
                if at < size:
                    break
                leaf, at = np.int64(held.followers[leaf]), np.int64(0)
            if count == found.size:
                return probe, 2 * found.size
        ends[probe] = count
    return lower.size, 0


@kernel
def copy_out(held: Leaves, order: Positions, keys: Keys, row_ids: RowIds) -> None:
    """Write the tuples of leaves one after the other."""
    at = 0
    for leaf in order:
        for i in range(held.sizes[leaf]):
            keys[at], row_ids[at] = held.keys[leaf, i], held.row_ids[leaf, i]
            at += 1


class BTree(Tree):
    """The index of one subwindow; the module docstring gives its layout and invariants."""

    usual_width = WIDTH

    def _make_leaves(self, count: int) -> None:
        self.leaves = make_leaves(count, self.width)

    def _insert(self, path: Path, keys: Keys, row_ids: RowIds, first: int) -> int:
        return insert_batch(self.nodes, path, self.leaves, keys, row_ids, first)

    def _grow(self) -> None:
        old = self.leaves
        self._make_leaves(2 * old.sizes.size)
        copy_into(old, self.leaves)
        self.nodes = grow_nodes(self.nodes)

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Yield what the probes find, some at a time."""
        if self.size:
            arrays = self.nodes, make_path(), self.leaves, lower, upper
            yield from hand_over(lower.size, lambda *place: walk(*arrays, *place))

    @property
    def nbytes(self) -> int:
        """Bytes of the leaves and nodes in use; the others have never been touched."""
        return int(self.leaves.used[0]) * (self.width * 12 + 16) + self.node_bytes

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot, ascending."""
        keys, row_ids = np.empty(self.size, np.int64), np.empty(self.size, np.int32)
        copy_out(self.leaves, np.array(leaves(self.nodes)), keys, row_ids)
        return pa.record_batch({"keys": keys, "row_ids": row_ids})

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        """Load a snapshot. Nothing is sorted."""
        return cls.from_sorted(batch["keys"].to_numpy(), batch["row_ids"].to_numpy())

    def check(self) -> None:
        """Assert the invariants; tests call this after every step."""
        held = self.leaves
        order = self.order(held.followers)
        assert all(held.sizes[leaf] for leaf in order[1:])
        batch = self.to_arrow()
        keys = batch["keys"].to_numpy()
        assert np.all(keys[:-1] <= keys[1:])
        assert np.unique(batch["row_ids"].to_numpy()).size == self.size
        ends = np.cumsum(held.sizes[order])
        for number, leaf in enumerate(order[:-1]):
            assert keys[ends[number] - 1] <= held.uppers[leaf] <= keys[ends[number]]
        assert held.uppers[order[-1]] == MAX_KEY
