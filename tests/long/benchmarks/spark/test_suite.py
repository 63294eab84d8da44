"""What the suite `spark` compares: every pipeline and every way to join gives what it should."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import streamjoin as sj
from benchmarks.harness.report import Report
from benchmarks.harness.spark import inputs
from benchmarks.harness.spark.pipelines import (
    DISCARDING,
    IN_MEMORY,
    OURS,
    STORING,
    count_rows,
    make_spark_own,
    race_pipelines,
)
from benchmarks.harness.spark.session import Workbench
from benchmarks.spark import tables
from benchmarks.spark.tables import Buckets
from benchmarks.spojoin.spark import make_shape
from benchmarks.spojoin.spark_tables import Trips
from benchmarks.spojoin.workloads import Q1
from streamjoin import spark as sjs

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def quiet_report():
    return Report("example", console=Console(file=io.StringIO(), width=200))


def test_pipelines_do_what_they_are_compared_for(spark, tmp_path):
    session = spark.newSession()
    sjs.configure(session)
    bench = Workbench(quiet_report(), session, tmp_path)
    shape, own = inputs.equal_shape(300), make_spark_own("own", IN_MEMORY)
    streams = inputs.write_streams(tmp_path / "in", shape, 300, 2, 1, seed=1)
    pipelines = [count_rows(OURS), count_rows(STORING), count_rows(DISCARDING), count_rows(own)]
    ours, storing, discarding, theirs = race_pipelines(bench, "tiny", streams, pipelines, 0, 1)
    tables = (
        pa.concat_tables(pq.read_table(path) for path in sorted((streams.folder / side).iterdir()))
        for side in ("left", "right")
    )
    expected = sj.join_tables(*tables, streams.on, streams.time_window, "ts").num_rows
    assert ours.delivered == theirs.delivered == expected
    assert storing.delivered == inputs.MATCHES * 2 * streams.batch
    assert storing.told("live_rows") == ours.told("live_rows")
    assert storing.told("memory_bytes") == 0
    assert discarding.delivered is None
    assert [len(each.rates.values) for each in (ours, discarding)] == [2, 2]
    assert {"durations", "cores", "state"} == set(ours.breakdown())


def test_in_a_count_window_both_pipelines_store_and_give_as_much(spark, tmp_path):
    session = spark.newSession()
    sjs.configure(session)
    bench = Workbench(quiet_report(), session, tmp_path)
    shape = make_shape(Q1.with_matches(8, 1_000), 8)
    streams = inputs.write_streams(tmp_path / "in", shape, 500, 4, 2, seed=1, counts=True)
    pipelines = [count_rows(OURS), count_rows(STORING), count_rows(DISCARDING)]
    ours, storing, discarding = race_pipelines(bench, "tiny", streams, pipelines, 2, 1)
    assert storing.told("matches") == 8 * streams.batch
    assert ours.told("matches") == pytest.approx(8 * streams.batch, rel=0.1)
    for name in ("probes", "live_rows", "segments", "rows_left", "rows_right"):
        assert storing.told(name) == ours.told(name) > 0, name
    assert storing.told("live_rows") == 2 * 1_000
    assert storing.told("memory_bytes") == 0
    assert discarding.delivered is None


def test_trips_are_joined_as_spark_joins_them(spark, tmp_path):
    trips = Trips.write(Workbench(quiet_report(), spark, tmp_path), 2_000)
    found = trips.ours()
    assert found == trips.by_spark()
    assert found[0] == trips.pairs == pytest.approx(20_000, rel=0.1)


def test_all_ways_to_join_tables_give_the_same(spark, tmp_path):
    made = tables.Tables.write(Workbench(quiet_report(), spark, tmp_path), 2_000)
    expected = made.by_spark()
    assert expected[0] == pytest.approx(4_000, rel=0.1)
    assert made.ours() == expected
    for way in (Buckets(1), Buckets(4), Buckets(16, "shuffle_hash", 4)):
        assert made.by_hand(way) == expected
