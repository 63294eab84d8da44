"""What a checkpoint remembers of its join: changes that are refused, and those that are none."""

import json
import pickle
import sys
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.cloudpickle import dumps

import streamjoin as sj
from streamjoin.errors import SnapshotError, StreamJoinError
from streamjoin.options.checked import JoinOptions
from streamjoin.spark import session as sessions
from streamjoin.spark import tasks
from streamjoin.spark.api import stream_spec
from streamjoin.spark.planning import spec as specs
from streamjoin.spark.planning.inputs import prepare_inputs
from streamjoin.spark.state.join_facts import find_changes, split_words, type_name
from streamjoin.spark.state.segments import Manifest
from tests.spark.in_process import make_join

SCHEMA = pa.schema({"k": pa.int64(), "x": pa.float64(), "t": pa.timestamp("us", "UTC")})
WINDOW = {"window": sj.TimeWindow("5 seconds"), "time": "t"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("l.k % 7 = r.k", "  L.K%7=r.K  "),
        ("l.a between r.a AND r.b", "l.a BETWEEN r.a\n\tand r.b -- near"),
        ("l.a < r.a - -1", "l.a /* small */ <r.a- -1"),
        ("l.s = 'it''s' || r.`A b`", "l.s='it''s'||R.`A b`"),
        ("l.x < 1E3", "l.x < 1e3"),
    ],
)
def test_the_same_words(one, other):
    assert split_words(one) == split_words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("l.k % 7 = r.k", "l.k % 9 = r.k"),
        ("l.s = 'a  b'", "l.s = 'a b'"),
        ("l.s = 'A'", "l.s = 'a'"),
        ("l.s = '/* a */'", "l.s = ''"),
        ("l.s = 'x' -- y", "l.s = 'x -- y'"),
        ("l.`A` = r.a", "l.`a` = r.a"),
        ("l.a < r.a - -1", "l.a < r.a --1"),
        ("l.ab = r.c", "l.a b = r.c"),
        ("l.a = r.b", "l.a = r.b and true"),
    ],
)
def test_other_words(one, other):
    assert split_words(one) != split_words(other)


def test_names_that_differ_in_case_alone_are_told_apart():
    assert split_words("l.d < R.D AND l.e = r.E", ["d"]) == split_words(
        "L.d<r.D and l.E=r.e", ["d"]
    )
    assert split_words("l.d < r.D", ["d"]) != split_words("l.d < r.d", ["d"])
    columns = {"left columns": [["d", "int"], ["D", "int"]], "condition": "l.d = r.D"}
    assert find_changes(columns, {**columns, "condition": "l.D = r.D"})
    assert not find_changes(columns, {**columns, "condition": "L.d = R.D"})


def test_types_have_names_of_our_own():
    fields = [("a", pa.list_(pa.decimal128(5, 2))), ("b", pa.map_(pa.string(), pa.date32()))]
    assert type_name(pa.struct(fields)) == "struct<a:array<decimal(5,2)>,b:map<string,date>>"
    assert {type_name(kind) for kind in (pa.string(), pa.large_string(), pa.string_view())} == {
        "string"
    }
    assert type_name(pa.timestamp("us")) == "timestamp_ntz"
    assert type_name(pa.timestamp("us", "UTC")) == "timestamp"
    assert type_name(pa.duration("us")) == "interval day to second"


def change(first, **changes):
    """Return what differs from a join of (l.k = r.k) after changes."""
    return find_changes(json.loads(json.dumps(first.facts)), replace(first, **changes).facts)


def test_each_fact_is_compared_and_both_are_shown():
    first = make_join("l.k = r.k", SCHEMA, 2, **WINDOW)
    assert change(first) == []
    other = make_join(
        "l.k = r.k", SCHEMA, 2, window=sj.CountWindow(5), order=("k", "x"), ordered="inner"
    )
    told = "; ".join(find_changes(first.facts, other.facts))
    assert "window was TimeWindow(before=5 seconds, after=5 seconds) and is CountWindow(" in told
    assert "time was t and t and is nothing" in told
    assert "order was nothing and is k and x" in told
    assert "ordered was nothing and is" in told
    assert "routing was hash and is split" in told
    fewer = make_join("l.k = r.k", SCHEMA.remove(1), 2, **WINDOW)
    assert find_changes(first.facts, fewer.facts)[0] == (
        "left columns was k bigint, x double, t timestamp and is k bigint, t timestamp"
    )
    wider = make_join("l.k = r.k", SCHEMA, 3, **WINDOW)
    assert find_changes(first.facts, wider.facts) == ["cores was 2 and is 3"]


def test_emit_is_a_fact_of_windows_that_close():
    joins = [
        make_join("l.k = r.k", SCHEMA, 2, window=sj.TumblingWindow("1 minute"), time="t", emit=emit)
        for emit in ("close", "eager")
    ]
    assert find_changes(joins[0].facts, joins[1].facts) == ["emit was close and is eager"]


def test_a_state_of_another_format_is_not_looked_at_further():
    first = make_join("l.k = r.k", SCHEMA, 2, **WINDOW)
    old = Manifest({"format": 1, "core labels": [0, 2]})
    with pytest.raises(SnapshotError, match=r"its state has format 1, and this version 2\. Its"):
        old.check(first.facts)


def test_the_newer_wording_is_kept():
    first = make_join("l.k = r.k", SCHEMA, 2, **WINDOW)
    manifest = Manifest({**first.facts, "condition": "L.k=R.k"})
    manifest.check(first.facts)
    assert manifest.facts == first.facts


@pytest.fixture(scope="module")
def stream(session):
    """A stream with a watermark; it is never started."""
    frame = session.readStream.format("rate").load()
    marked = frame.selectExpr("value as k", "value / 3 as x", "timestamp as t")
    return marked.withWatermark("t", "1 second")


def facts_on_spark(stream, on, session=None, **others):
    config = JoinOptions.check(on, **{**WINDOW, **others}, threads=1)
    inputs = prepare_inputs(stream, stream, config)
    return stream_spec(session or stream.sparkSession, inputs, "auto", None, "streamjoin").facts


@pytest.mark.spark
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("l.k % 7 = r.k", "l.k % 9 = r.k"),
        ("l.k = r.k and l.x > 5", "l.k = r.k and l.x > 6"),
        ("l.k = r.k and l.x + r.x > 5", "l.k = r.k and l.x + r.x > 6"),
        ("l.k = r.k", "l.k = r.k and r.x > 6"),
        ("l.k = r.k and l.x + 1 < r.x", "l.k = r.k and l.x + 1 <= r.x"),
    ],
)
def test_what_spark_computes_is_part_of_the_condition(stream, was, now):
    saved = facts_on_spark(stream, was)
    assert any(each == f"condition was {was} and is {now}" for each in
               find_changes(saved, facts_on_spark(stream, now)))  # fmt: skip
    assert find_changes(saved, facts_on_spark(stream, was.upper().replace(" + ", "\n+"))) == []


@pytest.mark.spark
def test_computed_keys_tell_their_columns(stream):
    facts = facts_on_spark(stream, "l.k % 7 = r.k")
    assert facts["left columns"] == [
        ["k", "bigint"],
        ["x", "double"],
        ["t", "timestamp"],
        ["__streamjoin_key_l0", "bigint of k"],
    ]
    assert facts["right columns"][-1] == ["t", "timestamp"]


@pytest.mark.spark
def test_the_time_zone_counts_where_spark_evaluates_something(stream, far_away):
    there = far_away.readStream.format("rate").load()
    there = there.selectExpr("value as k", "value / 3 as x", "timestamp as t")
    there = there.withWatermark("t", "1 second")
    plain, hours = "l.k = r.k", "l.k = r.k and hour(l.t) = hour(r.t)"
    assert find_changes(facts_on_spark(stream, plain), facts_on_spark(there, plain)) == []
    assert find_changes(facts_on_spark(stream, hours), facts_on_spark(there, hours)) == [
        "time zone was UTC and is America/New_York"
    ]


@pytest.mark.spark
def test_names_of_utc_are_one_zone(stream):
    fresh = stream.sparkSession.newSession()
    for zone in ("UTC", "Etc/UTC", "Z", "+00:00", "GMT"):
        fresh.conf.set(sessions.ZONE, zone)
        assert dict(sessions.semantic_settings(fresh))["time zone"] == "UTC"
    fresh.conf.set(sessions.ZONE, "+01:00")
    assert dict(sessions.semantic_settings(fresh))["time zone"] == "+01:00"


def test_a_spec_is_opened_by_the_version_that_sealed_it(monkeypatch):
    spec = make_join("l.k = r.k", SCHEMA, 2, **WINDOW)
    sealed = dumps(spec)
    assert pickle.loads(sealed) == spec
    monkeypatch.setattr(specs, "__version__", "9.9.9")
    with pytest.raises(StreamJoinError) as caught:
        pickle.loads(sealed)
    assert f"the driver runs streamjoin {sj.__version__}, and this worker has streamjoin 9.9.9" in (
        str(caught.value)
    )
    assert sys.executable in str(caught.value)
    assert f"pip install 'streamjoin[spark]=={sj.__version__}'" in str(caught.value)


def test_what_is_sealed_is_not_read_by_another_version(monkeypatch):
    class Gone:
        def __reduce__(self):
            return _fail, ()

    with pytest.raises(StreamJoinError, match=r"the driver runs streamjoin 0\.0\.1"):
        specs.unseal_spec("0.0.1", dumps(Gone()))


def _fail():
    raise AssertionError("it was read")


class Task:
    """A task of a query whose checkpoint has some partitions."""

    def __init__(self, **properties):
        self.properties = properties

    def getLocalProperty(self, name):  # noqa: N802
        return self.properties.get(name)


@pytest.mark.parametrize(
    ("properties", "partitions"),
    [
        ({tasks.STATE_PARTITIONS: "4", sessions.PARTITIONS: "7"}, 4),
        ({sessions.PARTITIONS: "7"}, 7),
        ({sessions.PARTITIONS: "auto"}, None),
        ({}, None),
    ],
)
def test_tasks_know_the_partitions_of_their_query(monkeypatch, properties, partitions):
    monkeypatch.setattr(tasks.TaskContext, "get", lambda: Task(**properties))
    assert tasks.state_partitions() == partitions


def test_cores_follow_the_checkpoint_unless_they_were_asked_for(monkeypatch):
    asked = make_join("l.k = r.k", SCHEMA, 3, **WINDOW)
    left_open = replace(asked, has_fixed_cores=False)
    assert left_open.place() is left_open  # outside of tasks
    monkeypatch.setattr(specs, "state_partitions", lambda: 2)
    assert left_open.place().labels == tasks.choose_labels(2, 2)
    assert left_open.place().facts["cores"] == 2
    with pytest.raises(StreamJoinError) as caught:
        asked.place()
    assert "cores=3 is more than the 2 partitions with which this checkpoint began" in str(
        caught.value
    )
    assert "ask for cores=2 or leave cores out" in str(caught.value)
    monkeypatch.setattr(specs, "state_partitions", lambda: 8)
    assert asked.place().labels == tasks.choose_labels(3, 8)
