"""What comes of pairs: DuckDB keeps the best, and joins the rows that came in time with them."""

from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa

from .kinds import Kind
from .nested_loop import Arrived, Pairs
from .rows import Tables
from .truths import HOLES, DuckDB

Row = tuple[Any, ...]  # what a result has of the columns NAMES
Rows = Counter[Row]

FORMS = {
    "inner": "select l, r, 'both' from pairs",
    "left": "select lefts.id, r, if(r is null, 'left_only', 'both') "
            "from lefts left join pairs on l = lefts.id",
    "right": "select l, rights.id, if(l is null, 'right_only', 'both') "
             "from pairs right join rights on r = rights.id",
    "full": "select lefts.id, rights.id, case when rights.id is null then 'left_only' "
            "when lefts.id is null then 'right_only' else 'both' end "
            "from lefts left join pairs on l = lefts.id full join rights on r = rights.id",
    "left_semi": "select id from lefts where exists (from pairs where l = lefts.id)",
    "left_anti": "select id from lefts where not exists (from pairs where l = lefts.id)",
    "right_semi": "select id from rights where exists (from pairs where r = rights.id)",
    "right_anti": "select id from rights where not exists (from pairs where r = rights.id)",
}  # fmt: skip


@cache
def connect() -> Any:
    """Open a database in this process."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("set enable_progress_bar = false")
    return connection


def settle(
    kind: Kind, arrived: Arrived, pairs: Pairs, of_left: dict[int, Row] | None = None
) -> Rows:
    """The rows that a join of this kind gives, each as (id, id of right, _match, _late).

    With aggregates ``of_left`` rows that have matches, these follow the id.
    """
    if kind.is_plain:
        return Counter(pairs)
    given = ask(kind, arrived, pairs) if of_left is None else aggregate(kind, arrived, of_left)
    if not kind.indicator and len(kind.sides) == 2:
        given = [row[:2] for row in given]
    if kind.keeps_late:
        given = [(*row, False) for row in given]
        for side, rows in zip("lr", arrived.late, strict=True):
            given += [late_row(kind, side, row) for row in rows if side in kind.sides]
    return Counter(given)


def late_row(kind: Kind, side: str, row: int) -> Row:
    """A row that came too late, with NULL for the other side."""
    if len(kind.sides) == 1:
        return row, *of_nothing(kind), True
    ids = (row, None) if side == "l" else (None, row)
    match = ("left_only" if side == "l" else "right_only",) * kind.indicator
    return *ids, *match, True


def of_nothing(kind: Kind) -> Row:
    """The aggregates of a left row that has no matches."""
    return tuple(0 if each.function == "count" else None for each in kind.aggregates)


def aggregate(kind: Kind, arrived: Arrived, of_left: dict[int, Row]) -> list[Row]:
    """Left rows with their aggregates."""
    lefts = [row for row in arrived.rows[0] if row in of_left or kind.how == "left"]
    return [(row, *of_left.get(row, of_nothing(kind))) for row in lefts]


def compute_aggregates(kind: Kind, rank: list[str]) -> dict[int, Row]:
    """The aggregates of left rows that have matches, by these; see `register_all`."""
    by_time = {"first": ", ".join(rank), "last": ", ".join(rank)}
    by_time["last"] = by_time["last"].replace(" asc nulls last", " desc nulls last", 1)
    columns = [each.columns(by_time.get(each.function, "")) for each in kind.aggregates]
    asked = ", ".join(text for some in columns for text in some).format_map(HOLES)
    found = connect().execute(
        f"select l, {asked} from pairs join all_l on l = l_id join all_r on r = r_id group by l"
    )
    aggregates = {}
    for left, *given in found.fetchall():
        values = []
        for each, some in zip(kind.aggregates, columns, strict=True):
            values.append(each.value(given[: len(some)]))
            given = given[len(some) :]
        aggregates[left] = tuple(values)
    return aggregates


def keep_best(k: int, rank: list[str]) -> Pairs:
    """The pairs that count, as DuckDB numbers them; see `register_all`."""
    number = f"row_number() over (partition by l order by {', '.join(rank)})"
    found = connect().execute(
        "select l, r from pairs join all_l on l = l_id join all_r on r = r_id "
        f"qualify {number} <= {k}"
    )
    return Counter(found.fetchall())


def register_all(
    pairs: Pairs, tables: Tables, times: tuple[list[int | None], list[int | None]]
) -> None:
    """Let DuckDB see the pairs, and all columns of their rows."""
    register_pairs(pairs)
    for side, time in zip("lr", times, strict=True):
        arrays = {f"{side}_id": pa.array(range(len(time)), pa.int64())}
        arrays[f"{side}_time"] = pa.array(time, pa.int64())
        arrays[f"{side}_o"] = tables.tables[side]["o"].combine_chunks()
        for column in tables.columns[side]:
            array = tables.tables[side][column.name].combine_chunks()
            arrays[column.key] = DuckDB.convert(column, array)
        connect().register(f"all_{side}", pa.table(arrays))


def register_pairs(pairs: Pairs) -> None:
    """Let DuckDB see the pairs."""
    found = list(pairs.elements())
    columns = {"l": [left for left, _ in found], "r": [right for _, right in found]}
    connect().register("pairs", as_table(columns))


def as_table(columns: dict[str, list[int]]) -> pa.Table:
    """A table of whole numbers."""
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def ask(kind: Kind, arrived: Arrived, pairs: Pairs) -> list[Row]:
    """Let DuckDB join the rows that came in time."""
    register_pairs(pairs)
    for name, rows in zip(("lefts", "rights"), arrived.rows, strict=True):
        connect().register(name, as_table({"id": rows}))
    return list(connect().execute(FORMS[kind.how]).fetchall())
