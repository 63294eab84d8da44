"""Bugs that Spark's own join of streams had, adapted: what it did wrong, and what is right.

The numbers are those of Apache Spark's issues.
"""

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.options.how import BY_NAME

ALGORITHMS = ["auto", "scan", "bi_sort", "pim_tree", "im_tree", "b_tree", "rap_table"]


def rows(*pairs):
    keys, times = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"k": pa.array(keys, pa.int64()), "t": pa.array(times, pa.int64())})


def shown(result):
    return sorted((tuple(row.values()) for row in result.to_pylist()), key=str)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("cores", [1, 2])
def test_a_row_that_has_matched_is_not_alone_when_its_partner_leaves_first(cores, algorithm):
    """SPARK-26154: the right row had been evicted when the left one was.

    Whether there had been a match was looked up in the state of the other side, and so a row that
    had matched came again with NULL.
    """
    join = sj.StreamJoin(
        "l.k = r.k", sj.TimeWindow(before="10 ms", after="2 ms"), "t", how="left",
        algorithm=algorithm, cores=cores,
    )  # fmt: skip
    assert shown(join.push(left=rows((1, 20), (2, 20)), right=rows((1, 11)))) == [(1, 20, 1, 11)]
    found = [join.advance(time).num_rows for time in (21, 22)]  # right 11 leaves: left rows stay
    assert found == [0, 0]
    assert shown(join.advance(23)) == [(2, 20, None, None)]
    assert shown(join.push(left=rows((3, 30)))) == shown(join.advance(24)) == []


@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_of_one_batch_see_each_other(how, algorithm):
    """SPARK-38684: a row put into the state, and matched in the same batch, came with NULL too."""
    join = sj.StreamJoin("l.k = r.k", "2 ms", "t", how=how, algorithm=algorithm, delay="0 ms")
    pushed = join.push(left=rows((1, 1), (5, 20)), right=rows((1, 2), (6, 20)))
    assert shown(pushed) == [(1, 1, 1, 2)]  # the watermark has passed both, by the same push
    assert shown(join.advance(20)) == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("emit", [None, "eager"])
def test_a_row_that_comes_and_goes_in_one_batch_is_given(algorithm, emit):
    """SPARK-49829: a row that was added and evicted in the same batch lost its unmatched output."""
    window = sj.TimeWindow("2 ms") if emit is None else sj.TumblingWindow("2 ms")
    options = {} if emit is None else {"emit": emit}
    join = sj.StreamJoin(
        "l.k = r.k", window, "t", how="full", algorithm=algorithm, delay="0 ms", **options
    )
    pushed = join.push(left=rows((1, 1), (2, 50)), right=rows((3, 2), (4, 50)))
    assert shown(pushed) == [(1, 1, None, None), (None, None, 3, 2)]
    assert shown(join.finish()) == [(2, 50, None, None), (None, None, 4, 50)]


JOINS = {
    "time": {"window": sj.TimeWindow("5 ms"), "time": "t"},
    "time pim_tree": {"window": sj.TimeWindow("5 ms"), "time": "t", "algorithm": "pim_tree"},
    "time cores": {"window": sj.TimeWindow("5 ms"), "time": "t", "cores": 2},
    "time batch mode": {"window": sj.TimeWindow("5 ms"), "time": "t", "batch_rows": 1000},
    "count": {"window": sj.CountWindow(4)},
    "tumbling": {"window": sj.TumblingWindow("5 ms"), "time": "t"},
    "tumbling eager": {"window": sj.TumblingWindow("5 ms"), "time": "t", "emit": "eager"},
    "session": {"window": sj.SessionWindow("5 ms"), "time": "t"},
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("waits", [False, True])
def test_memory_that_is_used_again_was_copied(name, waits):
    """SPARK-32148: unmatched rows were read from a buffer that held other rows by then."""
    times, keys = np.zeros(4, np.int64), np.zeros(4, np.int64)
    reused = pa.table({"k": keys, "t": times})  # these share the arrays' memory
    assert reused["k"].chunk(0).buffers()[1].address == keys.ctypes.data
    join = sj.StreamJoin("l.k = r.k", how="full", **JOINS[name])
    if not waits:  # for the other side's schema
        join.push(left=rows(), right=rows())
    given = []
    for number in range(3):
        keys[:], times[:] = np.arange(4) + 10 * number, number
        given += shown(join.push(left=reused))
        keys[:] = times[:] = -1
    keys[:], times[:] = 100 + np.arange(4), 3
    given += shown(join.push(right=reused))
    keys[:] = times[:] = -2
    given += shown(join.finish())
    lefts = {row[0] for row in given if row[0] is not None}
    rights = {row[2] for row in given if row[2] is not None}
    assert lefts == {10 * number + key for number in range(3) for key in range(4)}
    assert rights == {100, 101, 102, 103}
    assert len(given) == 16


@pytest.mark.parametrize("how", ["left", "right", "full"])
def test_one_watermark_serves_both_sides(how):
    """SPARK-58904: the bound of one side was computed from the watermark of the other.

    A window that is not symmetric tells: left rows are final before the right ones of that time.
    """
    window = sj.TimeWindow(before="10 ms", after="1 ms")
    join = sj.StreamJoin("l.k = r.k", window, "t", how=how)
    join.push(left=rows((1, 50)), right=rows((2, 50)))
    left, right = [(1, 50, None, None)], [(None, None, 2, 50)]
    assert shown(join.advance(51)) == []
    assert shown(join.advance(52)) == (left if how != "right" else [])
    assert shown(join.advance(60)) == []
    assert shown(join.advance(61)) == (right if how != "left" else [])
    assert shown(join.finish()) == []


@pytest.mark.parametrize("how", ["left", "right", "full"])
def test_a_side_that_is_ahead_does_not_make_rows_final(how):
    """SPARK-58904 too: a watermark follows the slower stream, whichever it is."""
    for slow in ("left", "right"):
        join = sj.StreamJoin("l.k = r.k", "2 ms", "t", how=how, delay="0 ms")
        fast = "right" if slow == "left" else "left"
        join.push(**{slow: rows((1, 0)), fast: rows((2, 0), (2, 1000))})
        assert shown(join.push(**{slow: rows((2, 1))})) == shown(
            sj.join_tables(rows((2, 1)), rows((2, 0)), "l.k = r.k")
            if slow == "left"
            else sj.join_tables(rows((2, 0)), rows((2, 1)), "l.k = r.k")
        )


@pytest.mark.parametrize("how", BY_NAME)
def test_an_empty_batch_with_a_watermark_releases_rows(how):
    """Rows are due by the watermark alone, without any row that comes."""
    join = sj.StreamJoin("l.k = r.k", "2 ms", "t", how=how)
    join.push(left=rows((1, 1)), right=rows((2, 1)))
    released = join.advance(100).num_rows
    assert released == len(BY_NAME[how].alone)
    assert join.push().num_rows == join.finish().num_rows == 0
