"""Sessions, labels, and what `join` refuses: with the value, the rule and the way out."""

import subprocess
import sys

import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql import functions as F

import streamjoin
from streamjoin import CountWindow, TimeWindow, TumblingWindow
from streamjoin import spark as sjs
from streamjoin.errors import ConditionError, SchemaError, StreamJoinError, WindowError
from streamjoin.spark import session as sessions
from streamjoin.spark.session import (
    BATCH_BYTES,
    CHANGELOG,
    CHECKPOINTS,
    FULL_RETRY,
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    check_session,
    check_workers,
    make_question,
    read_settings,
)
from streamjoin.spark.tasks import choose_labels, hash_int
from tests.spark.streams.random_batches import make_batches, table
from tests.spark.streams.running import Streams

pytestmark = pytest.mark.spark

WINDOW = {"window": TimeWindow("10 seconds"), "time": "ts"}


@pytest.fixture(scope="module")
def stream(session):
    """A stream with a watermark; it is never started."""
    frame = session.readStream.format("rate").load()
    return frame.selectExpr("value as id", "timestamp as ts").withWatermark("ts", "1 second")


@pytest.fixture(scope="module")
def frame(session):
    return session.range(3).withColumn("ts", F.current_timestamp())


@pytest.fixture
def fresh(spark):
    """A session in which nothing about streams is set."""
    session = spark.newSession()
    for name in (PARTITIONS, PROVIDER, CHANGELOG, CHECKPOINTS, BATCH_BYTES, FULL_RETRY):
        session.conf.unset(name)
    return session


def test_hashes_are_sparks(session):
    values = [*range(-300, 300), 2**31 - 1, -(2**31), *(7**n % 2**31 for n in range(50))]
    frame = session.createDataFrame([(value,) for value in values], "value int")
    found = frame.select("value", F.hash("value").alias("hash")).collect()
    assert {row["value"]: row["hash"] for row in found} == {v: hash_int(v) for v in values}


def test_labels_fall_into_partitions_of_their_own(session):
    cases = [(1, 1), (2, 2), (3, 3), (5, 8), (16, 16), (64, 64), (3, 200)]
    rows = [(*case, label) for case in cases for label in choose_labels(*case)]
    frame = session.createDataFrame(rows, "cores int, partitions int, label int")
    places = F.count_distinct(F.pmod(F.hash("label"), F.col("partitions")))
    found = frame.groupBy("cores", "partitions").agg(places.alias("places")).collect()
    assert sorted(row["places"] for row in found) == sorted(cores for cores, _ in cases)
    assert all(choose_labels(*case)[0] == 0 for case in cases)


def test_labels_are_where_group_by_sends_them(session):
    chosen = choose_labels(3, 3)
    frame = session.createDataFrame([(label,) for label in chosen], "core int")
    places = frame.repartition(3, "core").select(F.spark_partition_id().alias("p")).distinct()
    assert places.count() == 3


def test_configure_sets_what_is_unset_and_nothing_else(fresh):
    bound = fresh.conf.get(BATCH_BYTES)
    expected = {
        PROVIDER: ROCKSDB, CHANGELOG: "true", CHECKPOINTS: "2", PARTITIONS: "5",
        FULL_RETRY: "false",
    }  # fmt: skip
    assert sjs.configure(fresh, cores=5) == expected
    assert fresh.conf.get(BATCH_BYTES) == bound  # which other Python functions rely on
    assert fresh.conf.get(PARTITIONS) == "5"
    assert sjs.configure(fresh, cores=7) == {}
    assert fresh.conf.get(PARTITIONS) == "5"


@pytest.mark.parametrize(
    ("on", "join", "is_full"),
    [
        ("abs(l.x - r.x) <= 1", {"window": TimeWindow("1 second"), "time": "t"}, "false"),
        ("l.k = r.k", {"window": TimeWindow("1 second"), "time": "t"}, "true"),
        ("l.k = r.k", {"window": TumblingWindow("1 second"), "time": "t"}, "false"),
        ("l.x < r.x", {"window": TimeWindow("1 s"), "time": "t", "ordered": "outer"}, "true"),
        ("l.x < r.x", {"window": CountWindow(3)}, "true"),
    ],
)
def test_steps_are_repeated_in_full_where_the_order_of_rows_decides(
    fresh, tmp_path, on, join, is_full
):
    sjs.configure(fresh, cores=2)
    streams = Streams(fresh, tmp_path)
    streams.add(*[table(make_batches(1, count=1)[0][side]) for side in (0, 1)])
    streams.join(on, **join)
    assert fresh.conf.get(FULL_RETRY) == is_full


def test_another_state_store_keeps_the_checkpoints_that_it_knows(fresh):
    fresh.conf.set(PROVIDER, ROCKSDB.replace("RocksDB", "HDFSBacked"))
    assert CHECKPOINTS not in sjs.configure(fresh, cores=2)
    fresh.conf.set("spark.sql.shuffle.partitions", "2")
    rates = fresh.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    query = rates.groupBy().count().writeStream.format("noop").outputMode("complete")
    query.trigger(once=True).start().awaitTermination()


def test_configure_takes_as_many_cores_as_tasks_run_at_once(fresh):
    fresh.conf.set(CHANGELOG, "false")
    fresh.conf.set(BATCH_BYTES, "1000000")
    expected = {PROVIDER: ROCKSDB, CHECKPOINTS: "2", PARTITIONS: "2", FULL_RETRY: "false"}
    assert sjs.configure(fresh, narrow_rows=True) == expected
    assert fresh.conf.get(CHANGELOG) == "false"


def test_configure_lifts_the_bound_of_bytes_where_rows_are_narrow(fresh):
    assert sjs.configure(fresh, narrow_rows=True)[BATCH_BYTES] == "2147483647"


class Databricks:
    """As much of a session as is asked for settings; some cannot be made here."""

    def __init__(self, session, **changed):
        self.session, self.changed = session, {PARTITIONS: "auto", **changed}
        self.conf = self

    def get(self, name, *default):
        return self.changed.get(name) or self.session.conf.get(name, *default)

    def set(self, name, value):
        self.changed[name] = value

    @property
    def getAll(self):  # noqa: N802
        return {**read_settings(self.session), **self.changed}

    def range(self, *numbers):
        return self.session.range(*numbers)


def test_partitions_that_databricks_would_choose(fresh):
    session = Databricks(fresh)
    fresh.conf.set(PROVIDER, ROCKSDB)
    with pytest.raises(StreamJoinError) as caught:
        check_session(session, None)
    assert f"{PARTITIONS} is 'auto', and the state of a streaming join has a number of" in str(
        caught.value
    )
    assert "call streamjoin.spark.configure(spark), which sets one" in str(caught.value)
    assert sjs.configure(session)[PARTITIONS] == "2"
    assert check_session(session, None) == 2


def test_configure_counts_executors_that_are_yet_to_come(fresh):
    executors = {"spark.executor.instances": "4", "spark.executor.cores": "3"}
    assert sjs.configure(Databricks(fresh, **executors))[PARTITIONS] == "12"


def test_a_session_that_is_not_configured_is_refused(fresh):
    stream = fresh.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    join = {"on": "l.value = r.value", "window": TimeWindow("1 second"), "time": "timestamp"}
    with pytest.raises(StreamJoinError) as caught:
        sjs.join(stream, stream, **join)
    assert f"{PROVIDER} is not set" in str(caught.value)
    assert "call streamjoin.spark.configure(spark), or set it to" in str(caught.value)
    fresh.conf.set(PROVIDER, "org.example.HDFSBackedStateStoreProvider")
    with pytest.raises(StreamJoinError, match=r"is org\.example.* keeps its state in RocksDB"):
        sjs.join(stream, stream, **join)
    fresh.conf.set(PROVIDER, ROCKSDB)
    with pytest.raises(StreamJoinError) as caught:
        sjs.join(stream, stream, **join)
    assert f"{PARTITIONS} is not set, so Spark would run 200 tasks" in str(caught.value)
    fresh.conf.set(PARTITIONS, "2")
    assert sjs.join(stream, stream, **join).isStreaming
    with pytest.raises(StreamJoinError) as caught:
        sjs.join(stream, stream, cores=3, **join)
    assert f"cores=3 is more than {PARTITIONS}=2" in str(caught.value)
    assert "ask for at most 2 cores, or raise that setting" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"window": None, "time": None}, WindowError, "needs a window: TimeWindow('10 minutes')"),
        ({"window": "soon"}, WindowError, "duration 'soon' cannot be read"),
        ({"time": None}, WindowError, "needs the event-time columns of both sides"),
        ({"time": "id"}, SchemaError, "its watermark is on 'ts'; write left.withWatermark('id'"),
        ({"routing": "range"}, StreamJoinError, "routing='range' needs a band in the condition"),
        ({"routing": "modulo"}, StreamJoinError, "choose one of 'auto', 'hash', 'range', 'split'"),
        ({"on": "l.id < r.id", "routing": "hash"}, StreamJoinError, "needs an equality"),
        ({"window": CountWindow(5), "time": None, "routing": "hash"}, StreamJoinError,
         "does not fit a CountWindow"),
        ({"cores": 0}, StreamJoinError, "cores=0: give the number of parallel join cores, from 1"),
        ({"cores": True}, StreamJoinError, "cores=True"),
        ({"algorithm": "magic"}, StreamJoinError, "'magic' does not exist; choose 'auto' or"),
        ({"on": "l.idd = r.id"}, SchemaError, "no column 'idd'; known columns: id, ts; did you"),
        ({"on": "l.id = "}, ConditionError, "cannot read 'l.id = '"),
        ({"on": "a.id = r.id"}, ConditionError, "use l for the left and r for the right input"),
        ({"order": "id"}, WindowError, "order='id' gives the arrival order of a CountWindow"),
        ({"ordered": "sorted"}, StreamJoinError, "ordered='sorted' is not an order of results"),
        ({"ordered": "inner", "routing": "hash"}, StreamJoinError,
         "routing='hash' does not fit ordered='inner': every core has to see all rows to number "
         "them; use 'split' or 'auto', or ordered='none'"),
    ],
)  # fmt: skip
def test_what_a_join_of_streams_refuses(stream, changes, error, told):
    with pytest.raises(error) as caught:
        sjs.join(stream, stream, **{"on": "l.id = r.id", **WINDOW, **changes})
    assert told in str(caught.value)


def test_a_time_column_that_is_not_there(stream):
    with pytest.raises(SchemaError, match="the left time column 'when' is not there"):
        sjs.join(stream, stream, on="l.id = r.id", window=TimeWindow("1 s"), time="when")


def test_a_stream_without_a_watermark(stream, session):
    bare = session.readStream.format("rate").load().selectExpr("value as id", "timestamp as ts")
    with pytest.raises(SchemaError) as caught:
        sjs.join(stream, bare, on="l.id = r.id", **WINDOW)
    assert "the right stream's time column is 'ts', and it has no watermark" in str(caught.value)
    assert "write right.withWatermark('ts', '10 seconds')" in str(caught.value)
    assert sjs.join(bare, bare, on="l.id = r.id", window=CountWindow(5)).isStreaming


def test_a_stream_joins_a_stream_and_a_table_a_table(stream, frame):
    with pytest.raises(StreamJoinError, match="left is a stream and right is not; read both with"):
        sjs.join(stream, frame, on="l.id = r.id")
    with pytest.raises(StreamJoinError, match="right is a stream and left is not"):
        sjs.join(frame, stream, on="l.id = r.id")
    with pytest.raises(StreamJoinError, match=r"right is a list, .* use streamjoin\.join_tables"):
        sjs.join(frame, [1], on="l.id = r.id")


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"on": "l.id + r.id = 3"}, ConditionError, "or ask for algorithm='scan'"),
        ({"on": "l.id = r.ts"}, SchemaError, "these types do not compare; cast one of them"),
        ({"window": CountWindow(3)}, WindowError, "as in order=('ts', 'ts')"),
        ({"window": CountWindow(3), "order": "nope"}, SchemaError, "order column 'nope' is not"),
        ({"window": TimeWindow("1 s"), "time": "nope"}, SchemaError, "'nope' is not there"),
        ({"on": "max(l.id) = r.id"}, ConditionError, "aggregate before or after the join"),
        (
            {"ordered": "outer"},
            StreamJoinError,
            "leave it out, and sort the result: joined.orderBy",
        ),
        (
            {"window": CountWindow(3), "order": "ts", "ordered": 5},
            StreamJoinError,
            "ordered=5 follows the arrival of rows, and those of a table are all there at once",
        ),
    ],
)
def test_what_a_join_of_tables_refuses(frame, changes, error, told):
    with pytest.raises(error) as caught:
        sjs.join(frame, frame, **{"on": "l.id = r.id", **changes})
    assert told in str(caught.value)


def test_a_column_that_is_named_like_an_order_column(stream):
    named = stream.withColumnRenamed("id", "_Matched")
    with pytest.raises(SchemaError) as caught:
        sjs.join(stream, named, on="l.id = r._Matched", ordered="inner", **WINDOW)
    assert "the right input has a column '_Matched', and ordered='inner' adds one of that name" in (
        str(caught.value)
    )
    assert "rename it: right.withColumnRenamed('_Matched', 'right_Matched')" in str(caught.value)
    joined = sjs.join(stream, named, on="l.id = r._Matched", ordered="outer", **WINDOW)
    assert joined.columns == ["id", "ts", "_Matched", "ts_right", "_arrival"]


def test_explain_of_ordered_streams(stream):
    told = sjs.explain(stream, stream, on="l.id = r.id", ordered=10, **WINDOW)
    assert "ordered      results by _arrival, then _matched in groups of 10" in told
    assert "routing      split: every core numbers all rows, and stores its turn" in told


def test_explain_of_streams_and_tables(stream, frame):
    told = sjs.explain(stream, stream, on="l.id = r.id and l.id > 5 and l.id + r.id > 9", **WINDOW)
    for line in (
        "inputs       two streams",
        "routing      hash: equal rows meet in one core",
        "cores        3",
        "before       Spark keeps left rows with l.id > 5",
        "after        Spark keeps joined rows with l.id + r.id > 9",
    ):
        assert line in told
    told = sjs.explain(frame, frame, on="abs(l.id - sqrt(r.id)) <= 2", routing="range")
    assert "inputs       two tables" in told
    assert "Spark computes SQRT(r.id) as" in told
    assert "routing      range of" in told


def test_workers_are_asked_once_a_session(spark, monkeypatch):
    asked = []
    monkeypatch.setattr(sessions, "make_question", lambda: asked.append(1) or make_question())
    fresh = spark.newSession()
    check_workers(fresh)
    check_workers(fresh)
    assert asked == [1]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("\n/usr/bin/python3\npandas", "run /usr/bin/python3, which has no pandas and no stream"),
        ("0.0.1\n/opt/python", "and Spark's workers have streamjoin 0.0.1, at /opt/python. The"),
    ],
)
def test_workers_that_cannot_join_are_told_of_before_anything_runs(
    spark, monkeypatch, answer, told
):
    def make():
        return lambda: answer

    monkeypatch.setattr(sessions, "make_question", make)
    fresh = spark.newSession()
    frame = fresh.range(3)
    with pytest.raises(StreamJoinError) as caught:
        sjs.join(frame, frame, on="l.id = r.id")
    assert told in str(caught.value)
    assert f"set the environment variable PYSPARK_PYTHON={sys.executable} before" in str(
        caught.value
    )


def test_a_check_that_cannot_run_says_nothing(spark, monkeypatch):
    def make(error):
        def fail():
            raise error

        return fail

    monkeypatch.setattr(sessions, "make_question", lambda: make(OSError("no such thing")))
    check_workers(spark.newSession())
    broken = ModuleNotFoundError("No module named 'pyspark'")
    monkeypatch.setattr(sessions, "make_question", lambda: make(broken))
    with pytest.raises(
        StreamJoinError, match="workers: ModuleNotFoundError: No module named 'pysp"
    ):
        check_workers(spark.newSession())


def test_the_question_needs_no_package_of_ours():
    blocked = (
        "import pickle, sys; sys.modules['streamjoin'] = sys.modules['numba'] = None\n"
        "print(pickle.load(sys.stdin.buffer)())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", blocked], input=dumps(make_question()), capture_output=True
    )
    assert ran.stdout.decode().split("\n")[:-1] == ["", sys.executable, "numba"], ran.stderr
    assert make_question()() == f"{streamjoin.__version__}\n{sys.executable}"
