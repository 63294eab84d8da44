"""Joins on two inequalities on Spark: against what Spark alone costs, and against Spark's own join.

Q1, ``l.power < r.power and l.cool > r.cool``, joins two streams in a count window. So rows are
numbered: every core gets all rows, stores those whose turn is its, and probes with all. The
pipeline that it is compared with (`spark_baselines.StoringCore`) does all of that, and gives as
many rows of the same columns, but looks for no match. How data is made so that a row finds 1, 10 or
100 matches in its window is told in `spojoin_workloads`; Q3 joins tables (`spojoin_spark_tables`).

What is claimed is the throughput of the join as a part of that pipeline's, at every match rate::

    batch   0 to 3          4         5 to 8 (5 to 12 at low rates)
            fill windows    warm up   measured: the windows are replaced once (twice)
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.spark.inputs import Shape
from benchmarks.spark.pipelines import CORES, OURS, STORING, Workbench, race, run_to_end
from benchmarks.spark.streams import check, compare, write
from benchmarks.spark.suite import MEMORY, session
from benchmarks.spojoin import spark_tables as spojoin_spark_tables
from benchmarks.spojoin.workloads import Q1, Query, statistics

RATES = (1, 10, 100)  # matches a row
FEW = 10  # matches a row: up to here joined rows are cheap, and two windows are measured
SHARE = 0.8  # of the throughput of the pipeline without a join


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    window: int  # rows of a side
    batches: int  # in a window
    rounds: int
    warms_up: bool

    @property
    def rows(self) -> int:
        """Rows of a side in a batch."""
        return self.window // self.batches


QUICK, FULL = Extent(20_000, 2, 1, False), Extent(1_000_000, 4, 2, True)


def on_spark(report: Report, quick: bool) -> None:
    """Run the suite's part on Spark; ``quick`` has small windows and tables, and one round of two.

    A batch is a quarter of a window a side: 500,000 rows of both with windows of a million. First
    of all, a run of each pipeline goes ahead that is not measured: the JVM becomes faster for
    minutes, and whoever comes first would pay for that.
    """
    extent = QUICK if quick else FULL
    report.settings["on Spark"] = {"cores": CORES, "driver_memory": MEMORY, **asdict(extent)}
    with TemporaryDirectory(prefix="streamjoin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with session(folder / "spark.log") as spark:
            bench = Workbench(report, spark, folder)
            for matches in RATES:
                cross_join(bench, extent, matches)
                extent = replace(extent, warms_up=False)
            if quick:
                spojoin_spark_tables.against_spark(bench, 5_000)
                spojoin_spark_tables.alone(bench, 20_000)
            else:
                spojoin_spark_tables.against_spark(bench, 100_000)
                spojoin_spark_tables.alone(bench, 300_000)
                spojoin_spark_tables.alone(bench, 1_000_000)


def shape_of(query: Query, matches: int) -> Shape:
    """Return the data of a query as streams have it."""

    def draw(rng: np.random.Generator, rows: int) -> dict[str, Any]:
        return dict(zip(query.columns, query.rows(rng, rows), strict=True))

    return Shape(draw, lambda _: query.on, matches)


def cross_join(bench: Workbench, extent: Extent, matches: int) -> None:
    """Q1 in a count window, against the pipeline that does not join.

    With a hundred matches a row a batch gives 50 million joined rows, so fewer batches are measured
    then.
    """
    report, window, rows = bench.report, extent.window, extent.rows
    name = f"Spark: Q1, match rate {matches}"
    with report.step(f"{name}: finding the noise"):
        query = Q1.with_matches(matches, window)
    warmup, measured = extent.batches + 1, extent.batches * (2 if matches <= FEW else 1)
    shape, folder = shape_of(query, matches), f"Q1 {matches}"
    streams = write(bench, folder, shape, rows, warmup + measured, extent.batches, counts=True)
    for pipeline in (OURS, STORING) if extent.warms_up else ():
        with report.step(f"{name}: {pipeline.name}, warming up"):
            run_to_end(bench, pipeline, streams)
    ours, storing = race(bench, name, streams, (OURS, STORING), warmup, extent.rounds)
    check("matches a row", ours.told("matches") / streams.batch, matches)
    check("rows emitted", storing.told("matches") / ours.told("matches"), 1)
    check("probes", ours.told("probes"), CORES * streams.batch, tolerance=0)
    check("rows stored", storing.told("live_rows"), ours.told("live_rows"), tolerance=0)
    check("segments", storing.told("segments"), ours.told("segments"), tolerance=0)
    check("bytes of indexes", storing.told("memory_bytes"), 0)
    note = (
        f"count windows of {window:,} rows a side, batches of {streams.batch:,} rows, "
        f"{ours.told('matches'):,.0f} joined rows a batch"
    )
    title = f"{name}: of a pipeline that stores and emits"
    compare(bench, title, ours, storing, SHARE, note)
    report.detail(
        name,
        {
            "data": statistics(query, query.rows(np.random.default_rng(matches), window), window),
            "million joined rows a second": {
                each.name: each.rates.median * each.told("matches") / streams.batch / 1e3
                for each in (ours, storing)
            },
            **{each.name: each.breakdown() for each in (ours, storing)},
        },
    )
