"""MWay, the multi-way sort-merge join: all runs are merged at once (3.1)."""

import numpy as np

from streamjoin.intrawindow.merging import merge_all
from streamjoin.intrawindow.sorting import SortJoin
from streamjoin.intrawindow.words import Words
from streamjoin.kernels import Positions


class MWay(SortJoin):
    """A sort join whose runs are read and written once more, each word through a tree."""

    def merge(self, words: Words, starts: Positions) -> Words:
        """Return the words of sorted runs, sorted."""
        if starts.size == 2:
            return words
        merged = np.empty_like(words)
        merge_all(words, starts, merged)
        return merged
