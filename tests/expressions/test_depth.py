"""A thousand brackets, functions or ORs are read; more are refused by name."""

import sys

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import ConditionError
from streamjoin.expressions.depth import MOST_LEVELS

TABLE = pa.table({"x": [1, 2, 3], "s": ["a", "b", "c"]})


def nested(shape: str, levels: int) -> str:
    before, after = shape.split("*")
    return before * levels + "l.x" + after * levels + " = r.x"


@pytest.mark.parametrize("shape", ["(*)", "abs(*)"])
def test_a_thousand_levels_are_read(shape: str) -> None:
    limit = sys.getrecursionlimit()
    joined = sj.join_tables(TABLE, TABLE, on=nested(shape, MOST_LEVELS))
    assert joined["x"].to_pylist() == joined["x_right"].to_pylist()
    assert joined.num_rows == 3
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("shape", ["(*)", "abs(*)", "(case when l.x > 0 then * else 0 end)"])
def test_more_levels_are_refused_by_name(shape: str) -> None:
    with pytest.raises(ConditionError, match=r"nested 1,001 levels deep, and at most 1,000"):
        sj.StreamJoin(on=nested(shape, MOST_LEVELS + 1), window=sj.CountWindow(1))
    with pytest.raises(ConditionError, match="levels deep"):
        sj.StreamJoin(on="l.x = " + "- " * 20_000 + "r.x", window=sj.CountWindow(1))


@pytest.mark.parametrize(
    ("on", "rows"),
    [
        (nested("case when true then * end", 100), 3),
        (" or ".join(f"l.x = r.x + {shift}" for shift in range(1, 201)), 3),
        (" or ".join(["l.x = r.x"] * 1000), 3),
        ("l.s = r.s and (" + " or ".join(f"l.x = {n} + length(r.s)" for n in range(200)) + ")", 3),
        ("l.x = r.x and " + " and ".join(f"l.x + length(r.s) > {-n}" for n in range(200)), 3),
        ("not " * 1001 + "l.x <> r.x", 3),
        ("l.x = r.x" + " + 0" * 300, 3),
    ],
)
def test_a_chain_is_as_long_as_one_likes(on: str, rows: int) -> None:
    assert sj.join_tables(TABLE, TABLE, on=on).num_rows == rows


def test_the_order_of_operands_guards_what_follows() -> None:
    table = pa.table({"x": [0, 1, 2]})
    guards = " and ".join(["l.x <> 0"] * 50)
    on = f"l.x = r.x and {guards} and 10 / (l.x + 0 * r.x) > 1"
    assert sj.join_tables(table, table, on=on).num_rows == 2


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("map (1, 2, r.x)", "cannot read"),
        ("interval -> r.x -> 1BD", "cannot read"),
        ("l.x < r.x + interval 99999999999999999999999999 day", "longest interval"),
        ("l.s = r.s and l.s like '\ud800'", "half a character"),
    ],
)
def test_what_the_parser_chokes_on_is_refused(on: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        sj.join_tables(TABLE, TABLE, on=on)
