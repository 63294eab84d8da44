"""Queries that stop or fail, and go on as if nothing had happened."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from streamjoin import CountWindow, StreamJoinError, StreamJoinWarning, TimeWindow
from streamjoin import spark as sjs
from tests.oracle import join_by_count, join_by_time
from tests.spark.answers import duckdb_pairs, within
from tests.spark.streams.random_batches import SCHEMA, flat, make_batches, near, same, table
from tests.spark.streams.running import Streams, finish, metrics, pairs

pytestmark = pytest.mark.spark

WINDOW = TimeWindow(before="4 seconds", after="2 seconds")
NO_ROW_IS_LATE = "9 seconds"  # a restart makes Spark forget some of the watermark


def remove_shared_files(session):
    """Remove what the workers have left for each other."""
    found = F.udf(lambda: os.environ.get("SPARK_LOCAL_DIRS", ""), "string")
    [[folders]] = session.range(1).select(found()).collect()
    removed = [Path(each) / "streamjoin" for each in folders.split(",") if each]
    assert any(path.exists() for path in removed)
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.slow
def test_a_stop_after_every_batch_changes_nothing(session, tmp_path):
    streams, batches = Streams(session, tmp_path, NO_ROW_IS_LATE), make_batches(5, count=3)
    joins = {
        "range": {"on": "abs(l.x - r.x) <= 0.02", "window": WINDOW, "time": "t"},
        "count": {"on": "l.k = r.k", "window": CountWindow(left=30, right=12), "order": "o"},
    }
    for number, batch in enumerate(batches):
        streams.add(*map(table, batch))
        if number == 1:
            remove_shared_files(session)
        finish(
            *(streams.start(streams.join(**join), name, "files") for name, join in joins.items())
        )
    found = {name: pairs(streams.sink(name)) for name in joins}
    before, after = WINDOW.before_us, WINDOW.after_us
    assert found["range"] == join_by_time(*flat(batches), near, before, after)
    assert found["count"] == join_by_count(batches, same, 30, 12, "o")


@pytest.mark.slow
def test_a_checkpoint_serves_its_own_join_on_any_number_of_slots(session, tmp_path):
    first, batches = Streams(session, tmp_path, NO_ROW_IS_LATE), make_batches(7, count=3)
    other = session.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "2")
    sjs.configure(other)
    second = Streams(other, tmp_path, NO_ROW_IS_LATE)
    options = {"window": WINDOW, "time": "t"}
    first.add(*map(table, batches[0]))
    finish(first.start(first.join("l.k % 3 = r.k", **options), "mod", "files"))
    first.add(*map(table, batches[1]))
    finish(second.start(second.join("L.K%3=R.k -- the same", **options), "mod", "files"))
    expected = join_by_time(*flat(batches[:2]), third, WINDOW.before_us, WINDOW.after_us)
    assert pairs(first.sink("mod")) == expected
    first.add(*map(table, batches[2]))
    with pytest.raises(Exception, match="another join") as caught:
        finish(first.start(first.join("l.k % 2 = r.k", **options), "mod", "files"))
    assert "condition was L.K%3=R.k -- the same and is l.k % 2 = r.k" in str(caught.value)
    with pytest.raises(Exception, match="another join") as caught:
        finish(first.start(first.join("l.k % 3 = r.k", cores=2, **options), "mod", "files"))
    assert "cores was 3 and is 2" in str(caught.value)


def third(one, two):
    return one["k"] is not None and two["k"] is not None and one["k"] % 3 == two["k"]


@pytest.mark.slow
def test_the_first_batch_after_a_restart_goes_where_the_state_is(session, tmp_path):
    """With a hot key, so that hashes are not spread evenly any more."""
    streams, dice = Streams(session, tmp_path, NO_ROW_IS_LATE), np.random.default_rng(11)
    conditions = {"hash": "l.k = r.k", "range": "abs(l.x - r.x) <= 0.0002"}
    told = {name: [] for name in conditions}
    for number in range(3):
        streams.add(many(dice, 12_000, number), many(dice, 40, number))
        queries = {}
        for name, on in conditions.items():
            checkpoint = str(tmp_path / f"checkpoint-{name}")
            joined = streams.join(on, window=WINDOW, time="t", checkpoint=checkpoint)
            queries[name] = streams.start(joined, name, "files")
        finish(*queries.values())
        for name, query in queries.items():
            told[name] += [each for each in metrics(query) if each["rows_left"]]
        remove_shared_files(session)
    left, right = map(pa.concat_tables, zip(*streams.batches, strict=True))
    for name, on in conditions.items():
        sent = [
            each["received_rows"] / (each["rows_left"] + each["rows_right"]) for each in told[name]
        ]
        assert len(sent) == 3
        assert max(sent[1:]) < 2  # the hot key to all three cores; once, all rows
        expected = duckdb_pairs(left, right, f"{on} and {within(WINDOW)}")
        assert pairs(streams.sink(name)) == expected
        assert expected.total() > 300
    assert told["hash"][-1]["epochs"] > 3


def many(dice, rows, batch):
    """Return rows of which two in five have one key."""
    keys = np.where(dice.random(rows) < 0.4, 4, dice.integers(0, 5000, rows))
    return pa.table(
        {
            "id": dice.integers(0, 1 << 40, rows),
            "t": (1000 + 5 * batch + dice.integers(0, 5, rows)) * 1_000_000,
            "k": keys,
            "s": [""] * rows,
            "x": dice.random(rows),
            "o": np.arange(rows),
        }
    ).cast(SCHEMA)


def test_a_checkpoint_that_is_none_costs_only_time(session, tmp_path):
    streams = Streams(session, tmp_path, NO_ROW_IS_LATE)
    streams.add(*map(table, make_batches(3, count=1)[0]))
    options = {"on": "l.k = r.k", "window": WINDOW, "time": "t"}
    streams.join(**options, checkpoint=str(tmp_path / "nothing there yet"))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "metadata").write_text("nothing")
    with pytest.warns(StreamJoinWarning, match="first batch of the stream goes to all cores"):
        streams.join(**options, checkpoint=str(broken))
    rows = session.read.parquet(str(tmp_path / "left"))
    with pytest.raises(StreamJoinError, match="these are tables; leave it out"):
        sjs.join(rows, rows, on="l.k = r.k", checkpoint=str(broken))
