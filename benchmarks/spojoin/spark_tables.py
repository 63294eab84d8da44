"""Q3 over a table on Spark: trips that went further for less. Details, without a target.

Without an equality Spark compares every pair of rows (`BroadcastNestedLoopJoin`), and here is no
band either that could be cut into buckets by hand. So Spark joins small tables only, and large ones
are joined by us alone; that all matches are there is known from counting them another way.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.harness.series import Series
from benchmarks.harness.spark.plans import join_every_pair, race_plan
from benchmarks.harness.spark.session import Workbench
from benchmarks.harness.turns import time_turns
from benchmarks.spojoin.workloads import Q3, count_pairs, describe_data
from streamjoin import spark as sjs

MATCHES = 10  # a row
ROW_GROUPS = 8
FILE = "trips.parquet"


@dataclass(frozen=True)
class Trips:
    """A table in a file, to be joined with itself."""

    bench: Workbench
    name: str
    folder: Path
    pairs: int  # that match
    statistics: dict[str, Any]

    @classmethod
    def write(cls, bench: Workbench, rows: int) -> "Trips":
        """Write the file, and count the matches."""
        name, folder = f"Spark: Q3, tables {rows:,} x {rows:,}", bench.folder / f"trips-{rows}"
        folder.mkdir()
        with bench.report.step(f"{name}: writing"):
            query = Q3.with_matches(MATCHES, rows)
            trips = query.rows(np.random.default_rng(bench.report.seed(name, rows)), rows)
            columns = dict(zip(query.columns, trips, strict=True))
            table = pa.table({"id": np.arange(rows), **columns})
            pq.write_table(table, folder / FILE, row_group_size=-(-rows // ROW_GROUPS))
            return cls(bench, name, folder, count_pairs(trips), describe_data(query, trips, rows))

    def read(self) -> tuple[DataFrame, DataFrame]:
        """Return the table, for both sides."""
        left, right = (self.bench.spark.read.parquet(str(self.folder / FILE)) for _ in "lr")
        return left, right

    def ours(self) -> tuple[Any, ...]:
        """Join as users write it."""
        return sum_rows(sjs.join(*self.read(), on=Q3.on))

    def by_spark(self) -> tuple[Any, ...]:
        """Let Spark plan the condition."""
        left, right = self.read()
        on = "distance > distance_right and fare < fare_right"
        return sum_rows(join_every_pair(left, right, on))

    def tell(self, times: list[Series], **more: Any) -> None:
        """Keep what was measured."""
        self.bench.report.add(*times)
        self.bench.report.detail(
            self.name,
            {
                "joined rows": self.pairs,
                "data": self.statistics,
                **{each.name: each.summary() for each in times},
                **more,
            },
        )


def sum_rows(pairs: DataFrame) -> tuple[Any, ...]:
    """Count the joined rows, and add up a hash of all their columns."""
    row = pairs.agg(F.count(F.lit(1)), F.sum(F.hash(*pairs.columns))).first()
    assert row is not None
    return tuple(row)


def check_count(trips: Trips, found: tuple[Any, ...]) -> None:
    """Refuse to report on a join that has too many rows, or too few."""
    if found[0] != trips.pairs:
        raise RuntimeError(f"{trips.name}: {found[0]} joined rows, and {trips.pairs} pairs match")


def race_spark(bench: Workbench, rows: int) -> None:
    """Join tables that are small enough for Spark's own plan."""
    trips = Trips.write(bench, rows)
    race = race_plan(bench, trips.name, trips.ours, trips.by_spark, rounds=3)
    check_count(trips, race.found)
    ratio = race.theirs.median / race.ours.median
    trips.tell([race.ours, race.theirs], **{"times as fast": ratio})


def measure_alone(bench: Workbench, rows: int) -> None:
    """Join tables for which Spark's own plan would take hours."""
    trips = Trips.write(bench, rows)
    found: list[tuple[Any, ...]] = []
    label = f"{trips.name}: streamjoin"
    with bench.report.step(label):
        times = time_turns({label: lambda: found.append(trips.ours())}, rounds=3)
    for each in found:
        check_count(trips, each)
    trips.tell([times[label]])
