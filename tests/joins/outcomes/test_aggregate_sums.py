"""Sums and their kernels: exact fractions and NumPy tell what is right."""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.outcomes.aggregates import reduction
from streamjoin.joins.outcomes.aggregates.extremes import (
    Extremes,
    RankedExtremes,
    encode_total,
    values_of,
)
from streamjoin.joins.outcomes.aggregates.ranges import search_groups, sort_by_group
from streamjoin.joins.outcomes.aggregates.row_ranks import rank_rows
from streamjoin.joins.outcomes.aggregates.states import Counts, number_runs
from streamjoin.joins.outcomes.aggregates.sums import DoubleSums, WholeSums, add_twice, combine

ORDINARY = st.floats(-1e12, 1e12).map(lambda value: value if abs(value) > 1e-3 else 0.0)


def round_sum(values: list[float]) -> float:
    return float(sum(map(Fraction, values), Fraction(0)))


def every(places: Any) -> Any:
    return np.arange(places.size, dtype=np.int32)


def make_ranges(rng: np.random.Generator, rows: int, size: int) -> tuple[Any, Any]:
    ends = np.sort(rng.integers(0, rows + 1, (2, size)), axis=0)
    return ends[0].copy(), ends[1].copy()


@pytest.mark.parametrize("way", ["ranges", "pairs"])
@settings(max_examples=60, deadline=None)
@given(values=st.lists(ORDINARY, min_size=1, max_size=60), seed=st.integers(0, 100))
def test_sums_of_doubles_are_right_to_the_last_digit(
    values: list[float], seed: int, way: str
) -> None:
    rng = np.random.default_rng(seed)
    starts, ends = make_ranges(rng, len(values), 20)
    sums = DoubleSums(20)
    array = pa.array(values)
    if way == "ranges":
        sums.add_ranges(sums.index(array), starts, ends, every(starts))
    else:
        pairs = [(place, at) for place in range(20) for at in range(starts[place], ends[place])]
        rng.shuffle(pairs)
        places, rows = (np.array([pair[each] for pair in pairs], np.int64) for each in (0, 1))
        sums.add_pairs(places, array.take(pa.array(rows)))
    for place in range(20):
        chosen = values[starts[place] : ends[place]]
        assert sums.totals[place] == round_sum(chosen)
        assert sums.counts[place] == len(chosen)


def test_sums_do_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=10_000) * 10.0 ** rng.integers(-12, 12, 10_000)
    totals = set()
    for _ in range(5):
        sums = DoubleSums(1)
        rng.shuffle(values)
        sums.add_pairs(np.zeros(values.size, np.int32), pa.array(values))
        totals.add(sums.totals[0])
    assert totals == {round_sum(values.tolist())}


@pytest.mark.parametrize("outside", [1e300, float("inf"), float("nan"), -1e300])
def test_what_is_outside_a_range_does_not_matter(outside: float) -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=200)
    values[[50, 120]] = outside
    sums = DoubleSums(3)
    starts, ends = np.array([0, 51, 121]), np.array([50, 120, 200])
    sums.add_ranges(sums.index(pa.array(values)), starts, ends, every(starts))
    expected = [round_sum(values[a:b].tolist()) for a, b in zip(starts, ends, strict=True)]
    assert sums.totals.tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([float("inf"), 1.0], float("inf")),
        ([1.0, float("-inf"), 5.0, 2.0], float("-inf")),
        ([float("inf"), 2.0, float("-inf")], float("nan")),
        ([1.0, float("nan"), float("inf")], float("nan")),
        ([1e308, 1e308], float("inf")),
        ([-0.0], 0.0),
        ([], 0.0),
    ],
)
def test_infinities_and_nan(values: list[float], expected: float) -> None:
    array = pa.array(values, pa.float64())
    over_ranges, over_pairs = DoubleSums(1), DoubleSums(1)
    ends = np.array([len(values)])
    over_ranges.add_ranges(over_ranges.index(array), np.array([0]), ends, every(ends))
    over_pairs.add_pairs(np.zeros(len(values), np.int32), array)
    merged = DoubleSums(1)
    merged.merge(over_pairs, np.array([0]))
    for sums in (over_ranges, over_pairs, merged):
        assert str(float(sums.totals[0])) == str(expected)


@settings(max_examples=200, deadline=None)
@given(a=ORDINARY, b=ORDINARY, c=st.floats(-1e-5, 1e-5), d=st.floats(-1e-5, 1e-5))
def test_additions_of_twice_the_precision(a: float, b: float, c: float, d: float) -> None:
    one, other = add_twice(a, 0.0, c, 0.0), add_twice(b, 0.0, d, 0.0)
    high, low = add_twice(*one, *other)
    exact = sum(map(Fraction, (*one, *other)), Fraction(0))
    assert abs(Fraction(float(high)) + Fraction(float(low)) - exact) <= abs(exact) / 2**100
    assert high + low == high


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.decimal128(18, 2), pa.decimal128(38, 0), pa.duration("us")]
)
def test_whole_sums_are_exact(kind: pa.DataType) -> None:
    rng = np.random.default_rng(4)
    most = 10**38 - 1 if kind == pa.decimal128(38, 0) else 10**18 - 1
    bound = most if pa.types.is_decimal(kind) else 2**63 - 1
    numbers = [int(rng.integers(-(2**62), 2**62)) ** 3 % (2 * bound) - bound for _ in range(300)]
    numbers += [bound, -bound] * 20
    if pa.types.is_decimal(kind):
        low = np.array([each & (2**64 - 1) for each in numbers], np.uint64)
        high = np.array([each >> 64 for each in numbers], np.int64)
        words = np.stack([low.view(np.int64), high], axis=1).tobytes()
        array = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(words)])
    else:
        array = pa.array(numbers, pa.int64()).view(kind)
    starts, ends = make_ranges(rng, len(numbers), 50)
    over_ranges, over_pairs = WholeSums(50, kind), WholeSums(50, kind)
    over_ranges.add_ranges(over_ranges.index(array), starts, ends, every(starts))
    places = np.repeat(np.arange(50), ends - starts)
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    over_pairs.add_pairs(places, array.take(pa.array(rows)))
    merged = WholeSums(50, kind)
    half = WholeSums(50, kind)
    merged.merge(over_pairs, np.arange(50))
    merged.merge(half, np.arange(50))
    expected = [sum(numbers[a:b]) for a, b in zip(starts, ends, strict=True)]
    for sums in (over_ranges, over_pairs, merged):
        assert sums.totals.tolist() == expected
        assert sums.counts.tolist() == (ends - starts).tolist()


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, 0, -1])
def test_chunks_are_put_together(edge: int) -> None:
    chunks = np.array([[edge & 0xFFFFFFFF], [edge >> 32]])
    assert combine(chunks).tolist() == [edge]
    assert (combine(chunks).dtype == object) == (not -(2**63) <= edge < 2**63)
    wide = np.array([[edge & 0xFFFFFFFF], [edge >> 32 & 0xFFFFFFFF], [edge >> 64], [0]])
    wide[3] = wide[2] >> 32
    wide[2] &= 0xFFFFFFFF
    assert combine(wide).tolist() == [edge]
    assert (combine(wide).dtype == object) == (not -(2**63) <= edge < 2**63)


@pytest.mark.parametrize("is_least", [True, False])
@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.float32(), pa.timestamp("ns"), pa.date32(), pa.string(), pa.bool_()]
)
def test_extremes(kind: pa.DataType, is_least: bool) -> None:
    rng = np.random.default_rng(6)
    numbers = rng.integers(0, 2 if pa.types.is_boolean(kind) else 9, 100)
    array = pa.array([None if each == 5 else int(each) for each in numbers], pa.int64())
    array = array.cast(pa.int32()).cast(kind) if kind == pa.date32() else array.cast(kind)
    made = RankedExtremes if pa.types.is_string(kind) else Extremes
    starts, ends = make_ranges(rng, 100, 40)
    over_ranges, over_pairs, merged = (made(40, kind, is_least) for _ in range(3))
    over_ranges.add_ranges(over_ranges.index(array), starts, ends, every(starts))
    places = np.repeat(np.arange(40), ends - starts)
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    for first in range(0, places.size, 100):
        part = slice(first, first + 100)
        over_pairs.add_pairs(places[part], array.take(pa.array(rows[part])))
    merged.merge(over_pairs, np.arange(40))
    choose = min if is_least else max
    expected = [
        choose((each for each in array[a:b].to_pylist() if each is not None), default=None)
        for a, b in zip(starts, ends, strict=True)
    ]
    for extremes in (over_ranges, over_pairs, merged):
        assert extremes.values().type == kind
        assert extremes.values().to_pylist() == expected


def test_keys_lead_back_to_values() -> None:
    doubles = pa.array([float("-inf"), -1.5, -0.0, 0.0, 1e-320, 2.0, float("inf"), float("nan")])
    keys = encode_total(doubles)
    assert (np.diff(keys) > 0).all()
    none = np.zeros(8, np.bool_)
    assert str(values_of(keys, none, pa.float64()).to_pylist()) == str(doubles.to_pylist())


def test_groups_against_numpy() -> None:
    rng = np.random.default_rng(7)
    groups, keys = rng.integers(0, 5, 200), rng.integers(0, 30, 200)
    by_key = np.argsort(keys, kind="stable").astype(np.int32)
    order, firsts = sort_by_group(groups, by_key, 6)
    assert order.tolist() == np.lexsort((np.arange(200), keys, groups)).tolist()
    wanted, lower = rng.integers(-1, 6, 100), rng.integers(-3, 33, 100)
    upper = lower + rng.integers(-2, 8, 100)
    starts, ends = np.empty(100, np.int64), np.empty(100, np.int64)
    search_groups(every(wanted), wanted, firsts, keys[order], lower, upper, starts, ends)
    for place in range(100):
        found = order[starts[place] : ends[place]]
        inside = (groups == wanted[place]) & (keys >= lower[place]) & (keys <= upper[place])
        assert sorted(found.tolist()) == np.flatnonzero(inside).tolist()


def test_runs_are_numbered() -> None:
    runs, lefts = number_runs(np.array([4, 4, 2, 4, 4, 4], np.int32))
    assert (runs.tolist(), lefts.tolist()) == ([0, 0, 1, 2, 2, 2], [4, 2, 4])
    whole, part = Counts(5), Counts(3)
    part.add_pairs(runs, None)
    whole.merge(part, lefts)
    assert whole.counts.tolist() == [0, 0, 1, 0, 5]


def test_ranks_of_rows() -> None:
    rows = pa.RecordBatch.from_pydict({"a": ["b", "x", "a", "b"], "b": [None, 1, 2, 0]})
    ranks, order = rank_rows(np.array([5, 3, 5, 5]), rows)
    assert (ranks.tolist(), order.tolist()) == ([2, 0, 1, 3], [1, 2, 0, 3])
    ranks, order = rank_rows(np.array([5, 3, 5, 5]), rows.select(["a"]))
    assert (ranks.tolist(), order.tolist()) == ([2, 0, 1, 2], [1, 2, 0, 3])
    ranks, order = rank_rows(np.array([5, 3, 8, 4]), rows)
    assert (ranks.tolist(), order.tolist()) == ([2, 0, 3, 1], [1, 3, 0, 2])


def test_ranges_and_pairs_give_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    left = pa.table({"k": rng.integers(0, 20, 300), "x": rng.normal(size=300)})
    right = pa.table({"k": rng.integers(0, 20, 4_000), "x": rng.normal(size=4_000) * 1e6})
    on = "l.k = r.k and abs(l.x - r.x) <= 1e6"
    aggregates = {"sum": "sum(r.x)", "avg": "avg(r.x)"}
    one = sj.join_tables(left, right, on=on, how="left", aggregate=aggregates)
    monkeypatch.setattr(reduction, "gives_ranges", lambda plan: False)
    other = sj.join_tables(left, right, on=on, how="left", aggregate=aggregates)
    assert one.sort_by("x").to_pylist() == other.sort_by("x").to_pylist()
