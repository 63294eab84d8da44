"""Session windows: the oracle's pairs, when sessions close or as rows come, however they come."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from joins.closing_streams import go, joined
from joins.small_streams import CONDITIONS, SCHEMA, conditions, pairs, streams, table
from joins.test_tumbling import KNOBS, before_1970, equalities
from joins.window_oracle import GROUPS, Arrived, group_of, sessions
from streamjoin.advisor import LAZY

random = settings(max_examples=15, suppress_health_check=list(HealthCheck))
gaps = st.integers(1, 4)


def exactly(arrived, found, name, gap, until):
    expected = sessions(*arrived.sides, CONDITIONS[name][1], gap, group_of(name), until)
    assert found == expected


def closed_so_far(name, gap):
    """At any time, just the sessions are out that no row in time can join any more."""

    def check(found, arrived):
        until = -(10**9) if arrived.watermark is None else arrived.watermark
        exactly(arrived, found, name, gap, until)

    return check


def all_so_far(name, gap):
    """At any time, all pairs of the rows that have come."""
    return lambda found, arrived: exactly(arrived, found, name, gap, None)


@pytest.mark.parametrize("algorithm", ["auto", *LAZY, "bi_sort"])
@random
@given(data=st.data(), name=equalities, gap=gaps, threads=st.sampled_from([1, 2, 3]))
def test_equalities_when_sessions_close(algorithm, data, name, gap, threads):
    rows = before_1970(data.draw(streams(most=20)))
    tuning = data.draw(st.sampled_from([None, KNOBS.get(algorithm)]))
    window = sj.SessionWindow(gap)
    join = sj.StreamJoin(
        CONDITIONS[name][0], window, "t", algorithm, threads=threads, tuning=tuning
    )
    found, _ = go(data, join, rows, arrived := Arrived(), closed_so_far(name, gap))
    exactly(arrived, found, name, gap, None)
    event(f"late rows: {arrived.late > 0}")


@pytest.mark.parametrize("emit", ["close", "eager", "auto"])
@settings(random, max_examples=40)
@given(data=st.data(), name=conditions, gap=gaps)
def test_any_condition(emit, data, name, gap):
    rows = before_1970(data.draw(streams(most=20)))
    window = sj.SessionWindow(gap)
    join = sj.StreamJoin(CONDITIONS[name][0], window, time="t", threads=1, emit=emit)
    after = {"close": closed_so_far, "eager": all_so_far}.get(emit)
    found, _ = go(data, join, rows, arrived := Arrived(), *([after(name, gap)] if after else []))
    exactly(arrived, found, name, gap, None)


@random
@given(
    data=st.data(),
    name=conditions,
    emit=st.sampled_from(["close", "eager"]),
    rows=st.sampled_from([None, 1, 3, 10, 1000]),
    delay=st.sampled_from([None, 0, 3, 10]),
)
def test_batch_mode_and_a_watermark_that_follows_the_data(data, name, emit, rows, delay):
    streams_of_rows = before_1970(data.draw(streams(most=20)))
    join = sj.StreamJoin(
        CONDITIONS[name][0],
        sj.SessionWindow(2),
        time="t",
        threads=1,
        emit=emit,
        batch_rows=rows,
        delay=delay,
    )
    found, _ = go(data, join, streams_of_rows, arrived := Arrived(delay))
    exactly(arrived, found, name, 2, None)


@random
@given(rows=streams(most=20), name=conditions, gap=gaps, emit=st.sampled_from(["npj", "auto"]))
def test_tables(rows, name, gap, emit):
    left, right = before_1970(rows)
    expected = sessions(left, right, CONDITIONS[name][1], gap, group_of(name))
    options = {"on": CONDITIONS[name][0], "window": sj.SessionWindow(gap), "time": "t"}
    assert pairs(sj.join_tables(table(left), table(right), **options)) == expected
    results = sj.find_matches(table(left), table(right), **options, algorithm=emit)
    assert results.count() == expected.total()
    assert pairs(results.to_table()) == expected


@random
@given(data=st.data(), name=conditions, emit=st.sampled_from(["close", "eager"]))
def test_self_joins(data, name, emit):
    rows, _ = before_1970(data.draw(streams(most=20)))
    join = sj.StreamJoin(CONDITIONS[name][0], sj.SessionWindow(2), "t", threads=1, emit=emit)
    found, arrived, rest = Counter(), Arrived(), list(rows)
    while rest:
        size = data.draw(st.sampled_from([1, 3, 7, 40]))
        batch, rest = rest[:size], rest[size:]
        one = table(batch)
        found += joined(join.push(one, one))
        arrived.push(batch, batch)
    found += joined(join.finish())
    exactly(arrived, found, name, 2, None)


def test_the_oracle_knows_the_equalities_of_all_conditions():
    from streamjoin.predicates.recognition import parse_condition

    for name, (text, _) in CONDITIONS.items():
        assert len(parse_condition(text).equalities) == len(GROUPS.get(name, [])), name


def rows(*times, k=1, side=0):
    made = [{"id": 100 * side + at, "t": t, "k": k, "a": 0} for at, t in enumerate(times)]
    return pa.Table.from_pylist(made, SCHEMA)


@pytest.mark.parametrize("emit", ["close", "eager"])
def test_a_pause_of_exactly_the_gap_does_not_end_a_session(emit):
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(10), time="t", emit=emit)
    join.push(rows(0, 11), rows(21, 32))
    assert join.push().num_rows == 0
    total = join.stats.matches
    # 0 | 11 21 | 32
    total += join.advance(32).num_rows * (emit == "close")  # a row at 31 would have been in time
    assert (total, join.stats.matches, join.stats.subwindows) == (1, 1, 1)


@pytest.mark.parametrize(("watermark", "found"), [(20, 0), (21, 1)])
def test_a_session_is_open_while_a_row_in_time_can_reach_it(watermark, found):
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(10), time="t")
    join.push(rows(10), rows(10))
    assert join.advance(watermark).num_rows == found
    assert join.stats.live_left == 1 - found
    assert join.push(rows(watermark)).num_rows == 0
    assert join.finish().num_rows == 1 + (found == 0) - found


@pytest.mark.parametrize("emit", ["close", "eager"])
def test_a_row_that_comes_later_makes_two_sessions_one(emit):
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(10), time="t", emit=emit)
    first = join.push(rows(0), rows(20)).num_rows  # two sessions, of one side each
    assert (first, join.stats.subwindows) == (0, 2)
    join = sj.StreamJoin.restore(join.snapshot())
    bridged = join.push(rows(10)).num_rows
    assert join.stats.subwindows == 1
    assert (bridged, join.finish().num_rows) == ((0, 2) if emit == "close" else (2, 0))


@pytest.mark.parametrize("emit", ["close", "eager"])
@pytest.mark.parametrize("on", ["abs(l.a - r.a) <= 1", "l.a <= r.a", "l.a >= 0", "r.a + l.a = 0"])
def test_rows_that_cannot_match_are_in_sessions_all_the_same(on, emit):
    """Only the equalities make sessions (docs/conditions.md), whatever form the rest has."""
    bridge = rows(10).set_column(4, "a", pa.array([None], pa.int64()))
    join = sj.StreamJoin(f"l.k = r.k and {on}", sj.SessionWindow(10), time="t", emit=emit)
    total = join.push(rows(0), rows(20)).num_rows
    join = sj.StreamJoin.restore(join.snapshot())
    total += join.push(bridge).num_rows
    join = sj.StreamJoin.restore(join.snapshot())
    assert (join.stats.live_left, join.stats.subwindows) == (2, 1)
    assert total + join.advance(100).num_rows == 1
    assert join.stats.live_left == 0
    tables = pa.concat_tables([rows(0), bridge]), rows(20)
    assert sj.join_tables(*tables, f"l.k = r.k and {on}", sj.SessionWindow(10), "t").num_rows == 1


def test_without_an_equality_all_rows_make_sessions_together():
    join = sj.StreamJoin("l.a = r.a or l.k < r.k", sj.SessionWindow(10), "t", algorithm="scan")
    join.push(rows(0), rows(10, k=2))
    join.push(rows(20, k=3), rows(31))
    assert (join.stats.subwindows, join.finish().num_rows) == (2, 2)


@pytest.mark.parametrize("emit", ["close", "eager"])
def test_many_small_pushes_are_held_in_few_parts(emit):
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(10), time="t", emit=emit, threads=1)
    for time in range(150):
        join.push(rows(time, k=time % 5), rows(time, k=time % 5))
        join.advance(time - 20 if time < 75 else 0)
    assert all(len(parts) <= 8 for parts in join._engine.join.parts.values())
    join.finish()
    assert join.stats.matches == 5 * 30 * 30
