"""The Spark session: the settings that a streaming join needs, and the Python of its workers.

A stateful stage runs one task for each of ``spark.sql.shuffle.partitions``, with or without rows,
so that number should be the number of cores.
"""

import re
import sys
from collections.abc import Callable
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamjoin import __version__
from streamjoin.errors import StreamJoinError
from streamjoin.options.values import read_spark_cores

PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
CHECKPOINTS = "spark.sql.streaming.stateStore.checkpointFormatVersion"
FULL_RETRY = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"

_CHECKED: WeakSet[SparkSession] = WeakSet()  # sessions whose workers were checked
_WRONG_PYTHON = ("Cannot run program", "PYTHON_VERSION_MISMATCH", "ModuleNotFoundError")
UTC = re.compile(r"(?i)Z|(Etc/)?(UTC|GMT|UT|UCT|Zulu|Universal|Greenwich)|[+-]0?0(:?00)?")


def configure(
    spark: SparkSession, cores: int | None = None, narrow_rows: bool = False
) -> dict[str, str]:
    """Set what a streaming join needs, each only if it is not set yet; return what was set.

    * ``spark.sql.shuffle.partitions``: ``cores``, or as many as tasks run side by side. Databricks'
      ``auto`` counts as not set: state has a fixed number of partitions;
    * the RocksDB state store, the only one that `transformWithState` works with;
    * its changelog: a batch then uploads what it wrote, not whole files;
    * version 2 of its checkpoints, in which the state of one attempt of a task is never taken for
      that of another (if the session has another state store, for joins of Spark's own, that store
      does not know this version, and it is left out);
    * no full retry if a task that runs again sends other bytes. Here it may, as it finds no hint on
      another executor, and the joined rows are the same; but Spark would end the query, which
      cannot be rolled back, whenever it loses an executor. It also does without this check for
      other queries of the session, as all versions before 4.2 do. `join` switches it on where the
      order of rows decides: in count windows, with ``ordered``, and for equalities in time windows;
    * with ``narrow_rows``, no bound on the bytes of an Arrow batch. Spark computes that size again
      for every row, at half the cost of reading the row. This is for sessions in which *no* Python
      function sees wide rows and micro-batches fit into memory: only the bound on rows remains.

    Call it before the stream starts: a checkpoint keeps the number of partitions it began with.
    """
    read_spark_cores("cores", cores)
    wanted = {PROVIDER: ROCKSDB, CHANGELOG: "true", FULL_RETRY: "false"}
    if narrow_rows:
        wanted[BATCH_BYTES] = str((1 << 31) - 1)
    present = read_settings(spark)
    if present.get(PROVIDER, ROCKSDB) == ROCKSDB:
        wanted[CHECKPOINTS] = "2"
    if not present.get(PARTITIONS, "").isdecimal():  # Databricks has "auto"
        present.pop(PARTITIONS, None)
        wanted[PARTITIONS] = str(cores or count_slots(spark))
    missing = {name: value for name, value in wanted.items() if name not in present}
    for name, value in missing.items():
        spark.conf.set(name, value)
    return missing


def demand_full_retry(spark: SparkSession) -> None:
    """Let Spark repeat a step whose rows come in another order; see `JoinSpec.follows_order`."""
    if (spark.conf.get(FULL_RETRY, None) or "").lower() != "true":
        spark.conf.set(FULL_RETRY, "true")


def read_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings that were made; defaults are not among them."""
    every = spark.conf.getAll
    return dict(every() if callable(every) else every)


def count_slots(spark: SparkSession) -> int:
    """Return how many tasks run side by side, as far as Spark knows.

    Executors that have not come up yet count too, if their number is fixed.
    """
    parts = spark.range(1 << 16).select(F.spark_partition_id().alias("part"))
    [row] = parts.agg(F.max("part")).collect()
    executors, slots, cpus = (
        int(spark.conf.get(name, "") or default)
        for name, default in (
            ("spark.executor.instances", 0),
            ("spark.executor.cores", 1),
            ("spark.task.cpus", 1),
        )
    )
    return max(int(row[0]) + 1, executors * (slots // cpus))


def check_workers(spark: SparkSession) -> None:
    """Refuse workers that cannot run a join, before a stream starts; checked once per session.

    One tiny task reports what its Python has. If it fails for another reason, so will the join,
    and with a better message.
    """
    if spark in _CHECKED:
        return
    _CHECKED.add(spark)
    try:
        [[answer]] = spark.range(1).select(F.udf(make_question(), "string")()).collect()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reasons = [line for line in lines if any(sign in line for sign in _WRONG_PYTHON)]
        if not reasons:
            return
        raise StreamJoinError(
            f"Spark cannot run Python workers: {reasons[0]}. {name_python()}"
        ) from error
    version, python, *missing = answer.split("\n")
    if version and version != __version__:
        raise StreamJoinError(
            f"the driver runs streamjoin {__version__}, and Spark's workers have streamjoin "
            f"{version}, at {python}. {name_python()}"
        )
    missing = [*missing, *(() if version else ["streamjoin"])]
    if missing:
        raise StreamJoinError(
            f"Spark's workers run {python}, which has no {' and no '.join(missing)}. "
            f"{name_python()}"
        )


def make_question() -> Callable[[], str]:
    """Return a function that returns this package's version, the Python, and what that lacks.

    It is defined inside another function because such functions are pickled whole: workers without
    this package could not look it up by name.
    """

    def answer() -> str:
        import sys
        from importlib import import_module
        from importlib.util import find_spec

        try:
            version = str(import_module("streamjoin").__version__)
        except ImportError:
            version = ""
        needed = ("numpy", "numba", "pandas", "pyarrow", "sqlglot")
        return "\n".join(
            [version, sys.executable, *(each for each in needed if not find_spec(each))]
        )

    return answer


def name_python() -> str:
    """Name the driver's Python, and the ways to give it to the workers."""
    return (
        f"The driver's is {sys.executable}. On one machine, set the environment variable "
        f"PYSPARK_PYTHON={sys.executable} before the session starts; on a cluster, install "
        f"'streamjoin[spark]=={__version__}' where the workers run, and let PYSPARK_PYTHON or "
        "spark.pyspark.python name that Python"
    )


def check_session(spark: SparkSession, cores: int | None) -> int:
    """Return the number of partitions of a stateful stage; refuse a session not set up for one."""
    present = read_settings(spark)
    provider = present.get(PROVIDER, "")
    if not provider.endswith("RocksDBStateStoreProvider"):
        found = f"{PROVIDER} is {provider}" if provider else f"{PROVIDER} is not set"
        raise StreamJoinError(
            f"{found}, and a streaming join keeps its state in RocksDB; call "
            f"streamjoin.spark.configure(spark), or set it to {ROCKSDB}"
        )
    if PARTITIONS not in present:
        raise StreamJoinError(
            f"{PARTITIONS} is not set, so Spark would run {spark.conf.get(PARTITIONS)} tasks in "
            "every micro-batch, most of them empty; call streamjoin.spark.configure(spark), or set "
            "it to the number of cores that are to join"
        )
    if not present[PARTITIONS].isdecimal():
        raise StreamJoinError(
            f"{PARTITIONS} is {present[PARTITIONS]!r}, and the state of a streaming join has a "
            "number of partitions that never changes; call streamjoin.spark.configure(spark), "
            f"which sets one, or spark.conf.set({PARTITIONS!r}, 8)"
        )
    partitions = int(present[PARTITIONS])
    if cores is not None and cores > partitions:
        raise StreamJoinError(
            f"cores={cores} is more than {PARTITIONS}={partitions}, the number of tasks that can "
            f"join side by side; ask for at most {partitions} cores, or raise that setting before "
            "the stream's first start"
        )
    return partitions


def semantic_settings(spark: SparkSession) -> tuple[tuple[str, str], ...]:
    """Return the settings that decide what an expression means."""
    zone = str(spark.conf.get(ZONE))
    return (
        ("time zone", "UTC" if UTC.fullmatch(zone) else zone),
        (ANSI, str(spark.conf.get(ANSI)).lower()),
    )
