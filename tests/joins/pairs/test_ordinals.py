"""Arrival numbers of a subwindow's rows: what was appended is what each row has."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from streamjoin.joins.pairs.rows import Ordinals

batches = st.lists(st.sets(st.integers(0, 12)).map(sorted), max_size=4)


@given(batches)
@example([[0, 1, 2], [3, 4]])
@example([[5, 6, 7], [4, 9]])  # a restored join may append older rows behind newer ones
def test_ordinals_are_what_was_appended(batches):
    ordinals, expected = Ordinals(), [number for batch in batches for number in batch]
    for batch in batches:
        ordinals.append(np.array(batch, np.int64))
    assert ordinals.of(np.arange(len(expected), dtype=np.int32)).tolist() == expected
