"""How much goes into one parcel, and into one batch of joined rows."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from streamjoin import TimeWindow
from streamjoin.plans.batches import coalesce_batches, split_by_bytes
from streamjoin.spark import streams
from streamjoin.spark.routing import exchange
from streamjoin.spark.routing.exchange import StreamPacker, gather_rounds
from streamjoin.spark.routing.parcels import unpack_rows
from tests.spark.in_process import make_join

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema({"id": pa.int64(), "t": TIME, "text": pa.string()})


def wide(count, width, first=0):
    """Return rows, the last one twice as wide as the others."""
    ids = np.arange(first, first + count)
    text = ["x" * width] * (count - 1) + ["x" * 2 * width]
    return pa.record_batch([ids, pa.array(ids, TIME), text], schema=SCHEMA)


@pytest.mark.parametrize("sizes", [[(100, 1000)], [(1, 9000), (3, 10), (50, 300)], [(7, 20_000)]])
def test_rounds_put_small_batches_together_and_cut_large_ones(monkeypatch, sizes):
    monkeypatch.setattr(exchange, "ROUND_BYTES", 10_000)
    batches = [wide(count, width) for count, width in sizes]
    found = list(gather_rounds(iter(batches), SCHEMA))
    assert pa.Table.from_batches(found) == pa.Table.from_batches(batches)
    assert all(each.nbytes <= 10_000 or each.num_rows == 1 for each in found)
    for one, two in itertools.pairwise(found):  # no more of them than it takes
        assert one.nbytes + two.nbytes > 5_000


def test_parcels_are_small_however_large_a_batch_of_sparks_is(monkeypatch):
    monkeypatch.setattr(exchange, "ROUND_BYTES", 10_000)
    spec = make_join("l.id = r.id", SCHEMA, 2, window=TimeWindow("5 ms"), time="t")
    sent = [
        row["data"]
        for each in StreamPacker(spec, "left")(iter([wide(400, 500)]))
        for row in each.to_pylist()
    ]
    assert max(map(len, sent)) < 12_000  # of which some are Arrow's and the summary
    assert sum(unpack_rows(data)[0].num_rows for data in sent) == 2 * 400


def test_a_task_without_rows_says_so():
    spec = make_join("l.id = r.id", SCHEMA, 3, window=TimeWindow("5 ms"), time="t")
    sent = [row for each in StreamPacker(spec, "left")(iter([])) for row in each.to_pylist()]
    assert sorted(row["core"] for row in sent) == sorted(spec.labels)
    assert [unpack_rows(row["data"])[0].num_rows for row in sent] == [0, 0, 0]
    assert [unpack_rows(row["data"])[1]["rows"] for row in sent] == [0, 0, 0]


def test_joined_rows_are_sent_in_batches_that_are_neither_small_nor_large(monkeypatch):
    monkeypatch.setattr(streams, "OUTPUT_BYTES", 10_000)
    small = [wide(5, 100, first) for first in range(0, 100, 5)]
    found = list(streams.resize_batches(iter([*small, wide(100, 1000)])))
    assert all(each.nbytes <= 10_000 for each in found)
    assert pa.Table.from_batches(found) == pa.Table.from_batches([*small, wide(100, 1000)])
    assert len(found) < 40
    assert len(list(streams.resize_batches(iter(small[:3])))) == 1


def test_a_single_row_is_not_cut():
    [row] = split_by_bytes(wide(1, 5000), 100)
    assert row.num_rows == 1
    [nothing] = split_by_bytes(wide(2, 1).slice(0, 0), 0)
    assert nothing.num_rows == 0


def test_rows_are_enough_without_a_bound_of_bytes():
    batches = [wide(10, 1000)] * 4
    assert [each.num_rows for each in coalesce_batches(batches, 20)] == [20, 20]
    assert [each.num_rows for each in coalesce_batches(batches, 20, 11_000)] == [10] * 4
