"""As-of joins of tables: streamjoin, Polars and DuckDB, two threads each.

Each trade gets the quote of its time, or the nearest one: a million of both, with a thousand
symbols and without. All columns of both sides come out. Polars gets frames and gives frames, which
it is told are sorted; DuckDB and we get Arrow tables and give them. DuckDB has no nearest.

Rows that are not in the order of their times are a race of its own, in which Polars must sort them.
All rivals keep quotes that are as far from their trades: the sum of the distances is compared.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import streamjoin as sj
from benchmarks.harness.peers import THREADS, DuckDB, Polars
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.turns import check_agreement, time_turns
from benchmarks.jointypes.sizes import ROUNDS, TABLE_ROWS
from benchmarks.jointypes.workloads import Symbols, draw_quotes, draw_trades, shuffle

TARGET = 1.5  # times as fast
TOLERANCE = "1 second"

Strategy = Literal["backward", "nearest"]


@dataclass(frozen=True)
class Race:
    """Trades and quotes, and how they are joined."""

    trades: pa.Table
    quotes: pa.Table
    strategy: Strategy
    by_symbol: bool
    is_sorted: bool = True

    def ours(self) -> pa.Table:
        """Join as users write it."""
        near = f"abs(l.ts - r.ts) <= interval {TOLERANCE}"
        on = "l.ts >= r.ts" if self.strategy == "backward" else near
        on = f"l.symbol = r.symbol and {on}" if self.by_symbol else on
        return sj.join_tables(
            self.trades, self.quotes, on=on, how="left", keep="nearest", threads=THREADS
        )

    def prepare_polars(self) -> Callable[[], Any]:
        """Return the join of Polars, after which its frames are sorted if these are not."""
        pl = Polars(self.trades, self.quotes).polars
        left, right = (pl.DataFrame(pl.from_arrow(each)) for each in (self.trades, self.quotes))
        if self.is_sorted:
            left, right = left.set_sorted("ts"), right.set_sorted("ts")
        options: dict[str, Any] = {"on": "ts", "strategy": self.strategy, "coalesce": False}
        if self.strategy == "nearest":
            options["tolerance"] = "1s"
        if self.by_symbol:
            options |= {"by": "symbol", "check_sortedness": False}

        def join() -> Any:
            if self.is_sorted:
                return left.join_asof(right, **options)
            return left.sort("ts").join_asof(right.sort("ts"), **options)

        return join

    def prepare_duckdb(self) -> Callable[[], pa.Table]:
        """Return the join of DuckDB."""
        connection = DuckDB(self.trades, self.quotes).connection
        on = "l.symbol = r.symbol and l.ts >= r.ts" if self.by_symbol else "l.ts >= r.ts"
        text = (
            "select l.*, r.ts ts_right, r.symbol symbol_right, r.bid, r.ask, r.depth "
            f"from l asof left join r on {on}"
        )
        return lambda: connection.sql(text).to_arrow_table()

    def rivals(self) -> dict[str, Callable[[], Any]]:
        """Return all that take part."""
        found = {"streamjoin": self.ours, "Polars join_asof": self.prepare_polars()}
        if self.strategy == "backward":
            found["DuckDB ASOF JOIN"] = self.prepare_duckdb()
        return found


def measure_tables(report: Report, scale: Scale) -> None:
    """Measure as-of joins with symbols as numbers, as texts, and without."""
    rows = scale.pick(TABLE_ROWS)
    cases: list[tuple[str, Symbols, bool]] = [
        ("no key", "numbers", False),
        ("1,000 symbols", "numbers", True),
        ("1,000 symbols as texts", "texts", True),
    ]
    for label, symbols, by_symbol in cases:
        rng = np.random.default_rng(report.seed(f"as of, {label}", len(label)))
        trades, quotes = draw_trades(rng, rows, symbols), draw_quotes(rng, rows, symbols)
        for strategy in ("backward", "nearest"):
            what = "as of" if strategy == "backward" else f"nearest within {TOLERANCE}"
            name = f"{what}, {rows:,} x {rows:,}, {label}"
            run_race(report, scale, name, Race(trades, quotes, strategy, by_symbol))
        if by_symbol and symbols == "numbers":
            race = Race(
                shuffle(rng, trades), shuffle(rng, quotes), "backward", by_symbol, is_sorted=False
            )
            name = f"as of, {rows:,} x {rows:,}, {label}, not in order"
            run_race(report, scale, name, race)


def run_race(report: Report, scale: Scale, name: str, race: Race) -> None:
    """Let all rivals join, and compare what they took."""
    rivals = race.rivals()
    check_agreement({each: sum_distances(join()) for each, join in rivals.items()})
    named = {f"{name}: {each}": join for each, join in rivals.items()}
    with report.step(name), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = time_turns(named, scale.pick(ROUNDS), warmup=2)
    ours, *others = times.values()
    for label, theirs in zip(list(rivals)[1:], others, strict=True):
        report.speedup(f"{name} vs {label}", ours, theirs, TARGET)


def sum_distances(joined: Any) -> int:
    """Return how far trades are from their quotes, in all, and how many have none."""
    table = joined if isinstance(joined, pa.Table) else joined.to_arrow()
    times = [pc.cast(table[name], pa.int64()) for name in ("ts", "ts_right")]
    distances = pc.abs(pc.subtract(*times))
    return int(pc.sum(distances).as_py() or 0) * 2 + int(distances.null_count)
