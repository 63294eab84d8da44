"""Tables and streams through Spark Connect, in a process of their own."""

import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from oracle import join_by_count, join_by_time
from spark import connect_driver
from spark.running import Streams
from spark.test_streams import SECOND, flat, known, make_batches, near, same, table

pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
pytestmark = pytest.mark.spark


def less(one, two):
    return known(one["k"], two["k"]) and one["k"] < two["k"]


def filtered(one, two):
    return same(one, two) and one["s"] + two["s"] == "ab"


def test_tables_and_streams(tmp_path):
    streams, batches = Streams(None, tmp_path), make_batches(2, count=2)
    for batch in batches:
        streams.add(*map(table, batch))
    command = [sys.executable, connect_driver.__file__, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "\nend\n" in ended.stdout, ended.stderr[-3000:]
    left, right = flat(batches)
    forever, window = 10**6 * SECOND, 4 * SECOND
    expected = {
        "equality": join_by_time(left, right, filtered, forever, forever),
        "band": join_by_time(left, right, near, forever, forever),
        "window": join_by_time(left, right, less, window, window),
        "count": join_by_count([(left, right)], same, 10, 10, "id"),
        "stream": join_by_time(left, right, less, window, window),
        "keyed": join_by_time(left, right, filtered, window, window),
    }
    for name, pairs in expected.items():
        rows = pq.read_table(tmp_path / name).select(["id", "id_right"]).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == sorted(pairs.elements()), name
        assert rows, name
    assert "Spark computes SQRT(l.k)" in ended.stdout
    assert "batch 1: rows_left 22, rows_right 34" in ended.stdout  # the listener's log
