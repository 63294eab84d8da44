"""Lots follow from rows: from all of their columns, and from nothing else."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.spark.routing.lots import deal, draw_lots

DAY = datetime(2020, 1, 1, tzinfo=UTC)
COLUMNS = {
    "bool": pa.array([True, False, None, True]),
    "int8": pa.array([1, -1, None, 3], pa.int8()),
    "int16": pa.array([1, -1, None, 3], pa.int16()),
    "int32": pa.array([1, -1, None, 3], pa.int32()),
    "int64": pa.array([1, -(2**63), None, 2**63 - 1]),
    "uint64": pa.array([1, 2**64 - 1, None, 3], pa.uint64()),
    "float": pa.array([0.5, -0.0, None, float("nan")], pa.float32()),
    "double": pa.array([0.5, -0.0, None, float("inf")]),
    "decimal": pa.array([Decimal(15), -Decimal(10**37), None, Decimal(0)], pa.decimal128(38)),
    "date": pa.array([date(2020, 1, 1), date(1, 1, 1), None, date(9999, 1, 1)]),
    "time": pa.array([time(1), time(2), None, time(3)]),
    "timestamp": pa.array([DAY, DAY.replace(year=1600), None, DAY.replace(year=9000)]),
    "text": pa.array(["", "a", None, "a longer text than sixteen bytes"]),
    "large": pa.array(["é", "a", None, "b" * 99], pa.large_string()),
    "binary": pa.array([b"\0", b"\0\0", None, b"\xff" * 20]),
    "struct": pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, None, {"a": None, "b": "x"}]),
}


def lots_of(*columns):
    batch = pa.record_batch(list(columns), names=[str(n) for n in range(len(columns))])
    return draw_lots(batch, np.arange(batch.num_rows, dtype=np.int32)).tolist()


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_every_type_of_column_counts(column):
    lots = lots_of(column)
    assert len(set(lots)) == len({str(value) for value in column.to_pylist()})
    assert lots_of(column, column) != lots_of(column)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_lots_do_not_depend_on_where_a_row_stands(column):
    lots, one = lots_of(column), pa.array([7] * 4)
    assert lots_of(column.take(pa.array([3, 1, 0, 2]))) == [lots[n] for n in (3, 1, 0, 2)]
    assert lots_of(column.slice(1, 2)) == lots[1:3]
    assert lots_of(pa.concat_arrays([column, column]).slice(3)) == lots[3:] + lots
    some = draw_lots(pa.record_batch([one, column], names=["a", "b"]), np.array([3, 1]))
    assert some.tolist() == [lots_of(one, column)[n] for n in (3, 1)]


def test_what_stands_under_null_does_not_count():
    for under in (0, 5):
        values = pa.py_buffer(np.array([1, under], np.int64))
        column = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\1"), values])
        assert lots_of(column) == lots_of(pa.array([1, None]))
    offsets, data = pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"abc")
    column = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\1"), offsets, data])
    assert lots_of(column) == lots_of(pa.array(["a", None]))


def test_lists_count_for_nothing_and_empty_columns_pass():
    column = pa.array([[1], [2, 3], None, []])
    assert len(set(lots_of(column))) == 1
    for each in [*COLUMNS.values(), column, pa.nulls(4)]:
        assert lots_of(each.slice(0, 0)) == []
        assert lots_of(pa.array([], each.type)) == []


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 512])
@pytest.mark.parametrize(
    "column",
    [
        pa.array(np.arange(100_000)),
        pa.array(np.arange(100_000) * 1_000_000, pa.timestamp("us")),
        pa.array(np.arange(100_000) / 7),
        pa.array([f"key {n}" for n in range(100_000)]),
    ],
    ids=["sequence", "seconds", "double", "text"],
)
def test_rows_are_dealt_evenly(column, cores):
    dealt = deal(np.array(lots_of(pa.array([1] * 100_000), column)), cores)
    counts = np.bincount(dealt, minlength=cores)
    fair = 100_000 / cores
    assert counts.size == cores
    assert abs(counts - fair).max() < 6 * fair**0.5
