"""Tables joined on Spark in every kind of join, against Spark's own join of the same tables."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from streamjoin import CountWindow, SessionWindow, TimeWindow, TumblingWindow, join_tables
from streamjoin import spark as sjs
from streamjoin.errors import ConditionError, StreamJoinError
from tests.oracle import join_by_count
from tests.spark.answers import spark_pairs, within
from tests.spark.kinds import HOW, ids_of, kind_of

pytestmark = pytest.mark.spark

WINDOW = TimeWindow(before="60 seconds", after="20 seconds")
ROUTINGS = [("auto", 3), ("split", 2), ("auto", 1), ("range", 3), ("auto", None)]


def small_table(seed: int, rows: int = 30) -> pa.Table:
    """Few values, with ties and NULLs; ids of two seeds differ."""
    dice = Random(seed)

    def draw(values: Any) -> list[Any]:
        return [dice.choice([None, *values, *values]) for _ in range(rows)]

    second = 1_000_000
    times = draw([1_700_000_000 * second + each * 7 * second for each in range(30)])
    return pa.table(
        {
            "id": pa.array(range(1000 * seed, 1000 * seed + rows), pa.int64()),
            "k": pa.array(draw(range(5)), pa.int32()),
            "a": pa.array(draw(range(-3, 8)), pa.int64()),
            "b": pa.array(draw(range(-2, 9)), pa.int32()),
            "x": pa.array(draw([0.0, -0.0, 0.1, 0.3, 1.5, 2.0, float("nan")]), pa.float64()),
            "s": pa.array(draw(["", "a", "b", "ab", "%", "a%"]), pa.string()),
            "o": pa.array([dice.randint(0, 20) for _ in range(rows)], pa.int64()),
            "t": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


IN_EVERY_KIND = ["equality", "band", "inequality pair", "sides and residual"]
LEFT, RIGHT = small_table(1), small_table(2, 36)
CONDITIONS = {
    "equality": "l.k = r.k",
    "text": "l.s = r.s and l.k = r.k",
    "null-safe": "l.k <=> r.k",
    "band": "abs(l.a - r.a) <= 1",
    "inequality pair": "l.a < r.b and l.b > r.a",
    "or of one pair": "l.a - r.a between -5 and -4 or l.a - r.a between 2 and 3",
    "not equal": "l.k = r.k and l.a <> r.a",
    "residual": "l.k = r.k and l.a + r.b > 4",
    "residual or": "abs(l.a - r.a) <= 3 and (l.x > r.x or l.s = r.s)",
    "like": "l.k = r.k and l.s like r.s",
    "sides": "abs(l.a - r.a) <= 2 and l.b > 0 and r.s is not null",
    "sides and residual": "l.k = r.k and l.b > 0 and r.x is not null and l.x * r.x < 2",
    "computed": "abs(ln(l.a + 10) - ln(r.b + 10)) <= 0.1",
    "guarded": "l.a <> 0 and 10 / l.a < r.b",
    "lazy": "l.k = r.k and (l.a = 0 or 10 / l.a < r.b)",
    "case": "l.k = r.k and case when l.a > 2 then ln(l.a) else r.x end > 1",
    "functions of Spark": "l.k = r.k and pmod(hash(l.s), 3) + pmod(hash(r.s), 2) > 1",
    "times": "l.k = r.k and (l.t - r.t > interval 1 minute or date_trunc('HOUR', l.t) < r.t)",
    "days": "l.t between r.t - interval 1 day and r.t + interval 1 minute and l.k = r.k",
    "constant": "l.k = r.k and 1 = 0",
}


def frames(session: Any) -> tuple[Any, Any]:
    return tuple(session.createDataFrame(each).coalesce(1) for each in (LEFT, RIGHT))


def sparks_answers(left: Any, right: Any, conditions: list[str]) -> dict[tuple[str, str], Any]:
    """Return what conditions give in each kind of join, by Spark's cross join."""
    every = [set(each["id"].to_pylist()) for each in (LEFT, RIGHT)]
    # In a column, Spark divides whatever stands before: it computes what occurs twice only once.
    texts = [on.replace("10 / l.a", "try_divide(10, l.a)") for on in conditions]
    found = zip(conditions, spark_pairs(left, right, texts), strict=True)
    return {(on, how): kind_of(p.elements(), *every, how) for on, p in found for how in HOW}


def sparks_own(left: Any, right: Any, on: str, how: str) -> Counter[Any]:
    """Return what Spark's own join gives; for right rows, its sides are exchanged."""
    sides = [left.alias("l"), right.alias("r")]
    if how.startswith("right_"):
        sides = sides[::-1]
    joined = sides[0].join(sides[1], F.expr(on), how.replace("right_", "left_"))
    columns = ["id"] if "_" in how else ["l.id as id", "r.id as id_right"]
    return Counter(map(tuple, joined.selectExpr(*columns).collect()))


def ids(joined: Any) -> Counter[Any]:
    """Return the ids of what was given, and look that nothing else came."""
    names = [name for name in ("id", "id_right") if name in joined.columns]
    assert not any(name.startswith("__") for name in joined.columns)
    return Counter(map(tuple, joined.select(*names).collect()))


def side_by_side(function: Any, cases: list[Any]) -> list[Any]:
    """Run small queries together: most of their time is spent waiting."""
    with ThreadPoolExecutor(4) as pool:
        return list(zip(cases, pool.map(function, cases), strict=True))


def spread(on: str, routing: str) -> str:
    """Leave the routing to the join where it does not fit."""
    return "auto" if routing == "range" and "abs" not in on else routing


@pytest.mark.parametrize("zone", [pytest.param("session", marks=pytest.mark.slow), "far_away"])
def test_every_kind_has_sparks_answer(zone: str, request: Any) -> None:
    left, right = frames(request.getfixturevalue(zone))
    names = list(CONDITIONS if zone == "session" else ["times", "days", "residual"])
    routings, kinds = cycle(ROUTINGS), cycle(HOW[1:])
    cases = [
        (CONDITIONS[name], how, *next(routings))
        for name in names
        for how in (HOW if name in IN_EVERY_KIND else [next(kinds) for _ in range(3)])
    ]

    def run(case: Any) -> Any:
        on, how, routing, cores = case
        return ids(sjs.join(left, right, on=on, how=how, routing=spread(on, routing), cores=cores))

    expected = sparks_answers(left, right, [CONDITIONS[name] for name in names])
    for case, found in side_by_side(run, cases):
        assert found == expected[case[:2]], case


def test_spark_itself_gives_that(session: Any) -> None:
    left, right = frames(session)
    ons = ["l.k = r.k and l.b > 0 and l.x + r.x < 2"]
    expected = sparks_answers(left, right, ons)
    for (on, how), found in side_by_side(
        lambda case: sparks_own(left, right, *case), list(expected)
    ):
        assert found == expected[on, how], how


@pytest.mark.slow
def test_time_windows(session: Any) -> None:
    left, right = frames(session)
    routings = cycle(ROUTINGS)
    ons = ["l.k = r.k", "l.a < r.b and l.x + r.x > 0"]
    cases = [(on, how, *next(routings)) for on in ons for how in HOW]

    def run(case: Any) -> Any:
        on, how, routing, cores = case
        options = {"how": how, "routing": spread(on, routing), "cores": cores}
        return ids(sjs.join(left, right, on=on, window=WINDOW, time="t", **options))

    within_it = {on: f"{on} and {within(WINDOW)}" for on in ons}
    expected = sparks_answers(left, right, list(within_it.values()))
    for case, found in side_by_side(run, cases):
        assert found == expected[within_it[case[0]], case[1]], case


@pytest.mark.slow
@pytest.mark.parametrize("window", [TumblingWindow("1 minute"), SessionWindow("15 seconds")])
def test_windows_that_close(session: Any, window: Any) -> None:
    left, right = frames(session)
    ons = ["l.k = r.k and l.b > 0 and l.x + r.x > 0", "abs(l.a - r.a) <= 1"]
    cases = [(on, how, 3) for on in ons for how in HOW]

    def run(case: Any) -> Any:
        on, how, cores = case
        return ids(sjs.join(left, right, on=on, window=window, time="t", how=how, cores=cores))

    every = [set(each["id"].to_pylist()) for each in (LEFT, RIGHT)]
    for (on, how, cores), found in side_by_side(run, cases):
        pairs = ids_of(join_tables(LEFT, RIGHT, on, window=window, time="t"))
        assert found == kind_of(pairs.elements(), *every, how), (on, how, cores)


@pytest.mark.slow
def test_count_windows(session: Any) -> None:
    left, right = frames(session)

    def is_equal(one: Any, other: Any) -> bool:
        return None is not one["k"] == other["k"]

    def is_less(one: Any, other: Any) -> bool:
        return None not in (one["a"], other["b"]) and one["a"] < other["b"] and (one["b"] or 0) > 0

    conditions = {"l.k = r.k": is_equal, "l.a < r.b and l.b > 0": is_less}
    cases = [
        (on, window, how, cores)
        for on in conditions
        for window, cores in ((CountWindow(10), 3), (CountWindow(left=4, right=17), 1))
        for how in (HOW if cores == 3 else ["full"])
    ]

    def run(case: Any) -> Any:
        on, window, how, cores = case
        return ids(sjs.join(left, right, on=on, window=window, order="o", how=how, cores=cores))

    step, every = (LEFT.to_pylist(), RIGHT.to_pylist()), [LEFT["id"], RIGHT["id"]]
    for (on, window, how, cores), found in side_by_side(run, cases):
        pairs = join_by_count([step], conditions[on], window.left, window.right, "o")
        expected = kind_of(pairs.elements(), *(set(each.to_pylist()) for each in every), how)
        assert found == expected, (on, window, how, cores)


def test_what_is_given_beside_ids(session: Any) -> None:
    left, right = frames(session)
    joined = sjs.join(left, right, on="ln(l.k + 1) = ln(r.k + 1)", how="full", indicator=True)
    assert joined.columns == [
        *LEFT.column_names,
        *(f"{n}_right" for n in LEFT.column_names),
        "_match",
    ]
    for row in joined.collect():
        one, other = row["id"] is None, row["id_right"] is None
        assert (
            row["_match"] == {(0, 0): "both", (0, 1): "left_only", (1, 0): "right_only"}[one, other]
        )
    kinds = [field.dataType for field in left.schema]
    assert [field.dataType for field in joined.schema][: 2 * len(kinds)] == kinds * 2
    semi = sjs.join(left, right, on="l.k = r.k", how="semi")
    assert semi.schema.names == LEFT.column_names
    inner = sjs.join(left, right, on="l.k = r.k and l.s || r.s = 'aa'", indicator=True)
    assert {row["_match"] for row in inner.collect()} == {"both"}


def test_what_the_cores_cannot_evaluate_is_named(session: Any) -> None:
    frame = session.sql("select 1 as id, array(1) as ar, 'x' collate utf8_lcase as c")
    for on, subject in (
        ("l.id = r.id and array_contains(l.ar, r.id)", "function array_contains"),
        ("l.id = r.id and (l.c = r.c or l.id < r.id)", "by a collation"),
        ("l.id = r.id and l.id + r.id < rand()", r"RAND\(\)"),
    ):
        with pytest.raises(ConditionError, match=f"{subject}.*join with how='inner'"):
            sjs.join(frame, frame, on=on, how="left")
        sjs.join(frame, frame, on=on).collect()


@pytest.mark.slow
def test_what_is_kept(session: Any) -> None:
    left, right = frames(session)
    distance = "abs(ln(l.a + 10) - ln(r.b + 10))"
    ways: list[dict[str, Any]] = [
        {"keep": "nearest", "nearest": distance, "k": 2},
        {"keep": "first", "time": "t"},
        {"keep": "last", "time": "t", "k": 2},
    ]
    ons = ["l.k = r.k and l.b > 0", "abs(l.a - r.a) <= 2 and l.x + r.x < 2"]
    kinds = cycle(HOW)
    cases = [(on, next(kinds), way) for on in ons for way in ways for _ in range(3)]
    cases += [("abs(l.a - r.a) <= 2", how, {"keep": "nearest"}) for how in ("left", "full")]
    counted = {"window": CountWindow(left=20, right=5), "order": "o"}
    cases += [("l.a < r.b", "left", {"keep": keep, **counted}) for keep in ("nearest", "last")]

    def run(case: Any) -> Any:
        on, how, way = case
        return ids(sjs.join(left, right, on=on, how=how, cores=3, **way))

    for (on, how, way), found in side_by_side(run, cases):
        assert found == ids_of(join_tables(LEFT, RIGHT, on, how=how, **way)), (on, how, way)


def test_aggregates(session: Any) -> None:
    left, right = frames(session)
    asked = {
        "n": "count(*)",
        "most": "max(ln(r.b + 10))",
        "sum": "sum(pmod(crc32(r.s), 7) + l.a)",
        "mean": "avg(r.b)",
        "latest": "max(r.t)",
    }
    ons = ["l.k = r.k and l.b > 0", "abs(l.a - r.a) <= 1 and l.x + r.x < 2", "l.a < r.b"]
    cases = [(on, how, cores) for on in ons for how, cores in (("left", 3), ("inner", 1))]

    def run(case: Any) -> Any:
        on, how, cores = case
        joined = sjs.join(left, right, on=on, how=how, aggregate=asked, cores=cores)
        assert joined.columns == [*LEFT.column_names, *asked]
        return sorted(map(tuple, joined.select("id", *asked).collect())), joined.schema

    def spark_run(case: Any) -> Any:
        on, how, _ = case
        texts = {**asked, "n": "count(r.id)"}
        pairs = left.alias("l").join(right.alias("r"), F.expr(on), how)
        every = [F.expr(text).alias(name) for name, text in texts.items()]
        grouped = pairs.groupBy(F.col("l.id").alias("id")).agg(*every)
        return sorted(map(tuple, grouped.collect())), grouped.schema

    expected = [each for _, each in side_by_side(spark_run, cases)]
    for (case, (found, schema)), (rows, kinds) in zip(
        side_by_side(run, cases), expected, strict=True
    ):
        assert found == rows, case
        assert [schema[name].dataType for name in asked] == [kinds[name].dataType for name in asked]


def test_explain_says_what_is_given(session: Any) -> None:
    left, right = frames(session)
    on = "abs(l.a - r.a) <= 1 and l.b > 0 and r.s is not null and l.x + ln(r.x) < 2"
    told = sjs.explain(left, right, on=on, how="left")
    for line in (
        "before       Spark marks left rows with l.b > 0; others match nothing",
        "before       Spark keeps right rows with NOT r.s IS NULL",
        "keys         Spark computes LN(r.x) as",
        "home         left rows go to one core each, right rows to all where they may match",
        "how          left: pairs, and left rows that match nothing",
    ):
        assert line in told, told
    assert "Spark keeps joined rows" not in told
    told = sjs.explain(left, right, on="abs(l.a - r.a) <= 1", keep="nearest", k=2)
    assert "keep         the nearest 2 matches of each left row, by abs(l.a - r.a)" in told
    told = sjs.explain(left, right, on="l.a < r.a", aggregate={"n": "count(*)"})
    assert "aggregate    n = count(*): in the cores" in told


def test_options_of_streams_are_refused(session: Any) -> None:
    left, right = frames(session)
    for options in ({"late": "keep"}, {"unmatched": "early", "patience": "1 s", "how": "left"}):
        with pytest.raises(StreamJoinError, match="is for streams; leave it out: tables have"):
            sjs.join(left, right, on="l.k = r.k", window=WINDOW, time="t", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nearest": "l.s"}, "nearest='l.s' is of type string"),
        ({"nearest": "abs(l.a - r.b)"}, "nearest='abs(l.a - r.b)': the right input has no column"),
        ({"on": "l.a = r.a and l.s < r.s"}, "string, which has no distance"),
    ],
)
def test_what_is_no_distance_is_refused_before_workers_see_it(
    session: Any, options: dict[str, Any], words: str
) -> None:
    frame = session.createDataFrame([(1, "x")], "a int, s string")
    asked = {"on": "l.a = r.a", "keep": "nearest"} | options
    for call in (sjs.join, sjs.explain):
        with pytest.raises(StreamJoinError) as refused:
            call(frame, frame, **asked)
        assert words in str(refused.value)
