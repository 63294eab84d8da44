"""Unique keys at rest: our lazy joins, DuckDB and Polars, two threads each, in turns.

All sides get the same 64-bit keys and give pairs of row numbers, in arrays; ours make words of the
keys first, which is part of their time.
"""

import os
from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.harness.report import Report, interleave
from benchmarks.intrawindow.algorithms import LABELS, THREADS
from benchmarks.intrawindow.scale import Scale
from benchmarks.intrawindow.static import Block, write
from benchmarks.intrawindow.workloads import Workload, static_micro
from streamjoin.indexes.catalogue import LAZY
from streamjoin.joins.equality.algorithms import make_lazy
from streamjoin.joins.equality.words import encode

TARGET, ROWS, REPEATS = 1.5, 6_400_000, 5

Contest = dict[str, Callable[[], int]]  # each returns how many pairs it has written


def against_peers(report: Report, scale: Scale) -> None:
    """Measure, and claim for the best of ours."""
    workload = static_micro(scale.rows(ROWS))
    peers: Contest = {"DuckDB": duckdb_join(workload), "Polars": polars_join(workload)}
    contest: Contest = {LABELS[name]: our_join(name, workload) for name in LAZY} | peers
    with report.step(f"{workload.name}: streamjoin, DuckDB, Polars"):
        found = {name: join() for name, join in contest.items()}
        assert set(found.values()) == {workload.matches}, f"{workload.matches} expected: {found}"
        named = {f"{workload.name}, pairs: {name}": join for name, join in contest.items()}
        times = dict(zip(contest, interleave(named, REPEATS).values(), strict=True))
    report.add(*times.values())
    best = min((LABELS[name] for name in LAZY), key=lambda name: times[name].median)
    for peer in peers:
        title = f"{workload.name}, pairs: the best of ours vs {peer}"
        report.speedup(title, times[best], times[peer], TARGET, f"ours: {best}, words made")


def our_join(name: str, workload: Workload) -> Callable[[], int]:
    """Return one of our joins, from keys to pairs."""

    def join() -> int:
        kept: list[Block] = []
        words = encode(workload.left_keys, workload.right_keys)
        return write(make_lazy(name, THREADS).join(words.left, words.right), kept)

    return join


def numbered(keys: np.ndarray, name: str) -> pa.Table:
    """Return keys with their row numbers."""
    return pa.table({"key": keys, name: np.arange(keys.size, dtype=np.int32)})


def duckdb_join(workload: Workload) -> Callable[[], int]:
    """Return DuckDB's join."""
    connection = duckdb.connect(config={"threads": THREADS, "preserve_insertion_order": False})
    connection.register("l", numbered(workload.left_keys, "i"))
    connection.register("r", numbered(workload.right_keys, "j"))
    text = "select i, j from l join r using (key)"
    return lambda: int(connection.sql(text).to_arrow_table().num_rows)


def polars_join(workload: Workload) -> Callable[[], int]:
    """Return Polars' join."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))
    import polars as pl

    left, right = (
        pl.DataFrame(pl.from_arrow(numbered(keys, name))).lazy()
        for keys, name in ((workload.left_keys, "i"), (workload.right_keys, "j"))
    )
    joined = left.join(right, on="key").select("i", "j")
    return lambda: int(joined.collect().height)
