"""Rows out of order within the watermark: side indexes take them, and expiry goes on."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.plans.limits import Limits, use_limits


def check(join):
    for chain in join._state.engine.chains.values():
        chain.check()


@pytest.mark.parametrize(("algorithm", "rows"), [("auto", 3000), ("spo_join", 1200)])
def test_rows_out_of_order_go_to_side_indexes_and_match(algorithm, rows):
    rng = np.random.default_rng(7)
    on = "l.k = r.k" if algorithm == "auto" else "abs(l.k - r.k) <= 0"  # and the time window
    with use_limits(Limits(least_timed_rows=100)):
        join = sj.StreamJoin(
            on, sj.TimeWindow(200), time="t", delay=100, threads=1, algorithm=algorithm
        )
    pushed, aside, pairs = ([], []), 0, Counter()
    for first in range(0, rows, 20):
        batches = []
        for side in (0, 1):
            times = np.arange(first, first + 20) - rng.integers(0, 100, 20)
            ids = np.arange(20) + len(pushed[side]) * 20
            batches.append(pa.table({"id": ids, "k": rng.integers(0, 50, 20), "t": times}))
            pushed[side].append(batches[-1])
        result = join.push(*batches)
        pairs.update(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))
        check(join)
        held = [each for chain in join._state.engine.chains.values() for each in chain]
        aside = max(
            aside, sum(len(each.late_index) for each in held if each.late_index is not None)
        )
    left, right = (pa.concat_tables(batches).to_pylist() for batches in pushed)
    assert aside > 20
    assert join.stats.late == 0
    assert join.stats.live_left < 1000
    assert pairs == Counter(
        (one["id"], two["id"])
        for one in left
        for two in right
        if one["k"] == two["k"] and abs(one["t"] - two["t"]) <= 200
    )


def test_times_far_ahead_on_both_sides_of_a_seal_do_not_stop_expiry():
    with use_limits(Limits(least_timed_rows=10)):
        join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), time="t", threads=1)
    live = []
    for first in range(0, 1000, 10):
        times = list(range(first, first + 10))
        if first == 20:
            times[-1] = 10**9  # the newest time when its subwindow is sealed
        if first == 30:
            times = [10**9] * 10  # and the median of the batch that opens the next
        rows = pa.table({"id": range(10), "k": [1] * 10, "t": times})
        join.push(rows, rows.slice(0))
        join.advance(first)
        check(join)
        live.append(join.stats.live_left)
    assert max(live) <= 100
