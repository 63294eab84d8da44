"""What earlier versions have saved is read."""

from collections import Counter
from zipfile import ZipFile

import pytest
from earlier_state import BATCHES, FIRST, JOINS, SNAPSHOTS, open_checkpoint
from saved_joins import STATES, make
from test_snapshots import push_again

import streamjoin as sj


@pytest.mark.parametrize("state", STATES)
def test_snapshots(state):
    with ZipFile(SNAPSHOTS) as file:
        saved = file.read(state)
    assert push_again(sj.StreamJoin.restore(saved)) == push_again(make(state))


@pytest.mark.spark
def test_checkpoints(spark, tmp_path):
    """The batches after the stop find what they find in a stream that has seen all."""
    from spark.running import Streams, finish, pairs
    from spark.test_streams import make_batches, table

    from streamjoin import spark as sjs

    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    sjs.configure(session)
    batches = make_batches(19, count=BATCHES)
    found = {}
    for part in ("all", "late"):
        streams = Streams(session, tmp_path / part, "9 seconds")
        for batch in batches:
            streams.add(*map(table, batch))
        if part == "late":
            for name in JOINS:
                open_checkpoint(name, streams.folder)
        queries = [
            streams.start(streams.join(**join), name, "files") for name, join in JOINS.items()
        ]
        finish(*queries)
        found[part] = {name: pairs(streams.sink(name)) for name in JOINS}
    ids = [{row["id"] for side in batch for row in side} for batch in batches]
    early = set().union(*ids[:FIRST])
    for name in JOINS:
        complete, late = found["all"][name], found["late"][name]
        assert late <= complete
        assert beyond(early, late) == beyond(early, complete)
        assert any(early & set(pair) for pair in beyond(early, complete))


def beyond(early, pairs):
    """Leave out the pairs that may have been found before the stop."""
    return Counter({pair: count for pair, count in pairs.items() if not set(pair) <= early})
