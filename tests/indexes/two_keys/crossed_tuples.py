"""Tuples with two keys, the orders that an index by both wants them in, and a nested loop."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from streamjoin.indexes.two_keys.crossing import Crossing
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

Range = tuple[int, int, int, int]
Pairs = Counter[tuple[int, int]]  # (probe, row)

KEYS = st.sampled_from([MIN_KEY, MIN_KEY + 1, -2, -1, 0, 1, 2, MAX_KEY - 1, MAX_KEY])
TUPLES = st.lists(st.tuples(KEYS, KEYS), max_size=40)
RANGES = st.lists(st.tuples(KEYS, KEYS, KEYS, KEYS), max_size=20)  # lower, upper, lower, upper


def columns(tuples: Sequence[tuple[int, ...]], width: int = 2) -> np.ndarray:
    return np.array(tuples, np.int64).reshape(-1, width).T.copy()


def orders(first: Any, second: Any, rows: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Both keys in ascending order, each with the rows they belong to."""
    given = [np.asarray(each, np.int64) for each in (first, second)]
    places = [np.argsort(keys, kind="stable") for keys in given]
    rows = np.asarray(rows, np.int32)
    return [(keys[order], rows[order]) for keys, order in zip(given, places, strict=True)]


def asked(
    ranges: Sequence[Range],
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """What `probe` takes: ranges of the first key ascending, those of the second as they are."""
    low, high, start, stop = columns(ranges, 4)
    numbers = np.argsort(low, kind="stable").astype(np.int32)
    return (low[numbers], high[numbers]), numbers, (start, stop)


def expected(stored: Iterable[tuple[int, int, int]], ranges: Sequence[Range]) -> Pairs:
    """The (probe, row) pairs of ``stored``, which are (first key, second key, row)."""
    return Counter(
        (probe, row)
        for probe, (low, high, start, stop) in enumerate(ranges)
        for first, second, row in stored
        if low <= first <= high and start <= second <= stop
    )


def forced(crossing: Any, scans: bool) -> Any:
    """The same crossing, which scans or marks whatever that costs."""
    if isinstance(crossing, Crossing):
        crossing.__dict__["scans"] = scans
    return crossing


def listed(matches: Any, size: int = 1 << 18, names: np.ndarray | None = None) -> Pairs:
    """All pairs of some matches, whose numbers agree with what they count."""
    pairs: Pairs = Counter()
    most = max(size, 1024, getattr(matches, "rows", np.empty(0)).size)
    for probes, rows in matches.blocks(size, names):
        assert probes.dtype == rows.dtype == np.int32
        assert 0 < probes.size == rows.size <= most
        pairs.update(zip(probes.tolist(), rows.tolist(), strict=True))
    assert pairs.total() == len(matches) == matches.lengths.sum()
    if names is None:
        counts = Counter(probe for probe, _ in pairs.elements())
        assert matches.lengths.tolist() == [counts[i] for i in range(matches.lengths.size)]
    return pairs


def found(index: Any, ranges: Sequence[Range], scans: bool | None = None) -> Pairs:
    """Every pair that a probe of an index gives, as a multiset."""
    pairs: Pairs = Counter()
    for matches in index.probe(*asked(ranges)):
        pairs += listed(matches if scans is None else forced(matches, scans))
    return pairs
