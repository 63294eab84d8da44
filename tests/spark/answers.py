"""Answers that nobody here computed: DuckDB's, and those of Spark's own cross join."""

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

from streamjoin.windows import TimeWindow

Pairs = Counter[tuple[Any, Any]]


def within(window: TimeWindow, time: str = "t") -> str:
    """Return a time window as a condition in SQL, of DuckDB and of Spark."""
    before, after = (
        f"interval '{each}' microsecond" for each in (window.before_us, window.after_us)
    )
    return f"r.{time} between l.{time} - {before} and l.{time} + {after}"


def duckdb_pairs(left: pa.Table, right: pa.Table, on: str) -> Pairs:
    """Return the ids of all pairs that DuckDB finds."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("l", left)
        connection.register("r", right)
        rows = connection.sql(f"select l.id, r.id from l, r where {on}").fetchall()
    return Counter(rows)


def spark_pairs(left: Any, right: Any, conditions: list[str]) -> list[Pairs]:
    """Return, for each condition, the ids of the pairs that pass it in Spark's cross join."""
    columns = [f"({text}) as c{number}" for number, text in enumerate(conditions)]
    crossed = left.alias("l").crossJoin(right.alias("r"))
    rows = crossed.selectExpr("l.id as l", "r.id as r", *columns).collect()
    return [
        Counter((row["l"], row["r"]) for row in rows if row[f"c{number}"])
        for number in range(len(conditions))
    ]
