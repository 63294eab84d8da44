"""A local Spark for the demo, with helpful errors if it cannot start and its chatter in a file.

Spark's JVM and its Python workers write to the standard error that they inherit, some of it before
any log setting is read. So the JVM is started with standard error redirected to a file, and
afterwards this process gets its own back.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjoin.errors import StreamJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = {
    "pyspark": "pyspark",
    "pandas": "pandas",
    "google.protobuf": "protobuf",
    "duckdb": "duckdb",
}
WAY_OUT = "The same without Spark: streamjoin demo --in-process"
MOST_CORES = 4
SETTINGS: dict[str, Any] = {
    "spark.app.name": "streamjoin demo",
    # A minute is too short for Java's second compiler to pay off: without it, half the CPU time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",  # a host name may resolve to nothing
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def check_packages() -> None:
    """Refuse to start without the packages that the demo on Spark needs."""
    missing = []
    for module, package in PACKAGES.items():
        try:
            import_module(module)
        except ModuleNotFoundError:
            missing.append(package)
    if missing:
        raise StreamJoinError(
            f"The demo runs on Spark and needs {', '.join(missing)}. "
            f"Install: pip install 'streamjoin[spark,demo]'. {WAY_OUT}"
        )


def start_spark(log: Path) -> "SparkSession":
    """Return a local session; what Spark writes goes to the file ``log``."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    # Workers would run the first python3 on the path, which may not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    cores = min(MOST_CORES, os.cpu_count() or 1)
    try:
        with redirect_errors(log):
            builder = SparkSession.builder.master(f"local[{cores}]").config(map=SETTINGS)
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise StreamJoinError(
            "Spark did not start; it needs Java 17 or newer. Install it (Debian, Ubuntu: apt-get "
            "install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME. "
            f"What Spark said is in {log}. {WAY_OUT}"
        ) from error


@contextmanager
def redirect_errors(file: Path) -> Iterator[None]:
    """Redirect standard error to a file, for this process and for children started meanwhile."""
    sys.stderr.flush()
    own = os.dup(2)
    with file.open("w") as opened:
        os.dup2(opened.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)
