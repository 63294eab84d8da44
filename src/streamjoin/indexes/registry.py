"""The structures by name, as ``algorithm=`` gives it."""

from streamjoin.indexes.b_tree import BTree
from streamjoin.indexes.bi_sort import BISort
from streamjoin.indexes.protocol import Index
from streamjoin.indexes.rap_table import RaPTable
from streamjoin.indexes.scan import Scan
from streamjoin.indexes.wib_tree import WiBTree

INDEXES: dict[str, type[Index]] = {
    "bi_sort": BISort,
    "rap_table": RaPTable,
    "wib_tree": WiBTree,
    "b_tree": BTree,
    "scan": Scan,
}


def make_index(name: str, capacity: int, threads: int = 1) -> Index:
    """Make an empty index; BI-Sort merges with several threads."""
    capacity = max(capacity, 1)
    return BISort(capacity, threads=threads) if name == "bi_sort" else INDEXES[name](capacity)
