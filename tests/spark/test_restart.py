"""Queries that stop or fail, and go on as if nothing had happened."""

import os
import shutil
from pathlib import Path

import pytest
from oracle import join_by_count, join_by_time
from pyspark.sql import functions as F

from spark.running import Streams, finish, pairs
from spark.test_streams import flat, make_batches, near, same, table
from streamjoin import CountWindow, TimeWindow
from streamjoin import spark as sjs

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
