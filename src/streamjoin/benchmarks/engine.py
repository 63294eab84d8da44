"""The in-process engine against DuckDB, Polars and a nested loop; its scaling, memory and start.

Every competitor gets two threads. The nested loop is `indexes.scan`: tiled for the cache and
compiled to SIMD code, about ten comparisons a nanosecond and core, as fast as one gets.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter

import duckdb
import numpy as np
import pyarrow as pa

from streamjoin import join_tables
from streamjoin.benchmarks.harness import Report, Series, interleave
from streamjoin.benchmarks.workloads import (
    FullWindow,
    band_for,
    pair_ids,
    uniform_batch,
)
from streamjoin.joins.gather import gather, keep_ranges

THREADS = 2
BATCH = 1 << 15


def run(report: Report, quick: bool) -> None:
    """Run the suite; ``quick`` uses sizes an eighth to a sixteenth as large."""
    scale = 16 if quick else 1
    report.settings.update(threads=THREADS, batch=BATCH, scale=f"1/{scale}")
    start(report)
    for rows in (1_000_000, 4_000_000):
        tables(report, rows // scale)
    million, eight_million = (1 << 20) // scale, (1 << 23) // scale
    sliding(report, million, steps=64, target=1_000 / scale)
    sliding(report, eight_million, steps=64, target=5_000 / scale)
    doubling(report, [million << shift for shift in range(4)])
    match_rate(report, million)
    memory(report, million)


def tables(report: Report, rows: int) -> None:
    """Band join of two tables, about two matches a row, all columns materialised."""
    rng = np.random.default_rng(report.seed(f"tables {rows}", rows))
    left, right = (pa.Table.from_batches([uniform_batch(rng, rows)]) for _ in range(2))
    band = int(band_for(rows, 2).split()[-1])
    name = f"tables {rows:,} x {rows:,}"
    with report.step(f"{name}: streamjoin, DuckDB, Polars"):
        times = interleave(
            {
                f"{name} streamjoin": partial(
                    join_tables, left, right, on=f"abs(l.x - r.x) <= {band}", threads=THREADS
                ),
                f"{name} DuckDB": duckdb_band(left, right, band),
                f"{name} Polars": polars_band(left, right, band),
            },
            repeats=5,
            warmup=2,
        )
    ours, duck, polar = times.values()
    report.speedup(f"{name} vs DuckDB", ours, duck, 3)
    report.speedup(f"{name} vs Polars join_where", ours, polar, 5)


def duckdb_band(left: pa.Table, right: pa.Table, band: int) -> Callable[[], object]:
    """Return DuckDB's band join."""
    connection = duckdb.connect(config={"threads": THREADS})
    connection.register("l", left)
    connection.register("r", right)
    query = (
        "select l.x, l.id, r.x as x_right, r.id as id_right from l, r "
        f"where l.x between r.x - {band} and r.x + {band}"
    )
    return lambda: connection.sql(query).to_arrow_table()


def polars_band(left: pa.Table, right: pa.Table, band: int) -> Callable[[], object]:
    """Return Polars' band join."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))
    import polars as pl

    one, other = (pl.DataFrame(pl.from_arrow(table)) for table in (left, right))
    low, high = pl.col("x_right") - band, pl.col("x_right") + band
    return lambda: one.join_where(other, pl.col("x") >= low, pl.col("x") <= high)


def rates(workload: FullWindow, steps: int, repeats: int, name: str) -> Series:
    """Return the tuples joined a second, by blocks of ``steps``, after one block to warm up."""
    values = []
    for _ in range(repeats):
        begin = perf_counter()
        workload.run(steps)
        values.append(2 * steps * workload.batch / (perf_counter() - begin) / 1e6)
    return Series(name, tuple(values), "M/s")


def sliding(report: Report, window: int, steps: int, target: float) -> None:
    """BI-Sort against the nested loop in count windows, two matches a row, pairs written out."""
    name = f"sliding {window:,}"
    seed = report.seed(name, window)
    with report.step(f"{name}: BI-Sort and the nested loop"):
        sort = FullWindow(window, BATCH, 2, "bi_sort", pair_ids, seed)
        sort.run(steps)
        before = rates(sort, steps, 3, f"{name} BI-Sort")
        loop = FullWindow(window, BATCH, 2, "scan", pair_ids, seed)
        nested = rates(loop, 1, 2, f"{name} nested loop")
        after = rates(sort, steps, 3, f"{name} BI-Sort")
        ours = Series(before.name, before.values + after.values, "M/s")
        rows = FullWindow(window, BATCH, 2, "bi_sort", gather, seed)
        rows.run(steps)
        report.add(rates(rows, steps, 3, f"{name} BI-Sort, rows gathered"))
    report.at_least(
        f"{name} BI-Sort vs nested loop", ours.median / nested.median, target, ours, nested
    )


def doubling(report: Report, windows: list[int]) -> None:
    """What doubling the window costs BI-Sort."""
    series = []
    with report.step(f"windows from {windows[0]:,} to {windows[-1]:,}"):
        workloads = [FullWindow(size, BATCH, 2, "bi_sort", pair_ids, size) for size in windows]
        for workload in workloads:
            workload.run(64)
        turns = [[rates(each, 32, 1, "").values[0] for each in workloads] for _ in range(6)]
        for size, values in zip(windows, zip(*turns, strict=True), strict=True):
            series.append(Series(f"window {size:,}", values, "M/s"))
    for (small, one), (large, two) in zip(
        zip(windows, series, strict=True), list(zip(windows, series, strict=True))[1:], strict=False
    ):
        report.at_least(
            f"throughput kept from {small:,} to {large:,}", two.median / one.median, 0.75, two, one
        )


def match_rate(report: Report, window: int) -> None:
    """What 1,024 matches a row cost while they stay ranges."""
    few, many = (
        FullWindow(window, BATCH, rate, "bi_sort", keep_ranges, report.seed("match rate", window))
        for rate in (2, 1024)
    )
    with report.step("1,024 matches a row against 2, as ranges"):
        for workload in (few, many):
            workload.run(64)
        turns = [
            (rates(few, 32, 1, "").values[0], rates(many, 32, 1, "").values[0]) for _ in range(6)
        ]
    two, thousand = (
        Series(f"{rate} matches a row", values, "M/s")
        for rate, values in zip((2, 1024), zip(*turns, strict=True), strict=True)
    )
    report.at_least(
        "throughput kept at 1,024 matches a row", thousand.median / two.median, 0.9, thousand, two
    )


def memory(report: Report, window: int) -> None:
    """Live bytes against the raw keys, row ids and columns of the two windows, at their worst."""
    workload = FullWindow(window, BATCH, 2, "bi_sort", keep_ranges, report.seed("memory", window))
    ratios = []
    with report.step("memory over one turn of the window"):
        for _ in range(2 * window // BATCH):
            workload.run(1)
            ratios.append(workload.live_bytes() / workload.raw_bytes())
    series = Series("live bytes / raw bytes", tuple(ratios), "x")
    report.at_most("live bytes, at their largest", series.max, 2.5, series)


def start(report: Report) -> None:
    """How long importing takes, and the first result with kernels compiled before."""
    with report.step("import, and first result with a warm cache"):
        imports = timed("import streamjoin", "import streamjoin")
        first = timed(
            "first result",
            "import pyarrow as pa, streamjoin as sj\n"
            "on = 'l.s = r.s and abs(l.x - r.x) <= 0.5'\n"
            "join = sj.StreamJoin(on, sj.TimeWindow(1000), 'ts')\n"
            "batch = pa.table({'s': ['a', 'b'], 'x': [1.0, 2.0], 'ts': [1, 2]})\n"
            "join.push(left=batch)\n"
            "assert join.push(right=batch.slice(0)).num_rows == 2",
        )
    report.at_most("seconds to import streamjoin", imports.median, 0.3, imports)
    report.at_most("seconds to the first result", first.median, 2, first)


def timed(name: str, code: str) -> Series:
    """Run code in fresh processes and return the seconds it took, interpreter start excluded."""
    clock = "from time import perf_counter as _p; _b = _p()\n"
    command = [sys.executable, "-c", f"{clock}{code}\nprint(_p() - _b)"]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(6)]
    return Series(name, tuple(float(done.stdout) for done in runs[1:]))
