"""Sessions against a plain loop over each group's times: ties, exact gaps, the ends of int64."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.joins.sessions.cutting import (
    UNDIVIDED_ROWS,
    Sessions,
    cut_parts,
    cut_whole,
    session_starts,
)
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

ENDS = st.sampled_from([MIN_KEY, MIN_KEY + 1, -1, 0, MAX_KEY - 1, MAX_KEY])
GROUPS = st.one_of(st.integers(0, 2), ENDS)
TIMES = st.one_of(st.integers(-12, 12), ENDS, st.integers(MIN_KEY, MAX_KEY))
GAPS = st.one_of(st.integers(0, 4), st.integers(2**63 - 2, 2**64 + 1), st.integers(0, 2**70))
row_lists = st.lists(st.tuples(GROUPS, TIMES), max_size=40)


def sessions_of(rows, gap):
    """The obvious way: sort each group's rows, and begin anew after every long pause."""
    groups = defaultdict(list)
    for row, (group, time) in enumerate(rows):
        groups[group].append((time, row))
    sessions = []
    for members in groups.values():
        last = None
        for time, row in sorted(members):
            if last is None or time - last > gap:
                sessions.append([])
            sessions[-1].append(row)
            last = time
    return sessions


def arrays(rows):
    return np.array(rows, np.int64).reshape(-1, 2).T.copy()


def check(found, rows, gap):
    assert all(each.dtype == np.int64 for each in found)
    members = [[] for _ in found.firsts]
    for row, session in enumerate(found.of_rows.tolist()):
        members[session].append(row)
    assert sorted(members) == sorted(sorted(each) for each in sessions_of(rows, gap))
    for session, held in enumerate(members):
        times = [rows[row][1] for row in held]
        assert (found.firsts[session], found.lasts[session]) == (min(times), max(times))
    order = [(rows[held[0]][0], first) for held, first in zip(members, found.firsts, strict=True)]
    turns = {group: at for at, (group, _) in reversed(list(enumerate(order)))}
    assert order == sorted(order, key=lambda each: (turns[each[0]], each[1]))


@given(row_lists, GAPS)
def test_small_domains_and_extremes(rows, gap):
    groups, times = arrays(rows)
    check(session_starts(groups, times, gap), rows, gap)


@given(row_lists, st.integers(0, 2**64 - 1))
def test_parts_and_the_whole_agree_with_the_loop(rows, gap):
    groups, times = arrays(rows)
    for cut in (cut_parts, cut_whole):
        check(cut(groups, times, np.uint64(gap)), rows, gap)


@pytest.mark.parametrize("gap", [0, 1, 3, 50])
@pytest.mark.parametrize("count", [1, 2, 300, 10**6])
def test_more_rows_than_are_left_whole(count, gap):
    numbers = np.random.default_rng(count)
    groups = numbers.integers(0, count, UNDIVIDED_ROWS + 1)
    times = numbers.integers(0, 20_000, groups.size)
    rows = list(zip(groups.tolist(), times.tolist(), strict=True))
    check(session_starts(groups, times, gap), rows, gap)


@pytest.mark.parametrize(("pause", "sessions"), [(9, 1), (10, 1), (11, 2)])
def test_a_pause_of_exactly_the_gap_does_not_end_a_session(pause, sessions):
    found = session_starts(np.zeros(2, np.int64), np.array([-5, pause - 5]), 10)
    assert found.firsts.size == sessions


def test_a_row_of_another_group_bridges_no_pause():
    found = session_starts(np.array([1, 2, 1]), np.array([0, 6, 12]), 10)
    assert found.firsts.size == 3


def test_the_ends_of_int64_are_further_apart_than_int64_can_tell():
    groups, times = np.zeros(2, np.int64), np.array([MAX_KEY, MIN_KEY])
    assert session_starts(groups, times, 2**64 - 2).firsts.tolist() == [MIN_KEY, MAX_KEY]
    assert session_starts(groups, times, 2**64 - 1).lasts.tolist() == [MAX_KEY]


def test_no_rows_make_no_sessions():
    empty = np.empty(0, np.int64)
    found = session_starts(empty, empty, 10)
    assert isinstance(found, Sessions)
    assert [each.size for each in found] == [0, 0, 0]


def test_arrays_that_cannot_be_written_stay_as_they_are():
    groups, times = np.array([1, 2, 1]), np.array([9, 4, 1])
    for array in (groups, times):
        array.flags.writeable = False
    check(session_starts(groups, times, 3), [(1, 9), (2, 4), (1, 1)], 3)
    check(cut_parts(groups, times, np.uint64(9)), [(1, 9), (2, 4), (1, 1)], 9)


@pytest.mark.spark
def test_sessions_are_sparks(spark):
    import pyspark.sql.functions as F

    numbers = np.random.default_rng(7)
    groups, times = numbers.integers(0, 4, 300), numbers.integers(-600, 600, 300)
    rows = spark.createDataFrame(
        list(zip(groups.tolist(), times.tolist(), strict=True)), "g long, t long"
    ).select("g", F.timestamp_micros("t").alias("t"))
    for gap in (1, 5, 10):
        window = F.session_window("t", f"{gap} microseconds").alias("w")
        begin, end = F.unix_micros("w.start"), F.unix_micros("w.end") - gap
        answer = rows.groupBy("g", window).count().select("g", begin, end, "count").collect()
        found = session_starts(groups, times, gap)
        group_of = dict(zip(found.of_rows.tolist(), groups.tolist(), strict=True))
        sizes = np.bincount(found.of_rows).tolist()
        ours = zip(found.firsts.tolist(), found.lasts.tolist(), sizes, strict=True)
        assert sorted((group_of[s], *each) for s, each in enumerate(ours)) == sorted(
            tuple(row) for row in answer
        )
