"""Tables: buckets in order, runs of equal codes found, and a table that grows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from streamjoin.joins.equality.eager import code_table
from streamjoin.joins.equality.eager.code_table import ROW, CodeTable
from streamjoin.joins.equality.eager.slots import MOVED, MOVES, ORIGIN, SLOT, TUPLES, move_some
from streamjoin.joins.equality.lazy.bucket_table import SMALL_WORDS, bits_for, sort_buckets
from streamjoin.joins.equality.lazy.npj import NPJ
from streamjoin.joins.equality.lazy.npj import probe as probe_runs
from streamjoin.joins.equality.lazy.partitioning import split_evenly
from streamjoin.joins.equality.words import encode
from tests.joins.equality.small_windows import (
    CODES,
    HALF,
    LAST,
    count_expected,
    expected,
    found,
    packed,
    rows,
    windows,
    words_of,
)


def sort(words, ends):
    """Sort the buckets of words; look that each is what a sort makes of it."""
    given = words.copy()
    sort_buckets(words, np.array(ends, np.int32))
    for first, last in pairwise(ends):
        assert np.array_equal(words[first:last], np.sort(given[first:last]))


@given(
    sizes=st.lists(
        st.sampled_from([0, 1, 2, 3, SMALL_WORDS - 1, SMALL_WORDS, SMALL_WORDS + 1, 100]),
        max_size=6,
    ),
    seed=st.integers(0, 2**32),
    codes=st.integers(1, 40),
)
def test_buckets_of_any_size_are_sorted(sizes, seed, codes):
    random = np.random.default_rng(seed)
    ends = np.cumsum([0, *sizes]).tolist()
    sort(words_of(random.integers(0, codes, ends[-1])), ends)


FREQUENT = 1 << 19
BUCKETS = {
    "a rare code at the end": np.r_[np.ones(FREQUENT), 0],
    "a rare code in the middle": np.r_[np.ones(FREQUENT), 0, np.ones(FREQUENT)],
    "a rare code at the beginning": np.r_[1, np.zeros(FREQUENT)],
    "one after the other": np.repeat([1, 0], FREQUENT),
    "in turns": np.tile([1, 0], FREQUENT),
    "descending": np.arange(FREQUENT)[::-1],
    "up and down": np.r_[np.arange(FREQUENT), np.arange(FREQUENT)[::-1]],
}


@pytest.mark.parametrize("codes", BUCKETS.values(), ids=BUCKETS.keys())
def test_a_bucket_with_frequent_codes_takes_no_quadratic_time(codes):
    sort(words_of(codes.astype(np.uint64)), [0, codes.size])  # it would be half a minute


@given(sides=windows(), threads=st.integers(1, 3))
def test_runs_of_a_table_without_slack(sides, threads):
    left, right = map(words_of, sides)
    left = left if left.size else words_of([5])
    bits = bits_for(left.size)
    ends, table = NPJ(threads)._build(left, 64 - bits, 1 << bits)
    ends = ends[: (1 << bits) + 1]
    assert np.array_equal(table[: left.size], np.sort(left))  # buckets are ranges of codes
    assert np.array_equal(
        ends, np.searchsorted(np.sort(left) >> np.uint64(64 - bits), range(ends.size))
    )
    starts, counts = np.empty(right.size, np.int32), np.empty(right.size, np.int32)
    total = probe_runs(right, 64 - bits, ends, table, starts, counts)
    codes = table[: left.size] >> HALF
    first, last = (np.searchsorted(codes, right >> HALF, side) for side in ("left", "right"))
    assert np.array_equal(counts, last - first)
    assert np.array_equal(starts[counts > 0], first[counts > 0])
    assert total == counts.sum()


@pytest.fixture
def tiny(monkeypatch):
    """Let a table begin with two slots, so that it grows at once."""
    monkeypatch.setattr(code_table, "FEWEST_SLOTS", 2)


def check(table, words):
    assert len(table) == words.size
    assert np.array_equal(table.tuples[ROW, : len(table)], rows(words))
    table.check()


@pytest.mark.usefixtures("tiny")
@given(sides=windows(), cuts=st.lists(st.integers(0, 200), max_size=4))
def test_a_table_that_grows_finds_each_tuple_once(sides, cuts):
    left, right = map(words_of, sides)
    table, pieces, had = CodeTable(), [], []
    for part in np.split(left, sorted(min(cut, left.size) for cut in cuts)):
        table.insert(part)
        check(table, left[: len(table)])
        piece = table.probe(right, "right")
        pairs = expected(left[: len(table)], right)
        assert (piece is None) == (pairs.size == 0)
        if piece is not None:
            pieces.append(piece)
            had.append(pairs)
        for earlier, pairs in zip(pieces, had, strict=True):
            assert np.array_equal(found([earlier]), pairs)


def test_an_empty_table_and_probes_without_words():
    table = CodeTable()
    assert table.probe(words_of([0, LAST]), "left") is None
    table.insert(words_of([]))
    assert table.probe(words_of([]), "left") is None
    table.insert(words_of([0, LAST, 0]))
    check(table, words_of([0, LAST, 0]))
    assert table.probe(words_of([]), "left") is None
    assert table.nbytes > 0
    piece = table.probe(words_of([0], first=9), "left")
    assert [rows.tolist() for rows in next(piece.pairs(10))] == [[9, 9], [2, 0]]


@pytest.mark.usefixtures("tiny")
@given(
    kind=st.sampled_from(["first slot", "last slot", "any", "edges"]),
    steps=st.lists(st.sampled_from([0, 1, 1, 2, 3, 7, 20]), max_size=60),
    seed=st.integers(0, 2**32),
)
def test_a_table_grows_little_by_little(kind, steps, seed):
    random = np.random.default_rng(seed)
    words = words_of(random.permutation(np.array(CODES[kind], np.uint64).repeat(2)))
    table, grows = CodeTable(), 0
    for part in np.split(words, np.cumsum(steps).clip(max=words.size)):
        table.insert(part)
        check(table, words[: len(table)])
        grows += table.small.size > 0
        stored = words[: len(table)]
        piece = table.probe(words, "right")
        assert (len(piece) if piece else 0) == count_expected(stored, words)
    target(float(grows))


def test_no_insert_moves_many_slots(monkeypatch):
    moved = []

    def count(small, slots, growth, count):
        before = int(growth[MOVED])
        done = move_some(small, slots, growth, count)
        moved.append(int(growth[MOVED]) - before)
        return done

    monkeypatch.setattr(code_table, "move_some", count)
    random = np.random.default_rng(7)
    words = words_of(random.integers(0, 2**32, 40_000))
    table = CodeTable()
    for part in np.array_split(words, 2_000):
        table.insert(part)
    check(table, words)
    assert sum(moved) > 30_000
    assert max(moved) < 2 * MOVES * 20  # 20 tuples at a time, and then to the end of a cluster


def test_threads_have_tables_of_even_load():
    """A join biclique gives a thread the codes of one range: they spread over all its slots."""
    keys = np.arange(8_000)
    [words, _] = split_evenly(encode(keys, keys).left, 2, threads=1)
    table = CodeTable()
    table.insert(words)
    taken = np.flatnonzero(table.slots.reshape(-1, SLOT)[:, TUPLES])
    halves = np.bincount(taken // (table.slots.size // SLOT // 2), minlength=2)
    assert halves.min() > 0.9 * halves.max()


@pytest.fixture
def littered(monkeypatch):
    """Let memory that is not cleared look like slots that are taken."""
    monkeypatch.setattr(
        code_table, "reserve_slots", lambda count: np.full(SLOT * count, 0xDEADBEEF, np.uint32)
    )


@pytest.mark.usefixtures("littered")
@pytest.mark.parametrize("step", [3, 40, 300])
def test_nobody_looks_at_what_is_not_cleared(step):
    random = np.random.default_rng(step)
    words = words_of(random.integers(0, 2**32, 5_000))
    table, checked = CodeTable(), 0
    for part in np.array_split(words, words.size // step):
        table.insert(part)
        if table.small.size and len(table) > 1.02 * checked:
            table.check()
            checked = len(table)
    check(table, words)
    assert len(table.probe(words, "right")) == count_expected(words, words)


@pytest.mark.usefixtures("littered")
def test_a_cluster_that_reaches_beyond_what_is_cleared():
    random = np.random.default_rng(5)
    slots, new = 1 << 16, 1_500
    table = CodeTable()
    some = random.permutation(2**17)[: slots // 2 + 50].astype(np.uint64) << np.uint64(13)
    some |= random.integers(0, 2**13, some.size).astype(np.uint64)
    table.insert(words_of(some[:-100]))
    table.insert(words_of(some[-100:], first=some.size - 100))
    assert table.small.size == SLOT * slots
    place = table.growth[MOVED] + MOVES * new - 1  # the last one that the next insert moves
    home = (table.growth[ORIGIN] + place) % slots
    same = home + 2 * slots * np.arange(new)  # codes that belong to one slot, at the edge
    table.insert(words_of(same, first=some.size))
    assert table.small.size
    words = words_of(np.concatenate([some, same.astype(np.uint64)]))
    check(table, words)
    assert len(table.probe(words, "right")) == count_expected(words, words)


def test_a_table_of_many_codes():
    random = np.random.default_rng(6)
    words = words_of(random.integers(0, 2**32, 30_000))
    table = CodeTable()
    for part in np.array_split(words, 20):
        table.insert(part)
    piece = table.probe(words, "left")
    assert len(piece) == count_expected(words, words)
    assert np.isin(packed(rows(words), rows(words)), found([piece])).all()
