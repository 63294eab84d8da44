"""Random rows for aggregates, and DuckDB's answer for them.

Domains are small, so keys, times and whole rows are often equal, and much is NULL, NaN or infinite.
"""

from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from streamjoin.expressions.aggregates import parse_aggregate

CONDITIONS = [
    "l.k = r.k",
    "l.s = r.s",
    "l.k = r.k and l.s = r.s",
    "l.k = r.k and l.s = r.s and l.b = r.b",
    "l.s = r.s and abs(l.b - r.b) <= 3",
    "l.k = r.k and l.s = r.s and l.b < r.b",
    "abs(l.x - r.x) <= 0.5",
    "l.k = r.k and abs(l.x - r.x) <= 1.5",
    "l.b < r.b",
    "l.b >= r.b",
    "l.d <= r.d",
    "l.k = r.k and l.d > r.d",
    "l.b <> r.b",
    "l.k = r.k and l.x <> r.x",
    "l.b between r.b - 2 and r.b + 1",
    "l.k = r.k and r.b > 2 and l.b < 6",
    "l.k + 1 = r.k and l.b <= r.b + 1",
    "l.b < r.b and l.x > r.x",
    "l.k = r.k and l.b <= r.b and l.x >= r.x",
    "l.k = r.k and l.b + r.b > 3",
    "l.s < r.s",
]
AGGREGATES = {
    "n": "count(*)",
    "values_of_x": "count(r.x)",
    "sum_b": "sum(r.b)",
    "avg_b": "avg(r.b)",
    "sum_x": "sum(r.x)",
    "avg_x": "avg(r.x)",
    "sum_d": "sum(r.d)",
    "avg_d": "avg(r.d)",
    "sum_w": "sum(r.w)",
    "min_b": "min(r.b)",
    "max_x": "max(r.x)",
    "min_x": "min(r.x)",
    "min_d": "min(r.d)",
    "max_w": "max(r.w)",
    "min_s": "min(r.s)",
    "max_s": "max(r.s)",
    "max_t": "max(r.t)",
    "any": "max(r.b > 3)",
    "twice": "sum(r.b * 2 + 1)",
    "first_x": "first(r.x)",
    "last_x": "last(r.x)",
    "first_s": "first(r.s)",
    "last_b": "last(r.b + 1)",
}
WITH_LEFT = {
    "n": "count(*)",
    "product": "sum(l.b * r.b)",
    "apart": "max(r.b - l.b)",
    "own": "min(l.s)",
    "texts": "max(case when l.b < r.b then r.s else l.s end)",
    "last_sum": "last(l.b + r.b)",
}


def make_rows(rng: np.random.Generator, size: int) -> pa.Table:
    """Return some rows."""

    def some(values: list[Any], kind: pa.DataType, nulls: float = 0.15) -> pa.Array:
        chosen = rng.integers(0, len(values), size)
        mask = rng.random(size) < nulls
        return pa.array(
            [None if gone else values[at] for at, gone in zip(chosen, mask, strict=True)], kind
        )

    doubles = [-1.5, -0.5, 0.0, 0.1, 0.25, 0.7, 1.0, 2.5, 1e16, float("inf"), float("nan")]
    if rng.random() < 0.5:
        doubles = doubles[:-3]
    return pa.table(
        {
            "id": pa.array(np.arange(size)),
            "k": some([1, 2, 3, 4], pa.int32()),
            "s": some(["a", "b", "", "abcdefghij", "ä"], pa.string()),
            "b": some(list(range(-2, 8)), pa.int64()),
            "x": some(doubles, pa.float64()),
            "d": some([Decimal(each) / 100 for each in range(-300, 300, 77)], pa.decimal128(7, 2)),
            "w": some([Decimal(10**19 + each) for each in range(-3, 3)], pa.decimal128(25, 0)),
            "t": some([0, 1, 2, 3, 1000], pa.timestamp("us"), nulls=0),
        }
    )


def write_for_duckdb(text: str, order: list[str]) -> str:
    """Return an aggregate in DuckDB's words."""
    parsed = parse_aggregate("any", text)
    if parsed.argument is None:
        return "count(r.id)"
    inner = parsed.argument.sql("duckdb")
    if parsed.function not in ("first", "last"):
        return f"{parsed.function}({inner}) filter (where r.id is not null)"
    times = "r.t desc" if parsed.function == "last" else "r.t asc"
    ties = ", ".join(f"r.{each} asc nulls first" for each in order)
    return f"first({inner} order by {times}, {ties}) filter (where r.id is not null)"


def ask_duckdb(
    left: pa.Table, right: pa.Table, on: str, aggregates: dict[str, str], how: str
) -> dict[int, list[Any]]:
    """Return the aggregates of each left row, by its id."""
    columns = [write_for_duckdb(text, right.column_names) for text in aggregates.values()]
    named = ", ".join(f"{each} as a{place}" for place, each in enumerate(columns))
    connection = duckdb.connect()
    connection.register("lefts", left)
    connection.register("rights", right)
    rows = connection.execute(
        f"select l.id, {named} from lefts l {how} join rights r on {on} group by l.id"
    ).fetchall()
    connection.close()
    return {row[0]: list(row[1:]) for row in rows}
