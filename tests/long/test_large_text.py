"""Windows with more than 2 GiB of text, the most that an Arrow column of strings holds."""

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.spark.state import segments as state
from tests.spark.in_process import Cluster, make_join

pytestmark = pytest.mark.slow

ROWS, LENGTH, PUSHES = 200_000, 3_000, 4  # 2.4 GB in all


def part(number):
    """Return rows of two windows with long texts."""
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    offsets = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32) * LENGTH)
    text = pa.Array.from_buffers(
        pa.string(), ROWS, [None, offsets, pa.py_buffer(np.full(ROWS * LENGTH, 97, np.uint8))]
    )
    return pa.table({"k": ids, "t": (ids % 2) * 1_000_000, "text": text})


@pytest.mark.parametrize(
    "options",
    [
        {"window": sj.TumblingWindow("1 minute")},
        {"window": sj.TumblingWindow("1 minute"), "emit": "eager"},
        {"window": sj.SessionWindow("1 minute")},
        {"window": sj.TimeWindow("1 minute")},
    ],
    ids=str,
)
def test_a_stream_of_long_texts(options):
    join = sj.StreamJoin("l.k = r.k", time="t", **options)
    few = pa.table({"k": np.arange(0, PUSHES * ROWS, 1_000)})
    few = few.append_column("t", pa.array((few["k"].to_numpy() % 2) * 1_000_000))
    found = sum(join.push(left=part(number)).num_rows for number in range(PUSHES))
    found += join.push(right=few).num_rows
    assert join.stats.bytes > 2**31
    assert found + join.finish().num_rows == few.num_rows


@pytest.mark.parametrize(
    "options",
    [
        {"window": sj.TimeWindow("1 minute")},
        {"window": sj.TumblingWindow("1 minute"), "emit": "eager"},
    ],
    ids=str,
)
def test_a_core_on_spark_reloads_long_texts(options, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(state, "SMALL_SEGMENTS", 2)  # segments are put together, up to the bound
    schema = pa.schema({"k": pa.int64(), "t": pa.timestamp("us", "UTC"), "text": pa.string()})
    join = make_join("l.k = r.k", schema, 1, time="t", **options)
    cluster = Cluster(join, delay=10**6)
    found = sum(
        len(rows)
        for n in range(PUSHES)
        for rows in cluster.batch(part(n).cast(schema), schema.empty_table())
    )
    [store] = cluster.stores.values()
    sizes = [segment.size for segment in store.manifest.segments]
    assert sum(sizes) > 2**31
    assert max(sizes) <= state.SEGMENT_BYTES
    cluster.restart()
    few = part(1).slice(0, 500).cast(schema)
    found += sum(map(len, cluster.batch(schema.empty_table(), few)))
    cluster.watermark = 10**9
    assert found + sum(map(len, cluster.idle())) == 500
