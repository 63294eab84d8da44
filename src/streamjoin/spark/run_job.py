"""``run_job``: a job file on Spark, as streams or as tables.

::

    [left]   read -> select -> where -> watermark \\
                                                   join -> select -> [sink]
    [right]  read -> select -> where -> watermark /

Streams and tables differ only at the two ends, ``readStream`` and ``writeStream``. Errors in the
join are raised before Spark starts, and what Spark refuses is raised with the part of the file that
caused it. A stream is followed by its progress reports, each batch counted once.
"""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

import streamjoin.spark as sjs
from streamjoin.errors import StreamJoinError
from streamjoin.jobs.job import Job, Sink, Source
from streamjoin.jobs.patience import patience
from streamjoin.jobs.reading import load_job as load_job
from streamjoin.spark.api import check_options, describe_result
from streamjoin.spark.planning.inputs import prepare_inputs
from streamjoin.windows.durations import format_duration, parse_duration

QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}
# Of streams in these formats: Spark does not infer one.
NEED_SCHEMA = ("parquet", "csv", "json", "orc", "xml", "avro")
SPARKS_REASON = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")  # every error of Spark's begins like this
POLL_SECONDS, SHOW_SECONDS, PATIENCE_SECONDS = 0.2, 2.0, 10.0


@dataclass
class JobResult:
    """What a job has done; None where Spark does not report it.

    >>> print(JobResult(rows=5000, matches=12, batches=2, seconds=3.21))
    2 batches, 5,000 rows, 12 matches, 3.2 s
    """

    rows: int | None = None
    matches: int | None = None
    late: int = 0
    batches: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = (
            (self.batches or None, "batches"),
            (self.rows, "rows"),
            (self.matches, "matches"),
            (self.late or None, "late rows"),
        )
        texts = [f"{count:,} {name}" for count, name in counts if count is not None]
        return ", ".join([*texts, f"{self.seconds:.1f} s"])


def explain_job(job: Job, spark: SparkSession | None = None, console: Console | None = None) -> str:
    """Say what the job reads and writes, and how the join is understood; no query is started."""
    with _session(job, spark, console or Console(quiet=True)) as session:
        left, right = _read_both(session, job)
        with _blame_part(job, "join"):
            text = sjs.explain(left, right, **job.join.arguments)
        with _blame_part(job, "sink"):
            _make_empty_result(session, left, right, job).selectExpr(*job.sink.select or "*")
    parts: dict[str, Source | Sink] = {"left": job.left, "right": job.right, "sink": job.sink}
    for name, part in reversed(parts.items()):
        text = f"{name:<12} {part.format or 'table'} {part.table or part.path or ''}\n{text}"
    return text


def run_job(
    job: Job,
    spark: SparkSession | None = None,
    console: Console | None = None,
    seconds: float | None = None,
) -> JobResult:
    """Run a job until it ends, until Ctrl-C, or for some seconds; show progress on the console.

    Without ``spark`` the running session is used, or one is started with the settings of
    ``[spark]`` and stopped at the end. For streams, `streamjoin.spark.configure` sets what is not
    set there.
    """
    if seconds is not None and not job.is_stream:
        raise StreamJoinError(
            f"seconds={seconds:g} stops streams, and {job.file} joins tables. Leave it out."
        )
    console = console or Console(quiet=True)
    with _session(job, spark, console) as session:
        left, right = _read_both(session, job)
        start = time.perf_counter()
        with _blame_part(job, "join"), patience(console, "planning"):
            matches = sjs.join(left, right, **job.join.arguments, checkpoint=job.sink.checkpoint)
        with _blame_part(job, "sink"):
            matches = matches.selectExpr(*job.sink.select or "*")
            if not job.is_stream:
                return _write_table(matches, job.sink, console, start)
            query = _start(matches, job.sink)
        return _follow(query, console, seconds)


@contextmanager
def _session(job: Job, spark: SparkSession | None, console: Console) -> Iterator[SparkSession]:
    spark = spark or SparkSession.getActiveSession()
    if spark is not None:
        yield spark
        return
    name = f"streamjoin {job.file.stem}"
    settings: dict[str, Any] = {"spark.app.name": name, **QUIET, **job.spark}
    if str(settings.get("spark.master", "local")).startswith("local"):
        # Workers would be the first python3 on the path, which may not have this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # pages of JSON before each error
    with console.status("starting Spark ..."), _blame_part(job, "spark"):
        spark = SparkSession.builder.config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _blame_part(job: Job, part: str) -> Iterator[None]:
    """Name the part of the file that Spark refuses; failures in workers keep their traceback."""
    try:
        yield
    except Exception as error:
        reason = SPARKS_REASON.search(str(error))
        if reason is None or "Traceback (most recent call last)" in str(error):
            raise
        hint = " Spark needs Java 17 or newer: see JAVA_HOME." if part == "spark" else ""
        raise StreamJoinError(f"{job.file}: Spark refuses [{part}]: {reason[0]}{hint}") from error


def _read_both(spark: SparkSession, job: Job) -> list[DataFrame]:
    if job.is_stream:
        sjs.configure(spark, cores=job.join.given["cores"])
    frames = []
    for number, (name, source) in enumerate((("left", job.left), ("right", job.right))):
        with _blame_part(job, name):
            rows = _load(spark, source).selectExpr(*source.select or "*")
            rows = rows.where(source.where or "true")
            if source.watermark and job.join.time:
                delay = format_duration(parse_duration(source.watermark))
                rows = rows.withWatermark(job.join.time[number], delay)
            frames.append(rows)
    return frames


def _make_empty_result(
    spark: SparkSession, left: DataFrame, right: DataFrame, job: Job
) -> DataFrame:
    """Return a table with the columns of the result, and no row."""
    wanted = job.join
    config = check_options(left, wanted.on, wanted.window, wanted.time, wanted.given)
    columns = describe_result(left, right, prepare_inputs(left, right, config))
    return spark.createDataFrame([], columns)


def _load(spark: SparkSession, source: Source) -> DataFrame:
    reader: Any = (spark.readStream if source.stream else spark.read).options(**source.options)
    if source.table:
        return reader.table(source.table)
    reader = reader.format(source.format)
    if source.schema:
        reader = reader.schema(source.schema)
    elif source.stream and source.format in NEED_SCHEMA:
        there = spark.read.options(**source.options).format(source.format).load(source.path)
        reader = reader.schema(there.schema)
    return reader.load(source.path)


def _write_table(matches: DataFrame, sink: Sink, console: Console, start: float) -> JobResult:
    counted = Observation("streamjoin job")
    if sink.mode != "ignore":  # which may write nothing, and then there would never be a count
        matches = matches.observe(counted, count(lit(1)).alias("rows"))
    writer = matches.write.mode(sink.mode or "error").options(**sink.options)
    if sink.format:
        writer = writer.format(sink.format)
    with patience(console, "joining"):
        if sink.table:
            writer.saveAsTable(sink.table)
        else:
            writer.save(sink.path)
    rows = None if sink.mode == "ignore" else counted.get["rows"]
    return JobResult(matches=rows, seconds=time.perf_counter() - start)


def _start(matches: DataFrame, sink: Sink) -> StreamingQuery:
    writer = matches.writeStream.outputMode("append").options(**sink.options)
    if sink.format:
        writer = writer.format(sink.format)
    if sink.checkpoint:
        writer = writer.option("checkpointLocation", sink.checkpoint)
    if sink.name:
        writer = writer.queryName(sink.name)
    if sink.trigger == "available now":
        writer = writer.trigger(availableNow=True)
    elif sink.trigger == "once":
        writer = writer.trigger(once=True)
    elif sink.trigger:
        writer = writer.trigger(processingTime=format_duration(parse_duration(sink.trigger)))
    return writer.toTable(sink.table) if sink.table else writer.start(sink.path)


def _follow(query: StreamingQuery, console: Console, seconds: float | None) -> JobResult:
    """Count and show batches until the query ends or is stopped."""
    result = JobResult(rows=0)
    start = shown = time.perf_counter()
    last: dict[str, Any] = {}
    with _plain_interrupts(), console.status("waiting for the first batch ...") as status:
        try:
            while query.isActive and (seconds is None or result.seconds < seconds):
                time.sleep(POLL_SECONDS)
                last = _count(query, last, result)
                result.seconds = time.perf_counter() - start
                if last and time.perf_counter() - shown >= SHOW_SECONDS:
                    shown = time.perf_counter()
                    line = f"{_describe(last)}; so far {result}"
                    status.update(line)
                    if not console.is_terminal:
                        console.print(line, highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            status.update("stopping after this batch, or at once with Ctrl-C ...")
        _stop(query, last)
    _count(query, last, result)
    result.seconds = time.perf_counter() - start
    if (error := query.exception()) is not None:
        raise StreamJoinError(f"the stream failed ({result}): {error}") from error
    return result


def _count(query: StreamingQuery, last: dict[str, Any], result: JobResult) -> dict[str, Any]:
    """Add the batches after the last one to the result, and return the report of the newest."""
    newest, number = query.lastProgress, last.get("batchId", -1)
    if newest is None or newest["batchId"] <= number:
        return last
    # Usually one is new; when more are, Spark still has the others.
    reports = [newest] if newest["batchId"] == number + 1 else query.recentProgress
    for report in reports:
        if report["batchId"] > number and "addBatch" in report["durationMs"]:  # else it waited
            last, number, metrics = report, report["batchId"], _metrics(report)
            sides = [metrics[name] for name in ("rows_left", "rows_right") if name in metrics]
            result.batches += 1
            result.rows = (result.rows or 0) + (sum(sides) if sides else report["numInputRows"])
            result.late += metrics.get("late", 0)
            if "matches" in metrics:
                result.matches = (result.matches or 0) + metrics["matches"]
    return last


def _metrics(report: dict[str, Any]) -> dict[str, int]:
    """Return the join's metrics of a batch, if there are any."""
    return {key: int(value) for key, value in sjs.metrics_of(report).items()}


def _describe(report: dict[str, Any]) -> str:
    """Say how fast a batch was, and how much is kept after it."""
    stored = sum(operator["numRowsTotal"] for operator in report["stateOperators"])
    live = _metrics(report).get("live_rows", stored)
    pace = report["processedRowsPerSecond"] or 0
    return f"batch {report['batchId']}, {pace:,.0f} rows/s, {live:,} rows kept"


def _stop(query: StreamingQuery, last: dict[str, Any]) -> None:
    """Stop after the running batch if it ends soon; otherwise the next start repeats it."""
    deadline = time.perf_counter() + PATIENCE_SECONDS
    try:
        while query.isActive and query.status["isTriggerActive"] and time.perf_counter() < deadline:
            if _count(query, last, JobResult()) is not last:
                break
            time.sleep(POLL_SECONDS / 4)
    finally:
        query.stop()


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Let Ctrl-C only raise: PySpark's own handler also cancels jobs, and so fails the query."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous or signal.SIG_DFL)
