"""Micro-batches of large rows in a JVM of a gigabyte: `make test-long`."""

import pytest

from tests.spark.drivers import large_rows
from tests.spark.drivers.starting import run_driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("rows", [300, 600])
def test_a_micro_batch_of_large_rows_needs_little_memory(tmp_path, rows):
    ran = run_driver(large_rows, tmp_path, rows, timeout=900)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.split() == [str(rows), str(rows * large_rows.MEGABYTE)]
