"""An equality join in tumbling windows on Spark, against what Spark alone costs.

A window is two batches long, a million rows a side, and a row finds two matches. With
``emit="close"`` every second batch closes a window and gives all its matches, so two batches are
one measurement. The pipeline that it is compared with does all that the join does but the join: it
unpacks rows, computes their keys, writes the same segments, drops them when their window closes,
and gives as many rows of the same columns, slices of the rows that came.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.report import Report, Series
from benchmarks.spark.baselines import store, without_join
from benchmarks.spark.inputs import EQUAL, MATCHES, Shape, Streams, write_streams
from benchmarks.spark.pipelines import CORES, Measured, Pipeline, Workbench, run_to_end, take_turns
from benchmarks.spark.streams import check
from benchmarks.spark.suite import MEMORY, session
from streamjoin import spark as sjs
from streamjoin.joins.engine import Choose, Engine
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.spark.cores.closing_core import ClosingCore
from streamjoin.spark.state.segments import Segment
from streamjoin.spark.streams import JoinProcessor
from streamjoin.windows import TumblingWindow

SHARE = 0.9  # of the throughput of the pipeline without a join
CYCLE = 2  # batches of a window
WINDOW = TumblingWindow(f"{CYCLE} minutes")


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    rows: int  # of a side in a batch
    cycles: int  # that are measured
    rounds: int


QUICK, FULL = Extent(10_000, 1, 1), Extent(500_000, 4, 3)


class StoringClosingCore(ClosingCore):
    """Stores and gives as much as the join, and joins nothing."""

    def join(
        self, engine: Engine, batches: dict[Side, pa.RecordBatch], choose: Choose
    ) -> Iterator[pa.RecordBatch]:
        """Give `MATCHES` rows for every left row that is stored."""
        kept = yield from store(
            self.spec, engine, batches, choose, lambda kept: MATCHES * len(kept[0])
        )
        assert self.kept is not None
        self._windows(self.kept).inserted = kept

    def needed(self, watermark: int | None) -> dict[Side, int] | None:
        """Return where the window begins that the watermark is in."""
        part = self.plan.window_part
        if watermark is None or part is None:
            return None
        return dict.fromkeys(SIDES, part.start(int(part.numbers(np.array([watermark]))[0])))

    def next_expiry_ms(self) -> int | None:
        """Return when the window ends that the watermark is in."""
        needed = self.needed(self.watermark)
        return None if needed is None else (needed["left"] + WINDOW.length_us) // 1000

    def _load(self, segments: list[Segment]) -> Iterator[dict[Side, Prepared]]:
        """Read nothing back: there is nothing to join."""
        return iter(())


class StoringClosingProcessor(JoinProcessor):
    """The processor of `StoringClosingCore`."""

    core_class = StoringClosingCore


def joined(spark: SparkSession, streams: Streams, emit: str) -> DataFrame:
    """Return the join as users write it."""
    left, right = (streams.read(spark, side) for side in SIDES)
    return sjs.join(left, right, on=streams.on, window=WINDOW, time=streams.time, emit=emit)


def storing(spark: SparkSession, streams: Streams) -> DataFrame:
    """Return the pipeline that gives as many rows as the join."""
    left, right = (streams.read(spark, side) for side in SIDES)
    config = JoinOptions.check(streams.on, WINDOW, streams.time)
    return without_join(left, right, config, StoringClosingProcessor)


PIPELINES = [
    Pipeline("streamjoin, when windows close", partial(joined, emit="close")),
    Pipeline("streamjoin, as rows come", partial(joined, emit="eager")),
    Pipeline("stores and emits", storing),
]


def tumbling(report: Report, quick: bool) -> None:
    """Measure the join with both ways to give matches; the first is claimed.

    First of all a run of each goes ahead that is not measured: the JVM becomes faster for minutes.
    """
    extent = QUICK if quick else FULL
    report.settings["on Spark"] = {"cores": CORES, "driver_memory": MEMORY, **vars(extent)}
    warmup = 2 * CYCLE
    distinct = max(CYCLE * extent.rows // MATCHES, 1)
    shape = Shape(lambda rng, rows: {"key": rng.integers(0, distinct, rows)}, lambda _: EQUAL)
    with TemporaryDirectory(prefix="streamjoin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with session(folder / "spark.log") as spark:
            bench = Workbench(report, spark, folder)
            with report.step("tumbling windows on Spark: writing rows"):
                seed = report.seed("tumbling windows", extent.rows)
                batches = warmup + extent.cycles * CYCLE
                streams = write_streams(folder / "t", shape, extent.rows, batches, CYCLE, seed)
            for pipeline in PIPELINES:
                with report.step(f"tumbling windows on Spark: {pipeline.name}, warming up"):
                    run_to_end(bench, pipeline, streams)
            title = f"tumbling windows, batches of {streams.batch:,}"
            results = take_turns(bench, title, streams, PIPELINES, warmup, extent.rounds)
    closed, eager, other = results
    for each in results:
        given = sum(told(each, "matches")) / (len(each.batches) * extent.rows)
        check(f"{each.name}: matches a left row", given, MATCHES)
    report.detail(title, {each.name: each.breakdown() for each in results})
    note = f"windows of {CYCLE * extent.rows:,} rows a side, {MATCHES} matches a row"
    one, two = rates(closed), rates(other)
    name = "on Spark: a tumbling equality join, of a pipeline that stores and emits"
    report.at_least(name, one.median / two.median, SHARE, one, two, note)
    report.detail(f"{title}: as rows come, of it", rates(eager).median / two.median)


def told(measured: Measured, name: str) -> list[float]:
    """Return a metric of each batch."""
    return [sjs.metrics_of(each).get(name, 0) for each in measured.batches]


def rates(measured: Measured) -> Series:
    """Return thousand rows a second, window by window."""
    times = measured.seconds.values
    cycles = [sum(times[at : at + CYCLE]) for at in range(0, len(times), CYCLE)]
    return Series(
        measured.label, tuple(CYCLE * measured.rows / each / 1e3 for each in cycles), "K/s"
    )
