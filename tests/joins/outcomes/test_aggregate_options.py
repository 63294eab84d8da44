"""What is no aggregate is refused, with the rule and the way out."""

from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj

LEFT = pa.table({"k": [1], "x": [1.0], "t": [1]})
RIGHT = pa.table({"k": [1], "x": [1.0], "t": [1], "flag": [True], "parts": [[1]]})


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        ({"n": "median(r.x)"}, "median is not computed here; there are count, sum, avg, min, max"),
        ({"n": "foo(r.x)"}, "foo is not computed here; there are count"),
        ({"n": "sum(sum(r.x))"}, "aggregate of an aggregate"),
        ({"n": "sum(r.x) + 1"}, "computes something from an aggregate"),
        ({"n": "abs(sum(r.x))"}, "computes something from an aggregate"),
        ({"n": "r.x"}, "is no aggregate; there are count, sum"),
        ({"n": "r.x + 1"}, "is no aggregate; there are count, sum"),
        ({"n": "count(distinct r.x)"}, "DISTINCT is not supported"),
        ({"n": "sum(r.x) filter (where r.x > 1)"}, "sum\\(case when"),
        ({"n": "sum(r.x) over ()"}, "OVER has no use"),
        ({"n": "first(r.x, true)"}, "NULL is a value like others"),
        ({"n": "count()"}, "takes one, such as count\\(r.bid\\) or count\\(\\*\\)"),
        ({"n": "sum(*)"}, "stands for no single value"),
        ({"n": "sum(r.nix)"}, "aggregate 'n': 'sum\\(r.nix\\)': the right input has no column"),
        ({"n": "sum(x)"}, "ambiguous"),
        ({"n": "sum(r.flag)"}, "sum of boolean is not defined"),
        ({"n": "max(r.parts)"}, "have no order here"),
        ({"x": "count(*)"}, "the left input has one already"),
        ({"n": ""}, "aggregate 'n': the expression is empty"),
        ({"n": "max(r.x) as m"}, "aggregate 'n': .* names its result"),
        ({"n": "median(r.x)"}, "Leave aggregate out, and compute it from the pairs"),
        ({"n": "first(r.x)"}, "goes by the time of right rows; pass the time columns"),
        ({}, "give a dict of columns and their aggregates"),
        (["count(*)"], "give a dict of columns and their aggregates"),
        ({"n": 1}, "give a dict of columns and their aggregates"),
    ],
)
def test_refusals(aggregate: Any, message: str) -> None:
    with pytest.raises(sj.StreamJoinError, match=message):
        sj.join_tables(LEFT, RIGHT, on="l.k = r.k", aggregate=aggregate)


def test_a_column_of_the_right_side_may_give_its_name() -> None:
    given = sj.join_tables(LEFT, RIGHT, on="l.k = r.k", aggregate={"flag": "max(r.flag)"})
    assert given.to_pylist() == [{"k": 1, "x": 1.0, "t": 1, "flag": True}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "right"}, "one row for each left row"),
        ({"how": "left_semi"}, "one row for each left row"),
        ({"keep": "first", "time": "t"}, "leave one of them out"),
        ({"indicator": True}, "gives no pairs"),
    ],
)
def test_options_that_contradict_each_other(options: Any, message: str) -> None:
    with pytest.raises(sj.StreamJoinError, match=message):
        sj.join_tables(LEFT, RIGHT, on="l.k = r.k", aggregate={"n": "count(*)"}, **options)


@pytest.mark.parametrize(
    ("on", "options", "words"),
    [
        (
            "l.k = r.k and abs(l.x - r.x) <= 2",
            {},
            "n, best: without looking at pairs, by prefix sums and trees\n"
            "             (right rows are sorted by groups of l.k = r.k, then l.x - r.x)",
        ),
        ("l.k = r.k", {"window": "1 s", "time": "t"}, "from pairs, a block at a time"),
        ("l.k = r.k", {"window": sj.TumblingWindow("1 s"), "time": "t"}, "sorted by groups of l.k"),
        ("l.k < r.k and l.x < r.x", {}, "cannot be sorted by l.k < r.k and l.x < r.x at once"),
        ("l.k = r.k and l.x + r.x > 3", {}, "l.x + r.x > 3 is checked for each of them"),
        ("l.k = r.k", {"aggregate": {"n": "sum(l.x)"}}, "is taken of left rows, too"),
    ],
)
def test_explain_says_how_aggregates_are_computed(on: str, options: Any, words: str) -> None:
    told = sj.explain(on, **{"aggregate": {"n": "count(*)", "best": "max(r.x)"}} | options)
    assert words in told


def test_constants_are_aggregated() -> None:
    aggregates = {"one": "count(1)", "none": "count(null)", "sum": "sum(2)", "max": "max('a')"}
    right = pa.table({"k": [1, 1]})
    for on in ("l.k = r.k", "l.k = r.k and l.k + r.k > 0"):
        given = sj.join_tables(LEFT.select(["k"]), right, on=on, aggregate=aggregates)
        assert given.to_pylist() == [{"k": 1, "one": 2, "none": 0, "sum": 4, "max": "a"}]


def test_matches_of_streams_cannot_be_left_in_place() -> None:
    join = sj.StreamJoin("l.k = r.k", "1 s", "t", aggregate={"n": "count(*)"})
    with pytest.raises(sj.StreamJoinError, match="aggregate="):
        join.find(LEFT, RIGHT)
