"""Trades and quotes: a match is a quote for the same symbol at a price within five cents."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.cli.demo.scenario import Batches, Pace, Scenario

SYMBOLS = pa.array([f"{a}{b}{c}" for a in "ABCDEFGHIJ" for b in "KLMNOPQRST" for c in "ABCDEUVXYZ"])
REST = "symbol string, price double, qty bigint, ts timestamp"


def generate(pace: Pace, seed: int) -> Batches:
    """Yield batch after batch of both streams; prices wander."""
    random = np.random.default_rng(seed)
    middle = random.uniform(20, 200, len(SYMBOLS))
    number = 0
    while True:
        middle += random.normal(0, 0.02, len(SYMBOLS))
        yield (
            _batch(random, middle, pace, number, "trade_id"),
            _batch(random, middle, pace, number, "quote_id"),
        )
        number += 1


def _batch(
    random: np.random.Generator, middle: NDArray[np.float64], pace: Pace, number: int, id_: str
) -> pa.Table:
    symbols = random.integers(0, len(SYMBOLS), pace.rows)
    return pa.table(
        {
            id_: pace.ids(number),
            "symbol": SYMBOLS.take(pa.array(symbols)),
            "price": np.round(middle[symbols] + random.normal(0, 1.5, pace.rows), 2),
            "qty": random.integers(1, 500, pace.rows),
            "ts": pace.times(random, number),
        }
    )


PRICES = Scenario(
    title="prices",
    sides=("trades", "quotes"),
    columns=(f"trade_id bigint, {REST}", f"quote_id bigint, {REST}"),
    on="l.symbol = r.symbol and abs(l.price - r.price) <= 0.05",
    window="1 second",
    generate=generate,
    shown={
        "symbol": "symbol",
        "price": "trade price",
        "price_right": "quote price",
        "ts": "trade time",
        "ts_right": "quote time",
    },
)
