"""Join types on Spark: outer joins of streams against inner ones, and as-of joins of tables.

Left and full joins of streams read the same files as the inner join, a band with two matches per
row, and are measured in the same way (`harness.spark.pipelines`).

As-of joins go against what Spark 4.3 has of its own, over tables without an equality, which it
joins by comparing every pair: ``DataFrame.nearestByJoin`` and ``ASOF JOIN`` in SQL, which has to be
switched on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.spark.inputs import UNIFORM, Streams
from benchmarks.harness.spark.pipelines import (
    Pipeline,
    change_settings,
    compare_rates,
    race_pipelines,
    run_to_end,
    write_inputs,
)
from benchmarks.harness.spark.plans import check_equal
from benchmarks.harness.spark.session import CORES, Workbench, open_workbench
from benchmarks.harness.turns import time_call, time_turns
from benchmarks.jointypes.sizes import SPARK_BATCH_ROWS, SPARK_ROWS
from benchmarks.jointypes.workloads import draw_quotes, draw_trades
from streamjoin import spark as sjs

HOWS = ("left", "full")
SHARE = 0.85  # of the inner join's throughput
TIMES_AS_FAST = 20
WINDOW, MEASURED, ROUNDS = 4, 4, 2  # batches, batches, rounds
ASOF_ENABLED = "spark.sql.join.asofJoin.enabled"


def run(report: Report, scale: Scale) -> None:
    """Run the suite's part on Spark."""
    report.settings["on Spark"] = {"cores": CORES, "batch": scale.pick(SPARK_BATCH_ROWS)}
    with open_workbench(report) as bench:
        measure_streams(bench, scale.pick(SPARK_BATCH_ROWS))
        race_nearest(bench, scale.pick(SPARK_ROWS))


def make_pipeline(how: str) -> Pipeline:
    """Return the join of streams with some ``how``."""

    def make(spark: SparkSession, streams: Streams) -> DataFrame:
        left, right = (streams.read(spark, side) for side in ("left", "right"))
        return sjs.join(
            left, right, on=streams.on, window=streams.extent, time=streams.time, how=how
        )

    return Pipeline(f"streamjoin, {how}", make)


def measure_streams(bench: Workbench, batch: int) -> None:
    """Compare left and full joins of streams with inner ones; a first run of each warms up."""
    warmup = WINDOW + 1
    streams = write_inputs(bench, "how", UNIFORM, batch // 2, warmup + MEASURED, WINDOW)
    pipelines = [make_pipeline(how) for how in ("inner", *HOWS)]
    for pipeline in pipelines:
        with bench.report.step(f"{pipeline.name}: warming up"):
            run_to_end(bench, pipeline, streams)
    name = f"streams, batches of {batch:,}"
    inner, *others = race_pipelines(bench, name, streams, pipelines, warmup, ROUNDS)
    for how, outer in zip(HOWS, others, strict=True):
        compare_rates(bench, f"Spark: {name}: {how} vs inner", outer, inner, SHARE, "")


@dataclass(frozen=True)
class Day:
    """Trades and quotes in files, to be joined without an equality."""

    bench: Workbench
    name: str

    @classmethod
    def write(cls, bench: Workbench, rows: int) -> "Day":
        """Write the files."""
        name = f"as of, {rows:,} x {rows:,}"
        rng = np.random.default_rng(bench.report.seed(f"Spark: {name}", rows))
        for side, draw in (("trades", draw_trades), ("quotes", draw_quotes)):
            pq.write_table(draw(rng, rows, "numbers"), bench.folder / f"{side}.parquet")
        return cls(bench, name)

    def read(self) -> tuple[DataFrame, DataFrame]:
        """Return both tables; the columns of quotes have names of their own."""
        trades, quotes = (
            self.bench.spark.read.parquet(str(self.bench.folder / f"{side}.parquet"))
            for side in ("trades", "quotes")
        )
        return trades, quotes.toDF(*(f"{name}_right" for name in quotes.columns))

    def ours(self, on: str) -> tuple[Any, ...]:
        """Join as users write it."""
        return sum_rows(sjs.join(*self.read(), on=on, how="left", keep="nearest"))

    def nearest_by(self) -> tuple[Any, ...]:
        """Let Spark rank every pair by its distance."""
        trades, quotes = self.read()
        distance = F.abs(F.unix_micros(trades["ts"]) - F.unix_micros(quotes["ts_right"]))
        joined = trades.nearestByJoin(
            quotes, distance, 1, "exact", "distance", joinType="leftouter"
        )
        return sum_rows(joined)

    def as_of(self) -> tuple[Any, ...]:
        """Let Spark find the last quote before each trade, in SQL."""
        for name, table in zip(("trades", "quotes"), self.read(), strict=True):
            table.createOrReplaceTempView(name)
        with change_settings(self.bench.spark, {ASOF_ENABLED: "true"}):
            return sum_rows(
                self.bench.spark.sql(
                    "select * from trades left asof join quotes match_condition (ts >= ts_right)"
                )
            )


def sum_rows(joined: DataFrame) -> tuple[Any, ...]:
    """Count the joined rows, and add up how far quotes are from their trades."""
    apart = F.abs(F.unix_micros("ts") - F.unix_micros("ts_right"))
    row = joined.agg(F.count(F.lit(1)), F.sum(apart)).first()
    assert row is not None
    return tuple(row)


def race_nearest(bench: Workbench, rows: int) -> None:
    """Compare as-of joins of tables."""
    day = Day.write(bench, rows)
    races: list[tuple[str, str, Callable[[], tuple[Any, ...]]]] = [
        ("nearestByJoin", "abs(l.ts - r.ts_right) <= interval 1 day", day.nearest_by),
        ("ASOF JOIN", "l.ts >= r.ts_right", day.as_of),
    ]
    for label, on, theirs in races:
        found: list[tuple[Any, ...]] = []
        with bench.report.step(f"{day.name}: {label}, first run"):
            seconds = time_call(lambda run=theirs, found=found: found.append(run()))
        bench.report.detail(f"{day.name}: {label}, first run", seconds)
        ours = partial(day.ours, on)
        check_equal(day.name, ours(), found[0])
        functions: dict[str, Callable[[], object]] = {}
        functions |= {f"{day.name}: streamjoin for {label}": ours, f"{day.name}: {label}": theirs}
        with bench.report.step(f"{day.name}: streamjoin and {label}"):
            mine, other = time_turns(functions, rounds=3).values()
        bench.report.speedup(f"Spark: {day.name} vs {label}", mine, other, TIMES_AS_FAST)
