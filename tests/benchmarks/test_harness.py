"""The measuring harness: what is called when, and what a report holds. No time is asserted."""

import io
import json
import math
import os
import platform
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import streamjoin as sj
from benchmarks.harness import machine
from benchmarks.harness.machine import describe_commit, describe_machine, describe_versions
from benchmarks.harness.report import Claim, Report
from benchmarks.harness.series import Series
from benchmarks.harness.spark import inputs as spark_inputs
from benchmarks.harness.spark.baselines import side_by_side
from benchmarks.harness.turns import check_agreement, repeat, take_turns, time_turns
from benchmarks.registry import SUITES, find_suite
from benchmarks.spojoin.spark import shape_of
from benchmarks.spojoin.workloads import Q1, Q3, Rows, crossings
from streamjoin.errors import StreamJoinError


def quiet_report(**options):
    return Report("example", console=Console(file=io.StringIO(), width=200), **options)


def test_a_series_has_a_median_and_a_spread():
    series = Series("x", (5.0, 1.0, 2.0, 3.0, 4.0))
    assert (series.median, series.min, series.max, series.iqr) == (3.0, 1.0, 5.0, 2.0)
    assert Series("one", (7.0,)).summary() == {
        "name": "one",
        "unit": "s",
        "median": 7.0,
        "min": 7.0,
        "max": 7.0,
        "iqr": 0.0,
    }


def test_an_empty_series_is_refused():
    with pytest.raises(ValueError, match="'x' is empty"):
        Series("x", ())
    with pytest.raises(ValueError, match="rounds is 0"):
        repeat(lambda: None, rounds=0)


def test_measuring_one_thing_calls_it_in_warmups_and_rounds():
    calls = []
    [series] = time_turns({"append": lambda: calls.append(1)}, rounds=4, warmup=2).values()
    assert len(calls) == 6
    assert (series.name, series.unit) == ("append", "s")
    assert len(series.values) == 4
    assert all(value >= 0 for value in series.values)


def rivals_that_call(calls, names="ab"):
    """Return rivals that note each call, and measure how many there have been."""
    return {name: lambda name=name: calls.append(name) or len(calls) for name in names}


def test_competitors_take_turns():
    calls = []
    measured = take_turns(rivals_that_call(calls), rounds=3, warmup=1)
    assert "".join(calls) == "ab" + "ababab"
    assert measured == {"a": [3, 5, 7], "b": [4, 6, 8]}


def test_a_slow_competitor_has_fewer_rounds_and_no_warmup():
    calls = []
    measured = take_turns(rivals_that_call(calls), rounds=3, warmup=1, limits={"b": 2})
    assert "".join(calls) == "a" + "ababa"
    assert measured == {"a": [2, 4, 6], "b": [3, 5]}


@pytest.mark.parametrize(("seconds", "most", "rounds"), [(0, None, 2), (60, 7, 7), (60, 1, 2)])
def test_rounds_go_on_until_there_are_enough(seconds, most, rounds):
    assert repeat(lambda: 1, 2, seconds=seconds, most=most) == [1] * rounds


def test_rivals_that_differ_are_found_out():
    check_agreement({"ours": 3, "theirs": 3}, 3)
    with pytest.raises(AssertionError, match="matches differ"):
        check_agreement({"ours": 3, "theirs": 4})
    with pytest.raises(AssertionError, match="4 matches expected"):
        check_agreement({"ours": 3}, 4)


def test_claims_know_whether_they_are_reached():
    report = quiet_report()
    ours, theirs = Series("ours", (1.0, 2.0, 3.0)), Series("theirs", (8.0,))
    assert report.speedup("speed", ours, theirs, target=4).reached
    assert not report.speedup("more speed", ours, theirs, target=4.1).reached
    assert report.at_most("memory", 2.5, 2.5).reached
    assert not report.at_most("memory", 2.6, 2.5).reached
    assert not report.at_least("unknown", math.nan, 1).reached
    assert report.series == [ours, theirs]


def test_the_json_holds_all_that_is_needed_to_repeat_the_run(tmp_path):
    report = quiet_report(quick=True)
    assert report.seed("data", 42) == 42
    report.settings["threads"] = 2
    ours, theirs = Series("ours", (1.0, 2.0)), Series("theirs", (3.0,))
    report.claim(Claim("speed", math.inf, 3.0, True, ours, theirs, note="a note"))
    path = tmp_path / "report.json"
    report.to_json(path)
    data = json.loads(path.read_text())
    assert data["suite"] == "example"
    assert data["quick"] is True
    assert data["seeds"] == {"data": 42}
    assert data["settings"] == {"threads": 2}
    assert data["series"][0]["values"] == [1.0, 2.0]
    assert set(data["commit"]) == {"revision", "dirty"}
    assert set(data["machine"]) == {"cores", "memory_gib", "cpu", "python", "platform"}
    (claim,) = data["claims"]
    assert claim["value"] is None  # JSON has no infinity
    assert claim["ours"]["median"] == 1.5
    assert claim["theirs"]["iqr"] == 0.0
    assert (claim["target"], claim["direction"], claim["reached"]) == (3.0, "at least", True)


def test_the_machine_names_nobody():
    described = describe_machine(), describe_versions(), describe_commit()
    text = json.dumps(described)
    assert os.getcwd() not in text
    assert os.path.expanduser("~") not in text
    if len(platform.node()) > 3:
        assert platform.node() not in text


def test_the_commit_is_that_of_the_checkout(monkeypatch, tmp_path):
    commit = describe_commit()
    if commit["revision"] is not None:  # a checkout, not a copy of its files
        assert re.fullmatch("[0-9a-f]{40}", commit["revision"])
        assert isinstance(commit["dirty"], bool)
    monkeypatch.setattr(machine, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert describe_commit() == {"revision": None, "dirty": None}


def test_versions_of_all_competitors_are_recorded():
    versions = describe_versions()
    assert {"streamjoin", "numpy", "numba", "pyarrow", "duckdb", "polars", "sqlglot"} <= set(
        versions
    )
    assert versions["numpy"]


def test_the_table_shows_every_claim():
    report = quiet_report()
    report.at_least("a speed", 1234.5, 1000, Series("ours", (0.001,)))
    report.at_most("a size", 3.25, 2.5, note="too much")
    report.console.print(report.table())
    text = report.console.file.getvalue()
    for expected in ("a speed", "1,234", "at least 1,000", "yes", "0.001 s", "at most 2.5", "no"):
        assert expected in text


def test_a_step_says_what_ran():
    report = quiet_report()
    with report.step("sorting"):
        pass
    assert "sorting" in report.console.file.getvalue()


def test_an_unknown_suite_lists_the_suites():
    with pytest.raises(StreamJoinError, match=r"no benchmark suite 'nope'.*engine"):
        find_suite("nope")
    assert find_suite("engine") is SUITES["engine"]


def test_details_are_written_and_never_lost(tmp_path):
    report = quiet_report()
    report.detail("skew", {"uniform": 1.0, "hot": math.nan})
    report.to_json(tmp_path / "report.json")
    details = json.loads((tmp_path / "report.json").read_text())["details"]
    assert details == {"skew": {"uniform": 1.0, "hot": None}}


@pytest.mark.parametrize(
    "shape",
    [
        spark_inputs.UNIFORM,
        spark_inputs.CROWDED,
        spark_inputs.MANY_SYMBOLS,
        spark_inputs.HOT_SYMBOL,
        spark_inputs.equal_shape(20_000),
    ],
    ids=["uniform", "crowded", "symbols", "hot", "equal"],
)
def test_a_row_of_every_shape_finds_two_matches(shape):
    rows = 20_000
    left, right = (pa.table(shape.draw(np.random.default_rng(seed), rows)) for seed in (1, 2))
    joined = sj.join_tables(left, right, on=shape.on(rows))
    assert joined.num_rows / rows == pytest.approx(spark_inputs.MATCHES, rel=0.05)


def test_streams_are_files_in_the_order_of_their_times(tmp_path):
    streams = spark_inputs.write_streams(tmp_path, spark_inputs.UNIFORM, 100, 3, 2, seed=1)
    for side in ("left", "right"):
        files = sorted((tmp_path / side).iterdir(), key=lambda path: path.stat().st_mtime)
        assert [path.name for path in files] == ["000.parquet", "001.parquet", "002.parquet"]
        times = pa.concat_tables(pq.read_table(path) for path in files)["ts"].cast(pa.int64())
        gaps = np.diff(times.to_numpy())
        assert gaps.min() == gaps.max() == 600_000  # microseconds: a minute a batch
    assert (streams.batch, str(streams.time_window.before_us)) == (200, "118000000")


def test_streams_of_count_windows_have_no_times(tmp_path):
    shape = shape_of(Q1.with_matches(5, 200), 5)
    streams = spark_inputs.write_streams(tmp_path, shape, 100, 1, 2, seed=1, counts=True)
    assert pq.read_table(tmp_path / "left").column_names == ["id", "power", "cool"]
    assert (streams.extent, streams.time, streams.matches) == (sj.CountWindow(200), None, 5)


@pytest.mark.parametrize("span", [5, 10**6])
@pytest.mark.parametrize("query", [Q1, Q3], ids=["Q1", "Q3"])
def test_matches_of_two_inequalities_are_counted(query, span):
    rng = np.random.default_rng(span)
    rows = Rows(rng.integers(0, span, 150), rng.integers(0, span, 150))
    table = query.batch(rows)
    assert crossings(rows) == sj.join_tables(table, table, on=query.on).num_rows


@pytest.mark.parametrize("query", [Q1, Q3], ids=["Q1", "Q3"])
def test_noise_gives_as_many_matches_as_asked_for(query):
    tuned = query.with_matches(30, 20_000)
    rows = tuned.rows(np.random.default_rng(2), 20_000)
    assert crossings(rows) / 20_000 == pytest.approx(30, rel=0.05)


def test_rows_side_by_side_are_as_many_as_asked_for():
    left, right = (pa.record_batch({name: list(range(5))}) for name in "ab")
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    given = list(side_by_side([left, right.slice(0, 3)], 8, schema))
    assert [batch.num_rows for batch in given] == [3, 3, 2]
    assert all(batch.schema == schema for batch in given)
