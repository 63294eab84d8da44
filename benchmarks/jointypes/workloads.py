"""Trades and quotes of one day, in the order of their times, and streams with a band.

Times are microseconds, spread over six and a half hours; no two rows of a table have the same, so
all engines keep the same quote for each trade. Symbols are drawn evenly, as numbers or as texts.
"""

from typing import Literal

import numpy as np
import pyarrow as pa

from benchmarks.jointypes.sizes import SYMBOLS

Symbols = Literal["numbers", "texts"]

DAY_US = int(6.5 * 3_600_000_000)
TIME = pa.timestamp("us")


def draw_day(
    rng: np.random.Generator, rows: int, symbols: Symbols
) -> dict[str, np.ndarray | pa.Array]:
    """Draw times, which ascend, and symbols."""
    times = np.unique(rng.integers(0, DAY_US, rows + rows // 100))
    times = np.sort(rng.choice(times, rows, replace=False))
    drawn = rng.integers(0, SYMBOLS, rows)
    names = pa.array([f"SYM{number:04d}" for number in range(SYMBOLS)])
    return {
        "ts": pa.array(times).cast(TIME),
        "symbol": pa.array(drawn) if symbols == "numbers" else names.take(pa.array(drawn)),
    }


def draw_trades(rng: np.random.Generator, rows: int, symbols: Symbols) -> pa.Table:
    """Draw trades: time, symbol, price and size."""
    day = draw_day(rng, rows, symbols)
    return pa.table(day | {"price": rng.random(rows), "size": rng.integers(1, 1_000, rows)})


def draw_quotes(rng: np.random.Generator, rows: int, symbols: Symbols) -> pa.Table:
    """Draw quotes: time, symbol, bid, ask and depth."""
    day = draw_day(rng, rows, symbols)
    prices = {"bid": rng.random(rows), "ask": rng.random(rows)}
    return pa.table(day | prices | {"depth": rng.integers(1, 1_000, rows)})


def shuffle(rng: np.random.Generator, table: pa.Table) -> pa.Table:
    """Return the same rows in another order."""
    return table.take(pa.array(rng.permutation(len(table))))


def draw_stream(rng: np.random.Generator, pushes: int, rows: int, span: int) -> list[pa.Table]:
    """Draw batches whose times go on from batch to batch, with keys in range(span)."""
    return [
        pa.table(
            {
                "t": np.sort(rng.integers(number * rows, (number + 1) * rows, rows)),
                "x": rng.integers(0, span, rows),
                "id": np.arange(rows),
            }
        )
        for number in range(pushes)
    ]
