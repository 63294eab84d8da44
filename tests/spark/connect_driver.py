"""Joins over Spark Connect: ``python connect_driver.py FOLDER``, with two streams of files in it.

A Connect session cannot live in a process that has a classic one, so the test starts this.
"""

import logging
import sys

from pyspark.sql import SparkSession

from streamjoin import CountWindow, TimeWindow
from streamjoin import spark as sjs


def main(folder):
    session = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    sjs.configure(session, cores=2)
    schema = session.read.parquet(f"{folder}/left").schema
    tables = [session.read.parquet(f"{folder}/{side}") for side in ("left", "right")]
    print(sjs.explain(*tables, on="sqrt(l.k) = sqrt(r.k) and l.s || r.s = 'ab'"))  # noqa: T201
    window = {"window": TimeWindow("4 seconds"), "time": "t"}
    joins = {
        "equality": {"on": "sqrt(l.k) = sqrt(r.k) and l.s || r.s = 'ab'"},
        "window": {"on": "l.k < r.k", **window},
        "count": {"on": "l.k = r.k", "window": CountWindow(10), "order": "id"},
    }
    for name, join in joins.items():
        sjs.join(*tables, **join).write.parquet(f"{folder}/{name}")
    streams = [
        session.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(f"{folder}/{side}")
        .withWatermark("t", "9 seconds")
        for side in ("left", "right")
    ]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    session.streams.addListener(sjs.MetricsListener())
    joined = sjs.join(*streams, on="l.k = r.k and l.s || r.s = 'ab'", **window)
    query = (
        joined.writeStream.format("parquet")
        .option("path", f"{folder}/stream")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(200):
        raise TimeoutError(query.status)
    print("end", flush=True)  # noqa: T201
    try:
        print("told", sjs.metrics_of(query.recentProgress[0])["rows_left"])  # noqa: T201
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
