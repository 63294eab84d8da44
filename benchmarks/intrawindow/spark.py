"""Tumbling windows on Spark, if it is installed: see `intrawindow_on_spark`."""

from importlib.util import find_spec

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale


def run(report: Report, scale: Scale) -> None:
    """Run the part on Spark, or say why not."""
    if find_spec("pyspark") is None:
        why = "left out, as pyspark is not installed: pip install 'streamjoin[spark]'"
        report.detail("on Spark", why)
        report.console.print(f"on Spark: {why}", markup=False)
        return
    from benchmarks.intrawindow import on_spark as intrawindow_on_spark

    intrawindow_on_spark.tumbling(report, scale)
