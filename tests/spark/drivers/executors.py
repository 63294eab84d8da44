"""A driver of its own with three executors, which others kill while it runs.

``python -m tests.spark.drivers.executors FOLDER KIND``: joins the two streams of files in a folder,
as one of `KINDS` says, until all are read, and prints the number of each batch that is done. With
``shuffled``, the streams come out of a shuffle, so that retries see rows in another order.
"""

import sys
from typing import Any

from pyspark.sql import SparkSession

from streamjoin import CountWindow, SessionWindow, TimeWindow, TumblingWindow
from streamjoin import spark as sjs
from tests.spark.drivers.starting import (
    read_sides,
    start_query,
    start_session,
    tell,
    tell_batches,
)

BAND, EQUAL = "abs(l.x - r.x) <= 0.02", "l.k = r.k"
COUNT = CountWindow(left=60, right=40)
KINDS: dict[str, dict[str, Any]] = {
    "time": {"on": BAND, "window": TimeWindow("4 seconds"), "time": "t"},
    "shuffled": {"on": BAND, "window": TimeWindow("4 seconds"), "time": "t"},
    "count": {"on": EQUAL, "window": COUNT, "order": "o"},
    "tumbling": {"on": EQUAL, "window": TumblingWindow("4 seconds", "1 second"), "time": "t"},
    "session": {"on": EQUAL, "window": SessionWindow("1 second"), "time": "t", "emit": "eager"},
}
EXECUTORS = 3
MASTER = f"local-cluster[{EXECUTORS},1,900]"


def main(folder: str, kind: str) -> None:
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "900m",
        "spark.sql.shuffle.partitions": str(EXECUTORS),
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
        "spark.task.maxFailures": "100",
        "spark.stage.maxConsecutiveAttempts": "100",
        "spark.deploy.maxExecutorRetries": "-1",
    }
    session = start_session(SparkSession.builder.master(MASTER), folder, **settings)
    sjs.configure(session)
    sides = read_sides(session, folder, "2 seconds")
    if kind == "shuffled":
        sides = [side.repartition(2) for side in sides]
    query = start_query(sjs.join(*sides, **KINDS[kind]), folder)
    tell_batches(query)
    # Attempts that were killed have left files in the sink, which only Spark knows to leave out.
    session.read.parquet(f"{folder}/sink").write.parquet(f"{folder}/result")
    tell("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
