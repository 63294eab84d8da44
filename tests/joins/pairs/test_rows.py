"""Columns and rows that lose their oldest values: what is left is right, and memory follows."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.joins.pairs.rows import Column, Ordinals, Rows
from streamjoin.plans.limits import Limits

steps = st.lists(st.tuples(st.integers(0, 40), st.floats(0, 1)), max_size=12)


SMALL = Limits(small_piece_rows=4)
some = settings(max_examples=40)


@some
@given(steps)
def test_a_column_that_loses_its_first_values(steps):
    column, expected, seen = Column(SMALL), [], []
    for count, share in steps:
        values = np.arange(len(expected), len(expected) + count) * 7
        column.append(values)
        expected += values.tolist()
        seen.append((column.values, list(expected)))
        gone = int(share * len(expected))
        column.drop_first(gone)
        expected = expected[gone:]
        assert column.values.tolist() == expected
        assert column.size == len(expected)
        assert column.nbytes <= 8 * (4 * len(expected) + 4)
    for values, before in seen:
        assert values.tolist() == before


@some
@given(steps, st.booleans())
def test_ordinals_that_lose_their_first_numbers(steps, gaps):
    ordinals, expected, last = Ordinals(SMALL), [], 5
    for number, (count, share) in enumerate(steps):
        last += 3 if gaps and number % 3 == 2 else 0
        ordinals.append(np.arange(last, last + count))
        expected += range(last, last + count)
        last += count
        gone = int(share * len(expected))
        ordinals.drop_first(gone)
        expected = expected[gone:]
        assert ordinals.values.tolist() == expected
        assert ordinals.of(np.arange(len(expected), dtype=np.int32)).tolist() == expected
        if expected:
            assert (ordinals.first, ordinals.last) == (expected[0], expected[-1])
            for bound in (0, expected[0], expected[-1], last, last + 9):
                below = sum(each < bound for each in expected)
                assert ordinals.count_before(bound) == below


def test_ordinals_whose_ends_only_look_as_if_they_ascended():
    # Once: a restored window whose rows had been put behind others got other numbers.
    ordinals = Ordinals()
    ordinals.append(np.array([3, 4, 5, 6, 2, 8]))
    assert ordinals.values.tolist() == [3, 4, 5, 6, 2, 8]


@some
@given(steps)
def test_rows_that_roll(steps):
    rows, expected, last = Rows(rolls=True, limits=SMALL), [], 0
    for count, share in steps:
        if count:
            rows.append(pa.record_batch({"x": np.arange(last, last + count)}))
        expected += range(last, last + count)
        last += count
        gone = int(share * len(expected))
        rows.drop_first(gone)
        expected = expected[gone:]
        assert rows.size == len(expected) == sum(piece.num_rows for piece in rows.pieces)
        assert all(piece.num_rows for piece in rows.pieces)
        if expected:
            places = np.arange(0, len(expected), 3, dtype=np.int32)
            assert rows.take(places)["x"].to_pylist() == expected[::3]


def test_pieces_of_rows_that_roll_stay_few_and_small():
    rows, pieces, largest = Rows(rolls=True, limits=SMALL), [], []
    for first in range(3000):
        rows.append(pa.record_batch({"x": [first]}))
        if rows.size > 400:
            rows.drop_first(1)
            pieces.append(len(rows.pieces))
            largest.append(max(piece.num_rows for piece in rows.pieces))
    assert max(pieces) <= 40  # while the first rows are there, which came when pieces were small
    assert max(pieces[400:]) <= 20
    assert max(largest) <= 400 // 8 + 1
