"""Checkpoints that earlier versions have written are read."""

import json
from collections import Counter
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest

from tests.earlier.writing import BATCHES, CHECKPOINTS, FOUND, JOINS, open_checkpoint
from tests.spark.streams.random_batches import make_batches, table
from tests.spark.streams.running import Streams, finish

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_streams_go_on(session, tmp_path):
    streams = Streams(session, tmp_path, "9 seconds")
    for batch in make_batches(19, count=BATCHES):
        streams.add(*map(table, batch))
    for name in JOINS:
        open_checkpoint(name, tmp_path)
    joins = JOINS.items()
    finish(*(streams.start(streams.join(**join), name, "files") for name, join in joins))
    with ZipFile(CHECKPOINTS) as file:
        expected = json.loads(file.read(FOUND))
    for name, found in expected.items():
        # Spark does not read a sink that lacks the batches before the stop.
        rows = pq.read_table(tmp_path / f"sink-{name}").select(["id", "id_right"]).to_pylist()
        assert Counter(tuple(row.values()) for row in rows) == Counter(map(tuple, found))
        assert len(found) > 5
