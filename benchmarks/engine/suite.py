"""The in-process engine against DuckDB, Polars and a nested loop; its scaling, memory and start.

Every competitor gets two threads. The nested loop is `indexes.runs.scan`, tiled for the cache and
compiled to SIMD code, about ten comparisons a nanosecond and core; beside it stands a plain one,
which compares one pair after the other as the papers' do.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from time import perf_counter

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.harness.nested_loop import PlainScan
from benchmarks.harness.report import Report, Series, interleave
from benchmarks.harness.workloads import FullWindow, band_for, keep_ranges, pair_ids, uniform_batch
from streamjoin import join_tables
from streamjoin.joins.deliver import gather

THREADS = 2
BATCH = 1 << 15
PLAIN_BATCH = 1 << 10  # a nested loop takes as long for each row, however many come together
STEPS = 32


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
            repeats=9 if rows < 2_000_000 else 5,
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


def rate(workload: FullWindow, steps: int) -> float:
    """Return how many million tuples a second are joined over some steps."""
    begin = perf_counter()
    workload.run(steps)
    return 2 * steps * workload.batch / (perf_counter() - begin) / 1e6


def take_turns(workloads: dict[str, FullWindow]) -> list[Series]:
    """Measure several workloads in turns, after a warm-up."""
    for workload in workloads.values():
        workload.run(2 * STEPS)
    turns = [[rate(each, STEPS) for each in workloads.values()] for _ in range(6)]
    columns = zip(*turns, strict=True)
    return [Series(name, values, "M/s") for name, values in zip(workloads, columns, strict=True)]


def sliding(report: Report, window: int, steps: int, target: float) -> None:
    """BI-Sort against the nested loop in count windows, two matches a row, pairs written out.

    What BI-Sort reaches with matches left as ranges, as in the paper, or with joined rows gathered
    is kept as series; so is a plain nested loop, whose ratio stands in the note.
    """
    name = f"sliding {window:,}"
    seed = report.seed(name, window)
    with report.step(f"{name}: BI-Sort and nested loops"):
        forms = {"ranges": keep_ranges, "pairs": pair_ids, "rows": gather}
        sorts = {
            form: FullWindow(window, BATCH, 2, "bi_sort", deliver, seed)
            for form, deliver in forms.items()
        }
        loop = FullWindow(window, BATCH, 2, "scan", pair_ids, seed)
        plain = FullWindow(window, PLAIN_BATCH, 2, "scan", pair_ids, seed, make_index=PlainScan)
        for workload in sorts.values():
            workload.run(steps)
        turns = [[rate(each, steps) for each in sorts.values()] for _ in range(3)]
        nested = Series(f"{name} nested loop", (rate(loop, 1), rate(loop, 1)), "M/s")
        papers = Series(f"{name} plain nested loop", tuple(rate(plain, 1) for _ in range(3)), "M/s")
        turns += [[rate(each, steps) for each in sorts.values()] for _ in range(3)]
        ours = {
            form: Series(f"{name} BI-Sort, as {form}", values, "M/s")
            for form, values in zip(forms, zip(*turns, strict=True), strict=True)
        }
    report.add(*ours.values())
    report.add(papers)
    pairs = ours["pairs"]
    note = (
        f"{pairs.median / papers.median:,.0f}x a plain loop; "
        f"as ranges {ours['ranges'].median / nested.median:,.0f}x"
    )
    ratio = pairs.median / nested.median
    report.at_least(f"{name} BI-Sort vs nested loop", ratio, target, pairs, nested, note)


def doubling(report: Report, windows: list[int]) -> None:
    """What doubling the window costs BI-Sort, pairs written out."""
    with report.step(f"windows from {windows[0]:,} to {windows[-1]:,}"):
        series = take_turns(
            {
                f"window {size:,}": FullWindow(size, BATCH, 2, "bi_sort", pair_ids, size)
                for size in windows
            }
        )
    for (small, one), (large, two) in pairwise(zip(windows, series, strict=True)):
        kept = two.median / one.median
        report.at_least(f"throughput kept from {small:,} to {large:,}", kept, 0.75, two, one)


def match_rate(report: Report, window: int) -> None:
    """What 1,024 matches a row cost while they stay ranges."""
    seed = report.seed("match rate", window)
    with report.step("1,024 matches a row against 2, as ranges"):
        two, thousand = take_turns(
            {
                f"{matches} matches a row": FullWindow(
                    window, BATCH, matches, "bi_sort", keep_ranges, seed
                )
                for matches in (2, 1024)
            }
        )
    kept = thousand.median / two.median
    report.at_least("throughput kept at 1,024 matches a row", kept, 0.9, thousand, two)


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
