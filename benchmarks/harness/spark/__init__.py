"""Measuring on a local Spark: its session, inputs, pipelines, and baselines without a join.

Importing this needs no PySpark, importing its modules does.
"""

from importlib import import_module
from importlib.util import find_spec

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale


def run_part(report: Report, scale: Scale, module: str) -> None:
    """Run a suite's part on Spark, ``run`` of a module, or say why not."""
    if find_spec("pyspark") is None:
        why = "left out, as pyspark is not installed: pip install 'streamjoin[spark]'"
        report.detail("on Spark", why)
        report.console.print(f"on Spark: {why}", markup=False)
        return
    import_module(module).run(report, scale)
