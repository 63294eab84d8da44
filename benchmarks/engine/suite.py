"""The in-process engine against DuckDB, Polars and a nested loop; its scaling, memory and start.

Every competitor gets two threads. The nested loop is `indexes.runs.scan`, tiled for the cache and
compiled to SIMD code, about ten comparisons a nanosecond and core; beside it stands a plain one,
which compares one pair after the other as the papers' do.
"""

import subprocess
import sys
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from benchmarks.harness.full_windows import FullWindow, keep_ranges, pair_ids
from benchmarks.harness.nested_loop import PlainScan
from benchmarks.harness.peers import THREADS, DuckDB, Polars, compare_band
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series, make_series
from benchmarks.harness.turns import take_turns, time_call, time_turns
from benchmarks.harness.workloads import band_for, uniform_batch
from streamjoin import join_tables
from streamjoin.joins.pairs.deliver import gather

BATCH = 1 << 15
PLAIN_BATCH = 1 << 10  # a nested loop takes as long for each row, however many come together
STEPS = 32
SHRINK = Sized(full=1, quick=16)  # what sizes are divided by


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    shrink = scale.pick(SHRINK)
    report.settings.update(threads=THREADS, batch=BATCH, scale=f"1/{shrink}")
    measure_start(report)
    for rows in (1_000_000, 4_000_000):
        measure_tables(report, rows // shrink)
    million, eight_million = (1 << 20) // shrink, (1 << 23) // shrink
    measure_sliding(report, million, steps=64, target=1_000 / shrink)
    measure_sliding(report, eight_million, steps=64, target=5_000 / shrink)
    measure_doubling(report, [million << shift for shift in range(4)])
    measure_match_rate(report, million)
    measure_memory(report, million)


def measure_tables(report: Report, rows: int) -> None:
    """Band join of two tables, about two matches a row, all columns materialised."""
    rng = np.random.default_rng(report.seed(f"tables {rows}", rows))
    left, right = (pa.Table.from_batches([uniform_batch(rng, rows)]) for _ in range(2))
    band = int(band_for(rows, 2).split()[-1])
    name = f"tables {rows:,} x {rows:,}"
    with report.step(f"{name}: streamjoin, DuckDB, Polars"):
        times = time_turns(
            {
                f"{name} streamjoin": partial(
                    join_tables, left, right, on=f"abs(l.x - r.x) <= {band}", threads=THREADS
                ),
                f"{name} DuckDB": DuckDB(left, right).prepare_rows(compare_band("x", band)),
                f"{name} Polars": Polars(left, right).prepare_rows(compare_band("x", band)),
            },
            rounds=9 if rows < 2_000_000 else 5,
            warmup=2,
        )
    ours, duck, polar = times.values()
    report.speedup(f"{name} vs DuckDB", ours, duck, 3)
    report.speedup(f"{name} vs Polars join_where", ours, polar, 5)


def measure_rate(workload: FullWindow, steps: int) -> float:
    """Return how many million tuples per second are joined over some steps."""
    return 2 * steps * workload.batch / time_call(workload.run, steps) / 1e6


def race(workloads: dict[str, FullWindow]) -> list[Series]:
    """Measure the rates of several workloads in turns."""
    rivals = {name: partial(measure_rate, each, STEPS) for name, each in workloads.items()}
    return list(make_series(take_turns(rivals, rounds=6, warmup=2), "M/s").values())


def measure_sliding(report: Report, window: int, steps: int, target: float) -> None:
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
        rivals = {
            f"BI-Sort, as {form}": partial(measure_rate, each, steps)
            for form, each in sorts.items()
        }
        loops = {"nested loop": loop, "plain nested loop": plain}
        rivals |= {name: partial(measure_rate, each, 1) for name, each in loops.items()}
        slow = {"nested loop": 2, "plain nested loop": 3}  # rounds
        rates = take_turns(rivals, rounds=6, warmup=1, limits=slow)
    ranges, pairs, rows, nested, papers = make_series(rates, "M/s", f"{name} {{}}").values()
    report.add(ranges, pairs, rows, papers)
    note = (
        f"{pairs.median / papers.median:,.0f}x a plain loop; "
        f"as ranges {ranges.median / nested.median:,.0f}x"
    )
    report.rate_ratio(f"{name} BI-Sort vs nested loop", pairs, nested, target, note)


def measure_doubling(report: Report, windows: list[int]) -> None:
    """What doubling the window costs BI-Sort, pairs written out."""
    with report.step(f"windows from {windows[0]:,} to {windows[-1]:,}"):
        series = race(
            {
                f"window {size:,}": FullWindow(size, BATCH, 2, "bi_sort", pair_ids, size)
                for size in windows
            }
        )
    for (small, one), (large, two) in pairwise(zip(windows, series, strict=True)):
        report.rate_ratio(f"throughput kept from {small:,} to {large:,}", two, one, 0.75)


def measure_match_rate(report: Report, window: int) -> None:
    """What 1,024 matches a row cost while they stay ranges."""
    seed = report.seed("match rate", window)
    with report.step("1,024 matches a row against 2, as ranges"):
        two, thousand = race(
            {
                f"{matches} matches a row": FullWindow(
                    window, BATCH, matches, "bi_sort", keep_ranges, seed
                )
                for matches in (2, 1024)
            }
        )
    report.rate_ratio("throughput kept at 1,024 matches a row", thousand, two, 0.9)


def measure_memory(report: Report, window: int) -> None:
    """Live bytes against the raw keys, row ids and columns of the two windows, at their worst."""
    workload = FullWindow(window, BATCH, 2, "bi_sort", keep_ranges, report.seed("memory", window))
    ratios = []
    with report.step("memory over one turn of the window"):
        for _ in range(2 * window // BATCH):
            workload.run(1)
            ratios.append(workload.live_bytes() / workload.raw_bytes())
    series = Series("live bytes / raw bytes", tuple(ratios), "x")
    report.at_most("live bytes, at their largest", series.max, 2.5, series)


def measure_start(report: Report) -> None:
    """How long importing takes, and the first result with kernels compiled before."""
    with report.step("import, and first result with a warm cache"):
        imports = time_code("import streamjoin", "import streamjoin")
        first = time_code(
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


def time_code(name: str, code: str) -> Series:
    """Run code in fresh processes and return the seconds it took, interpreter start excluded."""
    clock = "from time import perf_counter as _p; _b = _p()\n"
    command = [sys.executable, "-c", f"{clock}{code}\nprint(_p() - _b)"]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(6)]
    return Series(name, tuple(float(done.stdout) for done in runs[1:]))
