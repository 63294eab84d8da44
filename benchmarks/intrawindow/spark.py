"""An equality join in tumbling windows on Spark, against what Spark alone costs.

A window is two batches long, a million rows a side, and a row finds two matches. With
``emit="close"`` every second batch closes a window and gives all its matches, so two batches are
one measurement. The pipeline that it is compared with does all that the join does but the join: it
unpacks rows, computes their keys, writes the same segments, drops them when their window closes,
and gives as many rows of the same columns, slices of the rows that came.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series
from benchmarks.harness.spark.baselines import build_without_join, store_rows
from benchmarks.harness.spark.inputs import MATCHES, Streams, equal_shape, write_streams
from benchmarks.harness.spark.pipelines import (
    Measured,
    Pipeline,
    check_value,
    race_pipelines,
    run_to_end,
)
from benchmarks.harness.spark.session import CORES, MEMORY, open_workbench
from streamjoin import spark as sjs
from streamjoin.joins.engine import Engine, Place
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.spark.cores.closing_core import ClosingCore
from streamjoin.spark.state.mark_pages import MarkBook
from streamjoin.spark.state.segments import Segment
from streamjoin.spark.streams import JoinProcessor
from streamjoin.windows import TumblingWindow

SHARE = 0.9  # of the throughput of the pipeline without a join
CYCLE = 2  # batches of a window
WINDOW = TumblingWindow(f"{CYCLE} minutes")

ROWS = Sized(full=500_000, quick=10_000)  # of a side in a batch
CYCLES = Sized(full=4, quick=1)  # that are measured
ROUNDS = Sized(full=3, quick=1)


class StoringClosingCore(ClosingCore):
    """Stores and gives as much as the join, and joins nothing."""

    def join(
        self, engine: Engine, batches: dict[Side, pa.RecordBatch], place: Place
    ) -> Iterator[pa.RecordBatch]:
        """Give `MATCHES` rows for every left row that is stored."""
        kept = yield from store_rows(
            self.spec, engine, batches, place, lambda kept: MATCHES * len(kept[0])
        )
        assert self.cached is not None
        self._windows(self.cached).inserted = kept

    def least_needed(self, watermark: int | None) -> dict[Side, int] | None:
        """Return where the window begins that the watermark is in."""
        part = self.plan.window_part
        if watermark is None or part is None:
            return None
        return dict.fromkeys(SIDES, part.start(int(part.numbers(np.array([watermark]))[0])))

    def next_expiry_ms(self) -> int | None:
        """Return when the window ends that the watermark is in."""
        needed = self.least_needed(self.watermark)
        return None if needed is None else (needed["left"] + WINDOW.length_us) // 1000

    def _load(self, segments: list[Segment], book: MarkBook) -> Iterator[dict[Side, Prepared]]:
        """Read nothing back: there is nothing to join."""
        return iter(())


class StoringClosingProcessor(JoinProcessor):
    """The processor of `StoringClosingCore`."""

    core_class = StoringClosingCore


def build_join(spark: SparkSession, streams: Streams, emit: str) -> DataFrame:
    """Return the join as users write it."""
    left, right = (streams.read(spark, side) for side in SIDES)
    return sjs.join(left, right, on=streams.on, window=WINDOW, time=streams.time, emit=emit)


def build_storing(spark: SparkSession, streams: Streams) -> DataFrame:
    """Return the pipeline that gives as many rows as the join."""
    left, right = (streams.read(spark, side) for side in SIDES)
    config = JoinOptions.check(streams.on, WINDOW, streams.time)
    return build_without_join(left, right, config, StoringClosingProcessor)


PIPELINES = [
    Pipeline("streamjoin, when windows close", partial(build_join, emit="close")),
    Pipeline("streamjoin, as rows come", partial(build_join, emit="eager")),
    Pipeline("stores and emits", build_storing),
]


def run(report: Report, scale: Scale) -> None:
    """Measure the join with both ways to give matches; the first is claimed.

    First of all a run of each goes ahead that is not measured: the JVM becomes faster for minutes.
    """
    rows, cycles, rounds = (scale.pick(each) for each in (ROWS, CYCLES, ROUNDS))
    sizes = {"rows": rows, "cycles": cycles, "rounds": rounds}
    report.settings["on Spark"] = {"cores": CORES, "driver_memory": MEMORY, **sizes}
    warmup = 2 * CYCLE
    with open_workbench(report) as bench:
        with report.step("tumbling windows on Spark: writing rows"):
            seed = report.seed("tumbling windows", rows)
            batches = warmup + cycles * CYCLE
            streams = write_streams(
                bench.folder / "t", equal_shape(CYCLE * rows), rows, batches, CYCLE, seed
            )
        for pipeline in PIPELINES:
            with report.step(f"tumbling windows on Spark: {pipeline.name}, warming up"):
                run_to_end(bench, pipeline, streams)
        title = f"tumbling windows, batches of {streams.batch:,}"
        results = race_pipelines(bench, title, streams, PIPELINES, warmup, rounds)
    closed, eager, other = results
    for each in results:
        given = sum(list_metric(each, "matches")) / (len(each.batches) * rows)
        check_value(f"{each.name}: matches a left row", given, MATCHES)
    report.detail(title, {each.name: each.breakdown() for each in results})
    note = f"windows of {CYCLE * rows:,} rows a side, {MATCHES} matches a row"
    one, two = measure_cycles(closed), measure_cycles(other)
    name = "on Spark: a tumbling equality join, of a pipeline that stores and emits"
    report.rate_ratio(name, one, two, SHARE, note)
    report.detail(f"{title}: as rows come, of it", measure_cycles(eager).median / two.median)


def list_metric(measured: Measured, name: str) -> list[float]:
    """Return a metric of each batch."""
    return [sjs.metrics_of(each).get(name, 0) for each in measured.batches]


def measure_cycles(measured: Measured) -> Series:
    """Return thousand rows a second, window by window."""
    times = measured.seconds.values
    cycles = [sum(times[at : at + CYCLE]) for at in range(0, len(times), CYCLE)]
    return Series(
        measured.label, tuple(CYCLE * measured.rows / each / 1e3 for each in cycles), "K/s"
    )
