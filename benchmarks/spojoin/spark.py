"""Joins on two inequalities on Spark: against what Spark alone costs, and against Spark's own join.

Q1, ``l.power < r.power and l.cool > r.cool``, joins two streams in a count window. So rows are
numbered: every core gets all rows, stores those whose turn is its, and probes with all. The
pipeline that it is compared with (`harness.spark.baselines.StoringCore`) does all of that, and
gives as many rows of the same columns, but looks for no match. How data is made so that a row finds
1, 10 or 100 matches in its window is told in `workloads`; Q3 joins tables (`spark_tables`).

What is claimed is the throughput of the join as a part of that pipeline's, at every match rate::

    batch   0 to 3          4         5 to 8 (5 to 12 at low rates)
            fill windows    warm up   measured: the windows are replaced once (twice)
"""

from typing import Any

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.spark.inputs import Shape
from benchmarks.harness.spark.pipelines import (
    OURS,
    STORING,
    check_value,
    compare_rates,
    race_pipelines,
    run_to_end,
    write_inputs,
)
from benchmarks.harness.spark.session import CORES, MEMORY, Workbench, open_workbench
from benchmarks.spojoin import spark_tables
from benchmarks.spojoin.workloads import Q1, Query, describe_data

RATES = (1, 10, 100)  # matches a row
FEW = 10  # matches a row: up to here joined rows are cheap, and two windows are measured
SHARE = 0.8  # of the throughput of the pipeline without a join


WINDOW = Sized(full=1_000_000, quick=20_000)  # rows of a side
BATCHES = Sized(full=4, quick=2)  # of a window
ROUNDS = Sized(full=2, quick=1)
RACED_ROWS = Sized(full=100_000, quick=5_000)  # of tables that are joined by Spark's own plan too
ALONE_ROWS = Sized(full=[300_000, 1_000_000], quick=[20_000])  # and of those that are not


def run(report: Report, scale: Scale) -> None:
    """Run the suite's part on Spark.

    A batch is a quarter of a window a side: 500,000 rows of both with windows of a million. First
    of all, a run of each pipeline goes ahead that is not measured: the JVM becomes faster for
    minutes, and the pipeline that comes first would pay for that.
    """
    report.settings["on Spark"] = {
        "cores": CORES,
        "driver_memory": MEMORY,
        "window": scale.pick(WINDOW),
        "batches": scale.pick(BATCHES),
        "rounds": scale.pick(ROUNDS),
    }
    with open_workbench(report) as bench:
        for matches in RATES:
            measure_cross_join(bench, scale, matches)
        spark_tables.race_spark(bench, scale.pick(RACED_ROWS))
        for rows in scale.pick(ALONE_ROWS):
            spark_tables.measure_alone(bench, rows)


def make_shape(query: Query, matches: int) -> Shape:
    """Return the data of a query as streams have it."""

    def draw(rng: np.random.Generator, rows: int) -> dict[str, Any]:
        return dict(zip(query.columns, query.rows(rng, rows), strict=True))

    return Shape(draw, lambda _: query.on, matches)


def measure_cross_join(bench: Workbench, scale: Scale, matches: int) -> None:
    """Q1 in a count window, against the pipeline that does not join.

    With a hundred matches a row a batch gives 50 million joined rows, so fewer batches are measured
    then.
    """
    report, window, batches = bench.report, scale.pick(WINDOW), scale.pick(BATCHES)
    rows = window // batches
    name = f"Spark: Q1, match rate {matches}"
    with report.step(f"{name}: finding the noise"):
        query = Q1.with_matches(matches, window)
    warmup, measured = batches + 1, batches * (2 if matches <= FEW else 1)
    shape, folder = make_shape(query, matches), f"Q1 {matches}"
    streams = write_inputs(bench, folder, shape, rows, warmup + measured, batches, counts=True)
    first = scale is Scale.FULL and matches == RATES[0]
    for pipeline in (OURS, STORING) if first else ():
        with report.step(f"{name}: {pipeline.name}, warming up"):
            run_to_end(bench, pipeline, streams)
    ours, storing = race_pipelines(
        bench, name, streams, (OURS, STORING), warmup, scale.pick(ROUNDS)
    )
    check_value("matches a row", ours.told("matches") / streams.batch, matches)
    check_value("rows emitted", storing.told("matches") / ours.told("matches"), 1)
    check_value("probes", ours.told("probes"), CORES * streams.batch, tolerance=0)
    check_value("rows stored", storing.told("live_rows"), ours.told("live_rows"), tolerance=0)
    check_value("segments", storing.told("segments"), ours.told("segments"), tolerance=0)
    check_value("bytes of indexes", storing.told("memory_bytes"), 0)
    note = (
        f"count windows of {window:,} rows a side, batches of {streams.batch:,} rows, "
        f"{ours.told('matches'):,.0f} joined rows a batch"
    )
    title = f"{name}: of a pipeline that stores and emits"
    compare_rates(bench, title, ours, storing, SHARE, note)
    report.detail(
        name,
        {
            "data": describe_data(
                query, query.rows(np.random.default_rng(matches), window), window
            ),
            "million joined rows a second": {
                each.name: each.rates.median * each.told("matches") / streams.batch / 1e3
                for each in (ours, storing)
            },
            **{each.name: each.breakdown() for each in (ours, storing)},
        },
    )
