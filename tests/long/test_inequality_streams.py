"""Streams on Spark joined by two inequalities within time, and with themselves: against DuckDB.

What `spark.test_inequalities` says of count windows, for queries that take as long again.
"""

import numpy as np
import pytest

from streamjoin import CountWindow, TimeWindow
from streamjoin import spark as sjs
from tests.spark.answers import duckdb_pairs, within
from tests.spark.conftest import session as session
from tests.spark.streams.running import total
from tests.spark.streams.test_inequalities import (
    Q1,
    Q3,
    counted,
    false_positives,
    make_batches,
    pairs_of,
    racks,
    run,
    ties,
    whole,
    write,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_q1_in_a_time_window(session, tmp_path):
    window, on = TimeWindow(before="4 seconds", after="2 seconds"), Q1.replace("<", "<=")
    batches = make_batches(ties, [(50, 60), (45, 50)])
    streams = write(session, tmp_path, batches, delay="2 seconds")
    join = streams.join(on, window=window, time="t", algorithm="spo_join")
    [(rows, told)] = run(streams, [join])
    expected = duckdb_pairs(*whole(batches), f"{on} and {within(window)}")
    assert pairs_of(rows) == expected
    assert total(told, "matches") == expected.total() > 100
    assert total(told, "late") == 0


def test_q3_joins_a_stream_with_itself(session, tmp_path):
    both = [(trips, trips) for trips, _ in make_batches(ties, [(60, 0), (50, 0)])]
    streams, window = write(session, tmp_path, both), CountWindow(25)
    trips = streams.read()[0]
    join = sjs.join(trips, trips, on=Q3, window=window, algorithm="spo_join")
    [(rows, _)] = run(streams, [join])
    left, right = whole(both)
    before, after = (np.repeat(each, [60, 50]) for each in ([0, 60], [60, 110]))
    met = left.schema.get_field_index("met")
    sides = left.set_column(met, "met", [before]), right.set_column(met, "met", [after])
    expected = counted(*sides, Q3, window)
    assert pairs_of(rows) == expected
    assert expected.total() > 100


def test_q1_in_windows_much_smaller_and_much_larger_than_a_batch(session, tmp_path):
    batches = make_batches(racks, [(4_000, 3_500), (2_000, 4_500), (4_200, 10)])
    streams = write(session, tmp_path, batches)
    cases = {
        "l.x < r.x and l.y >= r.y": CountWindow(9),
        Q1: CountWindow(left=7_000, right=5_000),
    }
    joins = [streams.join(on, window=window, algorithm="spo_join") for on, window in cases.items()]
    results = run(streams, joins)
    for (on, window), (rows, told) in zip(cases.items(), results, strict=True):
        assert false_positives(rows, window) == []
        expected = counted(*whole(batches), on, window)
        assert pairs_of(rows) == expected, on
        assert total(told, "matches") == expected.total() > 5_000
        # A segment goes when all of its rows have left, so a batch a side may be too many.
        assert told[-1]["live_rows"] < window.left + window.right + 4_200 + 4_500
