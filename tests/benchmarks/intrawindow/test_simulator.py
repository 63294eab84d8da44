"""The virtual clock, with joins whose costs are known: a clock that only they move."""

import numpy as np
import pytest

from benchmarks.intrawindow import simulator
from benchmarks.intrawindow.ledger import Ledger
from benchmarks.intrawindow.simulator import EncodedWorkload, run_eager, run_lazy
from benchmarks.intrawindow.workloads import Workload, count_matches

WRITE = 2.0  # ms a block
SPENT = {"partition": 0.0, "build": 0.0, "merge": 0.0, "probe": 0.0}


class Watch:
    """A clock that stands still until someone works."""

    def __init__(self):
        self.seconds = 0.0

    def work(self, ms):
        self.seconds += ms / 1e3

    def __call__(self):
        return self.seconds


class FoundPairs:
    """Pairs in one block, which takes a while to write."""

    def __init__(self, watch, pairs):
        self.watch, self.rows = watch, np.array(pairs, np.int32).reshape(-1, 2)

    def __len__(self):
        return len(self.rows)

    def pairs(self, size):
        self.watch.work(WRITE)
        yield self.rows[:, 0].copy(), self.rows[:, 1].copy()


def matching(left, right):
    """Return pairs of row numbers of words with equal keys."""
    mask = np.uint64(0xFFFFFFFF)
    return [(int(a & mask), int(b & mask)) for a in left for b in right if a >> 32 == b >> 32]


class LazyFake:
    def __init__(self, watch, cost):
        self.watch, self.cost, self.seconds = watch, cost, dict(SPENT)

    def join(self, left, right):
        self.watch.work(self.cost)
        self.seconds["build"] += self.cost * 0.75 / 1e3
        return [FoundPairs(self.watch, matching(left, right))]


class EagerFake:
    def __init__(self, watch, cost):
        self.watch, self.cost, self.seconds = watch, cost, dict(SPENT)
        self.left, self.right, self.pushes = [], [], []

    def push(self, left, right):
        self.watch.work(self.cost)
        self.seconds["probe"] += self.cost / 1e3
        self.pushes.append((len(left), len(right)))
        old = list(self.left)
        self.left += list(left)
        self.right += list(right)
        return [FoundPairs(self.watch, matching(left, self.right) + matching(old, right))]

    def close(self):
        return []


def arrivals(left, right, window=10.0):
    """Return (key, time) of both sides as arrivals."""
    columns = [np.array(side, np.float64).reshape(-1, 2).T for side in (left, right)]
    keys, times = [each[0].astype(np.int64) for each in columns], [each[1] for each in columns]
    words = [
        each.astype(np.uint64) << np.uint64(32) | np.arange(each.size, dtype=np.uint64)
        for each in keys
    ]
    workload = Workload("test", *keys, *times, window, count_matches(*keys))
    return EncodedWorkload(workload, *words)


def test_a_lazy_join_waits_for_the_end_of_its_window():
    watch = Watch()
    #        window  0 ........ 10 [join 4] 14 [write 2] 16
    some = arrivals([(1, 0), (2, 3)], [(2, 1), (1, 6)])
    outcome = run_lazy(LazyFake(watch, 4.0), some, 1, watch)
    assert (outcome.inputs, outcome.matches) == (4, 2)
    assert outcome.finished == pytest.approx(16)
    assert outcome.half == pytest.approx(16)
    assert outcome.throughput == pytest.approx(4 / 16 / 1e3)
    assert outcome.latency == pytest.approx(16 - 3, rel=0.005)  # the later of 3 and 1
    spent = {phase: ns * 4 / 1e6 for phase, ns in outcome.breakdown.items()}
    expected = {"wait": 10, "build": 3, "write": 2, "other": 1, "probe": 0}
    assert {phase: spent[phase] for phase in expected} == pytest.approx(expected)
    assert outcome.cost == pytest.approx(6 / 4 * 1e6)


def test_data_at_rest_are_not_waited_for():
    watch = Watch()
    outcome = run_lazy(LazyFake(watch, 4.0), arrivals([(1, 0)], [(1, 0)], 0), 1, watch)
    assert outcome.finished == pytest.approx(6)
    assert outcome.breakdown["wait"] == 0


def test_an_eager_join_takes_what_has_arrived():
    watch = Watch()
    # l1 at 0, r1 at 1, l2 and r2 at 5
    #   0 [push l1] 3 [push r1] 6 [write] 8 [push l2 r2] 11 [write] 13
    some = arrivals([(1, 0), (2, 5)], [(1, 1), (2, 5)])
    join = EagerFake(watch, 3.0)
    outcome = run_eager(join, some, 1, watch)
    assert join.pushes == [(1, 0), (0, 1), (1, 1)]
    assert outcome.matches == 2
    assert outcome.half == pytest.approx(8)
    assert outcome.finished == pytest.approx(13)
    assert outcome.latency == pytest.approx(13 - 5, rel=0.005)
    assert outcome.breakdown["wait"] == 0


def test_gaps_count_as_waiting():
    watch = Watch()
    some = arrivals([(1, 2)], [(1, 7)], 9)
    outcome = run_eager(EagerFake(watch, 1.0), some, 1, watch)
    # waits to 2, pushes to 3, waits to 7, pushes to 8, writes to 10: past the window's end
    assert outcome.finished == pytest.approx(10)
    assert outcome.latency == pytest.approx(3, rel=0.005)
    assert outcome.breakdown["wait"] * 2 / 1e6 == pytest.approx(2 + 4)


def test_a_step_takes_no_more_rows_than_it_may():
    watch = Watch()
    join = EagerFake(watch, 1.0)
    run_eager(join, arrivals([(1, 0)] * 5, [(1, 0)] * 2), 1, watch, step=2)
    assert join.pushes == [(2, 2), (2, 0), (1, 0)]


def test_one_side_may_be_empty():
    watch = Watch()
    outcome = run_eager(EagerFake(watch, 1.0), arrivals([(1, 4)], []), 1, watch)
    assert (outcome.matches, outcome.finished, outcome.latency, outcome.curve) == (0, 0, 0, [])


def test_threads_share_the_writing(monkeypatch):
    monkeypatch.setattr(simulator, "SHARED", 1)
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 3, 40)
    some = arrivals([(key, 0) for key in keys], [(key, 1) for key in keys])
    watch = Watch()

    class Halves(LazyFake):
        def join(self, left, right):
            return [FoundPairs(watch, matching(part, right)) for part in (left[:20], left[20:])]

    outcome = run_lazy(Halves(watch, 0.0), some, 2, watch)
    assert outcome.matches == some.workload.matches


def test_every_so_manieth_latency_is_counted():
    ledger = Ledger(np.arange(100.0), np.zeros(1), stride=7)
    for begin, end in ((0, 3), (3, 4), (4, 60), (60, 100)):
        rows = np.arange(begin, end, dtype=np.int32)
        ledger.add(0, 100.0, rows, np.zeros_like(rows))
    assert sum(ledger.bins.values()).sum() == len(range(0, 100, 7))
    assert ledger.matches == 100


def test_latencies_are_counted_to_half_a_per_cent():
    rng = np.random.default_rng(4)
    times = np.sort(rng.random(5_000) * 1_000)
    ledger = Ledger(times, np.zeros(1))
    rows, nothing = np.arange(5_000, dtype=np.int32), np.zeros(5_000, np.int32)
    ledger.add(0, 1_200.0, rows[:2_000], nothing[:2_000])
    ledger.add(1, 1_100.0, rows[2_000:], nothing[2_000:])
    exact = np.concatenate([1_200 - times[:2_000], 1_100 - times[2_000:]])
    for share in (0.05, 0.5, 0.95):
        assert ledger.latency(share) == pytest.approx(np.quantile(exact, share), rel=0.005)
    assert ledger.reached(0.5) == 1_100
    assert ledger.reached(1.0) == 1_200
    assert ledger.curve() == [(1_100.0, 0.6), (1_200.0, 1.0)]
