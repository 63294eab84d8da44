"""IM-Tree (in-memory merge tree): an immutable tree, and one B+-tree for new tuples.

It is a PIM-Tree whose insertion depth is 0: T_S has one root, so T_I is one tree. Inserting need
not look into T_S, but the tree is higher than those of a PIM-Tree, and only one thread can insert
at a time.

Source: Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU"
(arXiv:1903.00452), 3.2.
"""

from streamjoin.indexes.trees.pim_tree import MERGE_RATIO, PIMTree
from streamjoin.indexes.trees.window_index import LEAST_TUPLES


class IMTree(PIMTree):
    """The index of a window; `pim_tree` gives its layout and invariants."""

    def __init__(
        self, capacity: int = LEAST_TUPLES, merge_ratio: float = MERGE_RATIO, depth: int = 0
    ) -> None:
        super().__init__(capacity, merge_ratio, depth)
