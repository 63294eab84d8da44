"""What the trees have in common: they take a batch as far as there is room, grow, and go on."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from streamjoin.indexes.inner_nodes import USED, Nodes, Path, leaves, make_nodes, make_path
from streamjoin.indexes.llat import NONE
from streamjoin.kernels import Keys, RowIds


class Tree(ABC):
    """Inner nodes above leaves of some width, which are linked from left to right."""

    usual_width: ClassVar[int]  # tuples of a leaf
    nodes: Nodes

    def __init__(self, capacity: int = 1, width: int | None = None) -> None:
        self.width, self.size = width or self.usual_width, 0
        count = max(2 * capacity // self.width, 4)
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
        """Add an ascending batch."""
        first, path = 0, make_path()
        while first < keys.size:
            first = self._insert(path, keys, row_ids, first)
            if first < keys.size:
                self._grow()
        self.size += keys.size

    @abstractmethod
    def _make_leaves(self, count: int) -> None:
        """Allocate room for so many leaves."""

    @abstractmethod
    def _insert(self, path: Path, keys: Keys, row_ids: RowIds, first: int) -> int:
        """Insert from ``first`` on; return where room ran out."""

    @abstractmethod
    def _grow(self) -> None:
        """Double the room for leaves and for nodes. O(n)."""

    def seal(self) -> None:  # noqa: B027
        """Nothing to do: unused leaves were never touched, so they take no memory."""

    def __len__(self) -> int:
        return self.size

    @property
    def node_bytes(self) -> int:
        """Bytes of the inner nodes in use."""
        one = self.nodes.keys[0].nbytes + self.nodes.children[0].nbytes
        return int(self.nodes.info[USED]) * one

    def order(self, followers: RowIds) -> list[int]:
        """Return the leaves from left to right; assert that nodes and links agree on it."""
        linked, leaf = [], 0
        while leaf != NONE:
            linked.append(leaf)
            leaf = int(followers[leaf])
        assert linked == leaves(self.nodes)
        return linked
