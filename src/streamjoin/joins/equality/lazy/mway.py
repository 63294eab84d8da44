"""MWay, the multi-way sort-merge join: all runs are merged at once (3.1)."""

from streamjoin.joins.equality.lazy.sort_join import SortJoin
from streamjoin.joins.equality.lazy.word_merge import merge_runs


class MWay(SortJoin):
    """A sort join whose runs are read and written once more, in stretches that fit into caches."""

    merge = staticmethod(merge_runs)
