"""The join on Spark against Spark: streams, tables, the fixed cost of a micro-batch, skew.

One session with two cores and two shuffle partitions serves all competitors. Everything that is
compared reads the same files in the same run; `spark_pipelines` and `spark_tables` say how it is
measured, `spark_baselines` what the pipelines without a join do. The table of claims shows
throughput as thousand rows a second (K/s), both sides' input together.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from streamjoin import spark as sjs
from streamjoin.benchmarks import spark_streams, spark_tables
from streamjoin.benchmarks.harness import Report
from streamjoin.benchmarks.spark_pipelines import CORES, Workbench

MEMORY = "3g"


def run(report: Report, quick: bool) -> None:
    """Run the suite; ``quick`` uses sizes a tenth as large, and one round instead of two."""
    scale, rounds = (10, 1) if quick else (1, 2)
    batch = 1_000_000 // scale
    with session() as spark, TemporaryDirectory(prefix="streamjoin-bench-") as folder:
        bench = Workbench(report, spark, Path(folder))
        report.settings.update(
            cores=CORES, batch=batch, scale=f"1/{scale}", rounds=rounds, driver_memory=MEMORY
        )
        spark_streams.band_join(bench, batch, rounds)
        if quick:
            spark_streams.fixed_cost(bench, 1_000, window=2, measured=6, rounds=1)
        else:
            spark_streams.fixed_cost(bench, 1_000, window=40, measured=16, rounds=2)
        spark_streams.skew(bench, batch)
        spark_tables.against_nested_loop(bench, 100_000 // scale)
        spark_tables.against_buckets(bench, 5_000_000 // scale)
        if not quick:
            spark_streams.equi_join(bench, batch // 5, rounds, claimed=False)
        spark_streams.equi_join(bench, batch, rounds)


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark on two cores, as a streaming join wants it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[{CORES}]")
        .appName("streamjoin bench")
        .config("spark.driver.memory", MEMORY)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    sjs.configure(spark, cores=CORES)
    try:
        yield spark
    finally:
        spark.stop()
