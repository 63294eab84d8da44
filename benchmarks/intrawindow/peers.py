"""Unique keys at rest: our lazy joins, DuckDB and Polars, two threads each, in turns.

All sides get the same 64-bit keys and give pairs of row numbers, in arrays; ours make words of the
keys first, which is part of their time.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.harness.peers import Comparison, DuckDB, Polars
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.turns import check_agreement, time_turns
from benchmarks.intrawindow.algorithms import LABELS, THREADS
from benchmarks.intrawindow.sizes import shrink_rows
from benchmarks.intrawindow.static import Block, write_pairs
from benchmarks.intrawindow.workloads import Workload, make_static_micro
from streamjoin.indexes.catalogue import LAZY
from streamjoin.joins.equality.algorithms import make_lazy
from streamjoin.joins.equality.words import encode

TARGET, ROWS, REPEATS = 1.5, 6_400_000, 5

Contest = dict[str, Callable[[], int]]  # each returns how many pairs it has written


def race_peers(report: Report, scale: Scale) -> None:
    """Measure, and claim for the best of ours."""
    workload = make_static_micro(shrink_rows(scale, ROWS))
    tables = number_keys(workload.left_keys, "i"), number_keys(workload.right_keys, "j")
    peers: Contest = {
        peer.name: partial(
            count_pairs, peer.prepare_rows([Comparison("key", "=", "key")], ("i", "j"))
        )
        for peer in (DuckDB(*tables, keeps_order=False), Polars(*tables))
    }
    contest: Contest = {LABELS[name]: prepare_ours(name, workload) for name in LAZY} | peers
    with report.step(f"{workload.name}: streamjoin, DuckDB, Polars"):
        found = {name: join() for name, join in contest.items()}
        check_agreement(found, workload.matches)
        named = {f"{workload.name}, pairs: {name}": join for name, join in contest.items()}
        times = dict(zip(contest, time_turns(named, REPEATS).values(), strict=True))
    report.add(*times.values())
    best = min((LABELS[name] for name in LAZY), key=lambda name: times[name].median)
    for peer in peers:
        title = f"{workload.name}, pairs: the best of ours vs {peer}"
        report.speedup(title, times[best], times[peer], TARGET, f"ours: {best}, words made")


def prepare_ours(name: str, workload: Workload) -> Callable[[], int]:
    """Return one of our joins, from keys to pairs."""

    def join() -> int:
        kept: list[Block] = []
        words = encode(workload.left_keys, workload.right_keys)
        return write_pairs(make_lazy(name, THREADS).join(words.left, words.right), kept)

    return join


def count_pairs(join: Callable[[], pa.Table]) -> int:
    """Join, and return how many pairs came out."""
    return int(join().num_rows)


def number_keys(keys: np.ndarray, name: str) -> pa.Table:
    """Return keys with their row numbers."""
    return pa.table({"key": keys, name: np.arange(keys.size, dtype=np.int32)})
