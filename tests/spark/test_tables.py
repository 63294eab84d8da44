"""Tables joined on Spark, against Spark's own cross join and filter, and against DuckDB."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin import CountWindow, TimeWindow
from streamjoin import spark as sjs
from streamjoin.errors import ConditionError, SchemaError
from tests.oracle import join_by_count
from tests.spark.answers import duckdb_pairs, spark_pairs, within

pytestmark = pytest.mark.spark

NAN, INF, LONG = float("nan"), float("inf"), 2**63 - 1
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
HOUR = 3_600_000_000
NOON = datetime(2024, 3, 10, 12)  # a day on which New York has 23 hours


def nasty() -> pa.Table:
    doubles = [0.0, -0.0, NAN, NAN, INF, -INF, 0.1, 0.3, 0.1 + 0.2, 1e308, None, 1.0, 2.0, 0.25]
    ints = [0, 1, 2, 2, 5, 7, -1, -5, None, 3, 4, 9, 100, 0]
    days = [date(1969, 12, 31), date(2024, 3, 9), date(2024, 3, 10), date(2024, 3, 12), None]
    days = [*days, date(2024, 3, 11), *days[1:4], *days[:5]]
    moments = [NOON + each * SECOND for each in (0, 5, 5, -7, 3600)]
    moments += [datetime(2024, 3, 10), datetime(2024, 3, 10, 5), datetime(2024, 3, 11, 4), None]
    moments += [NOON + timedelta(seconds=5, microseconds=1), datetime(1969, 12, 31, 23, 59, 59)]
    moments += [NOON - DAY, NOON + DAY, NOON]
    texts = ["a", "b", "", None, "a", "ab", "b ", "A", "2024-03-10", "b", "ß", "x" * 300, "a", "%"]
    return pa.table(
        {
            "id": pa.array(range(14), pa.int64()),
            "i": pa.array(ints, pa.int32()),
            "b": pa.array([LONG, -LONG - 1, LONG - 1, None, *ints[4:]], pa.int64()),
            "d": pa.array(doubles, pa.float64()),
            "f": pa.array([v if v is None or v != 1e308 else 9.5 for v in doubles], pa.float32()),
            "m": pa.array([v if v is None else Decimal(v) / 4 for v in ints], pa.decimal128(10, 2)),
            "s": texts,
            "dt": pa.array(days, pa.date32()),
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "nt": pa.array(moments, pa.timestamp("us")),
            "st": pa.array([{"x": i, "y": s} for i, s in zip(ints, texts, strict=True)]),
            "ar": pa.array([[i, 1] for i in ints], pa.list_(pa.int32())),
        }
    )


def nasty_frame(session: Any) -> Any:
    frame = session.createDataFrame(nasty()).coalesce(1)
    return frame.withColumn("nt", frame.nt.cast("timestamp_ntz"))


CONDITIONS = {
    "equalities": [
        "l.i = r.i",
        "l.s = r.s",
        "l.i = r.i and l.s = r.s",
        "l.d = r.d",
        "l.i = r.d",
        "l.m = r.i",
        "l.s <=> r.s",
        "l.b <=> r.b and l.i = r.i",
        "l.i % 3 = r.i % 3",
    ],
    "bands": [
        "abs(l.i - r.i) <= 1",
        "abs(l.d - r.d) <= 0.1",
        "abs(l.f - r.f) < 0.1",
        "abs(l.m - r.m) <= 0.25",
        "l.m between r.i - 0.5 and r.i + 0.75",
        "l.ts between r.ts - interval 5 seconds and r.ts + interval 5 seconds",
        "l.dt between r.dt - 2 and r.dt + 1",
        "l.i between r.i - 2 and r.i or l.i between r.i + 5 and r.i + 7",
        "l.s = r.s and abs(l.i - r.i) <= 3",
    ],
    "inequalities": [
        "l.b < r.b",
        "l.b >= r.b and l.d < r.d",
        "l.i < r.i and l.m > r.d",
        "l.ts > r.ts",
        "l.d <> r.d",
        "l.s = r.s and l.i <> r.i",
    ],
    "left to Spark": [
        "l.i <= r.i and l.s || r.s = 'ab'",
        "l.s like r.s and abs(l.i - r.i) <= 100",
        "l.i = r.i and (l.d > 0.2 or r.s = 'a')",
        "l.s < r.s and l.i <> r.i",
        "l.i = r.i and l.s = 'a' and r.d is not null",
        "abs(l.i - r.i) <= 2 and l.d > 0",
        "l.i = r.i and false",
        "abs(sqrt(abs(l.i)) - r.d) <= 0.5",
        "upper(l.s) = upper(r.s) and l.id < r.id",
        "date_trunc('HOUR', l.ts) = date_trunc('HOUR', r.ts)",
        "l.st.x = r.ar[0] and l.st.y <> r.st.y",
        "pmod(hash(l.s, l.i), 3) = pmod(hash(r.s, r.i), 3)",
    ],
    "times and dates": [
        "l.dt = r.ts",
        "l.dt < r.ts and l.ts < r.dt",
        "l.ts between r.dt - interval 12 hours and r.dt + interval 12 hours",
        "cast(l.ts as date) = r.dt",
        "l.nt = r.ts",
        "l.nt between r.ts - interval 1 hour and r.ts",
        "l.dt = r.nt",
        "try_cast(l.s as date) = r.dt",
    ],
}  # fmt: skip
ROUTINGS = cycle([("auto", None), ("auto", 3), ("split", 2), ("auto", 5), ("auto", 1)])


def pairs(joined: Any) -> Counter[tuple[int, int]]:
    return Counter(tuple(row) for row in joined.select("id", "id_right").collect())


def side_by_side(function: Any, cases: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Run small queries together: most of their time is spent waiting."""
    with ThreadPoolExecutor(4) as pool:
        yield from zip(cases, pool.map(function, cases), strict=True)


def compare(session: Any, conditions: list[str], **others: Any) -> None:
    """Assert that joins have the answers of Spark's own cross join."""
    frame = nasty_frame(session)
    expected = dict(zip(conditions, spark_pairs(frame, frame, conditions), strict=True))
    assert sum(map(bool, expected.values())) >= len(conditions) - 1  # most find something
    cases = [(on, *choice) for on, choice in zip(conditions, ROUTINGS, strict=False)]

    def run(case: Any) -> Counter[tuple[int, int]]:
        on, routing, cores = case
        return pairs(sjs.join(frame, frame, on=on, routing=routing, cores=cores, **others))

    for case, found in side_by_side(run, cases):
        assert found == expected[case[0]], case


@pytest.mark.parametrize("kind", [kind for kind in CONDITIONS if kind != "times and dates"])
def test_every_condition_has_sparks_answer(session: Any, kind: str) -> None:
    compare(session, CONDITIONS[kind])


def test_times_and_dates_in_another_time_zone(far_away: Any) -> None:
    compare(far_away, CONDITIONS["times and dates"])


def test_days_are_as_long_as_the_time_zone_has_them(far_away: Any) -> None:
    spring = "timestamp'2024-03-09 20:00:00' + id * interval '30' minute"
    frame = far_away.range(100).selectExpr("id", f"{spring} as ts").coalesce(1)
    assert frame.where("hour(ts) <> (20 + id div 2) % 24").count() > 0  # the clocks change
    conditions = [
        "l.ts between r.ts - interval 1 day and r.ts",
        "l.ts > r.ts + interval '36' hour",
        "l.ts between r.ts - interval 23 hours and r.ts - interval 90 minutes",
        "l.ts - r.ts between interval '1' hour and interval '2' hour",
        "l.ts - r.ts <= interval '1' hour and l.ts >= r.ts - interval 2 days",
        "abs(l.ts - r.ts) > interval '1' day and l.id > r.id",
    ]
    for on, expected in zip(conditions, spark_pairs(frame, frame, conditions), strict=True):
        assert pairs(sjs.join(frame, frame, on=on)) == expected, on


@pytest.mark.parametrize("zone", ["session", "far_away"])
def test_time_windows_over_any_pair_of_time_columns(zone: str, request: Any) -> None:
    session = request.getfixturevalue(zone)
    columns = [("ts", "ts"), ("nt", "nt"), ("dt", "dt"), ("ts", "dt"), ("nt", "ts"), ("dt", "nt")]
    window = TimeWindow(before="12 hours", after="1 day")
    frame = nasty_frame(session)
    conditions = []
    for left, right in columns:
        if "ts" in (left, right):
            gap = f"unix_micros(timestamp(r.{right})) - unix_micros(timestamp(l.{left}))"
        else:  # without a zone
            casts = [f"cast({each} as timestamp_ntz)" for each in (f"l.{left}", f"r.{right}")]
            gap = f"timestampdiff(microsecond, {', '.join(casts)})"
        conditions.append(f"l.i <= r.i and {gap} between {-12 * HOUR} and {24 * HOUR}")
    expected = spark_pairs(frame, frame, conditions)

    def run(time: tuple[str, str]) -> Counter[tuple[int, int]]:
        return pairs(sjs.join(frame, frame, on="l.i <= r.i", window=window, time=time))

    for (time, found), answer in zip(side_by_side(run, columns), expected, strict=True):
        assert found == answer, time


def random_table(seed: int, rows: int = 200) -> pa.Table:
    rng = np.random.default_rng(seed)
    missing = rng.random((4, rows)) < 0.03
    return pa.table(
        {
            "id": np.arange(rows),
            "k": pa.array(rng.integers(0, 20, rows), mask=missing[0]),
            "s": pa.array(rng.choice(["a", "b", "c", "d" * 20], rows), mask=missing[1]),
            "x": pa.array(np.round(rng.random(rows), 2), mask=missing[2]),
            "t": pa.array(
                rng.integers(0, 1000, rows) * 10**6, pa.timestamp("us", "UTC"), mask=missing[3]
            ),
            "o": rng.permutation(rows),
        }
    )


WINDOW = TimeWindow(before="60 seconds", after="20 seconds")
RANDOM = [
    ("l.k = r.k", {"routing": "split", "cores": 3}),
    ("l.k = r.k and l.s = r.s and abs(l.x - r.x) <= 0.2", {"cores": 4}),
    ("l.k = r.k and abs(l.x - r.x) <= 0.2", {"routing": "range", "cores": 4}),
    ("abs(l.x - r.x) <= 0.01", {"cores": 5}),
    ("l.x between r.x - 0.02 and r.x + 0.01 and l.k < r.k", {"routing": "range", "cores": 2}),
    ("l.x < r.x and l.k > r.k", {"cores": 4}),
    ("l.s || r.s = 'ab'", {"algorithm": "scan", "cores": 2}),
    ("l.x < r.x", {"window": WINDOW, "time": "t", "cores": 3}),
    ("l.k = r.k", {"window": WINDOW, "time": "t", "routing": "range", "cores": 3}),
]


def test_random_tables_have_duckdbs_answer(session: Any) -> None:
    left, right = random_table(1), random_table(2, 300)
    frames = [session.createDataFrame(table) for table in (left, right)]

    def run(case: Any) -> Counter[tuple[int, int]]:
        on, others = case
        return pairs(sjs.join(*frames, on=on, **others))

    for (on, others), found in side_by_side(run, RANDOM):
        window = f" and {within(WINDOW)}" if "time" in others else ""
        assert found == duckdb_pairs(left, right, on + window), (on, others)


def test_count_windows_go_by_order(session: Any) -> None:
    left, right = random_table(3), random_table(4, 150)
    frames = [session.createDataFrame(table) for table in (left, right)]
    cases = [
        (CountWindow(10), "l.k = r.k", lambda one, two: None is not one["k"] == two["k"]),
        (CountWindow(left=50, right=3), "l.o < r.o", lambda one, two: one["o"] < two["o"]),
    ]  # fmt: skip

    def run(case: Any) -> Counter[tuple[int, int]]:
        window, on, _ = case
        text = f"count {window.left}, {window.right}"
        return pairs(sjs.join(*frames, on=on, window=text, order="o", cores=3))

    for (window, _, predicate), found in side_by_side(run, cases):
        step = (left.to_pylist(), right.to_pylist())
        assert found == join_by_count([step], predicate, window.left, window.right, "o")


@pytest.mark.parametrize("empty", ["left", "right", "both"])
def test_empty_tables(session: Any, empty: str) -> None:
    frame = session.createDataFrame(random_table(1)).coalesce(1)
    sides = [frame.where(f"{empty not in (side, 'both')}") for side in ("left", "right")]
    joined = sjs.join(*sides, on="abs(l.x - r.x) <= 0.1", cores=2)
    assert joined.collect() == []
    assert joined.columns == [*frame.columns, *(f"{name}_right" for name in frame.columns)]


PAYLOAD = """
    select id, array(1, null, cast(id as int)) as a, true as yes,
        array(named_struct('x', 1, 'y', map('k', array(1.5d)))) as deep,
        named_struct('x', 1, 'y', 'text', 'at', timestamp'2024-01-01 00:00:00') as st,
        map('a', 1, 'b', null) as m, map(1, timestamp'2024-07-01 12:00:00') as mt,
        array(timestamp_ntz'2024-01-01 12:00:00') as an, X'00ff' as bin, 1.23bd as small_decimal,
        cast('12345678901234567890.12' as decimal(30, 2)) as wide, null as none,
        interval '1 02:03:04.5' day to second as span, timestamp_ntz'2024-01-01 12:00:00' as ntz,
        timestamp'2024-01-01 12:00:00.123456' as at, date'2024-02-29' as day,
        1Y as tiny, 2S as short, 3.5f as real, '' as nothing, if(id = 1, null, 'ünï') as text,
        parse_json('{"a": 1}') as variant
    from range(3)
"""


@pytest.mark.parametrize("zone", ["session", "far_away"])
def test_payload_of_every_type_passes_unchanged(zone: str, request: Any) -> None:
    frame = request.getfixturevalue(zone).sql(PAYLOAD).coalesce(1)
    joined = sjs.join(frame, frame, on="l.id <= r.id and l.yes = r.yes")
    expected = frame.orderBy("id").collect()
    kinds = [field.dataType for field in frame.schema]
    assert [field.dataType for field in joined.schema] == kinds * 2
    # A variant equals only itself; what it shows tells all.
    assert sorted(repr(tuple(row)) for row in joined.collect()) == sorted(
        repr((*one, *two)) for one in expected for two in expected if one["id"] <= two["id"]
    )


@pytest.mark.parametrize("column", ["interval '1-2' year to month", "make_interval(1, 2)"])
def test_what_arrow_cannot_hold_is_refused(session: Any, column: str) -> None:
    frame = session.sql(f"select 1 as id, {column} as odd")
    with pytest.raises(SchemaError, match="the left input has a column that cannot be passed"):
        sjs.join(frame, session.range(1), on="l.id = r.id")


ODD_NAMES = ["a b", "ünï", "1x", "l", "r", "x'y", 'x"y', "a-b"]


def test_odd_names(session: Any) -> None:
    columns = [f"id as `{name}`" for name in ODD_NAMES]
    frame = session.range(3).selectExpr("id", *columns).coalesce(1)
    on = (
        "l.`a b` = r.`ünï` and sqrt(l.`1x`) >= sqrt(r.`x'y`) and l.l + r.r > 0 "
        'and l.`a-b` > 0 and R.ID between L.`x"y` - 1 and L.`x"y`'
    )
    joined = sjs.join(frame, frame, on=on)
    assert joined.columns == [*frame.columns, *(f"{name}_right" for name in frame.columns)]
    assert pairs(joined) == Counter([(1, 1), (2, 2)])
    counted = sjs.join(frame, frame, on="l.`a b` = r.`ünï`", window=CountWindow(9), order="x'y")
    assert counted.columns == joined.columns


def test_names_that_clash(session: Any) -> None:
    left = session.range(2).selectExpr("id", "id as x", "id as x_right")
    right = session.range(2).selectExpr("id", "id as x", "id as y")
    joined = sjs.join(left, right, on="l.id = r.id and l.x + r.x >= 0")
    assert joined.columns == ["id", "x", "x_right", "id_right", "x_right_right", "y"]
    assert pairs(joined) == Counter([(0, 0), (1, 1)])


def test_names_that_differ_in_case_clash_too(session: Any) -> None:
    left, right = session.range(2), session.range(2).withColumnRenamed("id", "ID")
    joined = sjs.join(left, right, on="l.id = r.id")
    assert joined.columns == ["id", "ID_right"]
    assert len(joined.select("id").collect()) == 2


@pytest.mark.parametrize("name", ["select", "Größe", "a.b", "a``b"])
def test_names_that_need_quotes(session: Any, name: str) -> None:
    frame = session.range(2).selectExpr("id", f"id as `{name}`").coalesce(1)
    assert len(sjs.join(frame, frame, on=f"l.`{name}` = r.id").collect()) == 2


def test_text_is_compared_by_its_collation(session: Any) -> None:
    frame = session.sql("select id, if(id = 0, 'x', 'X') collate utf8_lcase as s from range(2)")
    assert len(sjs.join(frame, frame, on="l.s = r.s", algorithm="scan").collect()) == 4
    assert len(sjs.join(frame, frame, on="l.s = r.s and l.id <= r.id").collect()) == 3
    with pytest.raises(ConditionError, match="algorithm='scan'"):
        sjs.join(frame, frame, on="l.s = r.s")


def test_a_table_joined_with_itself_and_used_further(session: Any) -> None:
    frame = session.createDataFrame(random_table(5)).coalesce(1)
    joined = sjs.join(frame, frame, on="abs(l.x - r.x) <= 0.05", cores=2)
    counts = joined.where("id < id_right").groupBy("s").count().orderBy("s").collect()
    table = random_table(5)
    expected = Counter(
        table["s"][one].as_py()
        for one, two in duckdb_pairs(table, table, "abs(l.x - r.x) <= 0.05")
        if one < two
    )
    assert {row["s"]: row["count"] for row in counts} == expected
