"""Every eager algorithm finds what a nested loop finds, however the rows come."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.errors import StreamJoinError
from streamjoin.indexes.catalogue import EAGER
from streamjoin.joins.equality.algorithms import make_eager
from streamjoin.joins.equality.eager import code_table, shj
from streamjoin.joins.equality.eager.pmj import PMJ
from streamjoin.joins.equality.lazy import partitioning
from streamjoin.joins.equality.words import NO_WORDS, make_words
from tests.joins.equality.small_windows import LAST, expected, found, windows, words_of

CUTS = st.lists(st.integers(0, 200), max_size=6)
DELTAS = st.one_of(st.integers(2, 9), st.sampled_from([64, 1 << 18]))
GROUPS = [
    (threads, group) for threads in (1, 2, 3, 4) for group in (1, 2, 3, 4) if threads % group == 0
]
every_eager = pytest.mark.parametrize("name", EAGER)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Let tables grow, pushes be cut and threads wake after a few rows."""
    monkeypatch.setattr(partitioning, "CHUNK_WORDS", 8)
    monkeypatch.setattr(code_table, "FEWEST_SLOTS", 2)
    monkeypatch.setattr(shj, "STEP_TUPLES", 50)
    monkeypatch.setattr(shj, "PART_TUPLES", 16)
    monkeypatch.setattr("streamjoin.kernels.threads.ALONE_TUPLES", 20)


@st.composite
def knobs(draw, name):
    threads, group = draw(st.sampled_from(GROUPS))
    return (
        {"threads": threads}
        | ({"group": group} if name.endswith("jb") else {})
        | ({"delta": draw(DELTAS)} if name.startswith("pmj") else {})
    )


def pushes(left, right, left_cuts, right_cuts):
    """Cut both sides anywhere; where one has no more parts, the other goes on alone."""
    cut = [
        np.split(side, sorted(min(at, side.size) for at in cuts))
        for side, cuts in ((left, left_cuts), (right, right_cuts))
    ]
    for number in range(max(map(len, cut))):
        yield tuple(parts[number] if number < len(parts) else NO_WORDS for parts in cut)


@every_eager
@settings(max_examples=200)
@given(data=st.data(), sides=windows(), left_cuts=CUTS, right_cuts=CUTS)
def test_any_pushes_give_the_same_pairs(name, data, sides, left_cuts, right_cuts):
    left, right = map(words_of, sides)
    given = left.copy(), right.copy()
    algorithm = make_eager(name, **data.draw(knobs(name)))
    pieces, had = [], []
    for step in pushes(left, right, left_cuts, right_cuts):
        new = algorithm.push(*step)
        had += [found([piece]) for piece in new]
        pieces += new
    pieces += algorithm.close()
    assert np.array_equal(found(pieces), expected(left, right))
    for piece, pairs in zip(pieces, had, strict=False):
        assert np.array_equal(found([piece]), pairs)  # though rows came after it
    assert np.array_equal(left, given[0])
    assert np.array_equal(right, given[1])


@every_eager
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("first", ["left", "right"])
def test_one_side_comes_long_before_the_other(name, threads, first):
    random = np.random.default_rng(threads)
    early, late = words_of(random.integers(0, 40, 300)), words_of(random.integers(0, 40, 30))
    knobs = {"delta": 16} if name.startswith("pmj") else {}
    algorithm = make_eager(name, threads, **knobs)
    pieces = []
    for part in [*np.array_split(early, 30), NO_WORDS, NO_WORDS]:
        assert algorithm.push(*((part, NO_WORDS) if first == "left" else (NO_WORDS, part))) == []
    for part in np.array_split(late, 5):
        pieces += algorithm.push(*((NO_WORDS, part) if first == "left" else (part, NO_WORDS)))
        pieces += algorithm.push(NO_WORDS, NO_WORDS)
    pieces += algorithm.close()
    assert np.array_equal(
        found(pieces), expected(*((early, late) if first == "left" else (late, early)))
    )
    assert algorithm.nbytes >= 8 * (early.size + late.size)


@every_eager
@pytest.mark.parametrize("threads", [1, 3])
def test_a_window_without_rows_or_without_those_of_a_side(name, threads):
    assert make_eager(name, threads).close() == []
    for left, right in (
        (NO_WORDS, NO_WORDS),
        (words_of([0, LAST]), NO_WORDS),
        (NO_WORDS, words_of([0])),
    ):
        algorithm = make_eager(name, threads)
        assert algorithm.push(left, right) == []
        assert algorithm.push(NO_WORDS, NO_WORDS) == []
        assert algorithm.close() == []


@every_eager
def test_one_row_at_a_time(name):
    codes = [0, LAST, 0, 1, LAST, LAST, 1, 0, 2]
    for knobs in (
        {},
        {"threads": 3},
        {"threads": 4} | ({"group": 2} if name.endswith("jb") else {}),
    ):
        algorithm, pieces = make_eager(name, **knobs), []
        for row, code in enumerate(codes):
            pieces += algorithm.push(words_of([code], row), NO_WORDS)
            pieces += algorithm.push(NO_WORDS, words_of([codes[-row]], row))
        pieces += algorithm.close()
        right = words_of([codes[-row] for row in range(len(codes))])
        assert np.array_equal(found(pieces), expected(words_of(codes), right))


@every_eager
def test_matches_come_as_soon_as_they_can(name):
    knobs = {"delta": 4} if name.startswith("pmj") else {}
    algorithm = make_eager(name, 1, **knobs)
    assert found(algorithm.push(words_of([7, 8]), words_of([8, 9]))).tolist() == [1 << 32]


@every_eager
def test_keys_pushed_as_words(name):
    random = np.random.default_rng(8)
    keys = [random.integers(-20, 20, 400) << 40, random.integers(-20, 20, 300) << 40]
    algorithm = make_eager(name, 2, **({"delta": 100} if name.startswith("pmj") else {}))
    pieces, sides = [], []
    for first in range(0, 400, 37):
        step = [make_words(side[first : first + 37], first=first)[0] for side in keys]
        pieces += algorithm.push(*step)
        sides.append(step)
    pieces += algorithm.close()
    left, right = (np.concatenate(side) for side in zip(*sides, strict=True))
    pairs = found(pieces)
    assert np.array_equal(pairs, expected(left, right))
    assert (keys[0][pairs >> 32] == keys[1][pairs & LAST]).all()


@every_eager
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_rows_for_all_threads(name, threads):
    random = np.random.default_rng(threads)
    left = words_of(random.zipf(1.5, 3000) % 2000 * 2_147_483)
    right = words_of(random.integers(0, 2000, 3000) * 2_147_483)
    algorithm = make_eager(name, threads, **({"delta": 1000} if name.startswith("pmj") else {}))
    pieces = []
    for step in zip(np.array_split(left, 7), np.array_split(right, 7), strict=True):
        pieces += algorithm.push(*step)
    pieces += algorithm.close()
    assert np.array_equal(found(pieces), expected(left, right))
    assert set(algorithm.seconds) == {"partition", "build", "merge", "probe"}


@pytest.mark.parametrize("name", ["shj_jb", "pmj_jb"])
@pytest.mark.parametrize(("threads", "group"), [(3, 2), (2, 4), (4, 0), (4, -1)])
def test_groups_that_threads_cannot_make_are_refused(name, threads, group):
    with pytest.raises(StreamJoinError, match=f"group={group} cores"):
        make_eager(name, threads, group=group)


@given(
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    delta=st.integers(2, 8),
    gap=st.integers(1, 3),
)
def test_runs_that_did_not_come_together_are_joined_at_the_end(sizes, delta, gap):
    """Of one code, so any two runs have pairs; of a core that has every second or third row."""
    core, pieces, ends = PMJ(delta), [], np.cumsum([(0, 0), *sizes], axis=0)
    left, right = (words_of(np.full(gap * size, 7))[::gap].copy() for size in ends[-1])
    for (left_from, right_from), (left_to, right_to) in pairwise(ends):
        pieces += core.push(left[left_from:left_to], right[right_from:right_to])
    pieces += core.close()
    assert np.array_equal(found(pieces), expected(left, right))
