"""Windows with more than 2 GiB of text, the most that an Arrow column of strings holds."""

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj

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
