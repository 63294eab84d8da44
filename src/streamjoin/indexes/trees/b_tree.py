"""B+-tree: sorted leaves below sorted inner nodes, the classic structure.

One tree of a `forest` holds the whole window. Every tuple is inserted by itself, and removed by
itself when it expires: this is the baseline against which the other structures are measured.

Invariants, asserted by ``check``: those of a tree, and that it holds exactly the live tuples.
Costs for n tuples: ``insert``, ``expire`` and ``probe`` O(log n) per tuple.

Source: Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU"
(arXiv:1903.00452), 2.2.1.
"""

from collections.abc import Iterator

import numpy as np

from streamjoin.indexes.hits import hand_over
from streamjoin.indexes.matches import Matches
from streamjoin.indexes.trees import blocks
from streamjoin.indexes.trees import forest as trees
from streamjoin.indexes.trees.blocks import Forest
from streamjoin.indexes.trees.forest import ALL_ROWS, NO_ROOM
from streamjoin.indexes.trees.window_index import LEAST_TUPLES, WindowIndex, wrap
from streamjoin.kernels.compile import Keys, Positions, RowIds, bare


@bare
def insert_batch(forest: Forest, keys: Keys, rows: RowIds, first: int) -> int:
    """Insert tuples from ``first`` on; return the one for which there was no room."""
    for i in range(first, keys.size):
        if not blocks.has_room(forest):
            return i
        trees.insert(forest, 0, keys[i], rows[i])
    return keys.size


@bare
def remove_batch(forest: Forest, keys: Keys, rows: RowIds) -> int:
    """Remove tuples; return how many were there."""
    removed = 0
    for i in range(keys.size):
        removed += trees.remove(forest, 0, keys[i], rows[i])
    return removed


@bare
def find_batch(
    forest: Forest,
    base: int,
    lower: Keys,
    upper: Keys,
    first: int,
    found: RowIds,
    starts: Positions,
    ends: Positions,
) -> tuple[int, int]:
    """Search for the probes from ``first`` on; see `hits.Search`."""
    count = np.int64(0)
    for probe in range(first, lower.size):
        starts[probe] = ends[probe] = count
        if lower[probe] <= upper[probe]:
            count = trees.collect(
                forest, 0, lower[probe], upper[probe], base, ALL_ROWS, found, count
            )
            if count == NO_ROOM:
                return probe, 2 * found.size
            ends[probe] = count
    return lower.size, 0


class BTree(WindowIndex):
    """The index of a window; the module docstring gives its layout and invariants."""

    def __init__(self, capacity: int = LEAST_TUPLES) -> None:
        super().__init__(capacity)
        self.forest = blocks.make_forest(1, min(capacity, 1 << 20))

    def _insert(self, keys: Keys, rows: RowIds) -> None:
        first = 0
        while first < keys.size:
            first = insert_batch(self.forest, keys, rows, first)
            if first < keys.size:
                self.forest = blocks.grow_forest(self.forest)

    def _expire(self, keys: Keys, rows: RowIds) -> None:
        remove_batch(self.forest, keys, rows)
        if self.forest.supply[blocks.USED] > 2 * blocks.blocks_for(1, self.size + LEAST_TUPLES):
            self._shrink()

    def _shrink(self) -> None:
        """Free the blocks of tuples that have expired. O(n)."""
        keys, row_ids = self._live()
        self.forest = blocks.make_forest(1, self.size + LEAST_TUPLES)
        self._insert(keys, wrap(row_ids + np.int64(self.base)))

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        if self.size:
            arguments = self.forest, self.base, lower, upper
            yield from hand_over(lower.size, lambda *place: find_batch(*arguments, *place))

    def _live(self) -> tuple[Keys, RowIds]:
        keys, row_ids = np.empty(self.size, np.int64), np.empty(self.size, np.int32)
        held = trees.copy_out(self.forest, 1, self.base, keys, row_ids)
        assert held == self.size
        return keys, row_ids

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks in use."""
        return blocks.used_bytes(self.forest)

    def check(self) -> None:
        super().check()
        trees.check_tree(self.forest, 0)
