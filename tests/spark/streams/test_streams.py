"""Streams joined on Spark, against the same rows as tables, batch by batch.

Queries over the same files run side by side: a micro-batch takes a second, mostly of waiting.
"""

import pytest
from pyspark.sql import functions as F

from streamjoin import CountWindow, TimeWindow
from tests.oracle import join_by_count, join_by_time
from tests.spark.streams.random_batches import (
    SECOND,
    WINDOW,
    flat,
    known,
    make_batches,
    near,
    on_time,
    same,
    table,
    watermarks,
)
from tests.spark.streams.running import Streams, finish, metrics, pairs, total

pytestmark = pytest.mark.spark


def has(*names):
    """Whether a row has keys, and so can match; the side does not matter."""
    return lambda row, side: known(*(row[name] for name in names))


# What is asked for, the same in Python, and which rows reach the cores and can match there.
JOINS = [
    ({"on": "l.k = r.k", "algorithm": "rap_table"}, same, has("k")),
    ({"on": "abs(l.x - r.x) <= 0.02 and l.k = r.k", "routing": "range", "cores": 2,
      "algorithm": "wib_tree"},
     lambda one, two: near(one, two) and same(one, two), has("k", "x")),
    ({"on": "l.x < r.x and l.k > r.k", "algorithm": "scan"},
     lambda one, two: known(one["x"], two["x"], one["k"], two["k"])
     and one["x"] < two["x"] and one["k"] > two["k"], has("k", "x")),
    ({"on": "sqrt(l.k) = sqrt(r.k) and l.s || r.s = 'ab' and r.x > 0.1", "cores": 1,
      "algorithm": "b_tree"},
     lambda one, two: same(one, two) and one["s"] + two["s"] == "ab"
     and two["x"] is not None and two["x"] > 0.1,
     lambda row, side: row["k"] is not None and (side == 0 or (row["x"] or 0) > 0.1)),
]  # fmt: skip


def held(batches, number, can_match):
    """Return the fewest and the most rows that may be kept after a batch."""
    marks, least, most = watermarks(batches), 0, 0
    for batch in on_time(batches)[: number + 1]:
        for side, reach in enumerate((WINDOW.after_us, WINDOW.before_us)):
            rows = [row for row in batch[side] if can_match(row, side)]
            needed = [row for row in rows if row["t"] + reach > marks[number]]
            least += len(needed)
            most += len(rows) if needed else 0
    return least, most


def check_time_windows(session, folder, joins):
    """Run joins side by side over the same streams, and check what they give."""
    streams, batches = Streams(session, folder), make_batches(6, count=4, latest=14)
    for batch in batches:
        streams.add(*map(table, batch))
    queries = [streams.start(streams.join(window=WINDOW, time="t", **join)) for join, *_ in joins]
    finish(*queries)
    rows = on_time(batches)
    for query, (join, predicate, can_match) in zip(queries, joins, strict=True):
        expected = join_by_time(*flat(rows), predicate, WINDOW.before_us, WINDOW.after_us)
        assert pairs(session.table(query.name)) == expected, join
        told = metrics(query)
        assert [each["batch"] for each in told] == [0, 1, 2, 3, 4]  # the last has no rows
        late = [
            sum(
                can_match(row, side)
                for side in (0, 1)
                for row in all_[side]
                if row not in kept[side]
            )
            for all_, kept in zip(batches, rows, strict=True)
        ]
        assert [each["late"] for each in told] == [*late, 0]
        assert sum(late) > 5
        if "'ab'" in join["on"]:
            assert total(told, "matches") > expected.total()  # Spark filters them further
        else:
            assert total(told, "matches") == expected.total()
            assert total(told, "rows_left") == len(flat(batches)[0])
            assert total(told, "rows_right") == len(flat(batches)[1])
        cores = join.get("cores", 3)
        for each in told:
            least, most = held(batches, each["batch"], can_match)
            assert least <= each["live_rows"] <= most, (join, each["batch"])
            assert each["state_rows"] <= each["segments"] + 2 * cores
            assert (each["state_bytes"] > 0) == (each["segments"] > 0)


def test_time_windows(session, tmp_path):
    check_time_windows(session, tmp_path, [JOINS[1], JOINS[3]])


def test_late_rows_are_those_that_spark_drops(session, tmp_path):
    def rows(first, *seconds):
        return table([{"id": first + i, "t": t * SECOND, "k": 1} for i, t in enumerate(seconds)])

    streams = Streams(session, tmp_path)
    streams.add(rows(0, 100, 101), rows(0, 100))  # leaves the watermark at 98
    streams.add(rows(10, 97, 98, 99, 110), rows(10, 98, 110))  # 108
    streams.add(rows(20, 98, 99, 105, 108, 120), rows(20, 97, 107, 108, 109, 120))
    streams.add(rows(30, 117, 118, 119), rows(30, 107, 108, 117, 119))
    left, right = streams.read()
    within = "r.t between l.t - interval 4 seconds and l.t + interval 2 seconds"
    own = left.alias("l").join(right.alias("r"), F.expr(f"l.k = r.k and {within}"))
    queries = [
        streams.start(streams.join("l.k = r.k", window=WINDOW, time="t")),
        streams.start(own.select("l.id", F.col("r.id").alias("id_right"))),
    ]
    finish(*queries)
    ours, sparks = (pairs(session.table(query.name)) for query in queries)
    dropped = sum(p.stateOperators[0].numRowsDroppedByWatermark for p in queries[1].recentProgress)
    assert ours == sparks
    assert total(metrics(queries[0]), "late") == dropped


@pytest.mark.slow
def test_rows_that_were_left_out_move_the_watermark_too(session, tmp_path):
    def rows(first, *seconds):
        return table([{"id": first + i, "t": t * SECOND, "k": 1} for i, t in enumerate(seconds)])

    streams = Streams(session, tmp_path)
    streams.add(rows(0, 100), rows(0, 100))  # leaves the watermark at 98
    streams.add(rows(10, 107), rows(10, 107))  # odd seconds are left out; 105
    streams.add(rows(20, 98, 100, 104), rows(20, 98, 100, 104, 106))  # late by 98, not by 105
    streams.add(rows(30, 171), rows(30, 171))  # 169
    streams.add(rows(40, 173), rows(40, 173))  # nothing is held any more; 171
    streams.add(rows(50, 168, 170, 172), rows(50, 168, 170, 172))  # late by 169, not by 171
    streams.add(rows(60, 301), rows(60, 301))
    left, right = streams.read()
    # Spark does not push conditions on the time below the watermark.
    on = "l.k = r.k and unix_seconds(l.t) % 2 = 0 and unix_seconds(r.t) % 2 = 0"
    within = "r.t between l.t - interval 10 seconds and l.t + interval 10 seconds"
    own = left.alias("l").join(right.alias("r"), F.expr(f"{on} and {within}"))
    queries = [
        streams.start(streams.join(on, window=TimeWindow("10 seconds"), time="t")),
        streams.start(own.select("l.id", F.col("r.id").alias("id_right"))),
    ]
    finish(*queries)
    ours, sparks = (pairs(session.table(query.name)) for query in queries)
    dropped = sum(p.stateOperators[0].numRowsDroppedByWatermark for p in queries[1].recentProgress)
    assert sparks[21, 21] == sparks[51, 51] == 1
    assert ours == sparks
    assert total(metrics(queries[0]), "late") == dropped == 4
    assert metrics(queries[0])[-1]["state_rows"] == 0


@pytest.mark.slow
def test_state_goes_when_the_watermark_has_passed(session, tmp_path):
    def rows(second, count, key=1):
        times = range(second * SECOND, (second + 2) * SECOND, 2 * SECOND // count)
        return table([{"id": i, "t": t, "k": key, "x": key} for i, t in enumerate(times)])

    streams = Streams(session, tmp_path)
    streams.add(rows(100, 50), rows(100, 50))
    streams.add(rows(900, 8), rows(900, 8))
    streams.add(rows(990, 1, None), rows(990, 1, None))  # they match nothing, but tell the time
    joins = [{"on": "abs(l.x - r.x) <= 1"}, {"on": "l.x <= r.x"}]
    queries = [streams.start(streams.join(window=WINDOW, time="t", **join)) for join in joins]
    finish(*queries)
    for query in queries:
        told = metrics(query)
        assert [each["live_rows"] for each in told] == [100, 116, 16, 0]
        assert told[-1]["segments"] == told[-1]["state_bytes"] == told[-1]["state_rows"] == 0
        assert session.table(query.name).count() == 50 * 50 + 8 * 8


@pytest.mark.slow
def test_count_windows(session, tmp_path):
    streams, batches = Streams(session, tmp_path, delay=None), make_batches(2, count=3)
    for batch in batches:
        streams.add(*map(table, batch))
    window = CountWindow(left=30, right=12)
    joins = [
        # Rows that a condition on one side leaves out count too, and nobody divides by zero.
        ({"on": "l.k <> 0 and r.k <> 0 and 12 / l.k = 12 / r.k and r.s <> 'a'",
          "algorithm": "wib_tree"},
         lambda one, two: same(one, two) and one["k"] != 0 and two["s"] != "a"),
        ({"on": "abs(l.x - r.x) <= 0.02 and l.s || r.s <> 'ab'", "order": "o", "cores": 2,
          "algorithm": "rap_table"},
         lambda one, two: near(one, two) and one["s"] + two["s"] != "ab"),
    ]  # fmt: skip
    queries = [streams.start(streams.join(window=window, **join)) for join, _ in joins]
    finish(*queries)
    for query, (join, predicate) in zip(queries, joins, strict=True):
        expected = join_by_count(batches, predicate, 30, 12, join.get("order"))
        assert pairs(session.table(query.name)) == expected, join
        told = metrics(query)
        assert total(told, "rows_left") == len(flat(batches)[0])
        assert max(each["live_rows"] for each in told) <= 30 + 12 + 2 * 40
        assert told[-1]["live_rows"] > 20
