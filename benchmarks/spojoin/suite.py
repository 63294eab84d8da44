"""SPO-Join: joins on two inequalities (the paper's section 5).

The parts of the structure against trees with hash sets and bit arrays, the whole against the
chained index and nested loops, what insertion, merging and memory cost, finite tables against
DuckDB and Polars; at last, if it is installed, on Spark. Windows from 100,000 to a million tuples,
data like that of the paper with match rates that are stated. All rivals find the same matches; this
is asserted.
"""

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.spark import run_part
from benchmarks.spojoin import costs, parts, tables, whole_joins
from benchmarks.spojoin.sizes import WINDOWS, pick_largest
from benchmarks.spojoin.workloads import QUERIES, SEED, Query

MATCHES = 10.0  # rows of the largest window that a row meets in Q1 and Q3


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    report.seed("streams", SEED)
    report.settings.update(
        threads=whole_joins.THREADS, windows=scale.pick(WINDOWS), matches=MATCHES
    )
    with report.step("compiling"):
        compile_all()
    queries = tune_queries(scale)
    parts.measure_windows(report, scale, queries)
    whole_joins.measure_windows(report, scale, queries)
    costs.measure_memory(report, scale, queries["Q1"])
    tables.measure_tables(report, scale)
    costs.measure_insertion(report, scale, queries["Q1"])
    costs.measure_merging(report, scale, queries["Q3"])
    parts.measure_match_rates(report, scale, queries["Q3"])
    parts.measure_shares(report, scale, queries["Q3"])
    whole_joins.measure_scaling(report, scale, queries["Q3"])
    run_part(report, scale, "benchmarks.spojoin.spark")


def tune_queries(scale: Scale) -> dict[str, Query]:
    """Return the queries on data with the match rate of this suite."""
    return {query.name: query.with_matches(MATCHES, pick_largest(scale)) for query in QUERIES}


def compile_all() -> None:
    """Compile what is going to be measured, on tiny windows."""
    silent = Report("spojoin", quick=True)
    silent.console.quiet = True
    queries = tune_queries(Scale.TINY)
    parts.measure_windows(silent, Scale.TINY, queries)
    whole_joins.measure_windows(silent, Scale.TINY, queries)
    whole_joins.measure_scaling(silent, Scale.TINY, queries["Q3"])
