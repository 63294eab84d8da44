"""Windows that a nested loop can join, of codes that are hard on an algorithm; and that loop."""

from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from streamjoin.joins.equality.pieces import Piece

LAST = 2**32 - 1
HALF = np.uint64(32)
NO_ROWS = np.empty(0, np.int64)
SIZES = [0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200]  # around blocks of 64, and SMALL
CODES: dict[str, Sequence[int]] = {
    "one": [0x9D416B07],
    "nothing and all": [0, LAST],
    "edges": [0, 1, 2, LAST - 1, LAST],
    "one bucket": range(2**31, 2**31 + 3),
    "many in one bucket": range(2**31, 2**31 + 100),
    "first slot": [number << 24 for number in range(100)],  # of a table by the last bits
    "last slot": [LAST - (number << 24) for number in range(100)],
    "apart": range(0, 2**32, 2**25),
    "any": np.random.default_rng(1).integers(0, 2**32, 150).tolist(),
}
EXTREMES = [-(2**63), -(2**63) + 1, -(2**32), -1, 0, 1, 2**32 - 1, 2**32, 2**63 - 2, 2**63 - 1]


@st.composite
def windows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """The codes of both sides, of one kind; some codes may be much more frequent than others."""
    kind = np.array(CODES[draw(st.sampled_from(sorted(CODES)))], np.uint64)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    skewed = draw(st.booleans())

    def side() -> np.ndarray:
        size = draw(st.one_of(st.sampled_from(SIZES), st.integers(0, 12)))
        places = random.zipf(1.3, size) if skewed else random.integers(0, kind.size, size)
        codes: np.ndarray = kind[places % kind.size]
        return codes

    return side(), side()


def words_of(codes: Sequence[int] | np.ndarray, first: int = 0) -> np.ndarray:
    """Words with codes as they are, whose rows count from ``first``."""
    codes = np.asarray(codes, np.uint64)
    return codes << HALF | np.arange(first, first + codes.size, dtype=np.uint64)


def rows(words: np.ndarray) -> np.ndarray:
    return (words & np.uint64(LAST)).astype(np.int64)


def packed(left_rows: np.ndarray, right_rows: np.ndarray) -> np.ndarray:
    """Pairs of rows as numbers, ascending: a multiset that is quick to compare."""
    return np.sort(np.asarray(left_rows, np.int64) << 32 | np.asarray(right_rows, np.int64))


def expected(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The nested loop: all pairs of words with equal codes."""
    left_at, right_at = np.nonzero((left >> HALF)[:, None] == (right >> HALF)[None, :])
    return packed(rows(left)[left_at], rows(right)[right_at])


def count_expected(left: np.ndarray, right: np.ndarray) -> int:
    """How many pairs of words have equal codes; for windows that are too large for a loop."""
    codes, counts = np.unique(left >> HALF, return_counts=True)
    others, times = np.unique(right >> HALF, return_counts=True)
    _, at, to = np.intersect1d(codes, others, return_indices=True)
    return int((counts[at] * times[to]).sum())


def listed(piece: Piece, size: int = 1 << 18) -> np.ndarray:
    """All pairs of a piece, of which there are as many as it says."""
    blocks = list(piece.pairs(size))
    assert all(left.size == right.size > 0 for left, right in blocks)
    assert all(rows.dtype == np.int32 for block in blocks for rows in block)
    pairs = [np.concatenate(side) for side in zip(*blocks, strict=True)] or [NO_ROWS] * 2
    assert len(pairs[0]) == len(piece) == piece.matches.lengths.sum()
    assert piece.matches.lengths.size == piece.probes.size
    return packed(*pairs)


def found(pieces: Iterable[Piece], size: int = 1 << 18) -> np.ndarray:
    """All pairs of some pieces."""
    return np.sort(np.concatenate([NO_ROWS, *(listed(each, size) for each in pieces)]))
