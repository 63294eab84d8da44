"""Two inequalities on finite tables: streamjoin, DuckDB and Polars, two threads each.

Q3 on a table with itself, of which the noise of the fares is such that about as many pairs match as
the targets ask for. Once the joined rows are wanted, as Arrow on every side; once only their
number. All sides get the same Arrow columns of 64-bit integers, and find the same number of pairs.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import streamjoin as sj
from benchmarks.harness.report import Report
from benchmarks.harness.turns import check_agreement, time_turns
from benchmarks.spojoin.scale import SEED, Scale
from benchmarks.spojoin.workloads import Q3, Query, crossings, statistics

THREADS = 2
ROWS, COUNT = 1.5, 1.2  # times faster with rows; times the best one's time for the count
REPEATS, WARMUP = 5, 1

Contest = Mapping[str, Callable[[], Any]]


def tables(report: Report, scale: Scale) -> None:
    """Measure rows, and the count."""
    few, many = scale.table_pairs
    materialise(report, scale.table_rows, few)
    count(report, scale.table_rows, many)


def trips(report: Report, rows: int, pairs: float) -> tuple[pa.Table, int]:
    """Return a table of which about so many pairs match, and how many do."""
    query = Q3.with_matches(pairs / rows, rows)
    drawn = query.rows(np.random.default_rng(report.seed(f"tables, {pairs:,.0f}", SEED)), rows)
    report.detail(f"tables, {pairs:,.0f} pairs: data", statistics(query, drawn, rows))
    batch = query.batch(drawn).append_column("id", pa.array(np.arange(rows)))
    return pa.Table.from_batches([batch]), crossings(drawn)


def materialise(report: Report, rows: int, pairs: float) -> None:
    """All columns of all joined rows."""
    table, expected = trips(report, rows, pairs)
    name = f"tables of {rows:,}, {expected:,} rows"
    contest: Contest = {
        f"{name}: streamjoin": lambda: sj.join_tables(table, table, on=Q3.on, threads=THREADS),
        f"{name}: DuckDB": duckdb_rows(table, Q3),
        f"{name}: Polars": polars_rows(table, Q3),
    }
    with report.step(f"{name}: streamjoin, DuckDB, Polars"):
        found = {each: joined().num_rows for each, joined in contest.items()}
        check_agreement(found, expected)
        times = time_turns(contest, REPEATS, WARMUP)
    ours, duck, polar = times.values()
    report.speedup(f"{name} vs DuckDB", ours, duck, ROWS)
    report.speedup(f"{name} vs Polars join_where", ours, polar, ROWS)


def count(report: Report, rows: int, pairs: float) -> None:
    """How many pairs there are."""
    table, expected = trips(report, rows, pairs)
    name = f"tables of {rows:,}, count of {expected:,}"
    contest: Contest = {
        f"{name}: streamjoin": lambda: sj.find_matches(
            table, table, on=Q3.on, threads=THREADS
        ).count(),
        f"{name}: DuckDB": duckdb_count(table, Q3),
        f"{name}: Polars": polars_count(table, Q3),
    }
    with report.step(f"{name}: streamjoin, DuckDB, Polars"):
        found = {each: counted() for each, counted in contest.items()}
        check_agreement(found, expected)
        times = time_turns(contest, REPEATS, WARMUP)
    ours, *others = times.values()
    best = min(others, key=lambda series: series.median)
    report.add(*others)
    report.at_most(f"{name} vs the best", ours.median / best.median, COUNT, ours, best)


def duckdb_on(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a connection with the table under the names of both sides."""
    connection = duckdb.connect(config={"threads": THREADS})
    for side in "lr":
        connection.register(side, table)
    return connection


def duckdb_rows(table: pa.Table, query: Query) -> Callable[[], pa.Table]:
    """Return DuckDB's join."""
    columns = ", ".join(
        f"{side}.{name} as {name}{ending}"
        for side, ending in (("l", ""), ("r", "_right"))
        for name in table.column_names
    )
    connection, text = duckdb_on(table), f"select {columns} from l, r where {query.on}"
    return lambda: connection.sql(text).to_arrow_table()


def duckdb_count(table: pa.Table, query: Query) -> Callable[[], int]:
    """Return DuckDB's count."""
    connection, text = duckdb_on(table), f"select count(*) from l, r where {query.on}"
    return lambda: int(connection.sql(text).fetchall()[0][0])


def polars_join(table: pa.Table, query: Query) -> Any:
    """Return Polars' join, lazily."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))
    import polars as pl

    frame = pl.DataFrame(pl.from_arrow(table)).lazy()
    conditions = [
        pl.col(name) < pl.col(f"{name}_right")
        if relation == "<"
        else pl.col(name) > pl.col(f"{name}_right")
        for name, relation in zip(query.columns, query.relations, strict=True)
    ]
    return frame.join_where(frame, *conditions)


def polars_rows(table: pa.Table, query: Query) -> Callable[[], pa.Table]:
    """Return Polars' join."""
    joined = polars_join(table, query)
    return lambda: joined.collect().to_arrow()


def polars_count(table: pa.Table, query: Query) -> Callable[[], int]:
    """Return Polars' count."""
    import polars as pl

    counted = polars_join(table, query).select(pl.len())
    return lambda: int(counted.collect().item())
