"""Pieces: as many pairs as they say, in blocks of bounded size, of some probes only if asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.joins.equality.algorithms import make_lazy
from streamjoin.joins.equality.eager.code_table import CodeTable
from streamjoin.joins.equality.pieces import Counted, Piece
from tests.joins.equality.small_windows import expected, found, listed, rows, windows, words_of


def runs(left, right):
    """What right words find in runs of left ones."""
    pieces = make_lazy("mway").join(left, right)
    return pieces[0] if pieces else None


def lists(left, right):
    """What right words find in lists of left ones."""
    table = CodeTable()
    table.insert(left)
    return table.probe(right, "right")


both_kinds = pytest.mark.parametrize("find", [runs, lists])


@both_kinds
@given(sides=windows(), size=st.sampled_from([1, 2, 7, 64, 1 << 18]))
def test_blocks_are_bounded_and_hold_each_pair_once(find, sides, size):
    left, right = map(words_of, sides)
    piece = find(left, right)
    pairs = expected(left, right)
    if piece is None:
        assert pairs.size == 0
        return
    assert len(piece) == pairs.size
    assert np.array_equal(listed(piece, size), pairs)
    sizes = [probes.size for probes, _ in piece.pairs(size)]
    assert all(each == size for each in sizes[:-1])
    assert all(0 < each <= size for each in sizes)


@both_kinds
@given(sides=windows(), seed=st.integers(0, 2**32), share=st.sampled_from([0, 0.1, 0.5, 1]))
def test_some_probes_only(find, sides, seed, share):
    left, right = map(words_of, sides)
    piece = find(left, right)
    if piece is None:
        return
    flags = np.random.default_rng(seed).random(piece.probes.size) < share
    some = Piece(piece.probing, piece.probes, piece.matches.of(flags))
    wanted = expected(left, right[np.isin(rows(right), piece.probes[flags])])
    assert np.array_equal(listed(some, 7), wanted)
    assert np.array_equal(some.matches.lengths, np.where(flags, piece.matches.lengths, 0))
    assert np.array_equal(listed(piece), expected(left, right))  # it is as it was


@given(sides=windows(), pairs=st.sampled_from([1, 2, 7, 64]))
def test_a_piece_that_is_cut_has_the_same_pairs(sides, pairs):
    left, right = map(words_of, sides)
    piece = runs(left, right)
    if piece is None:
        return
    parts = piece.split_pairs(pairs)
    assert np.array_equal(found(parts), expected(left, right))
    longest = max(piece.matches.counts, default=0)
    assert all(len(part) < pairs + longest for part in parts)


@pytest.mark.parametrize("name", ["npj", "prj", "mway", "mpass"])
def test_threads_have_as_many_pairs_each_to_write(name):
    """Nearly all pairs are of one key, which is in one partition, of one thread."""
    keys = np.concatenate([np.full(1_000, 7), np.arange(10_000, 20_000)])
    left = right = words_of(keys)
    pieces = make_lazy(name, threads=2).join(left, right)
    assert np.array_equal(found(pieces), expected(left, right))
    assert max(map(len, pieces)) <= 0.55 * sum(map(len, pieces))


@both_kinds
def test_few_probes_with_many_matches_each(find):
    left = words_of(np.repeat([3, 5], 100))
    right = words_of([1, 2, 3, 4, 4, 4, 5, 6, 6])
    piece = find(left, right)
    assert np.array_equal(listed(piece, 10), expected(left, right))
    assert sorted(piece.matches.lengths) == [0] * 7 + [100, 100]
    assert [probes.size for probes, _ in piece.pairs(15)] == [15] * 13 + [5]


@both_kinds
def test_probes_by_their_numbers(find):
    left, right = words_of([3, 5, 5]), words_of([5, 1, 5], first=40)
    piece = find(left, right)
    numbered = [pair for block in piece.matches.blocks(2) for pair in zip(*block, strict=True)]
    assert sorted((piece.probes[probe], row) for probe, row in numbered) == [
        (40, 1),
        (40, 2),
        (42, 1),
        (42, 2),
    ]


@pytest.mark.parametrize(("probing", "pair"), [("left", (9, 4)), ("right", (4, 9))])
def test_the_left_row_comes_first_whoever_has_probed(probing, pair):
    one = np.array([0], np.int32), np.array([1], np.int32)
    piece = Piece.of(probing, words_of([5], first=9), *one, 1, words_of([5], first=4))
    assert found([piece]).tolist() == [pair[0] << 32 | pair[1]]


def test_totals_beyond_32_bits():
    counts = np.full(5, 2**31 - 1, np.int32)
    assert Counted(counts, 0).totals.tolist() == [number * (2**31 - 1) for number in range(6)]


def test_more_pairs_than_32_bits_can_count():
    """They are counted; some blocks of them can be looked at."""
    size = 70_000
    for name in ("npj", "prj", "mway"):
        pieces = make_lazy(name).join(words_of(np.full(size, 9)), words_of(np.full(size, 9)))
        assert sum(map(len, pieces)) == size * size > 2**32
        left, right = next(iter(pieces[0].pairs(size + 1)))
        assert left.size == right.size == size + 1
        assert np.unique(left).size == size
        assert np.unique(right).size == 2
