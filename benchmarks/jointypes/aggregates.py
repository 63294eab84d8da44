"""Aggregates over the matches of each left row, against writing the pairs and aggregating these.

Every left row has about a thousand matches. The rivals write the pairs as `join_tables` gives them,
with the columns that it takes, and then aggregate them by pyarrow or DuckDB. DuckDB doing all of it
by itself is shown beside them. All give the same counts, sums and maxima.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import streamjoin as sj
from benchmarks.harness.peers import THREADS, DuckDB
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.turns import check_agreement, time_turns
from benchmarks.jointypes.sizes import AGGREGATED_LEFT, AGGREGATED_RIGHT, MATCHES

TIMES_AS_FAST = 20
ROUNDS = 3
AGGREGATES = {"n": "count(*)", "total": "sum(r.size)", "mean": "avg(r.bid)", "best": "max(r.bid)"}
SELECTED = "count(*) n, sum(r.size)::bigint total, avg(r.bid) mean, max(r.bid) best"


def draw(rng: np.random.Generator, rows: int, symbols: int) -> dict[str, Any]:
    """Draw symbols and prices, as whole numbers."""
    return {"symbol": rng.integers(0, symbols, rows), "price": rng.integers(0, rows, rows)}


def measure_aggregates(report: Report, scale: Scale) -> None:
    """Measure a band, and a band of rows of equal symbols."""
    lefts, rights = scale.pick(AGGREGATED_LEFT), scale.pick(AGGREGATED_RIGHT)
    matches = scale.pick(MATCHES)
    for label, symbols in (("band", 1), ("equality and band", 100)):
        reach = rights * matches * symbols // (2 * rights)
        band = f"abs(l.price - r.price) <= {reach}"
        name = f"aggregates over {matches:,} matches, {lefts:,} x {rights:,}, {label}"
        rng = np.random.default_rng(report.seed(name, symbols))
        right = pa.table(
            draw(rng, rights, symbols)
            | {"bid": rng.random(rights), "size": rng.integers(1, 1_000, rights)}
        )
        left = pa.table(
            {
                "id": np.arange(lefts),
                "symbol": rng.integers(0, symbols, lefts),
                "price": rng.integers(0, rights, lefts),
            }
        )
        on = band if symbols == 1 else f"l.symbol = r.symbol and {band}"
        race(report, name, left, right, on)


def race(report: Report, name: str, left: pa.Table, right: pa.Table, on: str) -> None:
    """Let all rivals aggregate, and compare what they took."""
    columns = right if "symbol" in on else right.drop_columns(["symbol"])
    connection = DuckDB(left, right).connection

    def pairs() -> pa.Table:
        return sj.join_tables(left, columns, on=on, threads=THREADS)

    def by_arrow() -> pa.Table:
        found = (
            pairs()
            .group_by("id")
            .aggregate([([], "count_all"), ("size", "sum"), ("bid", "mean"), ("bid", "max")])
        )
        return found.rename_columns(["id", *AGGREGATES])

    def by_duckdb() -> pa.Table:
        connection.register("r_pairs", pairs())
        text = f"select id, {SELECTED.replace('r.', '')} from r_pairs group by id"
        return connection.sql(text).to_arrow_table()

    def duckdb_alone() -> pa.Table:
        text = f"select l.id, {SELECTED} from l join r on {on} group by l.id"
        return connection.sql(text).to_arrow_table()

    def ours() -> pa.Table:
        return sj.join_tables(left, right, on=on, aggregate=AGGREGATES, threads=THREADS)

    rivals: dict[str, Callable[[], pa.Table]] = {
        "streamjoin": ours,
        "pairs, then pyarrow": by_arrow,
        "pairs, then DuckDB": by_duckdb,
        "DuckDB alone": duckdb_alone,
    }
    check_agreement({each: digest(aggregate()) for each, aggregate in rivals.items()})
    with report.step(name):
        named = {f"{name}: {each}": partial(aggregate) for each, aggregate in rivals.items()}
        mine, *others = time_turns(named, ROUNDS, warmup=0).values()
    for label, theirs in zip(list(rivals)[1:], others, strict=True):
        if label == "DuckDB alone":
            report.detail(f"{name} vs {label}", theirs.median / mine.median)
        else:
            report.speedup(f"{name} vs {label}", mine, theirs, TIMES_AS_FAST)


def digest(found: pa.Table) -> int:
    """Return what all rivals must agree on; means are rounded, since sums of doubles are."""
    whole = [pc.sum(pc.multiply(found[name], found["id"])).as_py() for name in ("n", "total")]
    rounded = [round(1e4 * pc.sum(found[name]).as_py()) for name in ("best", "mean")]
    return int(sum(whole) + sum(rounded))
