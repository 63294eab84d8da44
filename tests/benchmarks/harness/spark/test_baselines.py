"""Pipelines without a join give as many rows as they should."""

import pyarrow as pa

from benchmarks.harness.spark.baselines import pair_slices


def test_rows_side_by_side_are_as_many_as_asked_for():
    left, right = (pa.record_batch({name: list(range(5))}) for name in "ab")
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    given = list(pair_slices([left, right.slice(0, 3)], 8, schema))
    assert [batch.num_rows for batch in given] == [3, 3, 2]
    assert all(batch.schema == schema for batch in given)
