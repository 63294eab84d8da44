"""Joins over Spark Connect: ``python -m tests.spark.drivers.connect FOLDER``, of streams of files.

A Connect session cannot live in a process that has a classic one, so the test starts this.
"""

import logging
import sys
from typing import Any

from pyspark.sql import SparkSession

from streamjoin import CountWindow, TimeWindow
from streamjoin import spark as sjs
from tests.spark.drivers.starting import SIDES, read_sides, start_query, start_session, tell


def main(folder: str) -> None:
    session = start_session(SparkSession.builder.remote("local[2]"), folder)
    sjs.configure(session, cores=2)
    left, right = (session.read.parquet(f"{folder}/{side}") for side in SIDES)
    tell(sjs.explain(left, right, on="sqrt(l.k) = sqrt(r.k) and l.s || r.s = 'ab'"))
    window: dict[str, Any] = {"window": TimeWindow("4 seconds"), "time": "t"}
    joins: dict[str, dict[str, Any]] = {
        "equality": {"on": "sqrt(l.k) = sqrt(r.k) and l.s || r.s = 'ab'"},
        "window": {"on": "l.k < r.k", **window},
        "count": {"on": "l.k = r.k", "window": CountWindow(10), "order": "id"},
    }
    for name, join in joins.items():
        sjs.join(left, right, **join).write.parquet(f"{folder}/{name}")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    session.streams.addListener(sjs.MetricsListener())
    left, right = read_sides(session, folder, "9 seconds")
    joined = sjs.join(left, right, on="l.k = r.k and l.s || r.s = 'ab'", **window)
    query = start_query(joined, folder, "stream")
    if not query.awaitTermination(200):
        raise TimeoutError(query.status)
    tell("end")
    try:
        tell("metrics", sjs.metrics_of(query.recentProgress[0])["rows_left"])
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
