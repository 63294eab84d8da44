"""MWay, the multi-way sort-merge join: all runs are merged at once (3.1)."""

from streamjoin.intrawindow.merging import merge_runs
from streamjoin.intrawindow.sorting import SortJoin


class MWay(SortJoin):
    """A sort join whose runs are read and written once more, in stretches that fit into caches."""

    merge = staticmethod(merge_runs)
