"""Several executors: a task whose state is committed runs again elsewhere, and nothing changes.

Local mode has one executor, and so one copy of the state. Each run is a driver of its own
(`tests/spark/drivers/cluster.py`); the second one goes on from the checkpoint of the first.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from tests.spark.answers import duckdb_pairs, within
from tests.spark.drivers import cluster as driver
from tests.spark.drivers.starting import SPARK_HOME, make_environment, make_spark_home, run_driver
from tests.spark.streams.random_batches import flat, make_batches, table
from tests.spark.streams.running import Streams

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
HOSTS = ("127.0.0.2", "127.0.0.3")  # Spark never runs two attempts of a task on one


def run(folder, master, version, what):
    """Run a driver to its end."""
    settings = make_spark_home(folder)
    ended = run_driver(driver, folder, master, version, what, timeout=1200, **settings)
    assert ended.stdout.endswith("end\n"), ended.stderr[-5000:]


def attempts(folder):
    """Return batch, number and executor of each attempt that came to its last row."""
    found = (path.name.split("-", 3) for path in (folder / "attempts").iterdir())
    return sorted((int(batch), int(number), executor) for batch, _, number, executor in found)


def check(folder, master, version, what):
    """Run two drivers, one after the other, and compare what they have found with DuckDB."""
    (folder / "attempts").mkdir()
    streams, batches = Streams(None, folder), make_batches(3, count=6)
    for half in (batches[:3], batches[3:]):
        for batch in half:
            streams.add(*map(table, batch))
        run(folder, master, version, what)
    rows = pq.read_table(folder / "sink").select(["id", "id_right"]).to_pylist()
    left, right = map(table, flat(batches))
    expected = duckdb_pairs(left, right, f"{driver.ON} and {within(driver.WINDOW)}")
    assert Counter(tuple(row.values()) for row in rows) == expected
    assert expected.total() > 50


@pytest.mark.parametrize("version", ["1", "2"])
def test_tasks_that_fail_after_their_state_is_committed(version, tmp_path):
    check(tmp_path, LOCAL_CLUSTER, version, "fail")
    found = attempts(tmp_path)
    tried = [(batch, number) for batch, number, _ in found]
    assert tried == [(batch, number) for batch in range(len(tried) // 2) for number in (0, 1)]
    assert all(one[2] != two[2] for one, two in zip(found[::2], found[1::2], strict=True))


@contextmanager
def cluster(folder):
    """Start a master and a worker on each of two hosts."""
    port = 20_000 + os.getpid() % 10_000
    environment = make_environment(**make_spark_home(folder), SPARK_DAEMON_MEMORY="256m")
    script = str(SPARK_HOME / "bin" / "spark-class")
    package, master = "org.apache.spark.deploy", f"spark://127.0.0.1:{port}"
    commands = [
        [f"{package}.master.Master", "-h", "127.0.0.1", "-p", str(port), "--webui-port", "0"],
        *(
            [f"{package}.worker.Worker", "-h", host, "-c", "1", "-m", "1g", "--webui-port", "0",
             "-d", str(folder / host), master]
            for host in HOSTS
        ),
    ]  # fmt: skip
    with open(folder / "daemons.log", "wb") as log:
        daemons = [
            subprocess.Popen([script, *command], env=environment, stdout=log, stderr=log)
            for command in commands
        ]
        try:
            time.sleep(1)
            assert all(daemon.poll() is None for daemon in daemons), log.name
            yield master
        finally:
            for daemon in daemons:
                daemon.terminate()
            for daemon in daemons:
                daemon.wait(60)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs hosts 127.0.0.2 and .3")
@pytest.mark.parametrize("version", ["1", "2"])
def test_tasks_that_are_overtaken(version, tmp_path):
    with cluster(tmp_path) as master:
        check(tmp_path, master, version, "linger")
    assert any(number for _, number, _ in attempts(tmp_path))
