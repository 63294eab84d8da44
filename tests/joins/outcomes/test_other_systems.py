"""The joins of other systems that docs/guide/kinds.md translates, against these systems."""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import streamjoin as sj

COUNT = 300


def draw_rows(seed: int) -> pd.DataFrame:
    """Draw rows in the order of their times, which are all different."""
    drawn = np.random.default_rng(seed)
    times = np.sort(drawn.permutation(20 * COUNT)[:COUNT])
    values = {"n": range(COUNT), "v": drawn.random(COUNT)}
    return pd.DataFrame({"id": drawn.choice(list("ABC"), COUNT), "ts": times} | values)


LEFT, RIGHT = draw_rows(1)[["id", "ts", "n"]], draw_rows(2)[["id", "ts", "v"]]
BACKWARD = "l.id = r.id and r.ts <= l.ts"
AS_OF = {"how": "left", "keep": "nearest"}


def as_of(**options: Any) -> pd.DataFrame:
    return pd.merge_asof(LEFT, RIGHT, on="ts", by="id", **options)


def join_in_polars() -> pd.DataFrame:
    left, right = pl.from_pandas(LEFT), pl.from_pandas(RIGHT)
    return left.join_asof(right, on="ts", by="id", check_sortedness=False).to_pandas()


def ask_duckdb(query: str) -> pd.DataFrame:
    with duckdb.connect() as connection:
        connection.register("l", LEFT)
        connection.register("r", RIGHT)
        return connection.execute(query).df()


DUCKDB = "select n, v from l asof {} join r on l.id = r.id and l.ts >= r.ts"
AROUND = "l.id = r.id and r.ts between l.ts - 200 and l.ts + 100"
CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "merge_asof": (as_of, BACKWARD, AS_OF),
    "polars": (join_in_polars, BACKWARD, AS_OF),
    "duckdb left": (lambda: ask_duckdb(DUCKDB.format("left")), BACKWARD, AS_OF),
    "duckdb": (lambda: ask_duckdb(DUCKDB.format("")), BACKWARD, {"keep": "nearest"}),
    "strict": (
        lambda: as_of(allow_exact_matches=False),
        "l.id = r.id and r.ts < l.ts",
        AS_OF,
    ),
    "forward": (
        lambda: as_of(direction="forward", tolerance=50),
        "l.id = r.id and r.ts - l.ts between 0 and 50",
        AS_OF,
    ),
    "nearest": (
        lambda: as_of(direction="nearest"),
        "l.id = r.id",
        AS_OF | {"nearest": "abs(l.ts - r.ts)"},
    ),
    "wj1": (
        lambda: ask_duckdb(f"select n, max(v) as v from l left join r on {AROUND} group by n"),
        AROUND,
        {"how": "left", "aggregate": {"v": "max(r.v)"}},
    ),
    "top 3": (
        lambda: ask_duckdb(
            f"select n, v from l join r on {BACKWARD} "
            "qualify row_number() over (partition by n order by l.ts - r.ts) <= 3"
        ),
        BACKWARD,
        {"keep": "nearest", "k": 3},
    ),
    "not exists": (
        lambda: ask_duckdb(
            f"select n, 0.0 as v from l where not exists (from r where {AROUND} and v < 0.3)"
        ),
        f"{AROUND} and r.v < 0.3",
        {"how": "left_anti"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_they_give_the_same(name: str) -> None:
    theirs, on, options = CASES[name]
    ours = sj.join_tables(LEFT, RIGHT, on, **options).to_pandas()
    if "v" not in ours:
        ours["v"] = 0.0
    ours, expected = (
        each.sort_values(["n", "v"])[["n", "v"]].reset_index(drop=True) for each in (ours, theirs())
    )
    pd.testing.assert_frame_equal(ours, expected, check_dtype=False)
    assert len(ours)


def test_a_stream_gives_what_tables_give() -> None:
    options: dict[str, Any] = CASES["wj1"][2]
    join = sj.StreamJoin("l.id = r.id", sj.TimeWindow(before=200, after=100), "ts", **options)
    parts = [join.push(LEFT[at : at + 50], RIGHT[at : at + 50]) for at in range(0, COUNT, 50)]
    rows = [row for part in [*parts, join.finish()] for row in part.to_pylist()]
    tables = sj.join_tables(LEFT, RIGHT, AROUND, **options).to_pylist()
    assert len(rows) == COUNT
    assert sorted(rows, key=lambda row: row["n"]) == sorted(tables, key=lambda row: row["n"])
