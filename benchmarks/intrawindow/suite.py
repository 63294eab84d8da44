"""Intra-window joins: the eight of the study, lazy and eager, by hashing and by sorting.

First everything is there at once: each join against the study's own C++ code on the same inputs,
and the best against DuckDB and Polars. Then tuples come in time, and what counts is throughput,
latency and progress: the study's figures 5 to 7, 9 to 16 and 18 again, with what it found held
against what comes out here. All joins find the same matches; this is asserted at each point.
"""

import numpy as np

from benchmarks.harness.machine import keep_memory
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.spark import run_part
from benchmarks.intrawindow.advice import measure_advice
from benchmarks.intrawindow.algorithms import THREADS, simulate_all
from benchmarks.intrawindow.findings import judge_findings
from benchmarks.intrawindow.knobs import vary_knobs
from benchmarks.intrawindow.peers import race_peers
from benchmarks.intrawindow.real_workloads import measure_real_workloads
from benchmarks.intrawindow.sensitivity import measure_sensitivity
from benchmarks.intrawindow.simulator import BLOCK, STEP, encode_workload
from benchmarks.intrawindow.sizes import SHRINK
from benchmarks.intrawindow.static import race_study
from benchmarks.intrawindow.workloads import SEED, make_micro, make_static_micro

MEMORY = 4 << 30  # bytes, more than almost any join here needs


def run(report: Report, scale: Scale) -> None:
    """Run the suite; a quick run has a hundredth of the rows."""
    report.settings["keeps_memory"] = keep_memory()
    report.seed("streams", SEED)
    report.settings.update(threads=THREADS, step=STEP, block=BLOCK, shrink=scale.pick(SHRINK))
    with report.step("getting memory"):
        np.ones(MEMORY // scale.pick(SHRINK), np.uint8)
    with report.step("compiling"):
        compile_all()
    race_study(report, scale)
    race_peers(report, scale)
    real = measure_real_workloads(report, scale)
    sweeps = measure_sensitivity(report, scale)
    judge_findings(report, real, sweeps, vary_knobs(report, scale))
    measure_advice(report, scale)
    run_part(report, scale, "benchmarks.intrawindow.spark")


def compile_all() -> None:
    """Compile what is going to be measured, on small inputs: with threads, and without."""
    for workload in (
        make_static_micro(100_000, 10),
        make_static_micro(1_000),
        make_micro(10, 20, 50, 2),
    ):
        simulate_all(encode_workload(workload))
