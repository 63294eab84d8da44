"""PanJoin: its structures in one subwindow, and the whole join (the paper's V-A and V-C).

The figures have the paper's numbers, scaled to two cores: one subwindow of 8M tuples, two windows
of 8M in the whole join. Where the paper varies the number of partitions P, these figures give the
size of a partition, N / P. Tuples are 12 bytes, a 64-bit key and a row id; the paper's are 8.
"""

from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.full_windows import FullWindow, keep_ranges
from benchmarks.harness.nested_loop import PlainScan
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series, make_series
from benchmarks.harness.turns import repeat, take_turns, time_call
from benchmarks.panjoin import structures
from benchmarks.panjoin.structures import BATCH, MATCHES, SECONDS, SPAN, STRUCTURES, SubwindowBench
from streamjoin.indexes.protocol import Index
from streamjoin.indexes.tables.rap_table import RaPTable
from streamjoin.joins.pairs.deliver import gather
from streamjoin.kernels.compile import Keys
from streamjoin.kernels.threads import share

RATE = "M tuples/s, both streams"
NAMES = {"BI-Sort": "bi_sort", "RaP-Table": "rap_table", "WiB+-Tree": "wib_tree"}
BATCHES = [1 << shift for shift in (9, 12, 15, 17)]
SELECTIVITIES = [1 << shift for shift in (0, 3, 6, 9, 12)]
ROWS = Sized(full=1 << 23, quick=1 << 20)  # of a subwindow, and of a window
PROBES, NESTED = 1 << 15, 1 << 8  # rows of a batch; nested loops take as long for each row
ADJUSTMENTS, ENOUGH = 8, 3


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    rows = scale.pick(ROWS)
    report.settings.update(threads=2, rows=rows)
    bench = SubwindowBench(report, rows, seed=11)
    with report.step("compiling"):
        structures.compile_all(bench)
    measure_adjustments(report, rows // 4)
    structures.compare_structures(bench)
    structures.race_b_tree(bench)
    structures.measure_bi_sort(bench)
    measure_two_threads(bench)
    measure_whole_join(report, rows, 100 * rows / (1 << 23), 1000 * rows / (1 << 23))
    structures.measure_partitions(bench)


def measure_adjustments(report: Report, rows: int) -> None:
    """Figure 10f: how soon the splitters fit, from a table that knows nothing."""
    rng = np.random.default_rng(report.seed("adjustments", 5))
    figure = Figure(
        "fig10f",
        f"RaP-Table: adjustments, {rows:,} tuples",
        "adjustments",
        "normalised mean absolute error",
        ("linear", "log"),
    )
    worst = 0.0
    with report.step("figure 10f: adjustments"):
        for label, (partitions, draw) in list_distributions(rng, rows).items():
            splitters = np.linspace(0, 2**32, partitions + 1)[1:-1].astype(np.int64)
            table, errors = RaPTable(rows, partitions, splitters), []
            for number in range(ADJUSTMENTS + 1):
                table.insert(np.sort(draw()), np.arange(rows, dtype=np.int32))
                counts = table.histogram.counts * (partitions / rows)
                errors.append(float(np.abs(counts - 1).mean()))
                figure.add(label, number, errors[-1])
                table = table.make_adjusted(rows, partitions)
            settled = median(errors[ENOUGH + 1 :])
            worst = max(worst, errors[ENOUGH] - settled)
    report.figures.append(figure)
    report.at_most(
        f"RaP-Table: error after {ENOUGH} adjustments, above what it settles at",
        worst,
        0.05,
        note="normalised mean absolute error, the worst of all distributions",
    )


def list_distributions(
    rng: np.random.Generator, rows: int
) -> dict[str, tuple[int, Callable[[], Keys]]]:
    """Return partitions, and a function that draws keys in [0, 2^32), as in figure 10f."""

    def hills(width: float, count: int) -> Keys:
        centres = (rng.integers(0, count, rows) + 0.5) / count
        keys = centres + rng.normal(0, width / count, rows)
        return (np.clip(keys, 0, 1 - 1e-9) * 2**32).astype(np.int64)

    def plateaus(width: float, count: int) -> Keys:
        starts = rng.integers(0, count, rows) / count
        return ((starts + rng.random(rows) * width / count) * 2**32).astype(np.int64)

    def rank_size() -> Keys:
        """99 % of the keys lie in the lowest 1 % of their range."""
        keys = np.minimum(rng.pareto(1.0, rows), 9900.0)
        return (keys / 9900 * 2**22).astype(np.int64)

    small, large = rows // 2048, rows // 128
    return {
        f"N(0.1, 1, {large:,})": (large, partial(hills, 0.1, 1)),
        f"N(0.001, 1, {large:,})": (large, partial(hills, 0.001, 1)),
        f"N(0.01, 8, {large:,})": (large, partial(hills, 0.01, 8)),
        f"N(0.01, 8, {small:,})": (small, partial(hills, 0.01, 8)),
        f"U(0.01, 1, {large:,})": (large, partial(plateaus, 0.01, 1)),
        f"U(0.01, 8, {small:,})": (small, partial(plateaus, 0.01, 8)),
        f"rank-size, {large:,}": (large, rank_size),
        f"rank-size, {small:,}": (small, rank_size),
    }


def measure_two_threads(bench: SubwindowBench) -> None:
    """Probing with two threads, each half of a sorted batch."""

    reach = int(SPAN / bench.rows / 2)

    def rate(index: Index, batch: int, threads: int) -> float:
        parts = np.array_split(np.sort(bench.rng.integers(0, SPAN, batch)), threads)
        probe = partial(structures.probe_all, index, reach=reach)
        return batch / time_call(share, probe, parts, threads) / 1e6

    for name, make in STRUCTURES.items():
        index = bench.filled(make, bench.rows)
        for batch in (1 << 16, 1 << 18):
            label = f"{name}, batches of {batch:,}"
            rivals = {str(threads): partial(rate, index, batch, threads) for threads in (1, 2)}
            with bench.report.step(f"two threads: {label}"):
                rates = take_turns(rivals, 9, seconds=4 * SECONDS)
            one, two = make_series(rates, "M/s", f"{label}: {{}} threads").values()
            bench.report.rate_ratio(f"probing with two threads: {label}", two, one, 1.6)


def measure_whole_join(report: Report, window: int, target: float, bi_sort_target: float) -> None:
    """Figure 15a to f: two full windows, both streams pushing."""
    equal = Figure("fig15a", f"equal keys, one match, windows of {window:,}", BATCH, RATE)
    bands = Figure("fig15b", f"band, windows of {window:,}, batches of {PROBES:,}", MATCHES, RATE)
    share = Figure(
        "fig15c", "time for giving results", MATCHES, "share of all time", ("log", "linear")
    )
    workers = Figure(
        "fig15d", f"band, windows of {window:,}", "threads", RATE, ("linear", "linear")
    )
    nested = {
        size: Figure(name, f"band, windows of {size:,}, and nested loops", MATCHES, RATE)
        for name, size in (("fig15e", window), ("fig15f", window // 8))
    }
    found: dict[str, Series] = {}
    with report.step("figure 15: the whole join"):
        for name, algorithm in NAMES.items():
            for batch in BATCHES:
                full = FullWindow(
                    window, batch, 1, algorithm, keep_ranges, 3, on="l.x = r.x", span=window
                )
                equal.add(name, batch, measure_rate(full))
            for matches in SELECTIVITIES:
                full = FullWindow(window, PROBES, matches, algorithm, keep_ranges, 3)
                rates = measure_rates(full)
                bands.add(name, matches, median(rates))
                nested[window].add(name, matches, median(rates))
                if matches == 1:
                    found[name] = Series(f"whole join, {name}", tuple(rates), "M/s")
                small = FullWindow(window // 8, PROBES, matches, algorithm, keep_ranges, 3)
                nested[window // 8].add(name, matches, measure_rate(small))
                if matches <= 64:
                    gathered = measure_rate(
                        FullWindow(window, PROBES, matches, algorithm, gather, 3)
                    )
                    share.add(name, matches, max(1 - gathered / median(rates), 0))
                if matches in (1, 64):
                    for threads in (1, 2):
                        full = FullWindow(
                            window, PROBES, matches, algorithm, keep_ranges, 3, threads=threads
                        )
                        workers.add(f"{name}, {matches} matches", threads, measure_rate(full))
        loops = {}
        for label, make_index in (("nested loop", PlainScan), ("nested loop, SIMD", None)):
            for size, figure in nested.items():
                full = FullWindow(size, NESTED, 1, "scan", keep_ranges, 3, make_index=make_index)
                rates = measure_rates(full, rounds=3)
                if size == window:
                    loops[label] = Series(f"whole join, {label}", tuple(rates), "M/s")
                for matches in (SELECTIVITIES[0], SELECTIVITIES[-1]):  # it does not matter
                    figure.add(label, matches, median(rates))
    report.figures += [equal, bands, share, workers, *nested.values()]
    for label, loop in loops.items():
        for name, series in found.items():
            least = bi_sort_target if name == "BI-Sort" else target
            title = f"whole join, {window:,}: {name} vs {label}"
            report.rate_ratio(title, series, loop, least, "one match")


def measure_rate(full: FullWindow) -> float:
    """Return M tuples/s, the median of some steps."""
    return median(measure_rates(full))


def measure_rates(full: FullWindow, rounds: int = 5) -> list[float]:
    """Return M tuples/s of some steps, after a first one."""

    def rate() -> float:
        return 2 * full.batch / time_call(full.run, 1) / 1e6

    return repeat(rate, rounds, warmup=1, seconds=SECONDS, most=100)
