"""One subwindow: how fast the structures insert and probe (PanJoin V-A, figures 10 to 13).

Keys are uniform in [0, 2^40). A subwindow is filled to the half at once, then in batches of the
size that is measured. Probes find ``matches`` tuples on average: a band of that width, or equal
keys where every key is there as often. What a structure finds, it has found: BI-Sort's matches are
ranges, those of the others are copied; pairs are not written out.
"""

from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.series import Series, make_series
from benchmarks.harness.turns import repeat, take_turns, time_call
from streamjoin.indexes.protocol import Index
from streamjoin.indexes.runs.bi_sort import BISort
from streamjoin.indexes.tables.rap_table import RaPTable
from streamjoin.indexes.tables.wib_tree import WiBTree
from streamjoin.indexes.trees.b_tree import BTree
from streamjoin.kernels.compile import Keys

SPAN = 1 << 40
RATE, BATCH, MATCHES, TUPLES = (
    "M tuples/s",
    "batch, tuples",
    "matches of a probe",
    "partition, tuples",
)
MOST, SECONDS = 1 << 20, 0.3  # tuples and time of one measurement
BATCHES = [1 << shift for shift in (6, 9, 12, 15, 18, 20)]
SELECTIVITIES = [1 << shift for shift in (0, 2, 4, 6, 8, 10, 12, 14)]
PROBES = 1 << 15  # of a batch, where it is not what varies
Make = Callable[[int], Index]  # takes how many tuples are going to come


def make_rap_table(capacity: int, partition: int = 64) -> RaPTable:
    """Make a table that knows how keys are spread, as it does after some adjustments."""
    partitions = max(capacity // partition, 1)
    splitters = np.linspace(0, SPAN, partitions + 1)[1:-1].astype(np.int64)
    return RaPTable(capacity, partitions, splitters)


def make_wib_tree(capacity: int, partition: int = 64) -> WiBTree:
    """Make a tree whose leaves hold so many tuples on average: they are 2/3 full."""
    return WiBTree(capacity, max(partition * 3 // 2 // 8 * 8, 8))


STRUCTURES: dict[str, Make] = {
    "BI-Sort": partial(BISort, threads=2),
    "RaP-Table": make_rap_table,
    "WiB+-Tree": WiBTree,
}


class SubwindowBench:
    """Random keys, drawn once."""

    def __init__(self, report: Report, rows: int, seed: int) -> None:
        self.report, self.rows = report, rows
        self.rng = np.random.default_rng(report.seed("structures", seed))
        self.keys = self.rng.integers(0, SPAN, rows)

    def filled(self, make: Make, rows: int, repeat: int = 1) -> Index:
        """Return a full subwindow; every key is there ``repeat`` times."""
        keys = self.keys[: rows // repeat]
        if repeat > 1:
            keys = np.repeat(keys, repeat)
        index = make(rows)
        index.insert(np.sort(keys), np.arange(keys.size, dtype=np.int32))
        return index

    def insert_rate(self, make: Make, rows: int, batch: int, rising: bool = False) -> float:
        """Return M tuples/s into the second half of a subwindow."""
        half = rows // 2
        first = np.arange(half) if rising else self.keys[:half]
        index = make(rows)
        index.insert(np.sort(first), np.arange(half, dtype=np.int32))
        seconds, done = 0.0, 0
        while done < min(half, MOST) or (seconds < SECONDS / 4 and done < half):
            begin = half + done
            end = min(begin + batch, rows)
            keys = np.arange(begin, end) if rising else np.sort(self.keys[begin:end])
            row_ids = np.arange(begin, end, dtype=np.int32)
            seconds += time_call(index.insert, keys, row_ids)
            done += end - begin
            if seconds > 4 * SECONDS:
                break
        return done / seconds / 1e6

    def probe_rate(
        self, index: Index, rows: int, batch: int, matches: float, equal: bool = False
    ) -> float:
        """Return M probes/s, the median over some batches."""
        reach = 0 if equal else int(SPAN / rows * matches / 2)

        def probe_batch() -> float:
            keys = np.sort(self._probes(batch, rows // int(matches) if equal else 0))
            return batch / time_call(probe_all, index, keys, reach) / 1e6

        return median(repeat(probe_batch, 3, seconds=SECONDS, most=64))

    def _probes(self, batch: int, stored: int) -> Keys:
        """Return probing keys: any, or such that are stored."""
        if stored:
            return self.keys[self.rng.integers(0, stored, batch)]
        return self.rng.integers(0, SPAN, batch)


def probe_all(index: Index, keys: Keys, reach: int) -> None:
    """Find the tuples within ``reach`` of some keys."""
    for _ in index.probe(keys - reach, keys + reach):
        pass


def compile_all(bench: SubwindowBench) -> None:
    """Compile what is going to be measured."""
    for make in (*STRUCTURES.values(), BTree):
        bench.insert_rate(make, 1 << 14, 64)
        bench.probe_rate(bench.filled(make, 1 << 14), 1 << 14, 64, 1)


def measure_partitions(bench: SubwindowBench) -> None:
    """Figures 10a to e and 11a to e: one structure, by batch, partition and matches."""
    makes: dict[str, Callable[..., Index]] = {
        "RaP-Table": make_rap_table,
        "WiB+-Tree": make_wib_tree,
    }
    small = bench.rows // 16
    for number, (name, sized) in zip((10, 11), makes.items(), strict=True):
        with bench.report.step(f"figure {number}: {name}"):
            by_part = Figure(f"fig{number}a", f"{name}: insert, by partition size", BATCH, RATE)
            by_rows = Figure(f"fig{number}b", f"{name}: insert, by subwindow", BATCH, RATE)
            for batch in BATCHES:
                for partition in (32, 64, 256, 1024):
                    make = partial(sized, partition=partition)
                    rate = bench.insert_rate(make, bench.rows, batch)
                    by_part.add(f"{partition} tuples", batch, rate)
                for rows in (bench.rows // 128, small, bench.rows):
                    rate = bench.insert_rate(partial(sized, partition=64), rows, batch)
                    by_rows.add(f"{rows:,} tuples", batch, rate)
            equal = Figure(f"fig{number}c", f"{name}: equal keys, one match", TUPLES, RATE)
            for partition in (16, 32, 64, 128, 256, 1024):
                for rows in (bench.rows // 128, small, bench.rows):
                    index = bench.filled(partial(sized, partition=partition), rows)
                    rate = bench.probe_rate(index, rows, PROBES, 1, equal=True)
                    equal.add(f"{rows:,} tuples", partition, rate)
            bands = Figure(f"fig{number}e", f"{name}: band", MATCHES, RATE)
            equals = Figure(f"fig{number}d", f"{name}: equal keys", MATCHES, RATE)
            for partition in (32, 64, 256, 1024):
                index = bench.filled(partial(sized, partition=partition), bench.rows)
                for matches in SELECTIVITIES:
                    rate = bench.probe_rate(index, bench.rows, PROBES, matches)
                    bands.add(f"{partition} tuples", matches, rate)
                del index
                for matches in SELECTIVITIES[::2]:
                    index = bench.filled(partial(sized, partition=partition), bench.rows, matches)
                    rate = bench.probe_rate(index, bench.rows, PROBES, matches, equal=True)
                    equals.add(f"{partition} tuples", matches, rate)
            bench.report.figures += [by_part, by_rows, equal, equals, bands]


def measure_bi_sort(bench: SubwindowBench) -> None:
    """Figure 12: BI-Sort, by batch, subwindow, matches and buffer."""
    with bench.report.step("figure 12: BI-Sort"):
        inserts = Figure("fig12b", "BI-Sort: insert, by subwindow", BATCH, RATE)
        probes = Figure("fig12c", "BI-Sort: band, one match, by subwindow", BATCH, RATE)
        matched = Figure("fig12e", "BI-Sort: matches are ranges", MATCHES, RATE)
        buffers = Figure("fig12f", "BI-Sort: insert into 65,536 tuples, by buffer", BATCH, RATE)
        for rows in (bench.rows // 128, bench.rows // 16, bench.rows):
            index = bench.filled(STRUCTURES["BI-Sort"], rows)
            for batch in BATCHES:
                label = f"{rows:,} tuples"
                inserts.add(label, batch, bench.insert_rate(STRUCTURES["BI-Sort"], rows, batch))
                probes.add(label, batch, bench.probe_rate(index, rows, batch, 1))
        for matches in SELECTIVITIES:
            index = bench.filled(STRUCTURES["BI-Sort"], bench.rows, matches)
            rate = bench.probe_rate(index, bench.rows, PROBES, matches, equal=True)
            matched.add("equal keys", matches, rate)
        index = bench.filled(STRUCTURES["BI-Sort"], bench.rows)
        rivals = {
            matches: partial(bench.probe_rate, index, bench.rows, PROBES, matches)
            for matches in SELECTIVITIES
        }
        rates = [median(found) for found in take_turns(rivals, 9).values()]
        for matches, rate in zip(SELECTIVITIES, rates, strict=True):
            matched.add("band", matches, rate)
        for buffer in (16, 256, 1024, 8192):
            for batch in (1, 4, 16, 64, 256, 1024, 4096):
                make = partial(BISort, buffer_capacity=buffer)
                buffers.add(f"buffer of {buffer}", batch, bench.insert_rate(make, 1 << 16, batch))
        bench.report.figures += [inserts, probes, matched, buffers]
    bench.report.at_most(
        f"BI-Sort, {bench.rows:,}: "
        f"change of the probing rate from 1 match to {SELECTIVITIES[-1]:,}",
        max(rates) / min(rates) - 1,
        0.10,
        Series("BI-Sort by matches", tuple(rates), "M/s"),
        note="band, matches left as ranges",
    )


def compare_structures(bench: SubwindowBench, rounds: int = 5) -> None:
    """Figure 13: the three structures side by side, and what is claimed of them."""
    inserts = Figure("fig13a", f"insert into {bench.rows:,} tuples", BATCH, RATE)
    probes = Figure("fig13b", f"band, {bench.rows:,} tuples, batches of {PROBES:,}", MATCHES, RATE)
    with bench.report.step("figure 13: the structures side by side"):
        for name, make in STRUCTURES.items():
            for batch in BATCHES:
                inserts.add(name, batch, bench.insert_rate(make, bench.rows, batch))
        held = {name: bench.filled(make, bench.rows) for name, make in STRUCTURES.items()}
        rivals = {
            name: partial(bench.probe_rate, index, bench.rows, PROBES, 1)
            for name, index in held.items()
        }
        rates = take_turns(rivals, rounds)
        for matches in SELECTIVITIES:
            for name, index in held.items():
                probes.add(name, matches, bench.probe_rate(index, bench.rows, PROBES, matches))
    bench.report.figures += [inserts, probes]
    sorts, table, tree = make_series(rates, "M/s", "probe {}").values()
    note = f"{bench.rows:,} tuples, batches of {PROBES:,}, one match"
    bench.report.rate_ratio("band probing: BI-Sort vs RaP-Table", sorts, table, 1.6, note)
    bench.report.rate_ratio("band probing: RaP-Table vs WiB+-Tree", table, tree, 1.0, note)


def race_b_tree(bench: SubwindowBench, rounds: int = 3) -> None:
    """Figure 11f, and ever-rising keys."""
    figure = Figure("fig11f", "WiB+-Tree over B+-tree", BATCH, "times as fast", ("log", "linear"))
    with bench.report.step("figure 11f: WiB+-Tree and B+-tree"):
        for batch in BATCHES:
            trees: dict[str, Make] = {"wib": WiBTree, "b": BTree}
            inserts = {n: bench.insert_rate(make, bench.rows, batch) for n, make in trees.items()}
            figure.add("insert", batch, inserts["wib"] / inserts["b"])
            held = {n: bench.filled(make, bench.rows) for n, make in trees.items()}
            for label, matches, equal in (("equal keys", 1, True), ("band", 1, False)):
                rates = {
                    n: bench.probe_rate(index, bench.rows, batch, matches, equal)
                    for n, index in held.items()
                }
                figure.add(f"probe, {label}", batch, rates["wib"] / rates["b"])
        rates_of = {
            "WiB+-Tree": partial(bench.insert_rate, WiBTree, bench.rows, PROBES),
            "B+-tree": partial(bench.insert_rate, BTree, bench.rows, PROBES),
            "WiB+-Tree, rising": partial(
                bench.insert_rate, WiBTree, bench.rows, PROBES, rising=True
            ),
        }
        found = take_turns(rates_of, rounds)
    bench.report.figures.append(figure)
    wide, plain, rising = make_series(found, "M/s", "insert {}").values()
    note = f"{bench.rows:,} tuples, batches of {PROBES:,}"
    bench.report.rate_ratio("insert: WiB+-Tree vs B+-tree", wide, plain, 3.0, note)
    bench.report.rate_ratio("insert: WiB+-Tree, rising keys", rising, wide, 0.8, note)
