"""What users call to join two finite tables."""

from typing import Any

import pyarrow as pa

from streamjoin.batches import as_batch, check_unique
from streamjoin.config import ColumnPair, JoinConfig
from streamjoin.joins.tables import join_batches
from streamjoin.keys.operands import Side
from streamjoin.predicates import Condition
from streamjoin.windows import CountWindow, Window


def join_tables(
    left: Any,
    right: Any,
    on: str | Condition,
    window: Window | None = None,
    time: ColumnPair = None,
    algorithm: str = "auto",
    order: ColumnPair = None,
    threads: int | None = None,
) -> pa.Table:
    """Join two finite tables by any condition, with or without a window.

    >>> trades = pa.table({"price": [10.0, 20.0]})
    >>> quotes = pa.table({"price": [10.02, 15.0]})
    >>> join_tables(trades, quotes, on="abs(l.price - r.price) <= 0.05").to_pylist()
    [{'price': 10.0, 'price_right': 10.02}]
    """
    config = JoinConfig.check(on, window, time, order, algorithm, None, threads)
    batches: dict[Side, pa.RecordBatch] = {"left": as_batch(left), "right": as_batch(right)}
    for side, batch in batches.items():
        check_unique(batch.schema, side)
    engine = config.make_engine({side: batch.schema for side, batch in batches.items()})
    if isinstance(window, CountWindow):
        joined = engine.push(batches)
    else:
        joined = [rows for part in join_batches(engine, batches) for rows in part.rows]
    return pa.Table.from_batches(joined, schema=engine.schema)
