"""An interrupted call has happened entirely, and says what it found, or not at all."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.api.snapshot_file import read_parts
from streamjoin.api.snapshots import FORMAT
from streamjoin.indexes.runs import scan
from streamjoin.indexes.two_keys import marking, scanning
from streamjoin.indexes.two_keys.permutation import Permutation
from streamjoin.joins.engine import Engine
from streamjoin.kernels import interrupts
from streamjoin.kernels.interrupts import Hold, Stopped, checkpoint, commit, hold_signals, lend
from streamjoin.kernels.threads import share
from streamjoin.plans.limits import Limits, use_limits

EQUAL = {"on": "l.k = r.k", "time": "t", "delay": "5 ms"}
BAND = {"on": "abs(l.v - r.v) <= 3", "time": "t", "delay": "5 ms"}
JOINS = {
    "time": BAND | {"window": sj.TimeWindow(20), "threads": 1},
    "time, 2 threads": BAND | {"window": sj.TimeWindow(20), "threads": 2},
    "residual": BAND | {"on": "l.v < r.v and l.v * r.k < 9", "window": sj.TimeWindow(20)},
    "crossed": BAND
    | {"on": "l.v < r.v and l.k > r.k", "window": sj.TimeWindow(20), "algorithm": "spo_join"},
    "pim_tree": BAND | {"window": sj.TimeWindow(20), "algorithm": "pim_tree"},
    "count": {"on": "abs(l.v - r.v) <= 3", "window": sj.CountWindow(30)},
    "scan": {"on": "abs(l.v - r.v) <= 3", "window": sj.CountWindow(30), "algorithm": "scan"},
    "cores": BAND | {"window": sj.TimeWindow(20), "cores": 2},
    "cores, ordered": BAND | {"window": sj.TimeWindow(20), "cores": 2, "ordered": "inner"},
    "batch mode": BAND | {"window": sj.TimeWindow(20), "batch_rows": 50},
    "tumbling": EQUAL | {"window": sj.TumblingWindow(10)},
    "tumbling, batch mode": EQUAL | {"window": sj.TumblingWindow(10), "batch_rows": 50},
    "tumbling, residual": EQUAL
    | {"on": "l.k = r.k and l.v + r.v < 40", "window": sj.TumblingWindow(10)},
    "shj": EQUAL | {"window": sj.TumblingWindow(10), "algorithm": "shj_jm", "threads": 2},
    "pmj": EQUAL
    | {"window": sj.TumblingWindow(10), "algorithm": "pmj_jm", "tuning": {"delta": 16}},
    "session": EQUAL | {"window": sj.SessionWindow(3)},
    "session, eager": EQUAL | {"window": sj.SessionWindow(3), "emit": "eager"},
    "session, text": EQUAL | {"on": "l.s = r.s", "window": sj.SessionWindow(3)},
    "session, filter": EQUAL | {"on": "l.k = r.k and l.v < 30", "window": sj.SessionWindow(3)},
    "full": BAND | {"window": sj.TimeWindow(20), "how": "full", "late": "keep"},
    "full, pim_tree": BAND | {"window": sj.TimeWindow(20), "how": "full", "algorithm": "pim_tree"},
    "semi, count": {"on": "abs(l.v - r.v) <= 3", "window": sj.CountWindow(30), "how": "semi"},
    "full, cores": BAND | {"window": sj.TimeWindow(20), "how": "full", "cores": 2},
    "full, batch mode": BAND | {"window": sj.TimeWindow(20), "how": "full", "batch_rows": 50},
    "keep": BAND | {"window": sj.TimeWindow(20), "how": "full", "keep": "nearest", "k": 2},
    "keep, residual": BAND
    | {"on": "l.v < r.v and l.v * r.k < 9", "window": sj.TimeWindow(20), "keep": "first"},
    "keep, pim_tree": BAND
    | {"window": sj.TimeWindow(20), "keep": "last", "algorithm": "pim_tree", "threads": 2},
    "keep, count": {
        "on": "abs(l.v - r.v) <= 3",
        "window": sj.CountWindow(30),
        "keep": "nearest",
        "how": "left",
    },
    "keep, batch mode": BAND | {"window": sj.TimeWindow(20), "keep": "last", "batch_rows": 50},
    "keep, tumbling": EQUAL | {"window": sj.TumblingWindow(10), "keep": "first", "how": "full"},
    "keep, session": EQUAL | {"window": sj.SessionWindow(3), "keep": "nearest", "how": "left"},
    "full, tumbling": EQUAL | {"window": sj.TumblingWindow(10), "how": "full"},
    "full, shj": EQUAL | {"window": sj.TumblingWindow(10), "how": "full", "algorithm": "shj_jm"},
    "full, session": EQUAL | {"window": sj.SessionWindow(3), "how": "full"},
    "full, early": BAND
    | {"window": sj.TimeWindow(20), "how": "full", "unmatched": "early", "patience": "3 ms"},
    "full, tumbling, early": EQUAL
    | {"window": sj.TumblingWindow(10), "how": "full", "unmatched": "early", "patience": "3 ms"},
    "full, shj, early": EQUAL
    | {"window": sj.TumblingWindow(10), "how": "full", "unmatched": "early", "patience": "3 ms"}
    | {"algorithm": "shj_jm"},
    "full, session, early": EQUAL
    | {"window": sj.SessionWindow(3), "how": "full", "unmatched": "early", "patience": "3 ms"},
    "full, session, eager": EQUAL | {"window": sj.SessionWindow(3), "how": "full", "emit": "eager"},
}


def make_steps(count, seed):
    """Return batches whose times go on, some of them late, of one side or of both."""
    rng = np.random.default_rng(seed)

    def batch(step):
        keys = rng.integers(0, 8, 20)
        return pa.table(
            {
                "k": keys,
                "s": [f"key {key}" for key in keys],
                "v": rng.integers(0, 40, 20),
                "t": 9 * step + rng.integers(-8, 12, 20),
            }
        )

    return [(batch(step), batch(step) if step % 3 else None) for step in range(count)]


@contextmanager
def interrupted(at, times=1):
    """Send SIGINT at a checkpoint of the main thread, by its number; yield how many there are."""
    check, count = Hold.check, [0]

    def send(hold):
        count[0] += 1
        if count[0] == at:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        check(hold)

    with patch.object(Hold, "check", send):
        yield count


@contextmanager
def interrupted_in_hold(at):
    """Send SIGINT when a hold has begun, by its number: it may have no checkpoint at all."""
    take_over, count = Hold.take_over, [0]

    def send(hold):
        take_over(hold)
        count[0] += 1
        if count[0] == at:
            signal.raise_signal(signal.SIGINT)

    with patch.object(Hold, "take_over", send):
        yield


@contextmanager
def interrupted_after_commit():
    """Send SIGINT as soon as there is no way back."""
    committing = Engine._commit

    def send(engine):
        committing(engine)
        signal.raise_signal(signal.SIGINT)

    with patch.object(Engine, "_commit", send):
        yield


def state_of(join):
    """Return what a snapshot has; memory that was cut may be laid out otherwise."""
    header, parts = read_parts(join.snapshot(), FORMAT)
    return header, {name: pa.ipc.open_stream(part).read_all() for name, part in parts.items()}


def rows(table):
    return Counter(tuple(row.values()) for row in table.to_pylist())


def interrupt_everywhere(join, call):
    """Interrupt a call at each of its checkpoints in turn, then let it be; return what it gives."""
    before, at = state_of(join), 0
    while True:
        at += 1
        with interrupted(at, times=1 + at % 2) as count:
            try:
                return call(), at
            except KeyboardInterrupt as error:
                assert count[0] >= at
                if hasattr(error, "results"):  # it came after the commit
                    return error.results, at
        assert state_of(join) == before, f"checkpoint {at}"


@pytest.mark.parametrize("name", JOINS)
def test_a_push_that_is_interrupted_has_not_happened(name):
    join, twin = (sj.StreamJoin(**JOINS[name]) for _ in range(2))
    most, found = 0, 0
    for left, right in make_steps(9, seed=1):
        pushed, checkpoints = interrupt_everywhere(join, partial(join.push, left, right))
        expected = twin.push(left, right)
        assert rows(pushed) == rows(expected)
        assert state_of(join) == state_of(twin)
        most, found = max(most, checkpoints), found + pushed.num_rows
    assert most > 1
    for last in ("flush", "finish"):
        finished, _ = interrupt_everywhere(join, getattr(join, last))
        expected = getattr(twin, last)()
        assert rows(finished) == rows(expected)
        assert state_of(join) == state_of(twin)
        found += finished.num_rows
    assert found


@pytest.mark.parametrize("name", [name for name in JOINS if name != "cores"])
def test_a_push_that_cannot_go_back_gives_what_it_found(name):
    join, twin = (sj.StreamJoin(**JOINS[name]) for _ in range(2))
    late, steps = 0, make_steps(9, seed=2)
    for each in (join, twin):
        each.push(*steps[1])
    for left, right in steps[2:]:
        expected = twin.push(left, right)
        try:
            with interrupted_after_commit():
                found = join.push(left, right)
        except KeyboardInterrupt as error:
            found, late = error.results, late + 1
        assert rows(found) == rows(expected)
        assert state_of(join) == state_of(twin)
    assert late


@pytest.mark.parametrize("name", ["time", "count", "tumbling", "session", "shj", "batch mode"])
def test_find_and_its_results_can_be_interrupted(name):
    join, twin = (sj.StreamJoin(**JOINS[name]) for _ in range(2))
    steps = make_steps(8, seed=3)
    for each in (join, twin):
        each.push(*steps[1])
    for left, right in steps[2:]:
        before, at, found = state_of(join), 0, None
        while found is None:
            at += 1
            with interrupted(at), suppress(KeyboardInterrupt):
                found = join.find(left, right)
            if found is None:
                assert state_of(join) == before
        expected = twin.find(left, right)
        if expected.count():
            with interrupted(1), pytest.raises(KeyboardInterrupt):
                found.count()
        assert found.count() == expected.count()
        assert rows(found.to_table()) == rows(expected.to_table())


def test_an_interrupted_watermark_leaves_what_find_has_given():
    join = sj.StreamJoin(**{**BAND, "delay": None}, window=sj.TimeWindow(20))
    left, right = make_steps(2, seed=4)[1]
    join.push(left, right)
    found = join.find(left)
    count = found.count()
    with interrupted(1), pytest.raises(KeyboardInterrupt):
        join.advance(5)
    assert found.count() == count
    join.advance(5)
    assert found.count() == count


@pytest.mark.parametrize("name", ["keep", "keep, residual", "keep, pim_tree", "keep, tumbling"])
def test_an_interrupted_watermark_gives_left_rows_later(name):
    options = {**JOINS[name], "delay": None, "threads": 1}
    join, twin = sj.StreamJoin(**options), sj.StreamJoin(**options)
    for left, right in make_steps(7, seed=8):
        for each in (join, twin):
            each.push(left, right)
    for call in (lambda each: each.advance(40), lambda each: each.finish()):
        found, checkpoints = interrupt_everywhere(join, partial(call, join))
        assert checkpoints > 3
        assert rows(found) == rows(call(twin))
        assert found.num_rows
        assert state_of(join) == state_of(twin)


def test_an_interrupted_stream_can_be_gone_on_with():
    steps = make_steps(9, seed=5)
    for options in (JOINS["time"], JOINS["tumbling"], JOINS["count"]):
        join, twin = sj.StreamJoin(**options), sj.StreamJoin(**options)
        source, found = iter(steps), []
        with interrupted(9), pytest.raises(KeyboardInterrupt):
            found.extend(part.rows for part in join.stream(source))
        read = len(steps) - len(list(source))
        found += [part.rows for part in join.stream(steps[read - 1 :])]
        expected = [part.rows for part in twin.stream(steps)]
        assert sum(map(rows, found), Counter()) == sum(map(rows, expected), Counter())
        assert state_of(join) == state_of(twin)


@pytest.mark.parametrize("options", [JOINS["cores, ordered"], JOINS["pim_tree"]])
def test_an_interrupted_stream_through_threads_stores_what_was_read(options):
    steps = make_steps(9, seed=6)
    join, twin = sj.StreamJoin(**options), sj.StreamJoin(**options)
    with interrupted_in_hold(5), pytest.raises(KeyboardInterrupt):
        for _ in join.stream(steps):
            pass
    read = join.stats.rows_left // 20
    for left, right in steps[:read]:
        twin.push(left, right)
    assert (join.stats.rows_left, join.stats.rows_right) == (
        twin.stats.rows_left,
        twin.stats.rows_right,
    )
    for left, right in steps[read:]:
        assert rows(join.push(left, right)) == rows(twin.push(left, right))


def test_the_first_pushes_wait_on_if_their_replay_is_interrupted():
    join, twin = (sj.StreamJoin(**JOINS["time"]) for _ in range(2))
    (first, _), (second, third) = make_steps(2, seed=7)
    for each in (join, twin):
        each.push(left=first)
        each.push(left=second)
    found, checkpoints = interrupt_everywhere(join, lambda: join.push(right=third))
    assert checkpoints > 1
    assert rows(found) == rows(twin.push(right=third))
    assert state_of(join) == state_of(twin)


def test_batches_that_wait_in_batch_mode_are_not_lost():
    # Once: whoever interrupted the push that joined them lost all that had waited.
    join = sj.StreamJoin(on="l.v = r.v", window=sj.CountWindow(1000), batch_rows=30)
    left = pa.table({"v": range(20)})
    join.push(left, left.slice(0, 0))
    with interrupted(3), pytest.raises(KeyboardInterrupt):
        join.push(right=left)
    assert join.stats.rows_left == 20
    assert join.push(right=left).num_rows == 20


def test_no_memory_while_windows_close_loses_nothing():
    join = sj.StreamJoin(**JOINS["tumbling"])
    steps = make_steps(9, seed=1)
    for left, right in steps[:4]:
        join.push(left, right)
    before = state_of(join)
    with (
        patch("streamjoin.joins.tumbling.closed.join_equal", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        join.advance(60)
    assert state_of(join) == before
    assert join.advance(60).num_rows


class SignallingLock:
    """A lock after whose release a signal comes: the call has ended, and has not returned yet."""

    def __init__(self, lock):
        self.lock = lock

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()
        signal.raise_signal(signal.SIGINT)


def test_a_signal_between_the_end_of_a_call_and_its_return_carries_the_results():
    # Once: of a thousand signals sent at odd moments, two came without them.
    join = sj.StreamJoin(on="l.v = r.v", window="count 10")
    join.push(pa.table({"v": [1]}), pa.table({"v": [1]}))
    guard, lock = join._guard, join._guard.lock
    guard.lock = SignallingLock(lock)
    with pytest.raises(KeyboardInterrupt) as raised:
        join.push(left=pa.table({"v": [1]}))
    assert raised.value.results.num_rows == 1
    with pytest.raises(KeyboardInterrupt) as raised:  # not what the call before has found
        join.stats  # noqa: B018
    assert not hasattr(raised.value, "results")
    guard.lock = lock
    with pytest.raises(sj.SchemaError) as refused:
        join.push(left=pa.table({"w": [1]}))
    assert refused.value.results is None
    assert join.stats.rows_left == 2


@pytest.mark.parametrize("name", ["tumbling", "shj", "session"])
def test_the_end_of_a_stream_gives_what_it_has_closed(name):
    # Once: the windows were closed, and their matches gone.
    options = {key: value for key, value in JOINS[name].items() if key != "delay"}
    join, twin = sj.StreamJoin(**options), sj.StreamJoin(**options)
    steps = make_steps(4, seed=3)
    expected = [part.rows for part in twin.stream(steps)]
    found = []
    with interrupted_after_commit(), pytest.raises(KeyboardInterrupt) as raised:
        found.extend(part.rows for part in join.stream(steps))
    found.append(raised.value.results)
    assert rows(pa.concat_tables(found)) == rows(pa.concat_tables(expected))
    assert not join.finish().num_rows


# What a hold does.


def held_call(function):
    """Let a function hold signals."""

    def call():
        with hold_signals() as hold:
            return hold.give(function())

    return call


@contextmanager
def handler(function, number=signal.SIGINT):
    before = signal.signal(number, function)
    try:
        yield
    finally:
        assert signal.signal(number, before) is function


def test_a_handler_that_raises_nothing_is_called_and_the_call_goes_on():
    told = []
    join, twin = (sj.StreamJoin(**JOINS["time, 2 threads"]) for _ in range(2))
    with handler(lambda number, frame: told.append(number)):
        for at, (left, right) in enumerate(make_steps(6, seed=8)):
            with interrupted(at + 1):
                found = join.push(left, right)
            assert rows(found) == rows(twin.push(left, right))
    assert told == [signal.SIGINT] * 6


def test_any_exception_of_any_handler_is_raised():
    def leave(number, frame):
        raise SystemExit(number)

    @held_call
    def call():
        signal.raise_signal(signal.SIGTERM)
        checkpoint()
        raise AssertionError

    with handler(leave, signal.SIGTERM), pytest.raises(SystemExit):
        call()


def test_a_signal_waits_for_the_end_after_the_commit():
    @held_call
    def call():
        commit()
        signal.raise_signal(signal.SIGINT)
        checkpoint()
        return "what was found"

    with pytest.raises(KeyboardInterrupt) as raised:
        call()
    assert raised.value.results == "what was found"
    assert interrupts.current.holder is None


def test_a_second_signal_waits_until_the_first_has_been_dealt_with():
    undone = []

    @held_call
    def call():
        signal.raise_signal(signal.SIGINT)
        try:
            checkpoint()
        finally:
            signal.raise_signal(signal.SIGINT)
            checkpoint()
            undone.append(True)

    with pytest.raises(KeyboardInterrupt):
        call()
    assert undone


def test_signals_without_a_handler_in_python_are_left_alone():
    with handler(signal.SIG_IGN), hold_signals():
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_hold_inside_another_one_and_one_in_a_thread_do_nothing():
    seen = []
    with hold_signals():
        outer = interrupts.current.holder
        with hold_signals():
            assert interrupts.current.holder is outer
        assert interrupts.current.holder is outer

        def look():
            with hold_signals():
                seen.append(interrupts.current.holder)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_reader_that_waits_can_be_interrupted_at_once():
    def batches():
        yield from make_steps(1, seed=1)[0][0].to_batches()
        signal.raise_signal(signal.SIGINT)  # and then nothing for an hour
        raise AssertionError

    schema = make_steps(1, seed=1)[0][0].schema
    join = sj.StreamJoin(**JOINS["time"])
    with pytest.raises(KeyboardInterrupt):
        join.push(left=pa.RecordBatchReader.from_batches(schema, batches()))
    assert join.stats.rows_left == 0


def test_threads_that_help_stop_when_the_caller_is_interrupted():
    begun, other, stopped = threading.Event(), threading.Event(), []

    def work(number):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(60)
            signal.raise_signal(signal.SIGINT)
            checkpoint()
        begun.set()
        try:
            while True:
                checkpoint()
                other.wait(0.01)
        except Stopped:
            stopped.append(number)
            raise

    with pytest.raises(KeyboardInterrupt), hold_signals():
        share(work, [0, 1], threads=2)
    assert len(stopped) == 1


def test_threads_that_help_to_undo_do_not_stop():
    @held_call
    def call():
        signal.raise_signal(signal.SIGINT)
        try:
            checkpoint()
        finally:
            assert share(lambda number: number, [1, 2, 3], threads=2) == [1, 2, 3]
            assert lend() is None

    with pytest.raises(KeyboardInterrupt):
        call()


def test_who_waits_for_helpers_is_interrupted_too():
    going, is_over = threading.Event(), threading.Event()

    def work(number):
        if threading.current_thread() is threading.main_thread():
            assert going.wait(60)
            return
        going.set()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        while not is_over.wait(0.01):
            checkpoint()

    with pytest.raises(KeyboardInterrupt), hold_signals():
        share(work, [0, 1], threads=2)


# Kernels that work in slices: how many, not how long.


def checkpoints_of(function):
    with interrupted(-1) as count, hold_signals():
        result = function()
    return result, count[0]


def test_a_scan_that_finds_nothing_has_a_checkpoint_in_each_slice():
    index = scan.Scan.from_sorted(np.arange(100 * scan.TILE), np.zeros(100 * scan.TILE, np.int32))
    probes = np.full(5 * scan.SLICE // 100, -1)
    found, count = checkpoints_of(lambda: list(index.probe(probes, probes)))
    assert found == []
    assert 5 <= count <= 6


def make_crossing(probes, scans):
    """Return a crossing whose marks are all moved for every probe: ranges at both ends in turn."""
    size = 1 << 18
    first = np.arange(size)
    second = np.random.default_rng(1).permutation(size)
    order = np.argsort(second).astype(np.int32)
    index = Permutation.from_sorted(
        (first, np.arange(size, dtype=np.int32)), (second[order], order)
    )
    lower = np.where(np.arange(probes) % 2, 0, size // 2)
    found = index.probe(
        (np.zeros(probes, np.int64), np.full(probes, size // 2)),
        np.arange(probes, dtype=np.int32),
        (lower, lower + size // 2 - 1),
    )
    found.__dict__["scans"] = scans
    return found, second, size


@pytest.mark.parametrize("scans", [False, True])
def test_crossings_are_counted_and_listed_in_slices(scans):
    probes = 1024
    found, second, size = make_crossing(probes, scans)
    inside = second[: size // 2 + 1]
    halves = [np.count_nonzero(inside >= size // 2), np.count_nonzero(inside < size // 2)]
    lengths, count = checkpoints_of(lambda: found.lengths)
    assert lengths.tolist() == halves * (probes // 2)
    work = probes * size // 2 // 1024 if scans else probes * size
    slice_size = scanning.SLICE if scans else marking.SLICE
    assert count >= work // slice_size
    some, _, _ = make_crossing(6, scans)
    listed = sum(block[0].size for block in some.blocks(1 << 18))
    assert listed == sum(halves) * 3


def test_candidates_are_checked_in_slices():
    table = pa.table({"x": np.arange(2000.0), "y": np.ones(2000)})
    found = sj.find_matches(table, table, on="l.x < r.x and l.y * r.x < -1.0", threads=1)
    total, count = checkpoints_of(found.count)
    assert total == 0
    assert count >= 2000 * 1999 // 2 // (1 << 18)


def test_many_probes_are_cut():
    with use_limits(Limits(most_slice_rows=100)):
        left, right = pa.table({"x": range(1000)}), pa.table({"x": range(2000)})
        joined, count = checkpoints_of(
            lambda: sj.join_tables(left, right, on="abs(l.x - r.x) <= 1", threads=1)
        )
    assert joined.num_rows == 2999
    assert count >= 20


# Signals from outside, at any moment.

OUTSIDE = """
import random, signal, sys
import streamjoin as sj
from tests.api.test_interrupts import JOINS, make_steps, rows, state_of

steps, rng = make_steps(6, seed=9), random.Random(1)
signal.signal(signal.SIGALRM, signal.default_int_handler)
for name in ("time, 2 threads", "pim_tree", "cores", "shj", "tumbling", "session, eager"):
    interrupts = completed = 0
    for round in range(6):
        join, twin = sj.StreamJoin(**JOINS[name]), sj.StreamJoin(**JOINS[name])
        for step in steps:
            before, found = state_of(join), None
            expected = twin.push(*step)
            seconds = rng.choice([1e-4, 1e-3, 1e-2]) * rng.random() + 1e-6
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    found = join.push(*step)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt as error:
                interrupts += 1
                found = getattr(error, "results", None)
            if state_of(join) == before:
                found = join.push(*step)
            else:
                completed += 1
            assert state_of(join) == state_of(twin), "neither before nor after"
            assert found is None or rows(found) == rows(expected)  # None: lost behind the call
    print(interrupts, completed, name)
"""


def test_signals_at_any_moment_leave_before_or_after():
    paths = os.pathsep.join([*sys.path, os.path.dirname(__file__)])
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    counts = [line.split()[:2] for line in done.stdout.splitlines()]
    assert len(counts) == 6
    assert all(int(interrupts) for interrupts, _ in counts)
