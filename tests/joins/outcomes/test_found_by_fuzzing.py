"""What the fuzzer has found, made small."""

import pyarrow as pa
import pytest

import streamjoin as sj


def test_a_row_that_only_prolongs_sessions_is_given_once():
    left = pa.table({"id": [0, 1], "x": [None, 5], "t": [0, 1]})
    right = pa.table({"x": [5], "t": [2]})
    given = {"on": "l.x <= r.x", "window": sj.SessionWindow(2), "time": "t", "how": "left_anti"}
    assert sj.join_tables(left, right, **given)["id"].to_pylist() == [0]
    join = sj.StreamJoin(**given)
    parts = [join.push(left, right), join.finish()]
    assert [row for part in parts for row in part["id"].to_pylist()] == [0]


@pytest.mark.parametrize("option", [{"indicator": True}, {"late": "keep"}])
def test_a_stream_that_meets_itself_gives_each_pair_both_ways(option):
    rows = pa.table({"id": [3, 6], "x": [1, -1], "t": [0, 1]})
    join = sj.StreamJoin(on="l.x <> r.x", window="10 ms", time="t", **option)
    parts = [join.push(each, each) for each in (rows.slice(0, 1), rows.slice(1))]
    found = {(row["id"], row["id_right"]) for part in parts for row in part.to_pylist()}
    assert found == {(3, 6), (6, 3)}
    assert join.stats.matches == 2


@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_rows_are_not_lost_because_the_other_stream_never_came(how):
    rows = pa.table({"x": [1], "t": [0]})
    join = sj.StreamJoin(on="l.x = r.x", window="10 ms", time="t", how=how)
    assert join.push(left=rows).num_rows == 0
    with pytest.raises(sj.StreamJoinError, match=r"rows of left \(1\) cannot.*push\(right="):
        join.finish()
    join.push(right=rows.slice(0, 0))
    assert join.finish()["x"].to_pylist() == [1]
    stream = sj.StreamJoin(on="l.x = r.x", window="10 ms", time="t", how=how)
    with pytest.raises(sj.StreamJoinError, match=r"rows of left \(1\) cannot"):
        list(stream.stream([(rows, None)]))


def test_rows_that_give_nothing_may_wait_for_ever():
    rows = pa.table({"x": [1], "t": [0]})
    join = sj.StreamJoin(on="l.x = r.x", window="10 ms", time="t", how="right")
    join.push(left=rows)
    assert join.finish().num_rows == 0
