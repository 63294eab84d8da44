"""Two inequalities on finite tables: streamjoin, DuckDB and Polars, two threads each.

Q3 on a table with itself, of which the noise of the fares is such that about as many pairs match as
the targets ask for. Once the joined rows are wanted, as Arrow on every side; once only their
number. All sides get the same Arrow columns of 64-bit integers, and find the same number of pairs.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj
from benchmarks.harness.peers import THREADS, DuckDB, Polars
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.turns import check_agreement, time_turns
from benchmarks.spojoin.sizes import COUNTED_PAIRS, ROW_PAIRS, TABLE_ROWS
from benchmarks.spojoin.workloads import Q3, SEED, count_pairs, describe_data

ROWS, COUNT = 1.5, 1.2  # times faster with rows; times the best one's time for the count
REPEATS, WARMUP = 5, 1

Contest = Mapping[str, Callable[[], Any]]


def measure_tables(report: Report, scale: Scale) -> None:
    """Measure rows, and the count."""
    measure_rows(report, scale.pick(TABLE_ROWS), scale.pick(ROW_PAIRS))
    measure_count(report, scale.pick(TABLE_ROWS), scale.pick(COUNTED_PAIRS))


def draw_table(report: Report, rows: int, pairs: float) -> tuple[pa.Table, int]:
    """Return a table of which about so many pairs match, and how many do."""
    query = Q3.with_matches(pairs / rows, rows)
    drawn = query.rows(np.random.default_rng(report.seed(f"tables, {pairs:,.0f}", SEED)), rows)
    report.detail(f"tables, {pairs:,.0f} pairs: data", describe_data(query, drawn, rows))
    batch = query.batch(drawn).append_column("id", pa.array(np.arange(rows)))
    return pa.Table.from_batches([batch]), count_pairs(drawn)


def measure_rows(report: Report, rows: int, pairs: float) -> None:
    """All columns of all joined rows."""
    table, expected = draw_table(report, rows, pairs)
    name = f"tables of {rows:,}, {expected:,} rows"
    contest: Contest = {
        f"{name}: streamjoin": lambda: sj.join_tables(table, table, on=Q3.on, threads=THREADS),
        f"{name}: DuckDB": DuckDB(table, table).prepare_rows(Q3.comparisons),
        f"{name}: Polars": Polars(table, table).prepare_rows(Q3.comparisons),
    }
    with report.step(f"{name}: streamjoin, DuckDB, Polars"):
        found = {each: joined().num_rows for each, joined in contest.items()}
        check_agreement(found, expected)
        times = time_turns(contest, REPEATS, WARMUP)
    ours, duck, polar = times.values()
    report.speedup(f"{name} vs DuckDB", ours, duck, ROWS)
    report.speedup(f"{name} vs Polars join_where", ours, polar, ROWS)


def measure_count(report: Report, rows: int, pairs: float) -> None:
    """How many pairs there are."""
    table, expected = draw_table(report, rows, pairs)
    name = f"tables of {rows:,}, count of {expected:,}"
    contest: Contest = {
        f"{name}: streamjoin": lambda: sj.find_matches(
            table, table, on=Q3.on, threads=THREADS
        ).count(),
        f"{name}: DuckDB": DuckDB(table, table).prepare_count(Q3.comparisons),
        f"{name}: Polars": Polars(table, table).prepare_count(Q3.comparisons),
    }
    with report.step(f"{name}: streamjoin, DuckDB, Polars"):
        found = {each: counted() for each, counted in contest.items()}
        check_agreement(found, expected)
        times = time_turns(contest, REPEATS, WARMUP)
    ours, *others = times.values()
    best = min(others, key=lambda series: series.median)
    report.add(*others)
    report.at_most(f"{name} vs the best", ours.median / best.median, COUNT, ours, best)
