import time
from random import Random
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamjoin.indexes.trees import pim_tree
from streamjoin.joins.shared import shared_join
from streamjoin.joins.shared.shared_join import SharedJoin
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from tests.joins.shared.band_streams import (
    Recorder,
    entries_of,
    expected,
    make_join,
    run,
    self_entries,
)

few = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def uniform(seed, count, span, windows=(300, 300), reach=3, left=0.5):
    rng = np.random.default_rng(seed)
    sides = (rng.random(count) >= left).astype(np.int64)
    return entries_of(sides, rng.integers(0, span, count), windows, reach)


@pytest.fixture(autouse=True)
def merges_often(monkeypatch):
    monkeypatch.setattr(pim_tree, "LEAST_TUPLES", 64)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("blocking", [False, True])
def test_every_pair_is_found_once_in_order_of_arrival(threads, blocking):
    entries = uniform(1, 8000, 1000)
    answers, join = run(entries, threads, steps=7, blocking=blocking)
    assert answers == expected(entries)
    assert all(side.merges > 2 for side in join.sides)
    for side in join.sides:
        side.index.check()


@pytest.mark.parametrize("task", [1, 3, 500])
@pytest.mark.parametrize(("merge_ratio", "depth"), [(1 / 16, 99), (1, 99), (1 / 4, 0)])
def test_any_task_merge_ratio_and_depth(task, merge_ratio, depth):
    entries = uniform(2, 6000, 100_000, (2000, 1000), reach=200)
    answers, _ = run(entries, 3, task=task, merge_ratio=merge_ratio, depth=depth)
    assert answers == expected(entries)


@few
@given(
    keys=st.lists(
        st.tuples(st.integers(0, 1), st.integers(-2, 2) | st.sampled_from([MIN_KEY, MAX_KEY])),
        max_size=60,
    ),
    windows=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    reach=st.integers(0, 2),
    task=st.integers(1, 5),
)
def test_ties_and_extremes(keys, windows, reach, task):
    sides, values = np.array(keys, np.int64).reshape(-1, 2).T.copy()
    entries = entries_of(sides, values, windows, 0)
    entries.lowers[:, 0] = np.where(values < MIN_KEY + reach, MIN_KEY, values - reach)
    entries.uppers[:, 0] = np.where(values > MAX_KEY - reach, MAX_KEY, values + reach)
    answers, _ = run(entries, 2, task=task, queue=16, ring=64)
    assert answers == expected(entries)


def test_a_small_queue_and_ring_only_slow_the_source_down():
    entries = uniform(3, 5000, 1000)
    answers, _ = run(entries, 3, queue=16, ring=64, task=4)
    assert answers == expected(entries)


def test_more_matches_than_a_buffer_holds():
    entries = uniform(4, 1500, 4, (400, 400), reach=1)
    answers, join = run(entries, 2, matches=8)
    assert answers == expected(entries)
    assert len(join.buffers.all) > 2


@pytest.mark.parametrize("left", [0.02, 0.9])
def test_windows_and_rates_that_differ(left):
    entries = uniform(5, 6000, 1000, (1000, 50), left=left)
    answers, _ = run(entries, 2)
    assert answers == expected(entries)


def test_a_self_join_has_one_window():
    rng = np.random.default_rng(6)
    entries = self_entries(rng.integers(0, 1000, 6000), 400, 3)
    answers, join = run(entries, 3, sides=1)
    assert answers == expected(entries, alone=True)
    assert len(join.windows) == 1


def test_keys_that_drift_are_found_in_ranges_that_follow():
    rng = np.random.default_rng(7)
    keys = (rng.normal(0, 1000, 8000) + np.arange(8000) * 50).astype(np.int64)
    entries = entries_of(rng.integers(0, 2, 8000), keys, (500, 500), 40)
    answers, _ = run(entries, 2)
    assert answers == expected(entries)


class Stalling(SharedJoin):
    """Workers stall at random, in the middle of a task too: whenever a buffer is full."""

    random = Random(8)

    def stall(self):
        if self.random.random() < 0.2:
            time.sleep(self.random.random() * 0.003)

    def _next_buffer(self, progress, buffer):
        self.stall()
        return super()._next_buffer(progress, buffer)

    def propagate(self):
        self.stall()
        super().propagate()

    def _merge(self):
        self.stall()
        super()._merge()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("blocking", [False, True])
def test_no_pair_is_lost_or_doubled_while_threads_stall_join_and_leave(seed, blocking, monkeypatch):
    monkeypatch.setattr(shared_join, "ROUND_TUPLES", 64)
    entries = uniform(10 + seed, 6000, 500, (200 + 100 * seed, 300))
    recorder, random = Recorder(entries), Random(seed)
    join = make_join(
        recorder, 2, kind=Stalling, blocking=blocking, task=8, queue=512, ring=1024, matches=64
    )
    done = Event()

    def reshuffle():
        while not done.is_set():
            join.crew.resize(random.randrange(1, 5))
            time.sleep(random.random() * 0.004)

    shuffler = Thread(target=reshuffle)
    shuffler.start()
    try:
        for cut in np.array_split(np.arange(len(entries)), 40):
            join.publish(entries.take(cut))
            if random.random() < 0.2:
                time.sleep(0.002)
        join.settle()
    finally:
        done.set()
        shuffler.join()
        join.stop()
    assert recorder.answers == expected(entries)
    for side in join.sides:
        side.index.check()


def test_without_threads_nothing_happens_until_one_joins():
    entries = uniform(20, 500, 100)
    recorder = Recorder(entries)
    join = make_join(recorder, 0)
    join.publish(entries)
    time.sleep(0.01)
    assert not recorder.answers
    join.crew.resize(1)
    join.settle()
    join.stop()
    assert recorder.answers == expected(entries)


def test_an_error_in_a_worker_reaches_the_source():
    entries = uniform(21, 5000, 100)

    def deliver(first, rows, ends):
        raise OSError("the consumer is gone")

    join = SharedJoin([pim_tree.PIMTree(), pim_tree.PIMTree()], deliver, 2, queue=256)
    with pytest.raises(OSError, match="the consumer is gone"):
        join.publish(entries)
    join.stop()
