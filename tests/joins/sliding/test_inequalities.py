"""SPO-Join's answers: several inequalities and bands at once, in tables, with values of any kind.

Everything is tiny here, so that mutable parts are frozen, lists merged and subwindows sealed within
a few rows, and so that marks and scans both have their turn.
"""

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from math import nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import streamjoin as sj
from streamjoin.joins.sliding.two_key_subwindow import TwoKeySubwindow
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from tests.joins.sliding.several_ranges import (
    CONDITIONS,
    OPERATORS,
    SPO,
    conditions,
    every_value,
    nested_loop,
    random,
    streams,
    test_of,
    threads,
)
from tests.joins.sliding.several_ranges import tiny_parts as tiny_parts
from tests.joins.small_streams import (
    both,
    duckdb_pairs,
    pairs,
    run,
    table,
)
from tests.oracle import join_by_count, join_by_time


@pytest.mark.parametrize(("one", "other"), list(product(OPERATORS, OPERATORS)))
def test_every_two_operators(one, other):
    left, right = every_value(0), every_value(1000)
    text = f"l.a {one} r.a and l.x {other} r.x"
    predicate = both(test_of("a", one, "a"), test_of("x", other, "x"))
    expected = nested_loop(left, right, predicate)
    assert duckdb_pairs(text, left, right) == expected
    for count in (1, 2):
        found = sj.join_tables(table(left), table(right), on=text, threads=count, **SPO)
        assert pairs(found) == expected
    steps = [(left[:3], right[:40]), (left[3:7], []), (left[7:], right[40:])]
    join = sj.StreamJoin(text, sj.CountWindow(1000), threads=1, **SPO)
    assert run(join, steps)[0] == expected
    assert all(isinstance(held, TwoKeySubwindow) for held in join._state.engine.chains["left"])
    join = sj.StreamJoin(text, sj.CountWindow(20), threads=2, **SPO)
    assert run(join, steps)[0] == join_by_count(steps, predicate, 20, 20)


@pytest.mark.parametrize("extreme", [MIN_KEY, MIN_KEY + 1, MAX_KEY - 1, MAX_KEY])
@pytest.mark.parametrize("sign", OPERATORS)
def test_integers_at_their_ends(sign, extreme):
    values = [extreme, max(extreme - 1, MIN_KEY), min(extreme + 1, MAX_KEY), 0]
    rows = [{"id": place, "a": value, "b": place % 2} for place, value in enumerate(values * 2)]
    predicate = both(test_of("a", sign, "a"), test_of("b", "<=", "b"))
    text = f"l.a {sign} r.a and l.b <= r.b"
    found = sj.join_tables(table(rows), table(rows), on=text, **SPO)
    assert pairs(found) == nested_loop(rows, rows, predicate)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-128, 0, 127]),
        (pa.uint32(), [0, 1, 2**32 - 1]),
        (pa.float32(), [-0.0, 0.1, nan]),
        (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.51")]),
        (pa.date32(), [date(1969, 1, 1), date(1970, 1, 1), date(2024, 2, 29)]),
        (pa.timestamp("ns"), [datetime(1969, 1, 1), datetime(1970, 1, 1), datetime(2024, 1, 1)]),
    ],
    ids=str,
)
def test_ranges_of_any_type(kind, values):
    every = list(product(range(3), range(3))) * 2
    v, w = (pa.array([values[each[side]] for each in every], kind) for side in (0, 1))
    rows = pa.table({"id": range(len(every)), "v": v, "w": w})
    for sign, other in product(OPERATORS, ["<=", "<>"]):
        found = sj.join_tables(rows, rows, on=f"l.v {sign} r.v and l.w {other} r.w", **SPO)
        expected = Counter(
            (i, j)
            for (i, one), (j, two) in product(enumerate(every), repeat=2)
            if OPERATORS[sign](one[0], two[0]) and OPERATORS[other](one[1], two[1])
        )
        assert pairs(found) == expected


@pytest.mark.parametrize("wide", [1.1, 2.0**50 + 1, 1e300, 2**50 + 1, MAX_KEY - 4], ids=repr)
def test_rounded_composite_ranges_find_a_pair_once(wide):
    # Behind the hash of an equality, keys are rounded, and two ranges of a part may meet in one.
    near = wide + 3 if isinstance(wide, int) else wide * (1 + 2**-52)
    values = [wide, near, wide, 0 * wide]
    rows = pa.table({"id": range(4), "k": [1] * 4, "x": values, "y": values[::-1]})
    for signs in product(["<>", "<", ">="], repeat=2):
        text = "l.k = r.k and l.x {} r.x and l.y {} r.y".format(*signs)
        predicate = both(test_of("x", signs[0], "x"), test_of("y", signs[1], "y"))
        expected = nested_loop(rows.to_pylist(), rows.to_pylist(), predicate)
        assert pairs(sj.join_tables(rows, rows, on=text, **SPO)) == expected


@random
@given(sides=streams(), name=conditions, count=threads)
def test_tables(sides, name, count):
    text, predicate = CONDITIONS[name]
    found = sj.join_tables(*map(table, sides), on=text, threads=count, **SPO)
    assert pairs(found) == nested_loop(*sides, predicate) == duckdb_pairs(text, *sides)
    window = sj.TimeWindow(before=2, after=5)
    found = sj.join_tables(*map(table, sides), on=text, window=window, time="t", **SPO)
    assert pairs(found) == join_by_time(*sides, predicate, 2, 5)


@pytest.mark.parametrize("name", ["two", "equality", "residual", "two bands"])
def test_empty_inputs(name):
    text, predicate = CONDITIONS[name]
    some = every_value(0)
    for left, right in (([], []), (some, []), ([], some)):
        assert sj.join_tables(table(left), table(right), on=text, **SPO).num_rows == 0
    join = sj.StreamJoin(text, sj.CountWindow(1000), **SPO)
    nothing = [{"id": -1, "a": None, "x": None}]
    steps = [([], []), (some, []), (nothing, nothing), ([], []), ([], some)]
    assert run(join, steps)[0] == nested_loop(some, some, predicate)
    assert join.find(table([]), table([])).count() == 0


@pytest.mark.parametrize(
    ("on", "window", "has"),
    [
        ("l.a < r.a", None, 1),
        ("l.a < r.a", sj.CountWindow(5), 1),
        ("l.k = r.k", sj.CountWindow(5), 0),
        ("l.k = r.k", sj.TimeWindow(5), 1),
        ("l.k = r.k and abs(l.a - r.a) <= 1 and l.a + r.b > 1", sj.CountWindow(5), 1),
    ],
)
def test_one_range_part_is_too_few(on, window, has):
    rows = table(every_value(0))
    time = "t" if isinstance(window, sj.TimeWindow) else None

    def join():
        if window is None:
            return sj.join_tables(rows, rows, on=on, **SPO)
        return sj.StreamJoin(on, window, time=time, **SPO).push(rows, rows)

    with pytest.raises(sj.ConditionError) as error:
        join()
    for told in ("algorithm='spo_join'", on, f"has {has}, a TimeWindow counted", "'bi_sort'"):
        assert told in str(error.value)


def test_more_matches_than_memory_could_hold():
    low, high = (pa.table({"a": np.arange(n), "b": -np.arange(n)}) for n in (50_000, 50_001))
    high = pa.table({"a": high["a"].to_numpy() + 50_000, "b": high["b"].to_numpy() - 50_000})
    found = sj.find_matches(low, high, on="l.a < r.a and l.b > r.b")
    assert found.count() == 50_000 * 50_001
    first = [batch.num_rows for batch, _ in zip(found.to_reader(), range(5), strict=False)]
    assert 0 < min(first) <= max(first) <= 1 << 18


def test_matches_are_an_arrow_stream():
    table = pa.table({"a": [1, 2, 3], "b": [3, 2, 1]})
    found = sj.find_matches(table, table, on="l.a < r.a and l.b > r.b")
    read = pa.RecordBatchReader.from_stream(found).read_all()
    assert read.schema == found.schema
    assert sorted(zip(read["a"].to_pylist(), read["a_right"].to_pylist(), strict=True)) == [
        (1, 2),
        (1, 3),
        (2, 3),
    ]
