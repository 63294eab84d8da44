"""Micro-batches of large rows in a JVM of a gigabyte: `make test-long`."""

import subprocess
import sys

import pytest

from tests.spark import large_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("rows", [300, 600])
def test_a_micro_batch_of_large_rows_needs_little_memory(tmp_path, rows):
    ran = subprocess.run(
        [sys.executable, large_rows.__file__, str(tmp_path), str(rows)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.split() == [str(rows), str(rows * large_rows.MEGABYTE)]
