"""Streams on Spark with columns of every type, and with keys that are skewed and drift."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from streamjoin import TimeWindow
from streamjoin import spark as sjs
from tests.spark.answers import duckdb_pairs, within
from tests.spark.conftest import far_away as far_away
from tests.spark.conftest import session as session
from tests.spark.streams.random_batches import SCHEMA, SECOND, flat, make_batches, on_time, table
from tests.spark.streams.running import Streams, finish, metrics, pairs

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FLAT = [
    "id", "t", "k", "x", "1.25bd as dec", "X'00ff' as bin", "date'2024-02-29' as day", "1Y as tiny",
    "interval '1 02:03:04.5' day to second as span", "if(id % 2 = 0, null, 'ünï') as text",
    "cast('12345678901234567890.12' as decimal(30, 2)) as wide", "3.5f as real", "true as yes",
    "timestamp'1969-12-31 23:59:59.123456' as at", "timestamp_ntz'2024-01-01 12:00:00' as ntz",
    "null as none",
]  # fmt: skip
NESTED = [
    *FLAT, "array(1, null, k) as a", "map('a', t, 'b', null) as m", "parse_json('[1]') as v",
    "struct(array(struct(t, timestamp_ntz'2024-07-01 12:00:00' as ntz)) as inner) as st",
]  # fmt: skip


def test_payload_of_every_type_passes_unchanged(far_away, tmp_path):
    streams, batches = Streams(far_away, tmp_path), make_batches(3, count=2, size=10)
    for batch in batches:
        streams.add(*map(table, batch))
    queries, expected = [], []
    window = TimeWindow("1 day")
    for columns in (FLAT, NESTED):
        frames = [frame.selectExpr(*columns) for frame in streams.read()]
        queries.append(streams.start(sjs.join(*frames, on="l.id < r.id", window=window, time="t")))
        left, right = (
            far_away.createDataFrame(table(rows)).selectExpr(*columns)
            for rows in flat(on_time(batches))
        )
        expected.append(left.alias("l").join(right.alias("r"), F.expr("l.id < r.id")))
    finish(*queries)
    for query, answer in zip(queries, expected, strict=True):
        found = far_away.table(query.name)
        assert [kind for _, kind in found.dtypes] == [kind for _, kind in answer.dtypes]
        rows = [sorted(repr(tuple(row)) for row in each.collect()) for each in (found, answer)]
        assert rows[0] == rows[1]
        assert len(rows[0]) > 20


def skewed(side, number, rows=12_000):
    """Nine of ten rows have one key, and later another; values drift."""
    rng = np.random.default_rng([side, number])
    times = np.sort(rng.integers(0, 10 * SECOND, rows)) + (1000 + 10 * number) * SECOND
    hot = np.where(rng.random(rows) < 0.9, 7 + number // 2, rng.integers(0, 10**6, rows))
    columns = {
        "id": np.arange(rows) + number * rows,
        "t": pa.array(times, SCHEMA.field("t").type),
        "k": pa.array(hot, pa.int32()),
        "s": pa.nulls(rows, pa.string()),
        "x": rng.random(rows) * 100 + 50 * number,
        "o": np.arange(rows),
    }
    return pa.table(columns, SCHEMA)


def test_a_hot_key_and_a_drifting_band_begin_new_epochs(session, tmp_path):
    streams, sides = Streams(session, tmp_path), ([], [])
    for number in range(3):
        for side, tables in enumerate(sides):
            tables.append(skewed(side, number))
        streams.add(sides[0][-1], sides[1][-1])
    joins = {"l.k = r.k": TimeWindow("1 ms"), "abs(l.x - r.x) <= 0.002": TimeWindow("2 seconds")}
    queries = [
        streams.start(streams.join(on, window=window, time="t")) for on, window in joins.items()
    ]
    finish(*queries)
    left, right = map(pa.concat_tables, sides)
    for query, (on, window) in zip(queries, joins.items(), strict=True):
        found = pairs(session.table(query.name))
        assert found == duckdb_pairs(left, right, f"{on} and {within(window)}"), on
        assert found.total() > 1000
        epochs = [each["epochs"] / 3 for each in metrics(query)]  # of each of three cores
        assert max(epochs) > 1, on
