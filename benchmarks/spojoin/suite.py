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
from benchmarks.spojoin import costs, parts, whole
from benchmarks.spojoin import tables as finite
from benchmarks.spojoin.sizes import WINDOWS, pick_largest
from benchmarks.spojoin.workloads import QUERIES, SEED, Query

MATCHES = 10.0  # rows of the largest window that a row meets in Q1 and Q3


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    report.seed("streams", SEED)
    report.settings.update(threads=whole.THREADS, windows=scale.pick(WINDOWS), matches=MATCHES)
    with report.step("compiling"):
        compile_all()
    queries = tuned(scale)
    parts.by_window(report, scale, queries)
    whole.by_window(report, scale, queries)
    costs.memory(report, scale, queries["Q1"])
    finite.tables(report, scale)
    costs.insertion(report, scale, queries["Q1"])
    costs.merging(report, scale, queries["Q3"])
    parts.match_rates(report, scale, queries["Q3"])
    parts.shares(report, scale, queries["Q3"])
    whole.scaling(report, scale, queries["Q3"])
    run_part(report, scale, "benchmarks.spojoin.spark")


def tuned(scale: Scale) -> dict[str, Query]:
    """Return the queries on data with the match rate of this suite."""
    return {query.name: query.with_matches(MATCHES, pick_largest(scale)) for query in QUERIES}


def compile_all() -> None:
    """Compile what is going to be measured, on tiny windows."""
    silent = Report("spojoin", quick=True)
    silent.console.quiet = True
    queries = tuned(Scale.TINY)
    parts.by_window(silent, Scale.TINY, queries)
    whole.by_window(silent, Scale.TINY, queries)
    whole.scaling(silent, Scale.TINY, queries["Q3"])
