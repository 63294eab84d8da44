"""What drivers in processes of their own share: a session, two streams of files, a query, an end.

A driver is a module of this package: ``python -m tests.spark.drivers.local FOLDER``. It reads the
files that `Streams` writes into its folder.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

SIDES = ("left", "right")
SPARK_HOME = Path(pyspark.__file__).parent


def make_command(driver: Any, *arguments: Any) -> list[str]:
    """Return the command that runs a driver; it needs `make_environment`."""
    return [sys.executable, "-m", driver.__name__, *map(str, arguments)]


def make_environment(**others: str) -> dict[str, str]:
    """Return this process's environment, in which Python finds what it finds here."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **others}


def make_spark_home(folder: Path) -> dict[str, str]:
    """Return the environment of a home of Spark in which executors can leave their files."""
    home = folder / "spark"
    if not home.exists():
        home.mkdir()
        for name in ("bin", "jars"):
            (home / name).symlink_to(SPARK_HOME / name)
    return {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}


def run_driver(
    driver: Any, *arguments: Any, timeout: int, **others: str
) -> subprocess.CompletedProcess[str]:
    """Run a driver to its end."""
    return subprocess.run(
        make_command(driver, *arguments),
        env=make_environment(**others),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start_session(builder: Any, folder: str, **settings: str) -> SparkSession:
    """Start a session that is quiet and leaves its files in a folder."""
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in {**common, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read_sides(session: Any, folder: Any, delay: str | None, files: int | None = 1) -> list[Any]:
    """Return both sides as streams that take some files per micro-batch; all, if None."""
    frames = []
    for side in SIDES:
        path = f"{folder}/{side}"
        reader = session.readStream.schema(session.read.parquet(path).schema)
        if files is not None:
            reader = reader.option("maxFilesPerTrigger", files)
        frame = reader.parquet(path)
        frames.append(frame if delay is None else frame.withWatermark("t", delay))
    return frames


def start_query(joined: Any, folder: str, sink: str = "sink") -> Any:
    """Start a query into files that ends when it has read all that are there."""
    return (
        joined.writeStream.format("parquet")
        .option("path", f"{folder}/{sink}")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )


def tell(*words: Any) -> None:
    """Print a line for the process that started this one."""
    print(*words, flush=True)  # noqa: T201


def tell_batches(query: Any) -> None:
    """Print the number of each batch that a query has done, until it ends."""
    done = -1
    while not query.awaitTermination(0.1):
        progress = query.lastProgress
        if progress is not None and progress.batchId > done:
            done = progress.batchId
            tell("batch", done)
