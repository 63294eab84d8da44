"""Whole joins against Spark's own cross join and filter, over tables of nasty values.

One Spark query answers all conditions of a table at once, each as a boolean column of the cross
join, so that the suite stays quick.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj

NAN, INF = float("nan"), float("inf")
LONG = 2**63 - 1

pytestmark = pytest.mark.spark


def table(**columns: Any) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({"id": range(rows), **columns})


DOUBLES = [0.0, -0.0, 0.1, 0.3, 0.2, 0.30000000000000004, 1.05, 1.1, 1.0, NAN, INF, -INF, None]
DOUBLES += [1e308, -1e308, 5e-324, 1e16, 1e16 + 2, -1.0]
INTEGERS = [0, 1, 2, 5, 6, 7, -1, -5, 100, None]
DAYS = [date(1969, 12, 30), date(1970, 1, 1), date(2024, 2, 29), date(2024, 3, 2), None]
MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(2024, 3, 1),
    datetime(2024, 3, 1, 0, 0, 5),
    datetime(2024, 3, 1, 0, 0, 5, 1),
    None,
]

SUM = "l.i > 0 and r.b > 0 and l.i + r.b < 20"

TABLES = {
    "double": (
        table(x=pa.array(DOUBLES, pa.float64())),
        [
            "abs(l.x - r.x) <= 0.1",
            "abs(l.x - r.x) < 0.1",
            "abs(r.x - l.x) >= 0.1",
            "abs(l.x - r.x) > 1e16",
            "abs(l.x - r.x) = 0.1",
            "abs(l.x - r.x) <> 0",
            "l.x - r.x <= 0.1",
            "l.x - r.x >= 0.1",
            "r.x - l.x <= 0.1",
            "r.x - l.x > -0.1 and r.x - l.x < 0.25",
            "l.x between r.x - 0.1 and r.x + 0.1",
            "l.x <= r.x + 0.1 and l.x >= r.x",
            "l.x - 0.1 <= r.x and l.x + 0.2 > r.x",
            "l.x between r.x - 0.1 and r.x + 0.1 or l.x between r.x + 0.7 and r.x + 0.9",
            "l.x < r.x",
            "l.x >= r.x",
            "l.x = r.x",
            "l.x <> r.x",
            "l.x <=> r.x",
            "not (l.x < r.x)",
            "not abs(l.x - r.x) <= 0.1",
            "l.x * 2 < r.x + 1",
            "l.x - r.x <> 0.1",
        ],
    ),
    "float": (
        table(
            x=pa.array(
                [v for v in DOUBLES if v is None or abs(v) < 1e38 or v != v or abs(v) == INF],
                pa.float32(),
            )
        ),
        [
            "abs(l.x - r.x) <= 0.1",
            "abs(l.x - r.x) <= cast(0.1 as float)",
            "l.x between r.x - 0.1 and r.x + 0.1",
            "l.x between r.x - 1 and r.x + 1",
            "abs(l.x - r.x) < 1",
            "l.x < r.x",
            "l.x = r.x",
        ],
    ),
    "integer": (
        table(
            i=pa.array(INTEGERS, pa.int32()),
            b=pa.array([v and v * 2 for v in INTEGERS], pa.int64()),
            d=pa.array([v and v + 0.5 for v in INTEGERS], pa.float64()),
            m=pa.array(
                [None if v is None else Decimal(v) / 4 for v in INTEGERS], pa.decimal128(10, 2)
            ),
            s=pa.array([None if v is None else "xyzw"[v % 4] * (v % 3) for v in INTEGERS]),
        ),
        [
            "abs(l.i - r.i) <= 1",
            "abs(l.i - r.b) <= 2.5",
            "abs(l.i - r.d) <= 1.5",
            "abs(l.m - r.m) <= 0.25",
            "abs(l.m - r.i) < 1.25",
            "l.m < r.b",
            "l.m between r.i - 0.5 and r.i + 0.75",
            "l.i < r.b and l.b > r.i",
            "l.i + 1 = r.i",
            "l.i = r.d - 0.5",
            "l.s = r.s",
            "l.s <=> r.s",
            "l.s = r.s and abs(l.i - r.i) <= 5",
            "l.s = r.s and l.m <= r.m",
            "l.s < r.s and l.i <> r.i",
            "l.i % 3 = r.i % 3 and l.i < r.b",
            "l.i = r.i or l.i between r.i + 5 and r.i + 7",
            "l.i = r.b or l.s = r.s",
            SUM,
            "coalesce(l.s, 'none') = coalesce(r.s, 'none') and l.i <= r.i",
            "l.i between r.i - 1e0 and r.i + 1e0",
        ],
    ),
    "extreme": (
        table(b=pa.array([LONG, -LONG - 1, LONG - 1, 0, 1, -1, None], pa.int64())),
        [
            "l.b < r.b",
            "l.b <= r.b",
            "l.b <> r.b",
            "l.b = r.b",
            "l.b > r.b",
            "cast(l.b as double) = r.b",
        ],
    ),
    "time": (
        table(
            d=pa.array((DAYS * 2)[:6], pa.date32()),
            t=pa.array(MOMENTS, pa.timestamp("us", "UTC")),
        ),
        [
            "l.t between r.t - interval 5 seconds and r.t + interval 5 seconds",
            "l.t < r.t",
            "l.t - r.t <= interval 5 seconds",
            "l.t > r.t - interval 1 day and l.t <= r.t",
            "l.d = r.d",
            "l.d < r.t",
            "l.d <= r.d + interval 2 days and l.d >= r.d",
            "l.d between r.d - 2 and r.d + 2",
        ],
    ),
}


# No index helps here: the parts are residuals, and only a scan takes them.
KEYLESS = {"abs(l.x - r.x) <= cast(0.1 as float)", "l.i = r.b or l.s = r.s", SUM}


def spark_answers(spark: Any, data: pa.Table, conditions: list[str]) -> list[set[tuple[int, int]]]:
    frame = spark.createDataFrame(data).repartition(1)
    columns = [f"({text}) as c{number}" for number, text in enumerate(conditions)]
    crossed = frame.alias("l").crossJoin(frame.alias("r"))
    rows = crossed.selectExpr("l.id as l", "r.id as r", *columns).collect()
    return [
        {(row["l"], row["r"]) for row in rows if row[f"c{number}"]}
        for number in range(len(conditions))
    ]


@pytest.mark.parametrize("name", TABLES)
def test_every_condition_has_sparks_answer(spark: Any, name: str) -> None:
    data, conditions = TABLES[name]
    expected = spark_answers(spark, data, conditions)
    for condition, answer in zip(conditions, expected, strict=True):
        for algorithm in ("scan",) if condition in KEYLESS else ("bi_sort", "scan"):
            joined = sj.join_tables(data, data.slice(0), on=condition, algorithm=algorithm)
            pairs = list(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True))
            assert len(pairs) == len(set(pairs)), condition
            assert set(pairs) == answer, (condition, algorithm)


def test_bands_that_overflow_in_spark_have_the_exact_answer() -> None:
    values = [LONG, -LONG - 1, LONG - 1, -LONG, 0, 5, -5]
    data = table(b=pa.array(values, pa.int64()))
    for limit, sign in product(
        (0, 1, 5, LONG, 2 * LONG, 2 * LONG + 1, 2**65), ("<=", "<", ">=", ">")
    ):
        if limit == 0 and sign in ("<", ">="):
            continue  # never and always true: not a band
        joined = sj.join_tables(data, data.slice(0), on=f"abs(l.b - r.b) {sign} {limit}")
        pairs = set(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True))
        compare = {"<=": int.__le__, "<": int.__lt__, ">=": int.__ge__, ">": int.__gt__}[sign]
        assert pairs == {
            (i, j)
            for (i, one), (j, two) in product(enumerate(values), repeat=2)
            if compare(abs(one - two), limit)
        }, (sign, limit)


def test_a_time_window_is_a_band_in_spark_too(spark: Any) -> None:
    data, _ = TABLES["time"]
    window = sj.TimeWindow(before="5 seconds", after="1 day")
    joined = sj.join_tables(data, data.slice(0), on="l.id <= r.id", window=window, time="t")
    condition = "l.id <= r.id and r.t between l.t - interval 5 seconds and l.t + interval 1 day"
    [expected] = spark_answers(spark, data, [condition])
    assert timedelta(seconds=5) == window.before
    assert (
        set(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True)) == expected
    )
