"""What the suite `spark` compares: every pipeline and every way to join gives what it should."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import streamjoin as sj
from benchmarks.harness.report import Report
from benchmarks.harness.spark import inputs as spark_inputs
from benchmarks.harness.spark.pipelines import (
    DISCARDING,
    IN_MEMORY,
    OURS,
    STORING,
    counted,
    race,
    spark_own,
)
from benchmarks.harness.spark.session import Workbench
from benchmarks.spark import tables as spark_tables
from benchmarks.spark.tables import Way
from benchmarks.spojoin.spark import shape_of
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
    shape, own = spark_inputs.equal_shape(300), spark_own("own", IN_MEMORY)
    streams = spark_inputs.write_streams(tmp_path / "in", shape, 300, 2, 1, seed=1)
    pipelines = [counted(OURS), counted(STORING), counted(DISCARDING), counted(own)]
    ours, storing, discarding, theirs = race(bench, "tiny", streams, pipelines, 0, 1)
    tables = (
        pa.concat_tables(pq.read_table(path) for path in sorted((streams.folder / side).iterdir()))
        for side in ("left", "right")
    )
    expected = sj.join_tables(*tables, streams.on, streams.time_window, "ts").num_rows
    assert ours.delivered == theirs.delivered == expected
    assert storing.delivered == spark_inputs.MATCHES * 2 * streams.batch
    assert storing.told("live_rows") == ours.told("live_rows")
    assert storing.told("memory_bytes") == 0
    assert discarding.delivered is None
    assert [len(each.rates.values) for each in (ours, discarding)] == [2, 2]
    assert {"durations", "cores", "state"} == set(ours.breakdown())


def test_in_a_count_window_both_pipelines_store_and_give_as_much(spark, tmp_path):
    session = spark.newSession()
    sjs.configure(session)
    bench = Workbench(quiet_report(), session, tmp_path)
    shape = shape_of(Q1.with_matches(8, 1_000), 8)
    streams = spark_inputs.write_streams(tmp_path / "in", shape, 500, 4, 2, seed=1, counts=True)
    pipelines = [counted(OURS), counted(STORING), counted(DISCARDING)]
    ours, storing, discarding = race(bench, "tiny", streams, pipelines, 2, 1)
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
    tables = spark_tables.Tables.write(Workbench(quiet_report(), spark, tmp_path), 2_000)
    expected = tables.by_spark()
    assert expected[0] == pytest.approx(4_000, rel=0.1)
    assert tables.ours() == expected
    for way in (Way(1), Way(4), Way(16, "shuffle_hash", 4)):
        assert tables.by_hand(way) == expected
