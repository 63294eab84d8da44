"""Joins of tables on Spark: against Spark's own plan, and against what people write by hand.

All read the same parquet files, and all end in the same sums over all columns, by which the results
are checked to be the same. Our time includes the samples that `streamjoin.spark.join` draws.

Without an equality Spark compares every pair (`BroadcastNestedLoopJoin`). By hand one adds an
equality: keys are cut into buckets, the rows of one side are copied to every bucket that their band
may touch, and Spark joins on the bucket::

    buckets of the band's width     copies to bucket - 1, bucket, bucket + 1
    wider buckets                   copies to the buckets from key - band to key + band: 1 or 2

Wide buckets mean fewer copies and more pairs to compare. Bucket width, join strategy and number of
partitions are tried out before, and the fastest is the one that is measured against.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.harness.spark.inputs import band, write_tables
from benchmarks.harness.spark.pipelines import change_settings
from benchmarks.harness.spark.plans import check_equal, join_every_pair, race_plan, rename_right
from benchmarks.harness.spark.session import CORES, Workbench
from benchmarks.harness.turns import time_call, time_turns
from streamjoin import spark as sjs
from streamjoin.spark.session import PARTITIONS

WIDTHS = (1, 4, 16, 64, 256)  # of buckets, in bands


@dataclass(frozen=True)
class Tables:
    """Two tables in files, and the band between their keys."""

    bench: Workbench
    folder: Path
    band: int

    @classmethod
    def write(cls, bench: Workbench, rows: int) -> "Tables":
        """Write the files."""
        folder = bench.folder / f"tables-{rows}"
        write_tables(folder, rows, bench.report.seed(f"tables {rows:,}", rows))
        return cls(bench, folder, band(rows))

    def read(self) -> tuple[DataFrame, DataFrame]:
        """Return both tables."""
        left, right = (
            self.bench.spark.read.parquet(str(self.folder / f"{side}.parquet"))
            for side in ("left", "right")
        )
        return left, right

    def ours(self) -> tuple[Any, ...]:
        """Join as users write it."""
        left, right = self.read()
        return sum_columns(sjs.join(left, right, on=f"abs(l.key - r.key) <= {self.band}"))

    def by_spark(self) -> tuple[Any, ...]:
        """Let Spark plan the band."""
        left, right = self.read()
        return sum_columns(join_every_pair(left, right, f"abs(key - key_right) <= {self.band}"))

    def by_hand(self, way: "Buckets") -> tuple[Any, ...]:
        """Join on buckets."""
        left, right = self.read()
        width = way.bands * self.band
        if way.bands == 1:
            bucket = f"key_right div {width}"
            buckets = f"array({bucket} - 1, {bucket}, {bucket} + 1)"
        else:
            ends = (f"(key_right {sign} {self.band}) div {width}" for sign in "-+")
            buckets = f"sequence({', '.join(ends)})"
        cut = left.withColumn("bucket", F.expr(f"key div {width}"))
        copies = rename_right(right).withColumn("bucket", F.explode(F.expr(buckets)))
        with change_settings(self.bench.spark, {PARTITIONS: str(way.partitions)}):
            pairs = cut.join(copies.hint(way.strategy), "bucket").drop("bucket")
            return sum_columns(pairs.where(f"abs(key - key_right) <= {self.band}"))


@dataclass(frozen=True)
class Buckets:
    """How to join on buckets."""

    bands: int  # width of a bucket
    strategy: str = "merge"
    partitions: int = CORES

    def __str__(self) -> str:
        kind = "sort-merge" if self.strategy == "merge" else "shuffled hash"
        return f"buckets of {self.bands} bands, {kind} join, {self.partitions} partitions"


def sum_columns(pairs: DataFrame) -> tuple[Any, ...]:
    """Count the joined rows, and add up what depends on all their columns."""
    row = pairs.agg(
        F.count(F.lit(1)), F.sum("id"), F.sum("id_right"), F.sum(F.expr("key - key_right"))
    ).first()
    assert row is not None
    return tuple(row)


def race_nested_loop(bench: Workbench, rows: int) -> None:
    """The band join against the plan that Spark makes of it."""
    tables, name = Tables.write(bench, rows), f"tables {rows:,} x {rows:,}"
    race = race_plan(bench, name, tables.ours, tables.by_spark, rounds=5)
    note = "" if race.has_turns else "one run of Spark's own, which takes so long"
    note = "; ".join(filter(None, (f"{race.found[0]:,} joined rows", note)))
    bench.report.speedup(f"{name}: vs Spark's own plan", race.ours, race.theirs, 20, note)


def race_buckets(bench: Workbench, rows: int) -> None:
    """The band join against the equality on buckets that people write by hand."""
    tables, name = Tables.write(bench, rows), f"tables {rows:,} x {rows:,}"
    with bench.report.step(f"{name}: which buckets are the fastest"):
        check_equal(name, tables.ours(), tables.by_hand(Buckets(1)))
        tried = {way: time_call(partial(tables.by_hand, way)) for way in map(Buckets, WIDTHS)}
        for change in ({"strategy": "shuffle_hash"}, {"partitions": 4 * CORES}):
            way = replace(find_fastest(tried), **change)
            tried[way] = time_call(partial(tables.by_hand, way))
    best = find_fastest(tried)
    check_equal(name, tables.ours(), tables.by_hand(best))
    bench.report.detail(
        f"{name}: seconds by hand", {str(way): taken for way, taken in tried.items()}
    )
    with bench.report.step(f"{name}: streamjoin and buckets"):
        ours, theirs = time_turns(
            {
                f"{name}: streamjoin": tables.ours,
                f"{name}: buckets": partial(tables.by_hand, best),
            },
            rounds=3,
        ).values()
    bench.report.speedup(f"{name}: vs buckets by hand", ours, theirs, 1.5, str(best))


def find_fastest(tried: dict[Buckets, float]) -> Buckets:
    """Return the way that took the least time."""
    return min(tried, key=tried.__getitem__)
