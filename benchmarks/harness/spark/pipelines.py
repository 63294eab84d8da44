"""Streaming pipelines, run to the end of their files, and what Spark's progress tells of them.

A pipeline reads a file of each side in every micro-batch, as fast as it can (trigger
``availableNow``), and writes to the ``noop`` sink, which makes Spark produce all rows and columns
and drops them. The first batches fill the window and warm up; of the others, Spark's own figure for
the whole micro-batch (``durationMs.triggerExecution``: planning, logs and commits included) is the
measurement. Pipelines take turns, so that a slow minute of the machine meets them all::

    round 1    ours  storing  discarding      each a query of its own over the same files,
    round 2    ours  storing  discarding      with a fresh checkpoint
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.harness.series import Series
from benchmarks.harness.spark.baselines import (
    DiscardingProcessor,
    StoringProcessor,
    build_without_join,
)
from benchmarks.harness.spark.inputs import Shape, Streams, window_seconds, write_streams
from benchmarks.harness.spark.session import CORES, Workbench
from benchmarks.harness.turns import take_turns
from streamjoin import spark as sjs
from streamjoin.options.checked import JoinOptions
from streamjoin.spark.session import CHECKPOINTS, PROVIDER, ROCKSDB
from streamjoin.spark.streams import MakeProcessor

IN_MEMORY = ROCKSDB.replace("RocksDB", "HDFSBacked")
DELIVERED, PARTITION = "delivered", "__partition"


@dataclass(frozen=True)
class Pipeline:
    """One competitor."""

    name: str
    make: Callable[[SparkSession, Streams], DataFrame]
    settings: Mapping[str, str] = field(default_factory=dict)
    rounds: int | None = None  # at most; None: as many as the others


@dataclass
class Measured:
    """The measured micro-batches of one pipeline."""

    title: str  # what is measured
    name: str  # the pipeline
    rows: int  # in a batch
    batches: list[Any] = field(default_factory=list)  # `StreamingQueryProgress` of each
    delivered: int | None = None  # joined rows of a whole round, if they were counted

    @property
    def label(self) -> str:
        """Under which the measurements are kept."""
        return f"{self.title}: {self.name}"

    @property
    def seconds(self) -> Series:
        """Seconds a micro-batch."""
        return Series(self.label, tuple(each / 1e3 for each in self._durations))

    @property
    def rates(self) -> Series:
        """Thousand rows a second, batch by batch."""
        return Series(self.label, tuple(self.rows / each for each in self._durations), "K/s")

    def told(self, name: str) -> float:
        """Return the median of one of streamjoin's observed metrics."""
        return median(sjs.metrics_of(each).get(name, 0) for each in self.batches)

    def breakdown(self) -> dict[str, dict[str, float]]:
        """Return medians of all that Spark and the cores tell about where the time goes.

        ``durations`` are parts of ``triggerExecution``; ``cores`` and ``state`` add up the time of
        tasks that run side by side.
        """
        parts: dict[str, dict[str, list[float]]] = {}
        for name in ("durations", "cores", "state"):
            parts[name] = defaultdict(list)
        for each in self.batches:
            for name, value in each.durationMs.items():
                parts["durations"][f"{name}_ms"].append(value)
            for name, value in sjs.metrics_of(each).items():
                parts["cores"][name].append(value)
            for operator in each.stateOperators:
                for name in ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs"):
                    parts["state"][name].append(getattr(operator, name))
        return {
            part: {name: round(median(values), 1) for name, values in told.items() if any(values)}
            for part, told in parts.items()
        }

    @property
    def _durations(self) -> list[float]:
        return [each.durationMs["triggerExecution"] for each in self.batches]


def read_observed(progress: Any, name: str) -> dict[str, Any]:
    """Return what a batch's observed metrics of that name say; nothing if there are none."""
    row = (progress.observedMetrics or {}).get(name)
    return {} if row is None else row.asDict()


def build_join(spark: SparkSession, streams: Streams) -> DataFrame:
    """Return the join as users write it."""
    left, right = (streams.read(spark, side) for side in ("left", "right"))
    return sjs.join(left, right, on=streams.on, window=streams.extent, time=streams.time)


def build_unjoined(spark: SparkSession, streams: Streams, processor: MakeProcessor) -> DataFrame:
    """Return the same pipeline with another processor."""
    left, right = (streams.read(spark, side) for side in ("left", "right"))
    config = JoinOptions.check(streams.on, streams.extent, streams.time)
    return build_without_join(left, right, config, processor)


def build_storing(spark: SparkSession, streams: Streams) -> DataFrame:
    """Return the pipeline that gives as many rows as the join."""
    return build_unjoined(spark, streams, partial(StoringProcessor, matches=streams.matches))


def build_discarding(spark: SparkSession, streams: Streams) -> DataFrame:
    """Return the pipeline that gives none."""
    return build_unjoined(spark, streams, DiscardingProcessor)


OURS = Pipeline("streamjoin", build_join)
STORING = Pipeline("stores and emits", build_storing)
DISCARDING = Pipeline("discards all", build_discarding)


def count_rows(pipeline: Pipeline) -> Pipeline:
    """Let Spark count the joined rows, and those of each core, which is a partition."""

    def make(spark: SparkSession, streams: Streams) -> DataFrame:
        rows = pipeline.make(spark, streams).withColumn(PARTITION, F.spark_partition_id())
        sums = [
            F.count_if(F.col(PARTITION) == number).alias(f"core_{number}")
            for number in range(CORES)
        ]
        return rows.observe(DELIVERED, *sums).drop(PARTITION)

    return Pipeline(pipeline.name, make, pipeline.settings, pipeline.rounds)


def race_pipelines(
    bench: Workbench,
    title: str,
    streams: Streams,
    pipelines: Sequence[Pipeline],
    warmup: int,
    rounds: int,
) -> list[Measured]:
    """Run all pipelines in turns, and keep what came after their warm-up."""
    results = [Measured(title, each.name, streams.batch) for each in pipelines]

    def run(pipeline: Pipeline, measured: Measured) -> None:
        with bench.report.step(measured.label):
            batches = run_to_end(bench, pipeline, streams)
        measured.batches += batches[warmup:]
        told = [sum(read_observed(each, DELIVERED).values()) for each in batches]
        measured.delivered = sum(told) if any(told) else None

    pairs = zip(pipelines, results, strict=True)
    take_turns(
        {each.name: partial(run, each, measured) for each, measured in pairs},
        rounds,
        limits={each.name: each.rounds for each in pipelines if each.rounds is not None},
    )
    bench.report.add(*(each.rates for each in results))
    return results


def run_to_end(bench: Workbench, pipeline: Pipeline, streams: Streams) -> list[Any]:
    """Run a query over all files, and return the progress of each micro-batch that had rows."""
    # Spark still looks after the state of queries that have ended: their folders have to stay.
    checkpoint = mkdtemp(prefix="checkpoint-", dir=bench.folder)
    with change_settings(bench.spark, pipeline.settings):
        query = (
            pipeline.make(bench.spark, streams)
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
    batches = [each for each in query.recentProgress if each.numInputRows]
    if any(each.numInputRows != streams.batch for each in batches):
        sizes = sorted({each.numInputRows for each in batches})
        raise RuntimeError(f"micro-batches had {sizes} rows, not {streams.batch} each")
    return batches


@contextmanager
def change_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a while."""
    before = {name: str(spark.conf.get(name)) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def make_spark_own(name: str, provider: str, rounds: int | None = None) -> Pipeline:
    """Return Spark's own join of two streams on ``key`` and a time range."""

    def make(spark: SparkSession, streams: Streams) -> DataFrame:
        left = streams.read(spark, "left")
        right = streams.read(spark, "right")
        right = right.toDF(*(f"{column}_right" for column in right.columns))
        reach = f"interval {window_seconds(streams.window)} seconds"
        return left.join(
            right, F.expr(f"key = key_right and ts_right between ts - {reach} and ts + {reach}")
        )

    version = "2" if provider == ROCKSDB else "1"
    return Pipeline(name, make, {PROVIDER: provider, CHECKPOINTS: version}, rounds)


def write_inputs(
    bench: Workbench,
    name: str,
    shape: Shape,
    rows: int,
    batches: int,
    window: int,
    counts: bool = False,
) -> Streams:
    """Write the streams of one part of the suite."""
    folder = bench.folder / name.replace(" ", "-").replace(",", "")
    with bench.report.step(f"{name}: writing {batches} batches of {2 * rows:,} rows"):
        seed = bench.report.seed(name, rows)
        return write_streams(folder, shape, rows, batches, window, seed, counts)


def compare_rates(
    bench: Workbench, name: str, ours: Measured, theirs: Measured, target: float, note: str
) -> None:
    """Record our throughput as a multiple of another's."""
    bench.report.rate_ratio(name, ours.rates, theirs.rates, target, note)


def check_value(what: str, value: float, expected: float, tolerance: float = 0.05) -> None:
    """Refuse to report on a run that did not do what it should."""
    if abs(value - expected) > tolerance * expected:
        raise RuntimeError(f"{what}: {value:.3f}, and {expected} was meant; the run does not count")
