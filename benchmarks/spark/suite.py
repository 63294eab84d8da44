"""The join on Spark against Spark: streams, tables, the fixed cost of a micro-batch, skew.

One session with two cores and two shuffle partitions serves all competitors. Everything that is
compared reads the same files in the same run; `harness.spark.pipelines` and `tables` say how it is
measured, `harness.spark.baselines` what the pipelines without a join do. Throughput is in thousand
rows per second (K/s), both sides' input together. What has no target (where the time of a
micro-batch goes, skew, smaller batches, ways to join on buckets) stands under ``details`` in the
JSON.
"""

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.spark.session import CORES, MEMORY, open_workbench
from benchmarks.spark import streams, tables

SHRINK = Sized(full=1, quick=10)  # what sizes are divided by
ROUNDS, BAND_ROUNDS = Sized(full=2, quick=1), Sized(full=3, quick=1)
WINDOW = Sized(full=4, quick=2)  # batches
SMALL_WINDOW, SMALL_BATCHES = Sized(full=40, quick=2), Sized(full=16, quick=4)
SMALL = 1_000  # rows of a batch that measures the fixed cost


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    shrink, rounds, window = (scale.pick(each) for each in (SHRINK, ROUNDS, WINDOW))
    batch = 1_000_000 // shrink
    report.settings.update(
        cores=CORES, batch=batch, scale=f"1/{shrink}", rounds=rounds, driver_memory=MEMORY
    )
    with open_workbench(report) as bench:
        streams.measure_band_join(bench, batch, window, scale.pick(BAND_ROUNDS))
        small_window, measured = scale.pick(SMALL_WINDOW), scale.pick(SMALL_BATCHES)
        streams.measure_fixed_cost(bench, SMALL, small_window, measured, rounds)
        streams.measure_skew(bench, batch, window)
        tables.race_nested_loop(bench, 100_000 // shrink)
        tables.race_buckets(bench, 5_000_000 // shrink)
        streams.measure_equi_join(bench, batch // 5, 2, rounds, claimed=scale is Scale.QUICK)
        if scale is Scale.FULL:
            streams.measure_equi_join(bench, batch, 1, rounds)
