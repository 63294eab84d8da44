"""Whole joins on two inequalities: SPO-Join, the chained index, and nested loops.

Two count windows; the streams' tuples come in batches of a side. The chained index and the nested
loops take them one by one inside a kernel and write down rows; SPO-Join is the library's engine,
with all that users have it do, in batches of 4,096 and one by one, and writes down pairs of rows.
The nested loops have two threads and are held against two of ours, the chain against one.
By window (the paper's figure 11), and by cores and threads (16 and 17).
"""

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.series import Series
from benchmarks.harness.turns import time_call
from benchmarks.spojoin.chains import ChainJoin
from benchmarks.spojoin.loops import LoopJoin
from benchmarks.spojoin.ours import BATCH, EngineJoin
from benchmarks.spojoin.races import (
    BITS,
    HASH,
    RATE,
    WINDOW,
    Join,
    Runner,
    draw_arrivals,
    race_joins,
)
from benchmarks.spojoin.sizes import ROUNDS, WINDOWS, tuples_of
from benchmarks.spojoin.workloads import SEED, Query

OURS, SINGLE, ALONE = "SPO-Join", "SPO-Join, one thread", "SPO-Join, one by one"
CHAIN, CHAIN_BITS = f"chained index, {HASH}", f"chained index, {BITS}"
SPLIT, BROADCAST, PLAIN = "SplitJoin", "broadcast", "SplitJoin, plain loops"
FILTER = "one index and a filter"
THREADS = 2
CHAINED, NESTED = 4, 30  # times the chained index, and nested loops
LENGTHS = (1, 10)  # links of a chain; the faster one counts
SIDES = (1, 2)  # cores and threads
LATENCY_BATCH, LATENCY_STEPS = 64, 50


def make_runners(query: Query, window: int, scale: Scale) -> dict[str, Runner]:
    """Return all joins over one window."""
    few = tuples_of(scale, window)
    runners = {
        OURS: Runner(EngineJoin(query, window), BATCH, steps=4),
        SINGLE: Runner(EngineJoin(query, window, threads=1), BATCH, steps=2),
        ALONE: Runner(EngineJoin(query, window), 1, steps=few),
        FILTER: Runner(EngineJoin(query, window, "bi_sort"), few),
        SPLIT: Runner(LoopJoin(window, splits=True), few),
        BROADCAST: Runner(LoopJoin(window, splits=False), few),
        PLAIN: Runner(LoopJoin(window, splits=True, plain=True), few),
    }
    for links in LENGTHS:
        runners[f"{CHAIN}, {links}"] = Runner(ChainJoin(window, True, links), few)
        runners[f"{CHAIN_BITS}, {links}"] = Runner(ChainJoin(window, False, links), few)
    return runners


def keep_best_chains(measured: dict[str, Series]) -> dict[str, Series]:
    """Keep the faster of the chains of either kind."""
    kept = {name: each for name, each in measured.items() if not name.startswith("chained")}
    for kind in (CHAIN, CHAIN_BITS):
        chains = [measured[f"{kind}, {links}"] for links in LENGTHS]
        kept[kind] = min(chains, key=lambda series: series.median)
    return kept


def measure_windows(report: Report, scale: Scale, queries: dict[str, Query]) -> None:
    """Figure 11: SPO-Join against the chained index and nested loops."""
    for name in ("Q3", "Q1"):
        query = queries[name]
        figure = Figure(f"spo11{name.lower()}", f"{name}: whole joins", WINDOW, RATE)
        measured: dict[int, dict[str, Series]] = {}
        for window in scale.pick(WINDOWS):
            with report.step(f"figure 11: {name}, windows of {window:,}"):
                runners = make_runners(query, window, scale)
                races = race_joins(query, window, runners, scale.pick(ROUNDS), SEED)
            measured[window] = keep_best_chains(races)
            for rival, series in measured[window].items():
                figure.add(rival, window, 1e6 / series.median)
            report.add(*(each.add_place(f"{name}, {window:,}") for each in races.values()))
        report.figures.append(figure)
        claim_joins(report, name, measured)


def claim_joins(report: Report, name: str, measured: dict[int, dict[str, Series]]) -> None:
    """Claim what the whole has to reach for one query, in the largest window."""
    window, largest = max(measured), measured[max(measured)]
    for ours, rival, other, target in (
        (SINGLE, CHAIN, CHAIN_BITS, CHAINED),
        (OURS, SPLIT, PLAIN, NESTED),
        (OURS, BROADCAST, PLAIN, NESTED),
    ):
        ratios = (each[rival].median / each[ours].median for each in measured.values())
        note = (
            f"by window: {', '.join(f'{ratio:.1f}' for ratio in ratios)}; {other}: "
            f"{largest[other].median / largest[ours].median:.1f}; ours one by one: "
            f"{largest[rival].median / largest[ALONE].median:.2f}"
        )
        report.speedup(
            f"{name}: SPO-Join vs {rival}, windows of {window:,}",
            largest[ours].add_place(f"{name}, {window:,}"),
            largest[rival].add_place(f"{name}, {window:,}"),
            target,
            note,
        )


def measure_scaling(report: Report, scale: Scale, query: Query) -> None:
    """Figures 16 and 17: with more cores, and with more threads."""
    window = scale.pick(WINDOWS)[0]
    rates = Figure(
        "spo17", f"{query.name}: windows of {window:,}", "cores or threads", RATE, ("linear",) * 2
    )
    waits = Figure(
        "spo16",
        f"{query.name}: batches of {LATENCY_BATCH}, windows of {window:,}",
        "cores or threads",
        "ms for a batch",
        ("linear", "linear"),
    )
    with report.step(f"figures 16, 17: cores and threads, windows of {window:,}"):
        runners = {
            f"threads {count}": Runner(EngineJoin(query, window, threads=count), BATCH, steps=4)
            for count in SIDES
        }
        for count in SIDES:
            join = EngineJoin(query, window, threads=1, cores=count)
            runners[f"cores {count}"] = Runner(join, BATCH, steps=4)
        measured = race_joins(query, window, runners, scale.pick(ROUNDS), SEED)
        for name, series in measured.items():
            kind, number = name.split()
            rates.add(kind, int(number), 1e6 / series.median)
            for label, value in measure_batches(query, runners[name].join).items():
                waits.add(f"{kind}, {label}", int(number), value)
    report.figures += [waits, rates]


def measure_batches(query: Query, join: Join) -> dict[str, float]:
    """Return how long small batches take, in ms: the median, and the longest."""
    rng = np.random.default_rng(SEED)
    times = []
    for _ in range(LATENCY_STEPS):
        arrivals = draw_arrivals(query, rng, LATENCY_BATCH)
        times.append(time_call(join.run, arrivals) / 2 * 1e3)
    return {"median": float(np.median(times)), "longest": max(times)}
