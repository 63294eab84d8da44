"""Outer, semi and anti joins of tables, against DuckDB's; where it has no such window, `truths`."""

from collections import Counter
from random import Random
from threading import Thread

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.indexes.catalogue import LAZY, TWO_KEYS
from streamjoin.options.how import BY_NAME
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.outcomes.cases import EQUALITIES, SLIDING, draw_case, draw_rows
from tests.joins.outcomes.truths import ALL, Truth, read
from tests.joins.small_streams import TINY, table

WINDOWED = {
    "time": "r.t between l.t - {0} and l.t + {1}",
    "tumbling": "l.t // {0} = r.t // {0}",
}
JOINS = {
    "inner": "select l.id, r.id from l join r on {0}",
    "left": "select l.id, r.id from l left join r on {0}",
    "right": "select l.id, r.id from l right join r on {0}",
    "full": "select l.id, r.id from l full join r on {0}",
    "left_semi": "select l.id, null from l semi join r on {0}",
    "left_anti": "select l.id, null from l anti join r on {0}",
    "right_semi": "select null, r.id from r semi join l on {0}",
    "right_anti": "select null, r.id from r anti join l on {0}",
}


def ask_duckdb(how, on, left, right):
    for sign in ("k", "s"):
        on = on.replace(f"l.{sign} <=> r.{sign}", f"l.{sign} is not distinct from r.{sign}")
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        return Counter(connection.sql(JOINS[how].format(on)).fetchall())


def draw_join(random, kind):
    """Return window, DuckDB's words for it, condition and options of a join of tables."""
    condition, options = random.choice([*ALL]), {"threads": random.choice([1, 1, 3])}
    algorithm = random.choice(["auto", "auto", *SLIDING, *LAZY])
    window, words = None, None
    if kind == "time":
        window, words = sj.TimeWindow(before="3 ms", after="5 ms"), WINDOWED["time"].format(3, 5)
    elif kind == "tumbling":
        window, words = sj.TumblingWindow("4 ms"), WINDOWED["tumbling"].format(4)
    elif kind is not None:
        window = draw_case(random, kind, "inner").window
    if kind == "session" or algorithm in LAZY:
        condition = random.choice(EQUALITIES)
    if algorithm in TWO_KEYS:
        condition = "two inequalities"
    if condition == "or" and kind != "time":
        algorithm = "scan"
    if kind in ("time", "count") and algorithm in LAZY:
        algorithm = "auto"
    if kind not in (None, "count"):
        options["time"] = "t"
    return window, words, condition, {"algorithm": algorithm} | options


@pytest.mark.parametrize("how", BY_NAME)
@pytest.mark.parametrize("kind", [None, "time", "tumbling", "count", "session"])
@pytest.mark.parametrize("seed", range(8))
def test_tables(seed, kind, how):
    random = Random(f"{seed} {kind} {how}")
    window, words, condition, options = draw_join(random, kind)
    rows = draw_rows(random)
    left, right = map(table, rows)
    on = ALL[condition][0]
    indicator = BY_NAME[how].gives_pairs and random.random() < 0.5
    options |= {"how": how, "window": window, "indicator": indicator}
    truth = Truth(how, condition, window)
    truth.push(*rows)
    truth.finish()
    expected, _ = truth.expected()
    if words is not None or window is None:
        asked = ask_duckdb(how, on if words is None else f"{on} and {words}", left, right)
        assert asked == expected  # two statements of the truth
    with use_limits(random.choice([TINY, Limits()])):
        joined = sj.join_tables(left, right, on, **options)
        assert read(how, joined, indicator) == expected, (condition, options)
        found = sj.find_matches(left, right, on, **options)
    assert found.count() == expected.total()
    assert read(how, found.to_table(), indicator) == expected
    assert found.count() == sum(batch.num_rows for batch in found)
    assert found.schema == joined.schema


@pytest.mark.parametrize("how", BY_NAME)
@pytest.mark.parametrize("on", ["l.k = r.k", "abs(l.x - r.x) <= 2", "l.x < r.x and l.k > r.k"])
def test_large_tables(how, on):
    rng = np.random.default_rng(7)
    count = 1500 if "<" in on and "abs" not in on else 40_000
    left, right = (
        pa.table(
            {
                "id": np.arange(size),
                "k": rng.integers(0, size, size),
                "x": rng.integers(0, 5 * size, size),
            }
        )
        for size in (count, count // 2)
    )
    expected = ask_duckdb(how, on, left, right)
    for threads in (1, 2):
        joined = sj.join_tables(left, right, on, how=how, threads=threads)
        assert read(how, joined.drop_columns(without_ids(joined))) == expected


def without_ids(joined):
    return [name for name in joined.schema.names if not name.startswith(("id", "_"))]


@pytest.mark.parametrize("how", BY_NAME)
@pytest.mark.parametrize(("lefts", "rights"), [(0, 0), (3, 0), (0, 3)])
@pytest.mark.parametrize("on", ["l.k = r.k", "abs(l.a - r.a) <= 1", "l.a < r.a and l.b > r.b"])
def test_empty_tables(how, lefts, rights, on):
    rows = [{"id": number, "k": number, "a": 1, "b": 1} for number in range(3)]
    left, right = table(rows[:lefts]), table(rows[:rights])
    joined = sj.join_tables(left, right, on, how=how)
    assert read(how, joined) == ask_duckdb(how, on, left, right)
    assert sj.find_matches(left, right, on, how=how).count() == joined.num_rows


@pytest.mark.parametrize("how", BY_NAME)
def test_a_table_joined_with_itself(how):
    rows = table([{"id": number, "a": number // 2, "b": number % 3} for number in range(12)])
    on = "l.a < r.a and l.b > r.b"
    assert read(how, sj.join_tables(rows, rows, on, how=how)) == ask_duckdb(how, on, rows, rows)


@pytest.mark.parametrize("on", ["l.k = r.k and l.a + r.a + r.b > 1", "l.k = r.k and l.a <> r.b"])
@pytest.mark.parametrize("how", BY_NAME)
def test_two_threads_fetch_the_same_matches(how, on):
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(0, 300, 20_000) for name in "kab"}
    rows = pa.table({"id": np.arange(20_000), **columns})
    found = sj.find_matches(rows, rows.slice(0, 9000), on, how=how, threads=2)
    expected = ask_duckdb(how, on, rows, rows.slice(0, 9000)).total()
    counts = []
    threads = [
        Thread(target=lambda: counts.append(sum(each.num_rows for each in found))) for _ in range(2)
    ] + [Thread(target=lambda: counts.append(found.count()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [expected] * 3


@pytest.mark.parametrize(
    ("how", "nullable"),
    [
        ("inner", (False, False)),
        ("left", (False, True)),
        ("right", (True, False)),
        ("full", (True, True)),
    ],
)
def test_columns_of_a_side_that_may_be_missing_may_be_null(how, nullable):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    rows = pa.table({"k": [1, 2]}, schema)
    joined = sj.join_tables(rows, rows.slice(1), "l.k = r.k", how=how)
    assert tuple(field.nullable for field in joined.schema) == nullable
    joined.validate(full=True)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", "c"]).dictionary_encode(),
        pa.array([[1], [2, 3], None]),
        pa.array([{"x": 1}, {"x": 2}, None]),
        pa.array([b"", None, b"x"]),
        pa.nulls(3),
        pa.array(["a", "b", "c"], pa.string_view()),
        pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        pa.array([True, None, False]),
        pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
    ],
    ids=lambda values: str(values.type)[:20],
)
@pytest.mark.parametrize("how", BY_NAME)
def test_columns_of_any_type_can_be_missing(how, values):
    rows = pa.table({"k": [1, 2, 3], "v": values})
    other = pa.table({"k": [2, 3, 4], "w": values})
    for joined in (
        sj.join_tables(rows, other, "l.k = r.k", how=how),
        sj.find_matches(rows, other, "l.k = r.k", how=how).to_table(),
    ):
        joined.validate(full=True)
        expected = {"inner": 2, "left": 3, "right": 3, "full": 4, "left_semi": 2, "left_anti": 1}
        assert joined.num_rows == expected.get(how.replace("right_", "left_"), joined.num_rows)
