"""Where sessions end, what bridges them, and what makes them."""

import pyarrow as pa
import pytest

import streamjoin as sj
from joins.small_streams import CONDITIONS, SCHEMA
from joins.window_oracle import GROUPS
from streamjoin.predicates import parse_condition


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
    held = join._state.engine.join.held
    assert all(len(side.held.rows.pieces) <= 8 for side in held.values())
    join.finish()
    assert join.stats.matches == 5 * 30 * 30
