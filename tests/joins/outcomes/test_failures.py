"""A step that fails has not happened: no row is settled by it, or given twice, or lost."""

from collections import Counter
from unittest.mock import patch

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.outcomes import outcome
from streamjoin.options.how import BY_NAME
from streamjoin.plans.limits import Limits, use_limits

FAILING = "l.k = r.k and 10 / (l.v - r.v) > 0"
SLIDING = {
    "time": {"window": sj.TimeWindow("10 ms"), "time": "t"},
    "time, 2 threads": {"window": sj.TimeWindow("10 ms"), "time": "t", "threads": 2},
    "pim_tree": {"window": sj.TimeWindow("10 ms"), "time": "t", "algorithm": "pim_tree"},
    "cores": {"window": sj.TimeWindow("10 ms"), "time": "t", "cores": 2},
    "count": {"window": sj.CountWindow(20)},
    "shj": {"window": sj.TumblingWindow("10 ms"), "time": "t", "algorithm": "shj_jm"},
    "tumbling index": {
        "window": sj.TumblingWindow("10 ms"), "time": "t", "algorithm": "bi_sort", "emit": "eager",
    },
    "session": {"window": sj.SessionWindow("10 ms"), "time": "t", "emit": "eager"},
}  # fmt: skip


def rows(*values):
    """Rows as (id, key, value, time)."""
    names = zip("ikvt", zip(*values, strict=True) if values else [()] * 4, strict=True)
    return pa.table({name: pa.array(list(each), pa.int64()) for name, each in names})


def ids(result):
    """The ids of rows, as pairs or alone."""
    columns = [result[name].to_pylist() for name in ("i", "i_right") if name in result.column_names]
    return Counter(zip(*columns, strict=True))


@pytest.mark.parametrize("name", SLIDING)
@pytest.mark.parametrize("how", BY_NAME)
@pytest.mark.parametrize("early", [False, True])
def test_a_push_that_fails_settles_nothing(name, how, early):
    options = dict(SLIDING[name])
    if early and (not BY_NAME[how].alone or name == "count"):
        pytest.skip("there is nothing to give early")
    if early:
        options |= {"unmatched": "early", "patience": "0 ms"}
    with use_limits(Limits(block_pairs=2, slice_rows=1)):  # some matches come before it fails
        join, twin = (sj.StreamJoin(FAILING, how=how, **options) for _ in range(2))
    first = {"left": rows((1, 1, 5, 1), (2, 2, 1, 2), (3, 3, 9, 3)), "right": rows((10, 2, 9, 2))}
    failing = rows((11, 1, 1, 4), (12, 3, 3, 4), (13, 2, 0, 4), (14, 1, 5, 4))
    going_on = rows((15, 1, 1, 5))
    given, expected = ids(join.push(**first)), ids(twin.push(**first))
    for _ in range(2):
        with pytest.raises(sj.StreamJoinError):
            join.push(right=failing)
        assert join.stats.rows_right == 1
    for each, found in ((join, given), (twin, expected)):
        found.update(ids(each.push(right=going_on)))
        found.update(ids(each.finish()))
    assert given == expected
    if how == "full":  # rows 2 and 3, and the right one, have no match; row 1 has got one
        assert (1, None) not in given or early


@pytest.mark.parametrize("emit", ["close", "eager"])
@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_rows_of_a_window_that_fails_are_dropped_with_it(how, emit):
    """It is not known whether they match, so they are not given as if they did not."""
    options = {"algorithm": "pmj_jm", "tuning": {"delta": 90}} if emit == "eager" else {}
    join = sj.StreamJoin(FAILING, sj.TumblingWindow("10 ms"), "t", how=how, **options)
    left = rows((1, 1, 5, 1), (2, 2, 5, 2), (3, 1, 5, 11), (4, 2, 5, 21))
    join.push(left=left, right=rows((10, 1, 5, 3), (11, 1, 1, 12), (12, 3, 3, 22)))
    with pytest.raises(sj.StreamJoinError) as error:
        join.finish()
    given = ids(error.value.results)
    assert not [row for row in given if row[0] in (1, 2)]
    expected = {
        "left": {(3, 11): 1, (4, None): 1},
        "full": {(3, 11): 1, (4, None): 1, (None, 12): 1},
        "left_anti": {(4,): 1},
    }
    assert given == expected[how]
    assert join.finish().num_rows == 0


def test_rows_that_waited_and_cannot_be_joined_are_dropped():
    join = sj.StreamJoin(
        FAILING, sj.TimeWindow("10 ms"), "t", how="full", batch_rows=3, late="keep"
    )
    join.push(left=rows((1, 1, 5, 1)), right=rows((10, 4, 4, 1)))
    with pytest.raises(sj.StreamJoinError, match="3 rows that waited are dropped"):
        join.push(right=rows((11, 1, 5, 2)))
    assert ids(join.finish()) == {}


def test_rows_that_did_not_wait_come_with_the_error():
    join = sj.StreamJoin(FAILING, "10 ms", "t", how="full", batch_rows=2)
    join.push(left=rows((1, 1, 5, 1)), right=rows())
    with pytest.raises(sj.StreamJoinError) as error:
        join.push(right=rows((10, 1, 5, 1), (11, None, 1, 1)))
    assert ids(error.value.results) == {(None, 11): 1}
    assert ids(join.finish()) == {}


@pytest.mark.parametrize("how", ["full", "left_semi", "right_anti"])
@pytest.mark.parametrize("name", SLIDING)
def test_no_memory_for_matches_settles_nothing(name, how):
    join, twin = (sj.StreamJoin("l.k = r.k", how=how, **SLIDING[name]) for _ in range(2))
    first = {"left": rows((1, 1, 0, 1), (2, 2, 0, 2)), "right": rows((10, 3, 0, 1))}
    more = {"left": rows((3, 3, 0, 3)), "right": rows((11, 1, 0, 3))}
    given, expected = ids(join.push(**first)), ids(twin.push(**first))
    with (
        patch.object(outcome.Outcome, "settle", exhaust(outcome.Outcome.settle)),
        pytest.raises((sj.StreamJoinError, MemoryError)),
    ):
        join.push(**more)
    for each, found in ((join, given), (twin, expected)):
        found.update(ids(each.push(**more)))
        found.update(ids(each.finish()))
    assert given == expected


def exhaust(settle):
    """Let memory run out when rows have been settled."""

    def fail(self, claims):
        settle(self, claims)
        raise MemoryError

    return fail


@pytest.mark.parametrize("how", [how for how in BY_NAME if how != "inner"])
def test_find_is_refused_with_a_way_out(how):
    join = sj.StreamJoin("l.k = r.k", "10 ms", "t", how=how)
    with pytest.raises(sj.StreamJoinError, match=f"how='{how}' gives more than matches; use push"):
        join.find(left=rows(), right=rows())
    assert join.push(left=rows(), right=rows()).num_rows == 0


@pytest.mark.parametrize("name", ["indicator", "late"])
def test_find_is_refused_for_more_columns(name):
    join = sj.StreamJoin("l.k = r.k", "10 ms", "t", **{name: "keep" if name == "late" else True})
    with pytest.raises(sj.StreamJoinError, match=f"{name}=.* gives more than matches"):
        join.find(left=rows(), right=rows())


@pytest.mark.parametrize("how", [how for how in BY_NAME if how != "inner"])
def test_an_order_of_results_is_refused(how):
    with pytest.raises(sj.StreamJoinError, match=f"ordered='inner'.*how='{how}'"):
        sj.StreamJoin("l.k = r.k", "10 ms", "t", how=how, ordered="inner")


def test_a_stream_needs_a_window_to_know_that_a_row_has_no_match():
    with pytest.raises(sj.WindowError, match="no row without a match would ever be known"):
        sj.StreamJoin("l.k = r.k", None, how="left")
    with pytest.raises(sj.WindowError, match="a stream join needs a window"):
        sj.StreamJoin("l.k = r.k", None)
