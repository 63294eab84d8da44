"""`StreamJoin.stream` over PIM-Trees: what pushes give, in the order of arrival."""

import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.shared import fetching
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.small_streams import CONDITIONS, check, conditions, steps_of, streams, table
from tests.joins.split.running import as_source, push, sequence
from tests.oracle import Arrivals, join_by_count, join_by_time

random = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
algorithms = st.sampled_from(["pim_tree", "pim_tree", "im_tree"])


@pytest.fixture(autouse=True)
def tiny_pieces():
    with use_limits(Limits(least_expired_rows=4, small_piece_rows=4)):
        yield


def numbers(values, times=None):
    held = {"x": pa.array(values, pa.int64()), "id": pa.array(np.arange(len(values)))}
    return pa.table(held if times is None else {**held, "t": pa.array(times, pa.int64())})


@random
@given(
    data=st.data(),
    name=conditions,
    size=st.one_of(st.none(), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
    rows=st.sampled_from([None, None, 3, 10, 1000]),
    threads=st.integers(1, 3),
    task=st.sampled_from([1, 2, 32]),
    algorithm=algorithms,
)
def test_a_stream_gives_what_pushes_give(data, name, size, order, rows, threads, task, algorithm):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[name]
    order = None if size is None else order
    window = sj.TimeWindow(before=2, after=4) if size is None else sj.CountWindow(size)
    join = sj.StreamJoin(
        text,
        window,
        None if size else "t",
        order=order,
        batch_rows=rows,
        threads=threads,
        algorithm=algorithm,
    )
    steps, begun = data.draw(steps_of(left, right)), data.draw(st.integers(0, 3))
    join.push(table([]), table([]))  # from now on both schemas are known
    found = [pair for step in steps[:begun] for pair in push(join, step)]
    ahead = len(found)
    for piece in join.stream(as_source(steps[begun:]), task_rows=task):
        found += sequence(piece.rows)
    check(join)
    found += sequence(join.flush())
    if size is None:
        assert Counter(found) == join_by_time(left, right, predicate, 2, 4)
    else:
        assert Counter(found) == join_by_count(steps, predicate, size, size, order)
    if rows is None and not join._state.engine.plan.residuals:
        finders = [Arrivals(steps, order).finder(pair) for pair in found[ahead:]]
        assert finders == sorted(finders)
    assert (join.stats.matches, join.stats.waiting) == (len(found), 0)


@random
@given(data=st.data(), name=conditions, delay=st.integers(0, 10), algorithm=algorithms)
def test_a_watermark_follows_a_stream(data, name, delay, algorithm):
    steps = data.draw(steps_of(*data.draw(streams(most=25))))
    text, _ = CONDITIONS[name]
    options = {"time": "t", "delay": delay, "threads": 2}
    alone = sj.StreamJoin(text, sj.TimeWindow(3), **options)
    shared = sj.StreamJoin(text, sj.TimeWindow(3), algorithm=algorithm, **options)
    expected = [pair for step in steps for pair in push(alone, step)]
    found = [pair for each in shared.stream(as_source(steps)) for pair in sequence(each.rows)]
    assert Counter(found) == Counter(expected)
    if shared._state.engine is not None:
        assert shared.stats.late == alone.stats.late


def random_steps(count, rows, span=50):
    rng = np.random.default_rng(count)
    return [
        (numbers(rng.integers(0, span, rows)), numbers(rng.integers(0, span, rows)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("on", ["abs(l.x - r.x) <= 1", "l.x = r.x", "l.x <= r.x"])
@pytest.mark.parametrize(
    "window", [sj.CountWindow(200), sj.TimeWindow(30), sj.TimeWindow(before=30, after=5)]
)
def test_a_self_join_stores_rows_once(on, window):
    rng = np.random.default_rng(5)
    tables = [
        numbers(rng.integers(0, 50, 40), np.arange(40) // 2 + 20 * i + rng.integers(0, 4, 40))
        for i in range(15)
    ]
    options = {} if isinstance(window, sj.CountWindow) else {"time": "t", "delay": 5}
    pushed = sj.StreamJoin(on, window, **options)
    join = sj.StreamJoin(on, window, algorithm="pim_tree", **options)
    expected, found = Counter(), Counter()
    for each in tables:
        expected.update(map(str, pushed.push(each, each).to_pylist()))
    for piece in join.stream((each, each) for each in tables):
        found.update(map(str, piece.rows.to_pylist()))
    assert found == expected
    assert join._state.engine.is_self_join
    check(join)


def test_pushes_finds_and_snapshots_go_on_after_a_stream():
    steps = random_steps(12, 60)
    plain = sj.StreamJoin("l.x = r.x", sj.CountWindow(150))
    counts = [plain.push(*step).num_rows for step in steps]
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(150), algorithm="pim_tree")
    assert sum(piece.rows.num_rows for piece in join.stream(steps[:6])) == sum(counts[:6])
    assert join.push(*steps[6]).num_rows == counts[6]
    assert join.find(*steps[7]).count() == counts[7]
    join = sj.StreamJoin.restore(join.snapshot())
    assert sum(piece.rows.num_rows for piece in join.stream(steps[8:])) == sum(counts[8:])
    check(join)


@pytest.mark.parametrize("watermark", [10**30, 2**63, 2**63 - 1, -(2**63), -(10**30)])
@pytest.mark.parametrize("algorithm", ["pim_tree", "im_tree"])
def test_a_watermark_beyond_all_times(watermark, algorithm):
    # Once: OverflowError, in the middle of a stream.
    window = sj.TimeWindow(before=30)
    join = sj.StreamJoin("l.x = r.x", window, "t", algorithm=algorithm)
    one = numbers([1], [5])
    join.push(one, one.slice(0))
    join.advance(watermark)
    found = sum(piece.rows.num_rows for piece in join.stream([(one, one.slice(0))]))
    assert (found, join.stats.live_left) == ((0, 0) if watermark > 0 else (3, 2))


def test_threads_join_and_leave_while_a_stream_runs():
    steps = random_steps(30, 80)
    expected = sj.StreamJoin("l.x = r.x", sj.CountWindow(300))
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(300), algorithm="pim_tree", threads=1)
    seen = 0
    for number, piece in enumerate(join.stream(steps, task_rows=4)):
        join.threads = number % 3 + 1
        seen += piece.rows.num_rows
    assert seen == sum(expected.push(*step).num_rows for step in steps)
    with pytest.raises(sj.StreamJoinError, match="threads=0: give the number of threads, from 1"):
        join.threads = 0


def test_who_stops_reading_loses_matches_but_no_rows():
    steps = random_steps(20, 50)
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10_000), algorithm="pim_tree", threads=2)
    results = join.stream(steps)
    next(results)
    next(results)
    with pytest.raises(sj.StreamJoinError, match="is reading a source"):
        join.push(*steps[0])
    results.close()
    check(join)
    stats = join.stats
    assert stats.live_left == stats.rows_left >= 100
    assert join.push(left=numbers([7])).num_rows > 0


def test_a_slow_reader_slows_the_source_down():
    read = 0

    def source():
        nonlocal read
        for step in random_steps(100, 2000, 10**6):
            read += 1
            yield step

    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(1000), algorithm="pim_tree", threads=2)
    results = join.stream(source())
    for _ in range(3):
        next(results)
    time.sleep(0.2)
    assert read < 100
    for _ in results:
        pass
    assert read == 100


def test_a_source_that_fails_gives_what_it_gave_before():
    def source():
        yield from random_steps(5, 50)
        raise OSError("the source is gone")

    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(1000), algorithm="pim_tree")
    found: list[int] = []
    results = (piece.rows.num_rows for piece in join.stream(source()))
    with pytest.raises(OSError, match="the source is gone"):
        found.extend(results)
    plain = sj.StreamJoin("l.x = r.x", sj.CountWindow(1000))
    assert sum(found) == sum(plain.push(*step).num_rows for step in random_steps(5, 50))
    check(join)


def test_after_a_failure_the_windows_are_whole_again(monkeypatch):
    steps = random_steps(10, 50)
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10_000), algorithm="pim_tree", threads=2)
    join.push(*steps[0])

    def fails(*arguments):
        raise MemoryError("no room for results")

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "arrange", fails)
        with pytest.raises(MemoryError, match="no room for results"):
            list(join.stream(steps[1:]))
    check(join)
    assert join.stats.live_left == join.stats.rows_left
    assert join.push(left=numbers([7])).num_rows > 0


def test_a_time_far_ahead_does_not_stop_expiry():
    rng = np.random.default_rng(9)
    steps = []
    for i in range(60):
        times = np.arange(20) + 20 * i
        if i == 3:
            times[0] = 10**6
        steps.append(
            (numbers(rng.integers(0, 9, 20), times), numbers(rng.integers(0, 9, 20), times))
        )
    options = {"time": "t", "delay": 0}
    join = sj.StreamJoin("l.x = r.x", sj.TimeWindow(20), algorithm="pim_tree", **options)
    found = sum(piece.rows.num_rows for piece in join.stream(steps))
    plain = sj.StreamJoin("l.x = r.x", sj.TimeWindow(20), **options)
    assert found == sum(plain.push(*step).num_rows for step in steps)
    check(join)


def test_a_task_has_rows():
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), algorithm="pim_tree")
    with pytest.raises(sj.StreamJoinError, match="task_rows=0: give a number of rows from 1"):
        list(join.stream([], task_rows=0))
