"""Peers: other engines that join the same tables, DuckDB and Polars, with two threads each.

A peer gets both Arrow tables before anything is measured, and gives functions that join them and
return Arrow tables, or only count. All columns come out, the right ones that clash with left ones
under names that end in ``_right``, as ours do.

A condition is a list of comparisons that all hold, which each peer puts in its own words::

    Comparison("x", "<=", "x", 5)      l.x <= r.x + 5      pl.col("x") <= pl.col("x_right") + 5
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import duckdb
import pyarrow as pa

THREADS = 2

Operator = Literal["<", "<=", "=", ">=", ">"]


class Comparison(NamedTuple):
    """A left column and a right one, to which a number is added."""

    left: str
    operator: Operator
    right: str
    plus: int = 0

    def __str__(self) -> str:
        shift = f" {'+' if self.plus > 0 else '-'} {abs(self.plus)}" if self.plus else ""
        return f"l.{self.left} {self.operator} r.{self.right}{shift}"


def compare_band(column: str, reach: int) -> list[Comparison]:
    """Return the comparisons of ``abs(l.column - r.column) <= reach``.

    >>> " and ".join(map(str, compare_band("x", 5)))
    'l.x >= r.x - 5 and l.x <= r.x + 5'
    """
    return [Comparison(column, ">=", column, -reach), Comparison(column, "<=", column, reach)]


class Peer(ABC):
    """Two tables in another engine."""

    name: ClassVar[str]

    def __init__(self, left: pa.Table, right: pa.Table) -> None:
        self.left, self.right = left, right

    def right_name(self, column: str) -> str:
        """Return what a right column is called in the result."""
        return f"{column}_right" if column in self.left.column_names else column

    @abstractmethod
    def prepare_rows(
        self, on: Iterable[Comparison], columns: Sequence[str] | None = None
    ) -> Callable[[], pa.Table]:
        """Return a function that gives the joined rows, all their columns or some."""

    @abstractmethod
    def prepare_count(self, on: Iterable[Comparison]) -> Callable[[], int]:
        """Return a function that counts the joined rows."""


class DuckDB(Peer):
    """DuckDB, over Arrow tables that it scans where they are."""

    name = "DuckDB"

    def __init__(self, left: pa.Table, right: pa.Table, keeps_order: bool = True) -> None:
        super().__init__(left, right)
        options: Any = {"threads": THREADS, "preserve_insertion_order": keeps_order}
        self.connection = duckdb.connect(config=options)
        self.connection.register("l", left)
        self.connection.register("r", right)

    def prepare_rows(
        self, on: Iterable[Comparison], columns: Sequence[str] | None = None
    ) -> Callable[[], pa.Table]:
        """Return a function that gives the joined rows."""
        lefts = {name: f"l.{name}" for name in self.left.column_names}
        rights = {self.right_name(name): f"r.{name}" for name in self.right.column_names}
        every = lefts | rights
        select = ", ".join(f"{every[name]} as {name}" for name in columns or every)
        text = self._query(select, on)
        return lambda: self.connection.sql(text).to_arrow_table()

    def prepare_count(self, on: Iterable[Comparison]) -> Callable[[], int]:
        """Return a function that counts the joined rows."""
        text = self._query("count(*)", on)
        return lambda: int(self.connection.sql(text).fetchall()[0][0])

    def _query(self, select: str, on: Iterable[Comparison]) -> str:
        return f"select {select} from l, r where {' and '.join(map(str, on))}"


class Polars(Peer):
    """Polars, over frames that share the tables' memory."""

    name = "Polars"

    def __init__(self, left: pa.Table, right: pa.Table) -> None:
        super().__init__(left, right)
        os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))  # read when it is imported
        import polars as pl

        self.polars: Any = pl
        self.frames = [pl.DataFrame(pl.from_arrow(table)).lazy() for table in (left, right)]

    def prepare_rows(
        self, on: Iterable[Comparison], columns: Sequence[str] | None = None
    ) -> Callable[[], pa.Table]:
        """Return a function that gives the joined rows."""
        joined = self._join(list(on))
        wanted = joined if columns is None else joined.select(*columns)
        return lambda: wanted.collect().to_arrow()

    def prepare_count(self, on: Iterable[Comparison]) -> Callable[[], int]:
        """Return a function that counts the joined rows."""
        counted = self._join(list(on)).select(self.polars.len())
        return lambda: int(counted.collect().item())

    def _join(self, on: list[Comparison]) -> Any:
        left, right = self.frames
        if all(each.operator == "=" and not each.plus for each in on):
            lefts, rights = ([getattr(each, side) for each in on] for side in ("left", "right"))
            return left.join(right, left_on=lefts, right_on=rights, coalesce=False)
        return left.join_where(right, *map(self._predicate, on))

    def _predicate(self, comparison: Comparison) -> Any:
        one, other = (
            self.polars.col(comparison.left),
            self.polars.col(self.right_name(comparison.right)),
        )
        other = other + comparison.plus if comparison.plus else other
        predicates: dict[Operator, Any] = {
            "<": one < other,
            "<=": one <= other,
            "=": one == other,
            ">=": one >= other,
            ">": one > other,
        }
        return predicates[comparison.operator]
