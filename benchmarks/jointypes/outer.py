"""What rows without a match cost: left and full joins against the inner join of the same rows.

The condition, the rows and the matches are the same, about two per row; of the rows, one in seven
matches nothing and is given too. A value of 1 means that outer joins take no longer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj
from benchmarks.harness.peers import THREADS
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.turns import time_turns
from benchmarks.harness.workloads import band_for, uniform_batch
from benchmarks.jointypes.sizes import OUTER_ROWS, PUSH_ROWS, PUSHES, ROUNDS
from benchmarks.jointypes.workloads import draw_stream
from streamjoin.windows import Window

HOWS = ("inner", "left", "full")
TARGET = 0.85  # of the inner join's speed


def measure_outer(report: Report, scale: Scale) -> None:
    """Measure a sliding window, tables and tumbling windows."""
    measure_tables(report, scale)
    pushes, rows = scale.pick(PUSHES), scale.pick(PUSH_ROWS)
    window = 4 * rows  # of time, and about as many rows of a stream
    streams: list[tuple[str, str, Window, int]] = [
        ("band in a time window", "abs(l.x - r.x) <= 8", sj.TimeWindow(window // 2), 8 * window),
        ("equality in tumbling windows", "l.x = r.x", sj.TumblingWindow(window), window // 2),
    ]
    for name, on, shape, span in streams:
        rng = np.random.default_rng(report.seed(name, span))
        sides = [draw_stream(rng, pushes, rows, span) for _ in range(2)]
        run = partial(push_all, on, shape, sides)
        compare_hows(report, scale, f"{name}, by push", run)


def measure_tables(report: Report, scale: Scale) -> None:
    """Measure a band between tables."""
    rows = scale.pick(OUTER_ROWS)
    name = f"band between tables, {rows:,} x {rows:,}"
    rng = np.random.default_rng(report.seed(name, rows))
    left, right = (uniform_batch(rng, rows) for _ in range(2))

    def join(how: str) -> pa.Table:
        return sj.join_tables(left, right, on=band_for(rows, 2), how=how, threads=THREADS)

    compare_hows(report, scale, name, join)


def push_all(on: str, window: Window, sides: Sequence[Sequence[pa.Table]], how: str) -> int:
    """Push all batches of both sides, and return how many rows came out."""
    join = sj.StreamJoin(on, window, "t", how=how, delay=0, threads=THREADS)
    given = [join.push(*step).num_rows for step in zip(*sides, strict=True)]
    return sum(given) + join.finish().num_rows


def compare_hows(report: Report, scale: Scale, name: str, run: Callable[[str], Any]) -> None:
    """Compare left and full joins with the inner one."""
    rivals = {f"{name}: {how}": partial(run, how) for how in HOWS}
    with report.step(name):
        inner, *others = time_turns(rivals, scale.pick(ROUNDS)).values()
    for how, outer in zip(HOWS[1:], others, strict=True):
        report.speedup(f"{name}: {how} vs inner", outer, inner, TARGET)
