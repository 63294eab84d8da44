"""The contract of every join: the oracle's answer, however the input is cut, stored or saved.

Windows and subwindows are tiny here, so that chains, sealing, side indexes and expiry all happen
within a few rows; `test_small_streams_really_make_chains` makes sure of it.
"""

from collections import Counter
from dataclasses import replace
from operator import itemgetter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import ONE_KEY, TWO_KEYS, WHOLE_WINDOWS
from streamjoin.joins.sliding.whole_window import WholeWindowSubwindow
from streamjoin.plans.limits import use_limits
from tests.joins.small_streams import (
    CONDITIONS,
    SCHEMA,
    TINY,
    check,
    conditions,
    duckdb_pairs,
    fitting,
    pairs,
    push,
    run,
    steps_of,
    streams,
    table,
)
from tests.oracle import join_by_count, join_by_time


@pytest.fixture(autouse=True)
def tiny_subwindows():
    with use_limits(TINY):
        yield


every_join = pytest.mark.parametrize(
    ("algorithm", "threads"),
    [
        ("bi_sort", 2),
        *((name, 1 + number % 2) for number, name in enumerate((*ONE_KEY, *TWO_KEYS))),
    ],
)
random = settings(max_examples=16, suppress_health_check=list(HealthCheck))


# Time windows.


@every_join
@random
@given(data=st.data(), name=conditions, before=st.integers(0, 8), after=st.integers(0, 8))
def test_time_windows_give_the_oracles_pairs(algorithm, threads, data, name, before, after):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[fitting(name, algorithm, timed=True)]
    window = sj.TimeWindow(before=before, after=max(after, 1))
    join = sj.StreamJoin(text, window, time="t", algorithm=algorithm, threads=threads)
    steps = data.draw(steps_of(left, right))
    found, join = run(join, steps)
    assert found == join_by_time(left, right, predicate, before, max(after, 1))
    if join._state.engine is not None:
        held = join._state.engine.chains["left"].subwindows
        event(f"subwindows: {min(len(held), 5)}")
        event(f"late index: {any(each.late_index is not None for each in held)}")
        assert join.stats.null_times == sum(row["t"] is None for row in left + right)
        assert join.stats.matches == found.total()


@random
@given(streams=streams(), name=conditions, before=st.integers(0, 8))
def test_oracle_and_tables_agree_with_duckdb(streams, name, before):
    left, right = streams
    text, predicate = CONDITIONS[name]
    expected = duckdb_pairs(text, left, right, before, 3)
    assert join_by_time(left, right, predicate, before, 3) == expected
    window = sj.TimeWindow(before=before, after=3)
    result = sj.join_tables(table(left), table(right), on=text, window=window, time="t")
    assert pairs(result) == expected


@every_join
@random
@given(streams=streams(), name=conditions)
def test_tables_without_a_window_agree_with_duckdb(algorithm, threads, streams, name):
    left, right = streams
    text, predicate = CONDITIONS[fitting(name, algorithm)]
    result = sj.join_tables(
        table(left), table(right), on=text, algorithm=algorithm, threads=threads
    )
    expected = duckdb_pairs(text, left, right)
    assert pairs(result) == expected
    assert expected == Counter(
        (one["id"], other["id"]) for one in left for other in right if predicate(one, other)
    )


@every_join
@random
@given(data=st.data(), name=conditions, before=st.integers(0, 6))
def test_saving_between_any_two_pushes_changes_nothing(algorithm, threads, data, name, before):
    left, right = data.draw(streams(most=25))
    text, predicate = CONDITIONS[fitting(name, algorithm, timed=True)]
    window = sj.TimeWindow(before=before, after=4)
    join = sj.StreamJoin(text, window, time="t", algorithm=algorithm, threads=threads)
    steps = data.draw(steps_of(left, right))
    saves = data.draw(st.sets(st.integers(0, len(steps))))
    found, _ = run(join, steps, save_before=saves)
    assert found == join_by_time(left, right, predicate, before, 4)


@every_join
@random
@given(data=st.data(), name=conditions, before=st.integers(0, 6))
def test_watermarks_drop_exactly_the_late_rows(algorithm, threads, data, name, before):
    left, right = data.draw(streams(most=25))
    text, predicate = CONDITIONS[fitting(name, algorithm, timed=True)]
    join = sj.StreamJoin(
        text, sj.TimeWindow(before=before, after=4), time="t", algorithm=algorithm, threads=threads
    )
    found, watermark, late = Counter(), -1, 0
    kept = ([], [])
    for step in data.draw(steps_of(left, right)):
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot())
        found += push(join, *step)
        for rows, side in zip(step, kept, strict=True):
            on_time = [row for row in rows if row["t"] is None or row["t"] >= watermark]
            side += on_time
            late += len(rows) - len(on_time)
        if data.draw(st.booleans()):
            moved = data.draw(st.integers(0, 30))
            join.advance(moved)
            check(join)
            watermark = max(watermark, moved)
    assert found == join_by_time(*kept, predicate, before, 4)
    if join._state.engine is not None:
        assert join.stats.late == late


@random
@given(data=st.data(), delay=st.integers(0, 10), name=conditions)
def test_delay_follows_sparks_rule(data, delay, name):
    left, right = data.draw(streams(most=25))
    text, predicate = CONDITIONS[name]
    join = sj.StreamJoin(text, sj.TimeWindow(3), time="t", delay=delay, threads=1)
    found, newest, late, watermark = Counter(), [None, None], 0, -100
    kept = ([], [])
    for step in data.draw(steps_of(left, right)):
        found += push(join, *step)
        for place, rows in enumerate(step):
            on_time = [row for row in rows if row["t"] is None or row["t"] >= watermark]
            kept[place].extend(on_time)
            late += len(rows) - len(on_time)
            times = [row["t"] for row in rows if row["t"] is not None]
            times += [] if newest[place] is None else [newest[place]]
            newest[place] = max(times, default=None)
        if None not in newest:
            watermark = max(watermark, min(newest) - delay)
    assert found == join_by_time(*kept, predicate, 3, 3)
    if join._state.engine is not None:
        assert join.stats.late == late


# Count windows.


@every_join
@random
@given(
    data=st.data(),
    name=conditions,
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
)
def test_count_windows_give_the_oracles_pairs(algorithm, threads, data, name, sizes, order):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[fitting(name, algorithm)]
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    join = sj.StreamJoin(text, window, algorithm=algorithm, threads=threads, order=order)
    steps = data.draw(steps_of(left, right))
    saves = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    found, _ = run(join, steps, save_before=saves)
    assert found == join_by_count(steps, predicate, *sizes, order)


@random
@given(
    streams=streams(),
    name=conditions,
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
)
def test_count_windows_over_tables(streams, name, sizes, order):
    text, predicate = CONDITIONS[name]
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    result = sj.join_tables(*map(table, streams), on=text, window=window, order=order, threads=1)
    assert pairs(result) == join_by_count([tuple(streams)], predicate, *sizes, order)


# A stream with itself.


@every_join
@random
@given(data=st.data(), name=conditions, before=st.integers(0, 6), after=st.integers(1, 6))
def test_self_joins_in_a_time_window(algorithm, threads, data, name, before, after):
    rows, _ = data.draw(streams(most=30))
    text, predicate = CONDITIONS[fitting(name, algorithm, timed=True)]
    if data.draw(st.booleans()):
        before = after
    window = sj.TimeWindow(before=before, after=after)
    join = sj.StreamJoin(text, window, time="t", algorithm=algorithm, threads=threads)
    found, rest = Counter(), list(rows)
    while rest:
        size = data.draw(st.sampled_from([1, 3, 7, 40]))
        batch, rest = table(rest[:size]), rest[size:]
        found += pairs(join.push(left=batch, right=batch))
        check(join)
        if data.draw(st.integers(0, 3)) == 0:
            join = sj.StreamJoin.restore(join.snapshot())
    assert found == join_by_time(rows, rows, predicate, before, after)


@every_join
@random
@given(
    data=st.data(),
    name=conditions,
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    order=st.sampled_from([None, "o"]),
)
def test_self_joins_in_a_count_window(algorithm, threads, data, name, sizes, order):
    rows, _ = data.draw(streams(most=30))
    text, predicate = CONDITIONS[fitting(name, algorithm)]
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    join = sj.StreamJoin(text, window, algorithm=algorithm, threads=threads, order=order)
    found, rest, steps = Counter(), list(rows), []
    while rest:
        size = data.draw(st.sampled_from([1, 3, 7, 40]))
        steps.append((rest[:size], rest[:size]))
        batch, rest = table(rest[:size]), rest[size:]
        found += pairs(join.push(left=batch, right=batch))
        check(join)
    assert found == join_by_count(steps, predicate, *sizes, order)


# Directed.


def stream(size, first=0, step=1):
    return [
        {"id": first + place, "t": place * step, "k": place % 3, "s": "a", "a": place % 5,
         "b": place % 4, "x": place / 10, "o": place}
        for place in range(size)
    ]  # fmt: skip


@every_join
def test_small_streams_really_make_chains(algorithm, threads):
    join = sj.StreamJoin(
        "abs(l.a - r.a) <= 1", sj.TimeWindow(10), time="t", algorithm=algorithm, threads=threads
    )
    left, right = stream(60), stream(60, 1000)
    late = [left.pop(30), left.pop(20)]
    found = Counter()
    for first in range(0, 60, 10):
        found += push(join, left[first : first + 10], right[first : first + 10])
    found += push(join, late)
    chain = join._state.engine.chains["left"]
    is_whole = algorithm in WHOLE_WINDOWS
    if is_whole:
        assert [type(held) for held in chain] == [WholeWindowSubwindow]
    else:
        assert len(chain.subwindows) > 2
        assert any(held.late_index is not None for held in chain)
    _, predicate = CONDITIONS["band"]
    assert found == join_by_time(left + late, right, predicate, 10, 10)
    before = join.stats
    join.advance(40)
    check(join)
    after = join.stats
    if is_whole:
        assert after.live_left == 31  # those from time 30 on, and behind them a late one
    else:
        assert after.subwindows < before.subwindows
    assert after.bytes < before.bytes
    assert after.live_left < before.live_left
    join.advance(10_000)
    gone = join.stats
    assert (gone.live_left, gone.live_right, gone.subwindows, gone.bytes) == (0, 0, 0, 0)
    assert gone.commands["expire"] > after.commands["expire"]
    assert replace(gone, seconds={}, commands={}) == replace(
        after, live_left=0, live_right=0, subwindows=0, bytes=0, seconds={}, commands={}
    )


@every_join
def test_count_windows_hold_little_more_than_the_window(algorithm, threads):
    text, _ = CONDITIONS[fitting("inequality", algorithm)]
    join = sj.StreamJoin(text, sj.CountWindow(8), algorithm=algorithm, threads=threads)
    for first in range(0, 300, 3):
        rows = stream(3, first)
        push(join, rows, rows)
    assert join.stats.live_left <= 8 + 4 + 3
    assert join.stats.subwindows <= 10


def test_memory_of_a_following_watermark_is_bounded():
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), time="t", delay=2, threads=1)
    sizes = []
    for first in range(0, 400, 10):
        rows = [{**row, "t": row["t"] + first} for row in stream(10)]
        push(join, rows, rows)
        sizes.append(join.stats.bytes)
    assert max(sizes[5:]) <= 2 * sizes[5]


def test_one_time_far_ahead_does_not_stop_expiry():
    # Once: the next subwindow starts at the outlier, so all that follows is late, goes into the
    # side index of the subwindow that holds the outlier, and is kept for ever.
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), time="t", threads=1)
    live = []
    for first in range(0, 400, 10):
        rows = [{**row, "t": row["t"] + first} for row in stream(10)]
        if first == 20:
            rows[3]["t"] = 10**9
        push(join, rows, rows)
        join.advance(first)
        live.append(join.stats.live_left)
    assert max(live) <= 100


def test_late_rows_in_the_batch_that_begins_a_subwindow():
    # Once: they go into the new subwindow, whose newest time may then lie before its start, and
    # the next start before this one; starts must ascend, since late rows are placed by them.
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), time="t", threads=1)
    empty = table([])
    for times in ([0, 10, 20, 31], [1, 8, 15, 20], [40]):
        rows = [{**row, "t": time} for row, time in zip(stream(4), times, strict=False)]
        join.push(table(rows), empty)
        check(join)


@pytest.mark.parametrize("wide", [1.1, 2.0**50 + 1, 1e300], ids=repr)
def test_rounded_composite_ranges_find_a_pair_once(wide):
    # Once: two ranges of one part met in one rounded key, and the pair came out twice.
    near = float(pa.scalar(wide).as_py()) * (1 + 2**-52)
    left, right = pa.table({"k": [1], "x": [wide]}), pa.table({"k": [1], "x": [near]})
    assert sj.join_tables(left, right, on="l.k = r.k and l.x <> r.x").num_rows == 1


def test_not_equal_timestamps_of_one_key_match_once():
    # Once, as above.
    def at(microseconds):
        times = pa.array([1_700_000_000_000_000 + microseconds], pa.timestamp("us"))
        return pa.table({"k": [1], "t": times})

    assert sj.join_tables(at(1), at(5), on="l.k = r.k and l.t <> r.t").num_rows == 1
    one, other = (pa.table({"k": [1], "x": [2**50 + add]}) for add in (1, 6))
    on = "l.k = r.k and (abs(l.x - r.x) <= 1 or r.x - l.x between 4 and 6)"
    assert sj.join_tables(one, other, on=on).num_rows == 1


def test_a_push_of_nothing_in_a_self_join():
    # Once: an AssertionError.
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(5))
    batch = table(stream(3))
    join.push(batch, batch)
    assert join.push().num_rows == 0


def test_self_join_with_two_order_columns():
    # Once: one chain cannot hold two orders, and rows were matched by others' keys.
    rows = [{**row, "o": -row["id"]} for row in stream(12)]
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(3), order=("id", "o"), threads=1)
    other = sj.StreamJoin("l.k = r.k", sj.CountWindow(3), order=("id", "o"), threads=1)
    same, apart = Counter(), Counter()
    for first in range(0, 12, 4):
        batch, copy = table(rows[first : first + 4]), table(rows[first : first + 4])
        same += pairs(join.push(batch, batch))
        apart += pairs(other.push(batch, copy))
    assert same == apart


def test_results_come_in_the_columns_of_both_sides():
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(5))
    result = join.push(table(stream(1)), table(stream(1)))
    names = SCHEMA.names
    assert result.schema.names == [*names, *(f"{name}_right" for name in names)]
    assert sorted(result.to_pylist(), key=itemgetter("id"))[0]["s_right"] == "a"


@pytest.mark.parametrize("window", [sj.CountWindow(2**62), sj.TimeWindow("200000 days")], ids=str)
def test_a_window_larger_than_memory_takes_little(window):
    time = "t" if isinstance(window, sj.TimeWindow) else None
    join = sj.StreamJoin("l.k = r.k", window, time=time)
    rows = table(stream(10))
    assert (
        join.push(rows, rows.slice(0)).num_rows == sj.join_tables(rows, rows, "l.k = r.k").num_rows
    )
    assert join.stats.bytes < 1_000_000
