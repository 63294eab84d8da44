"""Python workers that are killed in the middle of a batch: Spark tries again, nothing changes."""

import pyarrow.parquet as pq
import pytest

from tests.oracle import join_by_time
from tests.spark.drivers import local as driver
from tests.spark.drivers.starting import run_driver
from tests.spark.streams.random_batches import SECOND, flat, make_batches, near, table
from tests.spark.streams.running import Streams

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_workers_that_are_killed_change_nothing(tmp_path):
    streams, batches = Streams(None, tmp_path), make_batches(2, count=4)
    for batch in batches:
        streams.add(*map(table, batch))
    ended = run_driver(driver, tmp_path, "die", timeout=300)
    assert ended.stdout.endswith("end\n"), ended.stderr[-3000:]
    died = sorted(path.name for path in tmp_path.glob("died-*"))
    assert died == ["died-joining", "died-packing", "died-written"]
    rows = pq.read_table(tmp_path / "result").select(["id", "id_right"]).to_pylist()
    expected = join_by_time(
        *flat(batches),
        lambda one, two: (
            near(one, two) and None not in (one["k"], two["k"]) and one["k"] <= two["k"]
        ),
        4 * SECOND,
        4 * SECOND,
    )
    assert sorted(tuple(row.values()) for row in rows) == sorted(expected.elements())
