"""A driver that is killed ten times over writes what an undisturbed one would: `make test-long`.

The driver is a process of its own (`tests/spark/drivers/local.py`) with a file sink. It gets
SIGKILL, and its JVM with it, at a random moment: while it starts, packs, joins, commits state or
writes files. SEED=n repeats a run as far as chance can be repeated.
"""

import os
import signal
import subprocess
import time
from random import Random

import pyarrow.parquet as pq
import pytest

from tests.spark.answers import duckdb_pairs, within
from tests.spark.drivers import local as driver
from tests.spark.drivers.starting import make_command, make_environment
from tests.spark.streams.random_batches import flat, make_batches, table
from tests.spark.streams.running import Streams

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS, AHEAD = 10, 8  # batches that always wait to be read
SEED = int(os.environ.get("SEED") or time.time())


def run(folder, batches=None, seconds=0.0):
    """Run the driver to its end, or kill it some time after it has done some batches.

    Returns the number of the last batch that it told of.
    """
    process = subprocess.Popen(
        make_command(driver, folder),
        env=make_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    last, done, line = -1, -1, ""
    try:
        for line in process.stdout:
            if line.startswith("batch"):
                last, done = int(line.split()[1]), done + 1
            if line.startswith("started"):
                done = 0
            if done == batches:
                time.sleep(seconds)
                break
    finally:
        if batches is not None:
            assert process.poll() is None, "it ended before it could be killed"
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(600)
        process.stdout.close()
    assert batches is not None or line == "end\n"
    return last


def test_a_driver_that_is_killed_ten_times(tmp_path):
    print(f"\nSEED={SEED}")  # noqa: T201
    dice, streams = Random(SEED), Streams(None, tmp_path)
    batches = make_batches(SEED, count=100, size=150)

    def add(until):
        while len(streams.batches) <= until:
            streams.add(*map(table, batches[len(streams.batches)]))

    last = -1
    for kill in range(KILLS):
        add(until=last + AHEAD)
        wait, seconds = dice.choice([0, 1, 1, 2]), dice.uniform(0, 3)
        last = max(last, run(tmp_path, wait, seconds))
        print(f"kill {kill + 1}, {seconds:.2f} s after {wait} batches; {last=}")  # noqa: T201
    run(tmp_path)
    rows = pq.read_table(tmp_path / "result").select(["id", "id_right"]).to_pylist()
    left, right = map(table, flat(batches[: len(streams.batches)]))
    expected = duckdb_pairs(left, right, f"{driver.ON} and {within(driver.WINDOW)}")
    assert sorted(tuple(row.values()) for row in rows) == sorted(expected.elements())
    assert len(rows) > 1000
