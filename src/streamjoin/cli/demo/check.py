"""The check of the Spark demo: DuckDB joins the input files and compares with the files written.

Two results are equal if they have the same number of rows and the same sum of row hashes: all
columns count, the order does not. Only files that the sink has committed are read, as Spark itself
would.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname

import pyarrow as pa

from streamjoin.cli.demo.scenario import Scenario

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Comparison:
    """How many rows the join found, how many there should be, and whether they are the same."""

    found: int
    expected: int
    same: bool
    samples: pa.Table


def compare(
    scenario: Scenario, inputs: tuple[Path, Path], files: list[str], samples: int
) -> Comparison:
    """Join the files in two folders with DuckDB and compare the result with files of matches."""
    import duckdb

    with duckdb.connect() as database:
        database.read_parquet(files).create_view("matches")
        for name, folder in zip(("lefts", "rights"), inputs, strict=True):
            database.read_parquet(str(folder / "*.parquet")).create_view(name)
        found = digest(database, "select * from matches")
        expected = digest(database, scenario.sql("lefts", "rights"))
        last = database.sql(f"select * from matches order by ts desc limit {samples}")
        return Comparison(found[0], expected[0], found == expected, pa.table(last))


def digest(database: "duckdb.DuckDBPyConnection", sql: str) -> tuple[int, int]:
    """Return the number of rows, and a checksum that does not depend on their order."""
    query = f"select count(*), sum(hash(each_row)) from ({sql}) each_row"
    [(rows, checksum)] = database.sql(query).fetchall()
    return rows, checksum


def committed_files(spark: "SparkSession", folder: Path) -> list[str]:
    """Return the committed files, which the sink lists in ``_spark_metadata``."""
    uris = spark.read.parquet(str(folder)).inputFiles()
    return [url2pathname(urlparse(uri).path) for uri in uris]
