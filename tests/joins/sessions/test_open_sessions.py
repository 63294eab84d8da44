"""Open sessions, step by step, against all rows cut anew: ties, bridges, exact gaps, extremes."""

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from streamjoin.joins.sessions.cutting import session_starts
from streamjoin.joins.sessions.open_sessions import ZONE_BITS, OpenSessions
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.plans.limits import DEFAULT_LIMITS, Limits

ENDS = st.sampled_from([MIN_KEY, MIN_KEY + 1, -1, 0, MAX_KEY - 1, MAX_KEY])
TIMES = st.one_of(st.integers(-15, 15), st.integers(-15, 15), ENDS)
GAPS = st.one_of(st.integers(0, 4), st.integers(2**63 - 2, 2**64 + 1), st.integers(0, 2**70))
pushes = st.lists(st.tuples(st.one_of(st.integers(0, 2), ENDS), TIMES), max_size=12)
steps = st.lists(st.one_of(pushes, pushes, TIMES, st.just(MAX_KEY + 1)), max_size=12)


class Followed:
    """Open sessions, and all rows with the id of their session."""

    def __init__(self, gap, limits=DEFAULT_LIMITS):
        self.gap, self.open = gap, OpenSessions(gap, limits)
        self.groups, self.times, self.ids = (np.empty(0, np.int64) for _ in range(3))

    def push(self, groups, times):
        before = [column.copy() for column in (*self.open.table, self.open.newest.slots)]
        change = self.open.plan(groups, times)
        after = [*self.open.table, self.open.newest.slots]
        assert all(map(np.array_equal, before, after))  # to plan changes nothing
        self.open.apply(change)
        into = dict(zip(change.met.tolist(), change.ids[change.into].tolist(), strict=True))
        moved = [into.get(each, each) for each in self.ids.tolist()]
        self.ids = np.concatenate([np.array(moved, np.int64), change.ids[change.of_rows]])
        self.groups = np.concatenate([self.groups, groups])
        self.times = np.concatenate([self.times, times])
        return change

    def end(self, before):
        ended = self.open.find_ended(before)
        assert np.array_equal(ended, np.unique(ended))
        assert ended.tolist() == self.open.find_ended(before).tolist()  # to ask changes nothing
        self.open.expire(ended)
        keep = ~np.isin(self.ids, ended)
        self.ids, self.groups, self.times = self.ids[keep], self.groups[keep], self.times[keep]
        kept = self.open.compact()
        if kept is not None:
            self.ids = np.searchsorted(kept, self.ids)

    def check(self, ended=MIN_KEY):
        """Rows are in the same sessions as if all were cut anew."""
        self.open.check()
        anew = session_starts(self.groups, self.times, self.gap)
        pairs = set(zip(self.ids.tolist(), anew.of_rows.tolist(), strict=True))
        assert len(pairs) == len(self.open) == anew.firsts.size
        for session, number in pairs:
            assert self.open.table.firsts[session] == anew.firsts[number]
            assert self.open.table.lasts[session] == anew.lasts[number]
        assert all(last >= min(ended, MAX_KEY) for last in anew.lasts.tolist())
        span = (min(anew.firsts), min(anew.lasts)) if anew.firsts.size else None
        assert self.open.span == span
        assert self.open.first_last <= (span[1] if span else MAX_KEY)


@given(steps, GAPS, st.sampled_from([0, 3, 1 << 10]))
def test_every_step_gives_what_cutting_anew_gives(steps, gap, few):
    followed, ended = Followed(gap, Limits(most_gone=few)), MIN_KEY
    for step in steps:
        if isinstance(step, list):
            # As in a join: no row comes that a session that has ended could reach.
            rows = [row for row in step if row[1] >= ended + gap or ended == MIN_KEY]
            groups, times = np.array(rows, np.int64).reshape(-1, 2).T.copy()
            change = followed.push(groups, times)
            most = np.bincount(change.into).max(initial=0)
            event(f"sessions that became one: {min(int(most), 3)}")
            followed.check()
        else:
            ended = max(ended, step)
            followed.end(ended)
            followed.check(ended)


def test_one_row_may_bridge_two_and_a_push_any_number():
    followed = Followed(10)
    followed.push(np.zeros(5, np.int64), np.array([0, 20, 40, 60, 80]))
    assert len(followed.open) == 5
    followed.push(np.zeros(1, np.int64), np.array([30]))
    assert len(followed.open) == 4
    change = followed.push(np.zeros(3, np.int64), np.array([10, 50, 70]))
    assert (len(followed.open), change.met.size, change.ids.size) == (1, 4, 1)
    followed.check()


@pytest.mark.parametrize("gap", [0, 3, 50, 2_000])
def test_many_sessions_in_and_out_of_order(gap):
    numbers, followed = np.random.default_rng(gap), Followed(gap)
    for turn in range(40):
        count = int(numbers.integers(1, 300))
        times = numbers.integers(turn * 100, turn * 100 + 400, count)
        followed.push(numbers.integers(0, 200, count), times)
        followed.end(turn * 100 - gap)
        followed.check(turn * 100 - gap)
    assert followed.open.size > 1 << ZONE_BITS or gap > 50
    followed.end(MAX_KEY + 1)
    assert (len(followed.open), followed.open.nbytes) == (0, 0)


def test_a_push_meets_the_sessions_of_its_rows_only():
    followed = Followed(10)
    groups = np.repeat(np.arange(500), 20)
    followed.push(groups, np.tile(np.arange(0, 2000, 100), 500))  # 20 sessions a group
    change = followed.push(np.arange(0, 50), np.full(50, 1905))  # the newest one goes on
    assert (change.met.size, change.ids.size) == (50, 50)
    change = followed.push(np.arange(0, 50), np.full(50, 2000))  # a new one
    assert (change.met.size, change.ids.size) == (0, 50)
    change = followed.push(np.array([3]), np.array([1705]))  # two are newer, and a third goes on
    assert change.met.size == 4
    followed.check()


def test_memory_falls_when_sessions_end():
    followed = Followed(10)
    groups = np.arange(50_000)
    followed.push(groups, groups)
    most = followed.open.nbytes
    followed.end(49_000)
    assert len(followed.open) == 1_000
    assert followed.open.nbytes < most / 10
    followed.check(49_000)
