"""The join on Spark against Spark: streams, tables, the fixed cost of a micro-batch, skew.

One session with two cores and two shuffle partitions serves all competitors. Everything that is
compared reads the same files in the same run; `spark_pipelines` and `spark_tables` say how it is
measured, `spark_baselines` what the pipelines without a join do. Throughput is in thousand rows a
second (K/s), both sides' input together. What has no target (where the time of a micro-batch goes,
skew, smaller batches, ways to join on buckets) stands under ``details`` in the JSON.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.spark import streams as spark_streams
from benchmarks.spark import tables as spark_tables
from benchmarks.spark.pipelines import CORES, Workbench
from streamjoin import spark as sjs

MEMORY = "3g"
ARROW_ROWS = 1 << 16  # of a batch between the JVM and Python; all competitors' rows are narrow
SHRINK = Sized(full=1, quick=10)  # what sizes are divided by
ROUNDS, BAND_ROUNDS = Sized(full=2, quick=1), Sized(full=3, quick=1)
WINDOW = Sized(full=4, quick=2)  # batches
SMALL_WINDOW, SMALL_BATCHES = Sized(full=40, quick=2), Sized(full=16, quick=4)
SMALL = 1_000  # rows of a batch that measures the fixed cost


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    shrink, rounds, window = (scale.pick(each) for each in (SHRINK, ROUNDS, WINDOW))
    batch = 1_000_000 // shrink
    report.settings.update(
        cores=CORES, batch=batch, scale=f"1/{shrink}", rounds=rounds, driver_memory=MEMORY
    )
    with TemporaryDirectory(prefix="streamjoin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with session(folder / "spark.log") as spark:
            bench = Workbench(report, spark, folder)
            spark_streams.band_join(bench, batch, window, scale.pick(BAND_ROUNDS))
            small_window, measured = scale.pick(SMALL_WINDOW), scale.pick(SMALL_BATCHES)
            spark_streams.fixed_cost(bench, SMALL, small_window, measured, rounds)
            spark_streams.skew(bench, batch, window)
            spark_tables.against_nested_loop(bench, 100_000 // shrink)
            spark_tables.against_buckets(bench, 5_000_000 // shrink)
            spark_streams.equi_join(bench, batch // 5, 2, rounds, claimed=scale is Scale.QUICK)
            if scale is Scale.FULL:
                spark_streams.equi_join(bench, batch, 1, rounds)


@contextmanager
def session(log: Path) -> Iterator[SparkSession]:
    """Start Spark on two cores, as a streaming join wants it, with Arrow batches for narrow rows.

    Spark's processes inherit where errors are written. It is the log: PySpark's streaming workers
    say there what they are about, several lines a batch.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .appName("streamjoin bench")
        .config("spark.driver.memory", MEMORY)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", ARROW_ROWS)
    )
    terminal = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        spark = builder.getOrCreate()
    except Exception:
        os.write(terminal, log.read_bytes())
        raise
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
    spark.sparkContext.setLogLevel("ERROR")
    sjs.configure(spark, cores=CORES, narrow_rows=True)
    try:
        yield spark
    finally:
        spark.stop()
