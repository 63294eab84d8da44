"""Q3 over two tables on Spark: trips that went further for less. Details, without a target.

Without an equality Spark compares every pair of rows (`BroadcastNestedLoopJoin`), and here is no
band either that could be cut into buckets by hand. So Spark joins small tables only, and large ones
are joined by us alone; that all matches are there is known from counting them another way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamjoin import spark as sjs
from streamjoin.benchmarks.harness import Series, interleave
from streamjoin.benchmarks.inequality_inputs import TRIPS, Statistics, find_noise
from streamjoin.benchmarks.spark_pipelines import Workbench
from streamjoin.benchmarks.spark_tables import LONG, check_equal, renamed, seconds

MATCHES = 10  # a row
ROW_GROUPS = 8


@dataclass(frozen=True)
class Trips:
    """Two tables in files."""

    bench: Workbench
    name: str
    folder: Path
    statistics: Statistics  # of a sample as large
    pairs: int  # that match

    @classmethod
    def write(cls, bench: Workbench, rows: int) -> "Trips":
        """Write the files, and count the matches."""
        name, folder = f"Spark: Q3, tables {rows:,} x {rows:,}", bench.folder / f"trips-{rows}"
        folder.mkdir()
        with bench.report.step(f"{name}: writing"):
            statistics = find_noise(TRIPS, rows, MATCHES, bench.report.seed(f"{name}: noise", rows))
            seed = bench.report.seed(name, rows + 1)
            left, right = (
                TRIPS.draw(np.random.default_rng((seed, side)), rows, statistics.noise)
                for side in (0, 1)
            )
            for side, columns in (("left", left), ("right", right)):
                table = pa.table({"id": np.arange(rows), **columns})
                path = folder / f"{side}.parquet"
                pq.write_table(table, path, row_group_size=-(-rows // ROW_GROUPS))
            pairs = int(TRIPS.matches(left, right).sum())
        return cls(bench, name, folder, statistics, pairs)

    def read(self) -> tuple[DataFrame, DataFrame]:
        """Return both tables."""
        left, right = (
            self.bench.spark.read.parquet(str(self.folder / f"{side}.parquet"))
            for side in ("left", "right")
        )
        return left, right

    def ours(self) -> tuple[Any, ...]:
        """Join as users write it."""
        return sums(sjs.join(*self.read(), on=TRIPS.on))

    def by_spark(self) -> tuple[Any, ...]:
        """Let Spark plan the condition."""
        left, right = self.read()
        pairs = left.crossJoin(F.broadcast(renamed(right)))
        return sums(pairs.where("distance > distance_right and fare < fare_right"))

    def tell(self, times: list[Series], **more: Any) -> None:
        """Keep what was measured."""
        self.bench.report.add(*times)
        self.bench.report.detail(
            self.name,
            {
                "condition": TRIPS.on,
                "joined rows": self.pairs,
                "a sample as large": self.statistics.to_dict(),
                **{each.name: each.summary() for each in times},
                **more,
            },
        )


def sums(pairs: DataFrame) -> tuple[Any, ...]:
    """Count the joined rows, and add up a hash of all their columns."""
    row = pairs.agg(F.count(F.lit(1)), F.sum(F.hash(*pairs.columns))).first()
    assert row is not None
    return tuple(row)


def check_count(trips: Trips, found: tuple[Any, ...]) -> None:
    """Refuse to report on a join that has too many rows, or too few."""
    if found[0] != trips.pairs:
        raise RuntimeError(f"{trips.name}: {found[0]} joined rows, and {trips.pairs} pairs match")


def against_spark(bench: Workbench, rows: int) -> None:
    """Join tables that are small enough for Spark's own plan."""
    trips = Trips.write(bench, rows)
    labels = f"{trips.name}: streamjoin", f"{trips.name}: BroadcastNestedLoopJoin"
    found: list[tuple[Any, ...]] = []
    with bench.report.step(labels[1]):
        first = seconds(lambda: found.append(trips.by_spark()))
    check_count(trips, found[0])
    check_equal(trips.name, trips.ours(), found[0])
    functions: dict[str, Callable[[], object]] = {labels[0]: trips.ours}
    if first < LONG:
        functions[labels[1]] = trips.by_spark
    with bench.report.step(f"{trips.name}: streamjoin{' and Spark' * (first < LONG)}"):
        times = interleave(functions, repeats=3)
    ours, theirs = times[labels[0]], times.get(labels[1]) or Series(labels[1], (first,))
    trips.tell([ours, theirs], **{"times as fast": theirs.median / ours.median})


def alone(bench: Workbench, rows: int) -> None:
    """Join tables for which Spark's own plan would take hours."""
    trips = Trips.write(bench, rows)
    found: list[tuple[Any, ...]] = []
    label = f"{trips.name}: streamjoin"
    with bench.report.step(label):
        times = interleave({label: lambda: found.append(trips.ours())}, repeats=3)
    for each in found:
        check_count(trips, each)
    trips.tell([times[label]])
