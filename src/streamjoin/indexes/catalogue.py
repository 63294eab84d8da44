"""The structures by name, as ``algorithm=`` gives it."""

from streamjoin.indexes.protocol import CrossedIndex, Index, Structure
from streamjoin.indexes.runs.bi_sort import BISort
from streamjoin.indexes.runs.scan import Scan
from streamjoin.indexes.tables.rap_table import RaPTable
from streamjoin.indexes.tables.wib_tree import WiBTree
from streamjoin.indexes.trees.b_tree import BTree
from streamjoin.indexes.trees.chained_index import BChain, IBChain
from streamjoin.indexes.trees.im_tree import IMTree
from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.indexes.trees.window_index import WindowIndex
from streamjoin.indexes.two_keys.spo_join import SPOJoin

# Of a whole window: they forget their oldest tuples one by one.
WINDOW_INDEXES: dict[str, type[WindowIndex]] = {
    "b_tree": BTree,
    "b_chain": BChain,
    "ib_chain": IBChain,
    "im_tree": IMTree,
    "pim_tree": PIMTree,
}
INDEXES: dict[str, type[Index]] = {
    "bi_sort": BISort,
    "rap_table": RaPTable,
    "wib_tree": WiBTree,
    "scan": Scan,
    **WINDOW_INDEXES,
}
CROSSED_INDEXES: dict[str, type[CrossedIndex]] = {"spo_join": SPOJoin}  # by two keys at once


def make_index(name: str, capacity: int, threads: int = 1) -> Structure:
    """Make an empty index; some merge with several threads."""
    capacity = max(capacity, 1)
    if name == "bi_sort":
        return BISort(capacity, threads=threads)
    if name == "spo_join":
        return SPOJoin(capacity, threads)
    return INDEXES[name](capacity)


def kind_of(name: str) -> type[Structure]:
    """Return the class of a structure."""
    return CROSSED_INDEXES[name] if name in CROSSED_INDEXES else INDEXES[name]
