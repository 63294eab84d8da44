"""A query that goes on as another join than it was, and is refused."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from streamjoin import TimeWindow
from streamjoin import spark as sjs
from tests.oracle import join_by_time
from tests.spark.conftest import session as session
from tests.spark.streams.random_batches import flat, make_batches, same, table
from tests.spark.streams.running import Streams, finish, metrics, pairs
from tests.spark.streams.test_restart import NO_ROW_IS_LATE, WINDOW

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_another_join_is_refused_and_the_same_goes_on(session, tmp_path):
    streams, batches = Streams(session, tmp_path, NO_ROW_IS_LATE), make_batches(6, count=2)

    def run(extra=False, **changes):
        frames = streams.read()
        if extra:
            frames[0] = frames[0].withColumn("new", F.lit(1))
        join = {"on": "l.k = r.k", "window": WINDOW, "time": "t", **changes}
        query = streams.start(sjs.join(*frames, **join), "kept", "files")
        finish(query)
        return query

    streams.add(*map(table, batches[0]))
    run()
    streams.add(*map(table, batches[1]))
    for changes, told in [
        ({"on": "l.k <= r.k"}, "condition was l.k = r.k and is l.k <= r.k"),
        (
            {"window": TimeWindow("2 seconds")},
            "before=4 seconds, after=2 seconds) and is TimeWindow",
        ),
        ({"extra": True}, "left columns was id bigint"),
        ({"cores": 2}, "cores was"),
        ({"routing": "split"}, "routing was hash and is split"),
    ]:
        with pytest.raises(StreamingQueryException) as caught:
            run(**changes)
        message = str(caught.value)
        assert "this checkpoint belongs to another join" in message, changes
        assert told in message, changes
        assert "start this one with a new checkpointLocation" in message
    query = run(algorithm="scan")
    assert metrics(query)[0]["rows_left"] == len(batches[1][0])
    expected = join_by_time(*flat(batches), same, WINDOW.before_us, WINDOW.after_us)
    assert pairs(streams.sink("kept")) == expected
