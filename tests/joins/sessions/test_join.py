"""Where sessions end, what bridges them, and what makes them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.conditions import parse_condition
from streamjoin.joins.sessions import open_sessions
from streamjoin.joins.sessions.join import SessionJoin
from streamjoin.joins.sessions.rows import SessionRows
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.closing.streams import before_1970, expected, go
from tests.joins.closing.window_oracle import GROUPS, Arrived
from tests.joins.small_streams import CONDITIONS, SCHEMA, conditions, streams


def test_the_oracle_knows_the_equalities_of_all_conditions():
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
    """Only the equalities make sessions (docs/guide/windows.md), whatever form the rest has."""
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
    held = join._state.engine.executor.held
    assert all(len(side.held.rows.pieces) <= 8 for side in held.values())
    join.finish()
    assert join.stats.matches == 5 * 30 * 30


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(), name=conditions, emit=st.sampled_from(["close", "eager"]), gap=st.integers(1, 4)
)
def test_after_every_step_rows_are_in_the_sessions_that_cutting_anew_gives(data, name, emit, gap):
    """Ids of sessions and rows are given anew as soon as most are gone."""
    expire = SessionJoin.expire

    def checked(join, clock):
        join.check()
        expire(join, clock)
        join.check()

    rows, window = before_1970(data.draw(streams(most=20))), sj.SessionWindow(gap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionJoin, "expire", checked)
        with use_limits(Limits(most_gone=0)):
            join = sj.StreamJoin(CONDITIONS[name][0], window, time="t", threads=1, emit=emit)
        found, _ = go(data, join, rows, arrived := Arrived())
    assert found == expected(arrived.sides, name, window)


def many(times, keys):
    count = len(times)
    columns = {name: np.zeros(count, np.int64) for name in ("id", "a")}
    return pa.table({**columns, "t": times, "k": keys})


@pytest.mark.parametrize("emit", ["close", "eager"])
def test_a_push_looks_at_its_rows_and_at_those_of_their_sessions_only(emit, monkeypatch):
    """And a watermark at those of sessions that end: whatever else is held."""
    looked = {"cut": 0, "followed": 0, "taken": 0}
    cut, of, take = open_sessions.session_starts, SessionRows.of, SessionRows.take

    def counted_cut(groups, times, gap):
        looked["cut"] += groups.size
        return cut(groups, times, gap)

    def counted_of(held, sessions):
        rows = of(held, sessions)
        looked["followed"] += rows[0].size
        return rows

    def counted_take(held, rows):
        looked["taken"] += rows.size
        return take(held, rows)

    monkeypatch.setattr(open_sessions, "session_starts", counted_cut)
    monkeypatch.setattr(SessionRows, "of", counted_of)
    monkeypatch.setattr(SessionRows, "take", counted_take)
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(10), time="t", emit=emit, threads=1)
    rows = many(np.arange(10_000), np.arange(10_000))
    join.push(rows, many(np.arange(10_000), np.arange(10_000)))
    looked.update(dict.fromkeys(looked, 0))
    few = many(np.arange(9_000, 9_010), np.arange(9_000, 9_010))
    assert join.push(left=few).num_rows == (10 if emit == "eager" else 0)
    touched = 10 if emit == "eager" else 0
    assert looked == {"cut": 10, "followed": touched, "taken": touched}
    assert join.stats.subwindows == 10_000
    join.advance(110)  # 100 sessions have ended
    assert looked["cut"] == 10
    assert looked["followed"] == touched + 2 * 100
    assert looked["taken"] == touched + (2 * 100 if emit == "close" else 0)
    assert (join.stats.live_left, join.stats.live_right) == (9_910, 9_900)


@pytest.mark.parametrize("emit", ["close", "eager"])
def test_memory_falls_when_sessions_end(emit):
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(10), time="t", emit=emit, threads=1)
    rows = many(np.arange(20_000), np.arange(20_000))
    join.push(rows, many(np.arange(20_000), np.arange(20_000)))
    most = join.stats.bytes
    join.advance(19_000)
    assert join.stats.live_left == 1_010
    assert join.stats.bytes < most / 10
    join.finish()
    assert join.stats.bytes == 0
