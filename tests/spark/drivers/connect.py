"""Joins over Spark Connect: ``python -m tests.spark.drivers.connect FOLDER``, of streams of files.

A Connect session cannot live in a process that has a classic one, so the test starts this.
"""

import logging
import sys

from pyspark.sql import SparkSession

from streamjoin import CountWindow, TimeWindow
from streamjoin import spark as sjs
from tests.spark.drivers.starting import SIDES, read_sides, start_query, start_session, tell


def main(folder):
    session = start_session(SparkSession.builder.remote("local[2]"), folder)
    sjs.configure(session, cores=2)
    tables = [session.read.parquet(f"{folder}/{side}") for side in SIDES]
    tell(sjs.explain(*tables, on="sqrt(l.k) = sqrt(r.k) and l.s || r.s = 'ab'"))
    window = {"window": TimeWindow("4 seconds"), "time": "t"}
    joins = {
        "equality": {"on": "sqrt(l.k) = sqrt(r.k) and l.s || r.s = 'ab'"},
        "window": {"on": "l.k < r.k", **window},
        "count": {"on": "l.k = r.k", "window": CountWindow(10), "order": "id"},
    }
    for name, join in joins.items():
        sjs.join(*tables, **join).write.parquet(f"{folder}/{name}")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    session.streams.addListener(sjs.MetricsListener())
    streams = read_sides(session, folder, "9 seconds")
    joined = sjs.join(*streams, on="l.k = r.k and l.s || r.s = 'ab'", **window)
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
