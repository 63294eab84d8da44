"""What the fuzzer has found, made small."""

import pyarrow as pa

import streamjoin as sj


def test_a_row_that_only_prolongs_sessions_is_given_once():
    left = pa.table({"id": [0, 1], "x": [None, 5], "t": [0, 1]})
    right = pa.table({"x": [5], "t": [2]})
    given = {"on": "l.x <= r.x", "window": sj.SessionWindow(2), "time": "t", "how": "left_anti"}
    assert sj.join_tables(left, right, **given)["id"].to_pylist() == [0]
    join = sj.StreamJoin(**given)
    parts = [join.push(left, right), join.finish()]
    assert [row for part in parts for row in part["id"].to_pylist()] == [0]
