"""A window that is filled without searching is searched like one whose rows were pushed."""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.harness.full_windows import fill_windows, make_join, pair_ids
from benchmarks.harness.workloads import SCHEMA, uniform_batch
from streamjoin.plans.plan import SIDES
from streamjoin.windows import CountWindow, TimeWindow

TIMED = SCHEMA.append(pa.field("t", pa.timestamp("us")))
ROWS = 2_000


def batches(timed, seed):
    """Four batches of both sides, a quarter of a window each."""
    rng = np.random.default_rng(seed)
    for number in range(4):
        pair = {side: uniform_batch(rng, ROWS // 4, span=500) for side in SIDES}
        if timed:
            times = pa.array(np.arange(ROWS // 4) + number * ROWS // 4, pa.timestamp("us"))
            pair = {side: batch.append_column("t", times) for side, batch in pair.items()}
        yield pair


@pytest.mark.parametrize("timed", [False, True], ids=["count", "time"])
@pytest.mark.parametrize("cores", [None, 2])
@pytest.mark.parametrize("algorithm", ["bi_sort", "spo_join"])
def test_a_filled_window_is_searched_like_one_that_was_pushed(algorithm, cores, timed):
    options = {"algorithm": algorithm, "threads": 2 * (cores or 1), "cores": cores}
    window = TimeWindow("2 ms") if timed else CountWindow(ROWS)
    on = "l.x < r.x and l.id > r.id" if algorithm == "spo_join" else "abs(l.x - r.x) <= 1"
    schema, time = (TIMED, "t") if timed else (SCHEMA, None)
    filled, pushed = (make_join(on, window, schema, time, pair_ids, **options) for _ in range(2))
    for pair in batches(timed, seed=1):
        fill_windows(filled, pair)
        pushed.push(pair)
    before = pushed.counters.matches
    assert filled.counters.matches == 0
    for pair in batches(timed, seed=2):
        for engine in (filled, pushed):
            engine.push(pair)
    assert filled.counters.matches == pushed.counters.matches - before > 0
    assert filled.counters.rows == pushed.counters.rows
