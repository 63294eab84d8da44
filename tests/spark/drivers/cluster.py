"""A driver of its own with several executors: what local mode cannot show.

``python -m tests.spark.drivers.cluster FOLDER MASTER FORMAT WHAT``: joins the two streams of files
in a folder until all are read; ``FORMAT`` is the version of Spark's state checkpoints.

* ``fail``: behind the join, the first attempt of every task fails after its last row. Its state is
  committed by then. The next attempt runs on another executor.
* ``linger``: the first attempt waits there instead, until a speculative one has overtaken it.

Each attempt leaves a file in ``FOLDER/attempts`` that names its batch, partition, number and
executor.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from streamjoin import TimeWindow
from streamjoin import spark as sjs
from tests.spark.drivers.starting import read_sides, start_query, start_session, tell

ON, WINDOW, DELAY = "abs(l.x - r.x) <= 0.02 and l.k <= r.k", TimeWindow("4 seconds"), "9 seconds"
LINGER = 20  # seconds: longer than it takes Spark to start another attempt


Rows = Iterator[pa.RecordBatch]


def disturb(folder: str, what: str) -> Callable[[Rows], Rows]:
    """Return what `mapInArrow` runs behind the join."""

    def after_the_last_row(batches: Rows) -> Rows:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        executor = Path(os.environ["SPARK_LOCAL_DIRS"]).parent.name
        batch, part = context.getLocalProperty("streaming.sql.batchId"), context.partitionId()
        number = context.attemptNumber()
        Path(folder, "attempts", f"{batch}-{part}-{number}-{executor}").touch()
        if number == 0 and what == "fail":
            raise OSError("a sink that cannot be reached")
        if number == 0 and what == "linger":
            time.sleep(LINGER)

    return after_the_last_row


def main(folder: str, master: str, version: str, what: str) -> None:
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        # An executor would forget the state of its failed attempts, if a batch takes a minute.
        "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": version,
        "spark.locality.wait": "0s",
        "spark.excludeOnFailure.enabled": "true",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "1",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "3",
        "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": "1000",
        "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": "1000",
        "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "1000",
        "spark.excludeOnFailure.application.maxFailedExecutorsPerNode": "1000",
    }
    if what == "linger":
        settings |= {
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.1",
            "spark.speculation.multiplier": "1.0",
            "spark.speculation.minTaskRuntime": "1s",
            "spark.speculation.task.duration.threshold": "2s",
        }
    session = start_session(SparkSession.builder.master(master), folder, **settings)
    sjs.configure(session)
    left, right = read_sides(session, folder, DELAY)
    joined = sjs.join(left, right, on=ON, window=WINDOW, time="t")
    start_query(joined.mapInArrow(disturb(folder, what), joined.schema), folder).awaitTermination()
    tell("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
