"""MPass, the multi-pass sort-merge join: runs are merged two by two, pass by pass (3.1)."""

import numpy as np

from streamjoin.joins.equality.lazy.sort_join import SortJoin
from streamjoin.joins.equality.lazy.word_merge import merge_passes
from streamjoin.joins.equality.words import Words
from streamjoin.kernels.compile import Positions


class MPass(SortJoin):
    """A sort join whose runs are read and written once per pass, with one comparison per word."""

    def merge(self, words: Words, starts: Positions) -> Words:
        """Return the words of sorted runs, sorted."""
        if starts.size == 2:
            return words
        spare = np.empty_like(words)
        return spare if merge_passes(words, starts, spare) else words
