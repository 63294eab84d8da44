"""Tables and streams through Spark Connect, in a process of their own."""

import pyarrow.parquet as pq
import pytest

from tests.oracle import join_by_count, join_by_time
from tests.spark.drivers import connect as driver
from tests.spark.drivers.starting import run_driver
from tests.spark.streams.random_batches import SECOND, flat, known, make_batches, same, table
from tests.spark.streams.running import Streams

pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
pytestmark = [pytest.mark.spark, pytest.mark.slow]


def less(one, two):
    return known(one["k"], two["k"]) and one["k"] < two["k"]


def filtered(one, two):
    return same(one, two) and one["s"] + two["s"] == "ab"


@pytest.fixture(scope="module")
def batches():
    return make_batches(2, count=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, batches):
    """Where the driver has left its results."""
    folder = tmp_path_factory.mktemp("connect")
    streams = Streams(None, folder)
    for batch in batches:
        streams.add(*map(table, batch))
    ended = run_driver(driver, folder, timeout=300)
    assert "\nend\n" in ended.stdout, ended.stderr[-3000:]
    (folder / "output").write_text(ended.stdout)
    return folder


def test_tables_and_streams(folder, batches):
    left, right = flat(batches)
    forever, window = 10**6 * SECOND, 4 * SECOND
    expected = {
        "equality": join_by_time(left, right, filtered, forever, forever),
        "window": join_by_time(left, right, less, window, window),
        "count": join_by_count([(left, right)], same, 10, 10, "id"),
        "stream": join_by_time(left, right, filtered, window, window),
    }
    for name, pairs in expected.items():
        rows = pq.read_table(folder / name).select(["id", "id_right"]).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == sorted(pairs.elements()), name
        assert rows, name


def test_explanation_and_log(folder):
    output = (folder / "output").read_text()
    assert "Spark computes SQRT(l.k)" in output
    assert "rows_left 22, rows_right 34" in output  # from the listener


def test_metrics_of_a_query(folder):
    assert "metrics 21" in (folder / "output").read_text()
