"""Aggregates over the matches of left rows, against DuckDB."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.outcomes.aggregates import reduction
from tests.joins.outcomes.aggregate_cases import (
    AGGREGATES,
    CONDITIONS,
    WITH_LEFT,
    ask_duckdb,
    make_rows,
)


@pytest.fixture(params=["ranges", "pairs"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compute over ranges where that is possible, or always over pairs."""
    if request.param == "pairs":
        monkeypatch.setattr(reduction, "gives_ranges", lambda plan: False)
    return request.param


def is_same(expected: Any, given: Any) -> bool:
    if expected is None or given is None:
        return expected is given
    if isinstance(expected, float):
        if np.isnan(expected) or np.isinf(expected):
            return str(expected) == str(given)
        return given == pytest.approx(expected, rel=1e-12, abs=1e-12)
    return expected == given


def check(
    left: pa.Table, right: pa.Table, on: str, aggregates: dict[str, str], how: str, **options: Any
) -> int:
    given = sj.join_tables(left, right, on=on, how=how, aggregate=aggregates, time="t", **options)
    expected = ask_duckdb(left, right, on, aggregates, how)
    assert given.column_names == [*left.column_names, *aggregates]
    assert sorted(given["id"].to_pylist()) == sorted(expected)
    lefts = {row["id"]: row for row in left.to_pylist()}
    for row in given.to_pylist():
        own = lefts[row["id"]]
        assert {name: str(row[name]) for name in own} == {name: str(own[name]) for name in own}
        for (name, text), answer in zip(aggregates.items(), expected[row["id"]], strict=True):
            if name == "avg_d" and answer is not None:
                place = list(aggregates).index("sum_d"), list(aggregates).index("avg_d")
                total = expected[row["id"]][place[0]]
                count = round(float(total) / answer) if total else None
                exact = answer if count is None else total / count
                answer = Decimal(exact).quantize(Decimal("0.000001"), ROUND_HALF_UP)
            assert is_same(answer, row[name]), (on, text, row["id"], answer, row[name])
    return given.num_rows


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("on", CONDITIONS)
def test_aggregates_against_duckdb(on: str, how: str, way: str) -> None:
    rng = np.random.default_rng([len(on), how == "left"])
    seen = 0
    for sizes in [(30, 40), (5, 60), (60, 5), (20, 0), (0, 20)]:
        left, right = (make_rows(rng, size) for size in sizes)
        seen += check(left, right, on, AGGREGATES, how, threads=1 + seen % 2)
    assert seen


@pytest.mark.parametrize("on", CONDITIONS)
def test_aggregates_of_both_rows(on: str) -> None:
    rng = np.random.default_rng(len(on))
    left, right = make_rows(rng, 40), make_rows(rng, 50)
    check(left, right, on, WITH_LEFT, "left")


def test_more_rows_than_fit_into_a_block_or_a_slice(way: str) -> None:
    rng = np.random.default_rng(5)
    left, right = make_rows(rng, 5_000), make_rows(rng, 700)
    chosen = {name: AGGREGATES[name] for name in ("n", "sum_b", "avg_x", "min_s", "last_x")}
    check(left, right, "l.k = r.k and l.b <= r.b", chosen, "left", threads=2)


def test_types_are_those_of_spark() -> None:
    left = pa.table({"k": [1]})
    right = pa.table(
        {
            "k": [1],
            "small": pa.array([3], pa.int8()),
            "unsigned": pa.array([3], pa.uint64()),
            "single": pa.array([0.5], pa.float32()),
            "price": pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
            "long": pa.array([Decimal("1.25")], pa.decimal128(38, 10)),
            "text": ["7"],
            "took": pa.array([5], pa.duration("us")),
            "day": pa.array([5], pa.date32()),
        }
    )
    expected = {
        "count(r.text)": pa.int64(),
        "sum(r.small)": pa.int64(),
        "avg(r.small)": pa.float64(),
        "max(r.small)": pa.int8(),
        "sum(r.unsigned)": pa.decimal128(30, 0),
        "sum(r.single)": pa.float64(),
        "max(r.single)": pa.float32(),
        "sum(r.price)": pa.decimal128(15, 2),
        "avg(r.price)": pa.decimal128(9, 6),
        "sum(r.long)": pa.decimal128(38, 10),
        "avg(r.long)": pa.decimal128(38, 14),
        "sum(r.text)": pa.float64(),
        "max(r.text)": pa.string(),
        "sum(r.took)": pa.duration("us"),
        "avg(r.took)": pa.duration("us"),
        "min(r.day)": pa.date32(),
        "sum(null)": pa.float64(),
    }
    aggregates = {f"a{place}": text for place, text in enumerate(expected)}
    given = sj.join_tables(left, right, on="l.k = r.k", aggregate=aggregates)
    assert dict(zip(expected, given.schema.types[1:], strict=True)) == expected
    assert given.schema.field("a0").nullable is False
    assert given.schema.field("a1").nullable is True
    answers = dict(zip(expected, list(given.to_pylist()[0].values())[1:], strict=True))
    assert answers["sum(r.text)"] == 7.0
    assert answers["avg(r.long)"] == Decimal("1.25")
    assert answers["sum(null)"] is None


def test_nothing_matches() -> None:
    left, right = pa.table({"k": [1, None]}), pa.table({"k": [2], "x": [1.0]})
    aggregates = {"n": "count(*)", "m": "count(r.x)", "s": "sum(r.x)"}
    given = sj.join_tables(left, right, on="l.k = r.k", how="left", aggregate=aggregates)
    assert given.sort_by("k").to_pylist() == [
        {"k": 1, "n": 0, "m": 0, "s": None},
        {"k": None, "n": 0, "m": 0, "s": None},
    ]
    given = sj.join_tables(left, right, on="l.k = r.k", aggregate=aggregates)
    assert given.num_rows == 0
    assert given.column_names == ["k", "n", "m", "s"]


def test_only_rows_that_match_are_evaluated(way: str) -> None:
    left, right = pa.table({"k": [1]}), pa.table({"k": [1, 2], "x": [4, 0]})
    aggregates = {"s": "sum(12 div r.x)"}
    given = sj.join_tables(left, right, on="l.k = r.k", aggregate=aggregates)
    assert given["s"].to_pylist() == [3]
    with pytest.raises(sj.StreamJoinError, match=r"12 DIV r\.x"):
        sj.join_tables(pa.table({"k": [2]}), right, on="l.k = r.k", aggregate=aggregates)


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        ([2**63 - 1, 1], pa.int64(), "sum(r.x)"),
        ([-(2**63), -1], pa.int64(), "sum(r.x)"),
        ([Decimal(10**38 - 1), Decimal(1)], pa.decimal128(38, 0), "sum(r.x)"),
        ([Decimal(10**37)], pa.decimal128(38, 0), "avg(r.x)"),
        ([2**63 - 1, 1], pa.duration("us"), "sum(r.x)"),
    ],
)
def test_sums_that_do_not_fit(values: list[Any], kind: pa.DataType, text: str, way: str) -> None:
    left = pa.table({"k": [1]})
    if pa.types.is_duration(kind):
        right = pa.table({"k": [1] * len(values), "x": pa.array(values, pa.int64()).view(kind)})
    else:
        right = pa.table({"k": [1] * len(values), "x": pa.array(values, kind)})
    with pytest.raises(sj.EvaluationError, match="does not fit"):
        sj.join_tables(left, right, on="l.k = r.k", aggregate={"s": text})


def test_large_integers_are_exact(way: str) -> None:
    right = pa.table({"k": [1, 1, 1, 1], "x": [2**63 - 1, 2**63 - 1, -(2**63), -(2**63)]})
    aggregates = {"s": "sum(r.x)", "a": "avg(r.x)", "lo": "min(r.x)", "hi": "max(r.x)"}
    given = sj.join_tables(pa.table({"k": [1]}), right, on="l.k = r.k", aggregate=aggregates)
    assert given.to_pylist() == [{"k": 1, "s": -2, "a": -0.5, "lo": -(2**63), "hi": 2**63 - 1}]


def test_first_and_last_of_equal_times_go_by_columns(way: str) -> None:
    left = pa.table({"k": [1], "t": [0]})
    right = pa.table(
        {
            "k": [1, 1, 1, 1, 1],
            "a": ["y", None, "x", "x", "z"],
            "b": [1.0, 2.0, 4.0, 3.0, None],
            "t": [5, 5, 5, 5, 4],
        }
    )
    aggregates = {"first": "first(r.b)", "last": "last(r.b)", "last_a": "last(r.a)"}
    given = sj.join_tables(left, right, on="l.k = r.k", aggregate=aggregates, time="t")
    assert given.to_pylist() == [{"k": 1, "t": 0, "first": None, "last": 2.0, "last_a": None}]


def test_rows_without_a_time_come_after_all_others(way: str) -> None:
    left = pa.table({"k": [1, 2], "t": [0, 0]})
    right = pa.table({"k": [1, 1, 2], "b": [1, 2, 3], "t": [None, 7, None]})
    aggregates = {"first": "first(r.b)", "last": "last(r.b)"}
    given = sj.join_tables(left, right, on="l.k = r.k", aggregate=aggregates, time="t")
    assert given["first"].to_pylist() == given["last"].to_pylist() == [2, 3]


def test_a_band_with_an_equality_compares_exactly(way: str) -> None:
    """Values that share a hash prefix or a rounded key in an index are not taken for equal."""
    far = 2**60
    left = pa.table({"k": [1], "x": [far]})
    right = pa.table({"k": [1, 1, 1], "x": [far - 1, far, far + 1]})
    given = sj.join_tables(
        left, right, on="l.k = r.k and l.x < r.x", aggregate={"n": "count(*)", "m": "min(r.x)"}
    )
    assert given.to_pylist() == [{"k": 1, "x": far, "n": 1, "m": far + 1}]


def test_an_equality_of_a_single_value_rules_left_rows_out(way: str) -> None:
    left = pa.table({"a": [1, 2, 1], "b": [5, 5, 6]})
    right = pa.table({"a": [1, 1], "b": [5, 7]})
    aggregates = {"n": "count(*)"}
    given = sj.join_tables(left, right, on="l.a = r.a and l.b = r.b", aggregate=aggregates)
    assert given.to_pylist() == [{"a": 1, "b": 5, "n": 1}]


def test_find_matches_gives_the_same() -> None:
    rng = np.random.default_rng(3)
    left, right = make_rows(rng, 50), make_rows(rng, 50)
    asked = {"n": "count(*)", "sum": "sum(r.b)"}
    for on in ("l.k = r.k", "l.k = r.k and l.b + r.b > 3"):
        found = sj.find_matches(left, right, on=on, how="left", aggregate=asked)
        table = sj.join_tables(left, right, on=on, how="left", aggregate=asked)
        assert found.count() == table.num_rows == 50
        rows = found.to_table().sort_by("id").to_pylist()
        assert str(rows) == str(table.sort_by("id").to_pylist())


@pytest.mark.parametrize("algorithm", ["scan", "npj", "prj", "bi_sort"])
def test_algorithms_do_not_matter(algorithm: str) -> None:
    rng = np.random.default_rng(11)
    left, right = make_rows(rng, 30), make_rows(rng, 30)
    check(left, right, "l.k = r.k and l.b + r.b > 3", AGGREGATES, "left", algorithm=algorithm)
