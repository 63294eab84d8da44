"""Every lazy algorithm finds what a nested loop finds, whatever its knobs and its threads."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamjoin.errors import StreamJoinError
from streamjoin.indexes.catalogue import LAZY
from streamjoin.joins.equality.algorithms import make_lazy
from streamjoin.joins.equality.lazy import partitioning
from streamjoin.joins.equality.lazy.prj import SHARES, cut_shares
from streamjoin.joins.equality.words import encode
from tests.joins.equality.small_windows import (
    EXTREMES,
    LAST,
    count_expected,
    expected,
    found,
    packed,
    windows,
    words_of,
)

RUN_ROWS = st.fixed_dictionaries({"run_rows": st.one_of(st.integers(1, 40), st.just(1 << 20))})
KNOBS = {
    "npj": st.just({}),
    "prj": st.fixed_dictionaries({"bits": st.one_of(st.none(), st.integers(1, 14))}),
    "mway": RUN_ROWS,
    "mpass": RUN_ROWS,
}
every_lazy = pytest.mark.parametrize("name", LAZY)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Let threads have something to do."""
    monkeypatch.setattr(partitioning, "CHUNK_WORDS", 8)


@every_lazy
@settings(max_examples=200)
@given(data=st.data(), sides=windows(), threads=st.integers(1, 3))
def test_all_pairs_once(name, data, sides, threads):
    left, right = map(words_of, sides)
    given = left.copy(), right.copy()
    algorithm = make_lazy(name, threads, **data.draw(KNOBS[name]))
    pieces = algorithm.join(left, right)
    assert all(piece.probing == "right" for piece in pieces)
    assert np.array_equal(found(pieces), expected(left, right))
    assert np.array_equal(left, given[0])
    assert np.array_equal(right, given[1])


@every_lazy
@given(
    left=st.lists(st.sampled_from(EXTREMES), max_size=20),
    right=st.lists(st.one_of(st.integers(-1, 1), st.sampled_from(EXTREMES)), max_size=20),
)
@example(left=[-1, 0], right=[2**32 - 1, -1])  # one more than is exact
def test_keys_that_are_equal_are_among_what_is_found(name, left, right):
    left, right = np.array(left, np.int64), np.array(right, np.int64)
    words = encode(left, right)
    pairs = found(make_lazy(name, 2).join(words.left, words.right))
    true = packed(*np.nonzero(left[:, None] == right[None, :]))
    assert np.isin(true, pairs).all()
    assert np.array_equal(pairs, expected(words.left, words.right))
    if words.exact:
        assert np.array_equal(pairs, true)


@every_lazy
@pytest.mark.parametrize("threads", [1, 3])
def test_windows_with_an_empty_side_or_a_row_a_side(name, threads):
    algorithm, none = make_lazy(name, threads), words_of([])
    for code in (0, LAST):
        one = words_of([code])
        assert found(algorithm.join(none, one)).size == 0
        assert found(algorithm.join(one, none)).size == 0
        assert found(algorithm.join(one, one)).tolist() == [0]
        assert found(algorithm.join(one, words_of([code ^ 1, code]))).tolist() == [1]
        assert found(algorithm.join(one, words_of([code ^ 1]))).size == 0
    assert found(algorithm.join(none, none)).size == 0


LARGE = {
    "as many keys as rows": lambda random, size: random.integers(0, 2**32, size) >> 8 << 8,
    "few keys": lambda random, size: random.integers(0, 2000, size) * 2_147_483,
    "a key that is half of all": lambda random, size: np.where(
        random.random(size) < 0.5, 2**31, random.integers(2**31 - 2**20, 2**31 + 2**20, size)
    ),
}


@every_lazy
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("draw", LARGE.values(), ids=LARGE.keys())
def test_windows_that_fill_partitions_and_threads(name, threads, draw):
    random = np.random.default_rng(threads)
    left, right = words_of(draw(random, 50_000)), words_of(draw(random, 60_000))
    assert sum(map(len, make_lazy(name, threads).join(left, right))) == count_expected(left, right)
    some = right[:: right.size // 50].copy()
    pairs = found(make_lazy(name, threads).join(some, left))
    assert np.array_equal(pairs, expected(some, left))


@every_lazy
def test_an_algorithm_joins_one_window_after_another(name):
    algorithm = make_lazy(name, 2)
    random = np.random.default_rng(7)
    seconds = 0.0
    for size in (100, 1, 0, 300):
        left, right = words_of(random.integers(0, 50, size)), words_of(random.integers(0, 50, 99))
        assert np.array_equal(found(algorithm.join(left, right)), expected(left, right))
        assert sum(algorithm.seconds.values()) >= seconds
        seconds = sum(algorithm.seconds.values())
    assert set(algorithm.seconds) == {"partition", "build", "merge", "probe"}


@pytest.mark.parametrize("bits", [12, 14, 16, 18])
def test_more_bits_of_a_partition_and_its_table_than_a_code_has(bits):
    """A frequent key makes a large table in a partition; bits behind the code are not for it."""
    left = words_of(np.repeat([5, 6], 1 << 17))
    right = words_of([4, 5, 6, 7], first=2**31 - 5)
    pieces = make_lazy("prj", 2, bits=bits).join(left, right)
    assert sum(map(len, pieces)) == 1 << 18
    pieces = make_lazy("prj", 2, bits=bits).join(right, left)
    assert np.array_equal(found(pieces), expected(right, left))


@pytest.mark.parametrize("bits", [-1, 0, 19, 32, 64])
def test_bits_that_codes_do_not_have_are_refused(bits):
    with pytest.raises(StreamJoinError, match=f"bits={bits} cannot"):
        make_lazy("prj", bits=bits)


@given(sides=windows(), bits=st.integers(0, 8), threads=st.integers(1, 4))
def test_shares_cover_every_partition_once(sides, bits, threads):
    parts = [partitioning.partition(words_of(side), bits, 1) for side in sides]
    spans = cut_shares(*parts, threads)
    assert len(spans) <= max(SHARES * threads, 1)
    assert [part for first, last in spans for part in range(first, last)] == list(range(1 << bits))
