"""One Spark session with two cores, which serves all competitors of a suite."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from benchmarks.harness.report import Report
from streamjoin import spark as sjs

CORES = 2
MEMORY = "3g"
ARROW_ROWS = 1 << 16  # of a batch between the JVM and Python; all competitors' rows are narrow


@dataclass(frozen=True)
class Workbench:
    """Where a suite measures and writes."""

    report: Report
    spark: SparkSession
    folder: Path


@contextmanager
def open_workbench(report: Report) -> Iterator[Workbench]:
    """Start Spark, and make a folder for inputs and checkpoints that is deleted in the end."""
    with TemporaryDirectory(prefix="streamjoin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open_session(folder / "spark.log") as spark:
            yield Workbench(report, spark, folder)


@contextmanager
def open_session(log: Path) -> Iterator[SparkSession]:
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
