"""WiB+-Tree (wide B+-tree): small sorted inner nodes above wide leaves that are not sorted.

A leaf is an entry of an `LLAT`. A tuple is appended to its leaf; only when a leaf is full is it
sorted, and divided where two different keys meet, as close to the middle as possible. Equal keys
are never separated: a full leaf with only one key continues in further entries::

    inner nodes          [ 20             | 50            ]
    leaves       [ 7 20 1 . ]     [ 50 31 44 32 ]     [ 77 77 77 77 ] -> [ 77 . . . ]
                                    full: sorted, and divided at 32

A probe looks at every tuple of its first and its last leaf, and copies the leaves in between. The
tree adapts to any keys as they arrive, even to keys that keep rising, for which RaP-Table's
splitters, made from the subwindow before, are useless.

Invariants, asserted by ``check``:
    1. A leaf holds tuples with keys above the leaf before it and up to its own ``uppers``, fewer
       than the width of an entry unless all keys are equal.
    2. ``followers`` links the leaves in the order of their keys.
Costs for n tuples: ``insert`` O(log n) per tuple, less in a batch; ``probe`` O(log n + width +
matches) per range.

Source: Pan and Jacobsen, "PanJoin" (arXiv:1811.05065), III-C, III-E. Departure: leaves are linked,
as in any B+-tree, so a probe walks from the first to the last.
"""

from collections.abc import Iterator
from typing import Self

import numpy as np
import pyarrow as pa

from streamjoin.indexes.hits import hand_over, scan_chain
from streamjoin.indexes.matches import Matches
from streamjoin.indexes.saved_tuples import refuse_unless
from streamjoin.indexes.tables.inner_nodes import (
    USED,
    Nodes,
    Path,
    add_separator,
    descend,
    find_leaves,
    grow_nodes,
    leaves,
    make_nodes,
    make_path,
    restart,
)
from streamjoin.indexes.tables.llat import (
    NONE,
    Entries,
    append,
    copy_chains,
    make_entries,
    take_entry,
)
from streamjoin.indexes.tables.wide_leaves import Leaves, count_leaf, insert_batch, link
from streamjoin.kernels.compile import MAX_KEY, Keys, Positions, RowIds, copy_into, kernel

WIDTH = 128  # tuples per leaf
MOST_WIDTH = 1 << 16  # in a restored tree
LEAVES, WIDTHS = b"leaves", b"width"  # in the metadata of a snapshot


@kernel
def scan_leaves(
    table: Entries,
    held: Leaves,
    lower: Keys,
    upper: Keys,
    begins: Positions,
    first: int,
    found: RowIds,
    starts: Positions,
    ends: Positions,
) -> tuple[int, int]:
    """Scan for the probes from ``first`` on, until ``found`` may overflow; see `Search`."""
    count = np.int64(0)
    for probe in range(first, lower.size):
        low, high = lower[probe], upper[probe]
        starts[probe] = count
        if low <= high:
            begin = begins[probe]
            last, needed = begin, count_leaf(table, begin) + 1  # one too many is written
            while held.uppers[last] < high:
                last = np.int64(held.followers[last])
                needed += count_leaf(table, last)
            if count + needed > found.size:
                return probe, needed
            leaf = begin
            while True:
                inner = leaf != begin and leaf != last
                count = scan_chain(table, leaf, low, high, inner, found, count)
                if leaf == last:
                    break
                leaf = np.int64(held.followers[leaf])
        ends[probe] = count
    return lower.size, 0


@kernel
def are_in_leaves(counts: Keys, uppers: Keys, keys: Keys, width: int) -> bool:
    """Whether leaves with these counts and upper ends keep the first invariant."""
    at = 0
    for number in range(counts.size):
        count = counts[number]
        if count < 0 or at + count > keys.size:
            return False
        if number > 0 and uppers[number] <= uppers[number - 1]:
            return False
        for i in range(at, at + count):
            if keys[i] > uppers[number] or (number > 0 and keys[i] <= uppers[number - 1]):
                return False
            if count >= width and keys[i] != keys[at]:
                return False
        at += count
    return at == keys.size and uppers[counts.size - 1] == MAX_KEY


@kernel
def load_leaves(
    nodes: Nodes,
    path: Path,
    table: Entries,
    held: Leaves,
    counts: Keys,
    uppers: Keys,
    keys: Keys,
    row_ids: RowIds,
) -> None:
    """Fill an empty tree with leaves whose tuples and bounds are known."""
    at = 0
    leaf = np.int64(0)
    for number in range(counts.size):
        if number > 0:
            new = take_entry(table)
            restart(nodes, path)
            descend(nodes, path, 0, MAX_KEY)
            link(held, leaf, new, uppers[number - 1])
            add_separator(nodes, path, uppers[number - 1], new)
            leaf = new
        for i in range(at, at + counts[number]):
            append(table, leaf, keys[i], row_ids[i])
        at += counts[number]


class WiBTree:
    """The index of one subwindow; the module docstring gives its layout and invariants."""

    def __init__(self, capacity: int = 1, width: int = WIDTH) -> None:
        self.width, self.size = width, 0
        count = max(2 * capacity // width, 4)
        self.nodes = make_nodes(max(count // 16, 8))
        self._make_leaves(count)

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once."""
        index = cls(keys.size)
        index.insert(keys, row_ids)
        return index

    def successor(self, capacity: int) -> Self:
        """Make the tree of the next subwindow: it learns nothing from this one."""
        return type(self)(capacity, self.width)

    def insert(self, keys: Keys, row_ids: RowIds) -> None:
        """Add an ascending batch; grow whenever there is no more room."""
        first, path = 0, make_path()
        while first < keys.size:
            arrays = self.nodes, path, self.entries, self.leaves
            first = insert_batch(*arrays, keys, row_ids, first)
            if first < keys.size:
                self._grow()
        self.size += keys.size

    def seal(self) -> None:
        """Nothing to do: unused leaves were never touched, so they take no memory."""

    def __len__(self) -> int:
        return self.size

    def _make_leaves(self, count: int) -> None:
        self.entries = make_entries(count, self.width, 1)
        self.leaves = Leaves(np.full(count, MAX_KEY), np.full(count, NONE, np.int32))

    def _grow(self) -> None:
        """Double the room for leaves and for nodes. O(n)."""
        old = (*self.entries, *self.leaves)
        self._make_leaves(2 * self.entries.heads.size)
        copy_into(old, (*self.entries, *self.leaves))
        self.nodes = grow_nodes(self.nodes)

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        if not self.size:
            return
        begins = np.empty(lower.size, np.int64)
        find_leaves(self.nodes, make_path(), lower, begins)
        arrays = self.entries, self.leaves, lower, upper, begins
        yield from hand_over(lower.size, lambda *place: scan_leaves(*arrays, *place))

    @property
    def nbytes(self) -> int:
        """Bytes of the entries and nodes in use; the others have never been touched."""
        used, nodes = int(self.entries.pointer[0]), int(self.nodes.info[USED])
        one = self.nodes.keys[0].nbytes + self.nodes.children[0].nbytes
        return used * (self.width * 12 + 32) + nodes * one

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot leaf by leaf; the metadata has the size and the upper end of each."""
        order = np.array(leaves(self.nodes))
        keys, row_ids = np.empty(self.size, np.int64), np.empty(self.size, np.int32)
        ends = np.empty(order.size, np.int64)
        copy_chains(self.entries, order, keys, row_ids, ends)
        bounds = np.stack([np.diff(ends, prepend=0), self.leaves.uppers[order]])
        batch = pa.record_batch({"keys": keys, "row_ids": row_ids})
        return batch.replace_schema_metadata({LEAVES: bounds.tobytes(), WIDTHS: str(self.width)})

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        """Load a snapshot. O(n), nothing is sorted."""
        counts, uppers = np.frombuffer(batch.schema.metadata[LEAVES], np.int64).reshape(2, -1)
        width = int(batch.schema.metadata[WIDTHS])
        are_leaves = 2 <= width <= MOST_WIDTH and uppers.size > 0
        are_leaves = are_leaves and are_in_leaves(counts, uppers, batch["keys"].to_numpy(), width)
        refuse_unless(are_leaves, "the leaves of a WiB+-Tree are not those of its tuples")
        index = cls(batch.num_rows, width)
        while index.leaves.uppers.size < 2 * counts.size + batch.num_rows // index.width + 4:
            index._grow()
        load_leaves(
            index.nodes,
            make_path(),
            index.entries,
            index.leaves,
            counts,
            uppers,
            batch["keys"].to_numpy(),
            batch["row_ids"].to_numpy(),
        )
        index.size = batch.num_rows
        return index

    def check(self) -> None:
        table, held = self.entries, self.leaves
        order, leaf = [], 0
        while leaf != NONE:
            order.append(leaf)
            leaf = int(held.followers[leaf])
        assert order == leaves(self.nodes)
        below, seen = None, []
        for leaf in order:
            entries = [leaf]
            while table.nexts[entries[-1]] != NONE:
                entries.append(int(table.nexts[entries[-1]]))
            keys = np.concatenate([table.keys[e, : table.heads[e]] for e in entries])
            seen.append(np.concatenate([table.row_ids[e, : table.heads[e]] for e in entries]))
            assert keys.size == count_leaf(table, leaf)
            assert table.lasts[leaf] == entries[-1]
            assert keys.size < self.width or np.all(keys == keys[0])
            assert np.all(keys <= held.uppers[leaf])
            assert below is None or np.all(keys > below)
            below = held.uppers[leaf]
        assert below == MAX_KEY
        assert np.unique(np.concatenate(seen)).size == self.size
