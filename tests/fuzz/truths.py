"""The oracles: what DuckDB and Spark say about a conjunct, for every pair of rows.

Both see the pairs as one table with plain column names (``l0``, ``r3``), so that names are only
streamjoin's concern, and answer all conjuncts of a block in one query. If that raises, each half is
asked alone, down to the one that does; that is asked about the tame rows only, then given up. Spark
is not even asked about extreme rows where an overflow is likely: a query that fails takes long.
"""

import logging
import os
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .conjuncts import Conjunct
from .rows import ROWS, TAME, Column, Tables

Truth = NDArray[np.bool_]  # [left row, right row]; NULL is False
HOLES = {f"{side}{number}": f"{side}{number}" for side in "lr" for number in range(40)}


def pairs_of(tables: Tables, convert: Any, rows: int) -> pa.Table:
    """All pairs of the first rows, with an id each."""
    number = np.arange(rows * rows)
    places = {"l": pa.array(number // rows), "r": pa.array(number % rows)}
    columns = {"id": pa.array(number)}
    for side, some in tables.columns.items():
        for column in some:
            array = tables.tables[side][column.name].combine_chunks()
            array = convert(column, array)
            if array is not None:
                columns[column.key] = array.take(places[side])
    return pa.table(columns)


class DuckDB:
    """Evaluates conjuncts in process."""

    name = "duckdb"

    @cached_property
    def connection(self) -> Any:
        import duckdb

        connection = duckdb.connect(":memory:", config={"threads": 1})
        connection.execute("set enable_progress_bar = false")
        return connection

    @staticmethod
    def convert(column: Column, array: pa.Array) -> pa.Array:
        if pa.types.is_temporal(array.type):
            if pa.types.is_date64(array.type):
                array = array.cast(pa.date32())
            wide = pa.int32() if array.type.bit_width == 32 else pa.int64()
            return array.cast(wide)
        if column.kind in ("text", "digits"):
            return array.cast(pa.string())
        return array

    def text(self, conjunct: Conjunct) -> str | None:
        return conjunct.duck

    def open(self, tables: Tables, rows: int) -> None:
        self.connection.register("pairs", pairs_of(tables, self.convert, rows))

    def ask(self, texts: Sequence[str]) -> pa.Table:
        import duckdb

        listed = ", ".join(f"{text} as v{place}" for place, text in enumerate(texts))
        try:
            return self.connection.sql(f"select id, {listed} from pairs").to_arrow_table()
        except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
            raise RaisesError(str(error)) from None


class Spark:
    """Evaluates conjuncts in a local session, row by row and without any generated code."""

    name = "spark"

    def __init__(self, session: Any = None) -> None:
        self.given = session

    @cached_property
    def session(self) -> Any:
        return self.given or start_spark()

    @staticmethod
    def convert(column: Column, array: pa.Array) -> pa.Array | None:
        """Columns in types that Spark has; unsigned ones widen as docs/guide/conditions.md says."""
        type = array.type
        if column.kind == "time" or getattr(type, "unit", "") == "ns":
            return None
        if pa.types.is_unsigned_integer(type):
            wider = [pa.int16(), pa.int32(), pa.int64(), pa.decimal128(20, 0)]
            return array.cast(wider[[8, 16, 32, 64].index(type.bit_width)])
        if pa.types.is_timestamp(type):
            return array.cast(pa.timestamp("us", type.tz and "UTC"))
        if pa.types.is_duration(type):
            return array.cast(pa.duration("us"))
        if pa.types.is_date(type):
            return array.cast(pa.date32())
        if column.kind in ("text", "digits"):
            return array.cast(pa.string())
        return array.cast(pa.binary()) if column.kind == "bytes" else array

    def text(self, conjunct: Conjunct) -> str | None:
        return conjunct.spark

    def open(self, tables: Tables, rows: int) -> None:
        pairs = pairs_of(tables, self.convert, rows)
        frame = self.session.createDataFrame(pairs)
        # createDataFrame makes a TIMESTAMP of every Arrow timestamp, with a zone or without.
        self.pairs = frame.selectExpr(*[
            f"cast({field.name} as timestamp_ntz) as {field.name}"
            if field.type == pa.timestamp("us") else field.name
            for field in pairs.schema
        ])  # fmt: skip

    def ask(self, texts: Sequence[str]) -> pa.Table:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException, PySparkException

        selected = [f"{text} as v{place}" for place, text in enumerate(texts)]
        try:
            return self.pairs.selectExpr("id", *selected).toArrow()
        except AnalysisException as error:
            raise RaisesError(f"analysis: {error}") from None
        except (PySparkException, Py4JJavaError) as error:
            raise RaisesError(str(error)) from None


class RaisesError(Exception):
    """The oracle has no answer: an overflow, or types that do not compare."""


def start_spark() -> Any:
    """Start a session that interprets expressions: to compile each would take far longer."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").disabled = True  # of queries that fail
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    configure(session)
    return session


SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Small tables would otherwise be computed by the optimizer, in another way than real queries.
    "spark.sql.optimizer.excludedRules":
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    "spark.sql.subexpressionElimination.enabled": "false",
}  # fmt: skip


def configure(session: Any) -> None:
    for name, value in SETTINGS.items():
        session.conf.set(name, value)


Oracle = DuckDB | Spark


def judge(oracle: Oracle, tables: Tables, conjuncts: Sequence[Conjunct]) -> list[Truth | None]:
    """The truth of each conjunct: over all rows, over the tame ones only (smaller), or None."""
    texts = [oracle.text(each) for each in conjuncts]
    asked = [place for place, text in enumerate(texts) if text is not None]
    truths: list[Truth | None] = [None] * len(conjuncts)
    filled = [text and text.format_map(HOLES) for text in texts]
    tame = []
    if isinstance(oracle, Spark):
        tame = [place for place in asked if conjuncts[place].overflows]
        asked = [place for place in asked if not conjuncts[place].overflows]
    if asked:
        oracle.open(tables, ROWS)
        tame += ask_some(oracle, filled, asked, ROWS, truths)
    if tame:
        oracle.open(tables, TAME)
        ask_some(oracle, filled, tame, TAME, truths)
    return truths


def ask_some(
    oracle: Oracle, texts: list[str | None], asked: list[int], rows: int, truths: list[Truth | None]
) -> list[int]:
    """Fill in the truths of those that raise nothing, by halves; return the others."""
    try:
        answer = oracle.ask([texts[place] or "" for place in asked])
    except RaisesError:
        if len(asked) == 1:
            return asked
        half = len(asked) // 2
        first = ask_some(oracle, texts, asked[:half], rows, truths)
        return first + ask_some(oracle, texts, asked[half:], rows, truths)
    places = answer["id"].to_numpy()
    for column, place in enumerate(asked):
        flat = np.zeros(rows * rows, bool)
        flat[places] = answer[f"v{column}"].fill_null(False).to_numpy()
        truths[place] = flat.reshape(rows, rows)
    return []
