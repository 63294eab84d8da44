"""Batch mode: rows wait and are joined together, and the result is that of the pushes one by one.

Results that are left where they are (`StreamJoin.find`) are held to the same.
"""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.small_streams import CONDITIONS, check, conditions, pairs, steps_of, streams, table
from tests.oracle import join_by_count, join_by_time

random = settings(max_examples=40, suppress_health_check=list(HealthCheck))
batch_rows = st.sampled_from([1, 3, 10, 1000])


@pytest.fixture(autouse=True)
def tiny_subwindows():
    with use_limits(Limits(least_counted_rows=4, least_timed_rows=4)):
        yield


def joined(result):
    return pairs(result) if "id_right" in result.schema.names else Counter()


def go(data, join, steps, after=lambda join: None):
    """Push steps; now and then save, flush, or leave results where they are."""
    found = Counter()
    for left, right in steps:
        act = data.draw(st.sampled_from(["push", "push", "push", "save", "flush", "find", "count"]))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        if act == "flush":
            found += joined(join.flush())
        if act in ("find", "count"):
            results = join.find(table(left), table(right))
            after(join)
            count = results.count()
            rows = joined(results.to_table())
            assert rows.total() == count
            found += rows
        else:
            found += joined(join.push(table(left), table(right)))
            event("some rows wait" if join.stats.waiting else "no row waits")
            after(join)
        check(join)
    return found + joined(join.flush()), join


@random
@given(
    data=st.data(),
    name=conditions,
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
    rows=batch_rows,
)
def test_count_windows(data, name, sizes, order, rows):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[name]
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    join = sj.StreamJoin(text, window, order=order, threads=1, batch_rows=rows)
    steps = data.draw(steps_of(left, right))
    found, _ = go(data, join, steps)
    assert found == join_by_count(steps, predicate, *sizes, order)


@random
@given(data=st.data(), name=conditions, before=st.integers(0, 6), rows=batch_rows)
def test_time_windows_with_a_watermark(data, name, before, rows):
    left, right = data.draw(streams(most=25))
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(before=before, after=4)
    join = sj.StreamJoin(text, window, time="t", threads=1, batch_rows=rows)
    steps, kept, watermark = data.draw(steps_of(left, right)), ([], []), [-1]
    pushed = iter(steps)

    def move(join):
        for rows, side in zip(next(pushed), kept, strict=True):
            side += [row for row in rows if row["t"] is None or row["t"] >= watermark[0]]
        if data.draw(st.booleans()):
            moved = data.draw(st.integers(0, 30))
            join.advance(moved)
            watermark[0] = max(watermark[0], moved)

    found, _ = go(data, join, steps, move)
    assert found == join_by_time(*kept, predicate, before, 4)


@random
@given(data=st.data(), name=conditions, delay=st.integers(0, 10), rows=batch_rows)
def test_a_watermark_that_follows_the_data(data, name, delay, rows):
    left, right = data.draw(streams(most=25))
    text, _ = CONDITIONS[name]
    steps = data.draw(steps_of(left, right))
    one, other = (
        sj.StreamJoin(text, sj.TimeWindow(3), "t", delay=delay, threads=1, batch_rows=waiting)
        for waiting in (None, rows)
    )
    expected = sum((joined(one.push(*map(table, step))) for step in steps), Counter())
    found, other = go(data, other, steps)
    assert found == expected
    if other._state.engine is not None:
        assert (other.stats.late, other.stats.waiting) == (one.stats.late, 0)


@random
@given(data=st.data(), name=conditions, counted=st.booleans(), rows=batch_rows)
def test_self_joins(data, name, counted, rows):
    stream, _ = data.draw(streams(most=25))
    text, predicate = CONDITIONS[name]
    window = sj.CountWindow(5) if counted else sj.TimeWindow(3)
    join = sj.StreamJoin(text, window, None if counted else "t", threads=1, batch_rows=rows)
    found, steps, rest = Counter(), [], list(stream)
    while rest:
        size = data.draw(st.sampled_from([1, 3, 7, 40]))
        batch, rest = rest[:size], rest[size:]
        steps.append((batch, batch))
        pushed = table(batch)
        found += joined(join.push(left=pushed, right=pushed))
    found += joined(join.flush())
    if counted:
        assert found == join_by_count(steps, predicate, 5, 5)
    else:
        assert found == join_by_time(stream, stream, predicate, 3, 3)


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64())})


def test_rows_wait_until_there_are_enough():
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), batch_rows=4)
    assert join.push(left=numbers(1, 2), right=numbers(1)).num_rows == 0
    assert (join.stats.waiting, join.stats.live_left) == (3, 0)
    assert join.push(right=numbers(2)).num_rows == 2
    assert (join.stats.waiting, join.stats.live_left) == (0, 2)
    assert join.push(right=numbers(1)).num_rows == 0
    assert join.flush().num_rows == 1


def test_rows_wait_until_the_first_has_waited_long_enough():
    now = [0.0]
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), batch_time="5 seconds")
    join.push(left=numbers(), right=numbers())
    collector = join._state.engine.collector
    assert (collector.rows, collector.seconds) == (None, 5)
    collector.clock = lambda: now[0]
    assert join.push(left=numbers(1)).num_rows == 0
    now[0] = 4.0
    assert join.push(right=numbers(1)).num_rows == 0
    now[0] = 5.0
    assert join.push().num_rows == 1
    assert not collector.is_due


def test_without_limits_nothing_waits():
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10))
    join.push(left=numbers(1), right=numbers(3))
    assert join.push(right=numbers(1)).num_rows == 1
    assert join.flush().num_rows == 0


def test_results_are_good_until_the_join_is_used_again():
    join = sj.StreamJoin("l.x < r.x", sj.CountWindow(10))
    join.push(left=numbers(1, 2), right=numbers(0))
    results = join.find(right=numbers(2, 3))
    assert results.count() == 3
    assert results.to_table().num_rows == 3
    join.push(left=numbers(4))
    with pytest.raises(sj.StreamJoinError, match="these results are gone"):
        results.count()
    assert join.push(left=numbers(0)).num_rows == 2


def test_results_outlive_a_watermark_that_moves_past_their_rows():
    def rows(t, *values):
        return pa.table({"x": values, "t": [t] * len(values)})

    join = sj.StreamJoin("l.x = r.x", sj.TimeWindow(10), time="t", delay=0)
    join.push(rows(0, 1, 2, 3), rows(0, 9))
    results = join.find(rows(5, 4), rows(5, 3, 2, 1))
    join.advance(1000)
    assert results.count() == 3
    assert sorted(results.to_table()["x"].to_pylist()) == [1, 2, 3]
    assert join.flush().num_rows == 0
    assert (join.stats.live_left, join.stats.live_right) == (0, 0)


def test_rows_that_cannot_be_joined_are_dropped_and_the_join_goes_on():
    on = "l.x < r.x and 10 / (l.x + r.x) > 1"
    join = sj.StreamJoin(on, sj.CountWindow(10), batch_rows=4, threads=1)
    join.push(left=numbers(1), right=numbers(2))
    join.push(left=numbers(-3))
    with pytest.raises(sj.EvaluationError) as caught:
        join.push(right=numbers(3))
    assert "4 rows that waited are dropped" in caught.value.__notes__[-1]
    assert join.stats.waiting == 0
    join.push(left=numbers(1), right=numbers(2))
    assert join.flush().num_rows == 1


@pytest.mark.parametrize("rows", [0, -1, "many"])
def test_limits_are_checked(rows):
    with pytest.raises(sj.StreamJoinError, match="batch_rows"):
        sj.StreamJoin("l.x = r.x", sj.CountWindow(10), batch_rows=rows)
