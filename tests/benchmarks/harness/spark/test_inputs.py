"""Inputs of the suites on Spark: their matches, files and times."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamjoin as sj
from benchmarks.harness.spark import inputs
from benchmarks.spojoin.spark import make_shape
from benchmarks.spojoin.workloads import Q1


@pytest.mark.parametrize(
    "shape",
    [
        inputs.UNIFORM,
        inputs.CROWDED,
        inputs.MANY_SYMBOLS,
        inputs.HOT_SYMBOL,
        inputs.equal_shape(20_000),
    ],
    ids=["uniform", "crowded", "symbols", "hot", "equal"],
)
def test_a_row_of_every_shape_finds_two_matches(shape):
    rows = 20_000
    left, right = (pa.table(shape.draw(np.random.default_rng(seed), rows)) for seed in (1, 2))
    joined = sj.join_tables(left, right, on=shape.on(rows))
    assert joined.num_rows / rows == pytest.approx(inputs.MATCHES, rel=0.05)


def test_streams_are_files_in_the_order_of_their_times(tmp_path):
    streams = inputs.write_streams(tmp_path, inputs.UNIFORM, 100, 3, 2, seed=1)
    for side in ("left", "right"):
        files = sorted((tmp_path / side).iterdir(), key=lambda path: path.stat().st_mtime)
        assert [path.name for path in files] == ["000.parquet", "001.parquet", "002.parquet"]
        times = pa.concat_tables(pq.read_table(path) for path in files)["ts"].cast(pa.int64())
        gaps = np.diff(times.to_numpy())
        assert gaps.min() == gaps.max() == 600_000  # microseconds: a minute a batch
    assert (streams.batch, str(streams.time_window.before_us)) == (200, "118000000")


def test_streams_of_count_windows_have_no_times(tmp_path):
    shape = make_shape(Q1.with_matches(5, 200), 5)
    streams = inputs.write_streams(tmp_path, shape, 100, 1, 2, seed=1, counts=True)
    assert pq.read_table(tmp_path / "left").column_names == ["id", "power", "cool"]
    assert (streams.extent, streams.time, streams.matches) == (sj.CountWindow(200), None, 5)
