"""Tumbling and session windows: the oracle's pairs, when they close or as rows come."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.conditions import parse_condition
from streamjoin.indexes.catalogue import LAZY
from tests.joins.closing.streams import (
    KNOBS,
    WINDOWS,
    all_so_far,
    before_1970,
    closed_so_far,
    equalities,
    expected,
    go,
    joined,
)
from tests.joins.closing.window_oracle import Arrived
from tests.joins.small_streams import CONDITIONS, conditions, pairs, streams, table

random = settings(max_examples=15, suppress_health_check=list(HealthCheck))
both_windows = pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
emits = st.sampled_from(["close", "eager"])


@both_windows
@pytest.mark.parametrize("algorithm", ["auto", *LAZY, "bi_sort", "scan"])
@random
@given(data=st.data(), name=equalities, threads=st.sampled_from([1, 2, 3]))
def test_equalities_when_windows_close(windows, algorithm, data, name, threads):
    rows, window = before_1970(data.draw(streams(most=20))), data.draw(windows)
    tuning = data.draw(st.sampled_from([None, KNOBS.get(algorithm)]))
    on = CONDITIONS[name][0]
    join = sj.StreamJoin(on, window, "t", algorithm=algorithm, threads=threads, tuning=tuning)
    found, _ = go(data, join, rows, arrived := Arrived(), closed_so_far(name, window))
    assert found == expected(arrived.sides, name, window)
    event(f"late rows: {arrived.late > 0}")


@both_windows
@pytest.mark.parametrize("emit", ["close", "eager", "auto"])
@settings(random, max_examples=35)
@given(data=st.data(), name=conditions)
def test_any_condition(windows, emit, data, name):
    rows, window = before_1970(data.draw(streams(most=20))), data.draw(windows)
    join = sj.StreamJoin(CONDITIONS[name][0], window, time="t", threads=1, emit=emit)
    check = {"close": closed_so_far, "eager": all_so_far}.get(emit)
    after = [check(name, window)] if check else []
    found, _ = go(data, join, rows, arrived := Arrived(), *after)
    assert found == expected(arrived.sides, name, window)


@both_windows
@random
@given(
    data=st.data(),
    name=conditions,
    emit=emits,
    rows=st.sampled_from([None, 1, 3, 10, 1000]),
    delay=st.sampled_from([None, 0, 3, 10]),
)
def test_batch_mode_and_a_watermark_that_follows_the_data(windows, data, name, emit, rows, delay):
    streams_of_rows, window = before_1970(data.draw(streams(most=20))), data.draw(windows)
    on, options = CONDITIONS[name][0], {"threads": 1, "emit": emit, "batch_rows": rows}
    join = sj.StreamJoin(on, window, time="t", delay=delay, **options)
    found, _ = go(data, join, streams_of_rows, arrived := Arrived(delay))
    assert found == expected(arrived.sides, name, window)


@both_windows
@settings(random, max_examples=20)
@given(
    data=st.data(),
    rows=streams(most=20),
    name=conditions,
    algorithm=st.sampled_from(["auto", "npj", "mway"]),
)
def test_tables(windows, data, rows, name, algorithm):
    left, right = before_1970(rows)
    window = data.draw(windows)
    on = CONDITIONS[name][0]
    if not parse_condition(on).equalities:
        algorithm = "auto"  # the others join by equality
    options = {"on": on, "window": window, "time": "t", "algorithm": algorithm}
    wanted = expected((left, right), name, window)
    assert pairs(sj.join_tables(table(left), table(right), **options)) == wanted
    results = sj.find_matches(table(left), table(right), **options)
    assert results.count() == wanted.total()
    assert pairs(results.to_table()) == wanted


@both_windows
@random
@given(data=st.data(), name=conditions, emit=emits)
def test_self_joins(windows, data, name, emit):
    rows, _ = before_1970(data.draw(streams(most=20)))
    window = data.draw(windows)
    join = sj.StreamJoin(CONDITIONS[name][0], window, time="t", threads=1, emit=emit)
    found, arrived, rest = Counter(), Arrived(), list(rows)
    while rest:
        size = data.draw(st.sampled_from([1, 3, 7, 40]))
        batch, rest = rest[:size], rest[size:]
        one = table(batch)
        found += joined(join.push(one, one))
        arrived.push(batch, batch)
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot())
            watermark = data.draw(st.integers(-20, 20))
            found += joined(join.advance(watermark))
            arrived.advance(watermark)
    found += joined(join.finish())
    assert found == expected(arrived.sides, name, window)
