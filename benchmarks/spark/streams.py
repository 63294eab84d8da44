"""Joins of streams on Spark: against what Spark alone costs, against Spark's own join, and skew."""

from benchmarks.harness.spark.inputs import (
    CROWDED,
    HOT_SYMBOL,
    MANY_SYMBOLS,
    MATCHES,
    UNIFORM,
    equal_shape,
)
from benchmarks.harness.spark.pipelines import (
    DELIVERED,
    DISCARDING,
    IN_MEMORY,
    OURS,
    STORING,
    Measured,
    check_value,
    compare_rates,
    count_rows,
    make_spark_own,
    race_pipelines,
    read_observed,
    run_to_end,
    write_inputs,
)
from benchmarks.harness.spark.session import Workbench
from streamjoin.spark.session import ROCKSDB


def measure_band_join(bench: Workbench, batch: int, window: int, rounds: int) -> None:
    """The band join against pipelines that do not join; see `harness.spark.baselines`.

    int64 keys, `MATCHES` matches a row: with windows of four batches of a million rows, two million
    rows a side are live, and a batch gives about two million joined rows of six columns. Indexes
    are replaced once in a window, so two windows are measured: all batches pay their part of it.
    This is the first part of the suite, so a whole run of each goes ahead that is not measured: the
    JVM becomes faster for minutes, and the pipeline that comes first would pay for that.
    """
    warmup = window + 1
    streams = write_inputs(bench, "band", UNIFORM, batch // 2, warmup + 2 * window, window)
    name = f"band, batches of {batch:,}"
    for pipeline in (OURS, STORING, DISCARDING):
        with bench.report.step(f"{name}: {pipeline.name}, warming up"):
            run_to_end(bench, pipeline, streams)
    ours, storing, discarding = race_pipelines(
        bench, name, streams, (OURS, STORING, DISCARDING), warmup, rounds
    )
    check_value("late rows", ours.told("late") / batch, 0)
    check_value("matches a row", ours.told("matches") / batch, MATCHES)
    check_value("rows emitted", storing.told("matches") / ours.told("matches"), 1)
    check_value("bytes of indexes", storing.told("memory_bytes"), 0)
    live, given = batch // 2 * window, ours.told("matches")
    note = f"windows of {live:,} rows a side, {given:,.0f} joined rows a batch"
    compare_rates(bench, f"{name}: of a pipeline that stores and emits", ours, storing, 0.90, note)
    compare_rates(bench, f"{name}: of a pipeline that discards all", ours, discarding, 0.70, note)
    bench.report.detail(name, {each.name: each.breakdown() for each in (ours, storing, discarding)})


def measure_equi_join(
    bench: Workbench, batch: int, window: int, rounds: int, claimed: bool = True
) -> None:
    """The equality with a time range against Spark's own join of streams, on the same input.

    Spark's RocksDB store runs in one round only, since it is the slowest by far; it has the
    changelog switched on, as ours, which makes it faster. Windows are short enough for Spark's
    in-memory store: two million rows in all take 0.9 GB there, three million slow the JVM down.
    Both sides' joined rows are counted by Spark, and have to be as many. With ``claimed`` false,
    ratios are kept as details: in a small batch the fixed cost of a micro-batch decides, and the
    targets are for large ones.
    """
    warmup = window + 1
    shape = equal_shape(batch // 2 * window)
    streams = write_inputs(bench, f"equality {batch}", shape, batch // 2, warmup + 3, window)
    name = f"equality, batches of {batch:,}"
    peers = [
        count_rows(make_spark_own("Spark's own, in memory", IN_MEMORY)),
        count_rows(make_spark_own("Spark's own, RocksDB", ROCKSDB, rounds=1)),
    ]
    ours, memory, rocks = race_pipelines(
        bench, name, streams, [count_rows(OURS), *peers], warmup, rounds
    )
    if not ours.delivered == memory.delivered == rocks.delivered:
        raise RuntimeError(
            f"streamjoin gave {ours.delivered} rows, Spark {memory.delivered} in memory and "
            f"{rocks.delivered} with RocksDB"
        )
    note = f"windows of {batch // 2 * window:,} rows a side"
    ratios = {peer.name: ours.rates.median / peer.rates.median for peer in (memory, rocks)}
    if claimed:
        compare_rates(bench, f"{name}: vs Spark's own, in memory", ours, memory, 10, note)
        compare_rates(bench, f"{name}: vs Spark's own, RocksDB", ours, rocks, 40, note)
    bench.report.detail(
        name,
        {
            "rows a side in the window": batch // 2 * window,
            "joined rows": ours.delivered,
            "times as fast": ratios,
            **{each.name: each.breakdown() for each in (ours, memory, rocks)},
        },
    )


def measure_fixed_cost(
    bench: Workbench, batch: int, window: int, measured: int, rounds: int
) -> None:
    """What a micro-batch costs that has hardly any rows, and what that consists of.

    The window is full, so every batch adds segments, drops some, and now and then puts small ones
    together, as it would in a stream that has run for long.
    """
    warmup = window + 4
    streams = write_inputs(bench, "small batches", UNIFORM, batch // 2, warmup + measured, window)
    name = f"batches of {batch:,} rows"
    ours, discarding = race_pipelines(bench, name, streams, (OURS, DISCARDING), warmup, rounds)
    one, other = ours.seconds, discarding.seconds
    ratio = one.median / other.median
    bench.report.at_most(f"{name}: of a pipeline that discards all", ratio, 1.3, one, other)
    bench.report.at_most(f"{name}: seconds a batch", one.median, 0.8, one)
    bench.report.detail(name, {each.name: each.breakdown() for each in (ours, discarding)})


def measure_skew(bench: Workbench, batch: int, window: int) -> None:
    """What skew costs: most keys in a hundredth of the range, or one symbol with half the rows.

    The conditions are such that all give about `MATCHES` rows a row. A core is a partition, so the
    partitions of the joined rows tell how evenly the work is spread: 0.5 is best with two cores.
    """
    shapes = {
        "band, uniform": UNIFORM,
        "band, 90 % of keys in 1 % of the range": CROWDED,
        "equality and band, uniform": MANY_SYMBOLS,
        "equality and band, half of the rows have one key": HOT_SYMBOL,
    }
    warmup = window + 1
    inputs = {
        name: write_inputs(bench, f"skew {number}", shape, batch // 2, warmup + window, window)
        for number, (name, shape) in enumerate(shapes.items())
    }
    results: dict[str, Measured] = {}
    for name, streams in inputs.items():
        title = f"skew, batches of {batch:,}: {name}"
        [results[name]] = race_pipelines(
            bench, title, streams, [count_rows(OURS)], warmup, rounds=1
        )
    (uniform, crowded), (symbols, hot) = list(results)[:2], list(results)[2:]
    base = {uniform: uniform, crowded: uniform, symbols: symbols, hot: symbols}
    bench.report.detail(
        "skew",
        {
            name: {
                "thousand rows a second": measured.rates.median,
                "of the uniform": measured.rates.median / results[base[name]].rates.median,
                "joined rows that the busier core gave": share_of_busiest(measured),
                "routing epochs": measured.told("epochs"),
                "probes a row": measured.told("probes") / batch,
                "matches a row": measured.told("matches") / batch,
            }
            for name, measured in results.items()
        },
    )


def share_of_busiest(measured: Measured) -> float:
    """Return which part of the joined rows came from the core that gave most, in all batches."""
    totals = [
        sum(counts)
        for counts in zip(
            *(read_observed(each, DELIVERED).values() for each in measured.batches), strict=True
        )
    ]
    return max(totals) / max(sum(totals), 1)
