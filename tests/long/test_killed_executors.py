"""Executors that get SIGKILL, with state, caches, workers and shuffle files: `make test-long`.

A driver with three executors (`tests/spark/drivers/executors.py`) loses one again and again, at a
random moment of a batch. SEED=n repeats a run as far as chance can be repeated.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from tests.oracle import join_by_count, join_by_time
from tests.spark.drivers import executors as driver
from tests.spark.drivers.starting import make_command, make_environment, make_spark_home
from tests.spark.streams import test_windows as closing
from tests.spark.streams.random_batches import (
    SECOND,
    flat,
    make_batches,
    near,
    on_time,
    same,
    table,
    watermarks,
)
from tests.spark.streams.running import Streams

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = int(os.environ.get("SEED") or time.time())
KILLS, LONGEST = 0.7, 3.0  # how often a batch is followed by one, and after how many seconds


def expect(kind, batches):
    """Return the pairs of ids that a kind of join gives."""
    rows, closed = flat(on_time(batches)), watermarks(batches)[-1]
    if kind == "count":
        sizes = driver.COUNT.left, driver.COUNT.right
        return join_by_count(batches, same, *sizes, "o")
    if kind == "tumbling":
        return Counter(closing.in_windows(rows, same, closed))
    if kind == "session":
        return Counter(closing.in_sessions(rows, same, None, keyed=True))
    return join_by_time(*rows, near, 4 * SECOND, 4 * SECOND)


def find_executors(folder):
    """Return the processes of a driver's executors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "CoarseGrainedExecutorBackend" in words and str(folder) in words:
            found.append(int(path.parent.name))
    return found


def run(folder, kind, dice):
    """Run the driver to its end; kill an executor after some of its batches. Return how many."""
    errors = folder / "errors.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(
            make_command(driver, folder, kind),
            env=make_environment(**make_spark_home(folder)),
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    killed, line = 0, ""
    try:
        for line in process.stdout:
            if line.startswith("batch") and dice.random() < KILLS:
                time.sleep(dice.uniform(0.0, LONGEST))
                executors = find_executors(folder)
                if executors:
                    os.kill(dice.choice(sorted(executors)), signal.SIGKILL)
                    killed += 1
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
    told = errors.read_text()
    assert line == "end\n", told[told.rfind("[STREAM_FAILED]") :][:5000]
    return killed


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
@pytest.mark.parametrize("kind", driver.KINDS)
def test_executors_that_are_killed_change_nothing(kind, tmp_path):
    print(f"\nSEED={SEED}")  # noqa: T201
    streams, batches = Streams(None, tmp_path), make_batches(SEED, count=14, size=150)
    for batch in batches:
        streams.add(*map(table, batch))
    killed = run(tmp_path, kind, Random(SEED))
    print(f"{killed} executors were killed")  # noqa: T201
    assert killed > 1
    rows = pq.read_table(tmp_path / "result").select(["id", "id_right"]).to_pylist()
    found = Counter(tuple(row.values()) for row in rows)
    expected = Counter(expect(kind, batches))
    assert found == expected
    assert expected.total() > 500
