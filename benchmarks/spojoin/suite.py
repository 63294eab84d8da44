"""SPO-Join: joins on two inequalities (the paper's section 5).

The parts of the structure against trees with hash sets and bit arrays, the whole against the
chained index and nested loops, what insertion, merging and memory cost, finite tables against
DuckDB and Polars; at last, if it is installed, on Spark. Windows from 100,000 to a million tuples,
data like that of the paper with match rates that are stated. All rivals find the same matches; this
is asserted.
"""

from importlib.util import find_spec

from benchmarks.harness.report import Report
from benchmarks.spojoin import costs, parts, whole
from benchmarks.spojoin import tables as finite
from benchmarks.spojoin.scale import SEED, Scale, scale_of
from benchmarks.spojoin.workloads import QUERIES, Query

MATCHES = 10.0  # rows of the largest window that a row meets in Q1 and Q3
TINY = Scale([2_000], [10], 4, 1, 1_000, (1e3, 1e4))


def run(report: Report, quick: bool) -> None:
    """Run the suite; ``quick`` has smaller windows and tables."""
    scale = scale_of(quick)
    report.seed("streams", SEED)
    report.settings.update(threads=whole.THREADS, windows=scale.windows, matches=MATCHES)
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
    on_spark(report, quick)


def on_spark(report: Report, quick: bool) -> None:
    """Run the part on Spark, or say why not."""
    if find_spec("pyspark") is None:
        why = "left out, as pyspark is not installed: pip install 'streamjoin[spark]'"
        report.detail("on Spark", why)
        report.console.print(f"on Spark: {why}", markup=False)
        return
    from benchmarks.spojoin import spark as spojoin_spark

    spojoin_spark.on_spark(report, quick)


def tuned(scale: Scale) -> dict[str, Query]:
    """Return the queries on data with the match rate of this suite."""
    return {query.name: query.with_matches(MATCHES, scale.largest) for query in QUERIES}


def compile_all() -> None:
    """Compile what is going to be measured, on tiny windows."""
    silent = Report("spojoin", quick=True)
    silent.console.quiet = True
    queries = tuned(TINY)
    parts.by_window(silent, TINY, queries)
    whole.by_window(silent, TINY, queries)
    whole.scaling(silent, TINY, queries["Q3"])
