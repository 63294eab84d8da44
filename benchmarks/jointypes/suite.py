"""Join types: as-of joins of tables, rows without a match, aggregates, and the first two on Spark.

As-of joins are held against Polars and DuckDB, outer joins against inner joins of the same rows;
on Spark, against its own joins. Two threads, or two cores, each.
"""

from benchmarks.harness.peers import THREADS
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.spark import run_part
from benchmarks.jointypes.aggregates import measure_aggregates
from benchmarks.jointypes.outer import measure_outer
from benchmarks.jointypes.sizes import ROUNDS, SYMBOLS, TABLE_ROWS
from benchmarks.jointypes.tables import measure_tables


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    report.settings.update(
        threads=THREADS,
        rows=scale.pick(TABLE_ROWS),
        symbols=SYMBOLS,
        rounds=scale.pick(ROUNDS),
    )
    measure_tables(report, scale)
    measure_outer(report, scale)
    measure_aggregates(report, scale)
    run_part(report, scale, "benchmarks.jointypes.spark")
