"""Turns: exactly one core stores a row, all cores agree, and their shares are even."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.sliding.sizes import Sizes
from streamjoin.joins.split.turns import Turn, assign_turns
from streamjoin.plans.limits import use_limits
from tests.joins.small_streams import (
    CONDITIONS,
    TINY,
    check,
    conditions,
    steps_of,
    streams,
    table,
)
from tests.joins.split.running import cores, held, orders, push, random


class Batch(SimpleNamespace):
    """As much of a prepared batch as turns look at."""

    def __len__(self):
        return self.size


def batch(times=None, size=None):
    times = None if times is None else np.array(times, np.int64)
    return Batch(times=times, size=len(times) if size is None else size)


@pytest.fixture
def short_turns():
    """Let turns be short even where windows are long."""
    with use_limits(replace(TINY, most_counted_rows=4, most_timed_rows=7)):
        yield


def spread(numbers, size):
    return np.broadcast_to(numbers, size).tolist()


@given(st.integers(1, 9), st.lists(st.integers(0, 25), max_size=12))
def test_turns_of_count_windows_do_not_depend_on_the_cut(most, cuts):
    turn, numbers = Turn(), []
    for size in cuts:
        mine, turn = assign_turns(turn, Sizes(most), batch(size=size))
        numbers += spread(mine, size)
    assert numbers == [place // most for place in range(sum(cuts))]
    assert (turn.number, turn.rows) == divmod(sum(cuts), most)


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 9),
)
def test_turns_of_time_windows(batches, most, least, ticks, at_once):
    sizes = Sizes(most + least, least, ticks, large=5, at_once=at_once)
    turn, numbers, times = Turn(), [], []
    for each in batches:
        before = turn
        mine, turn = assign_turns(turn, sizes, batch(each))
        assert assign_turns(before, sizes, batch(each))[1] == turn
        numbers += spread(mine, len(each))
        times += each
    # Turns follow each other, none is empty, none has too many rows.
    assert all(later - earlier in (0, 1) for earlier, later in pairwise([0, *numbers]))
    rows = Counter(numbers)
    assert all(count <= sizes.most for count in rows.values())
    for number in range(turn.number):
        within = [time for time, each in zip(times, numbers, strict=True) if each == number]
        is_full = len(within) == sizes.most
        spans = len(within) >= least and max(within) - min(within) >= ticks // 6
        assert is_full or spans
    last = [time for time, each in zip(times, numbers, strict=True) if each == turn.number]
    assert turn.rows == len(last)
    if last:
        assert (turn.oldest, turn.newest) == (min(last), max(last))


def test_ties_stay_in_one_turn_until_it_is_full():
    mine, turn = assign_turns(Turn(), Sizes(6, 2, 3), batch([7] * 14))
    assert mine.tolist() == [0] * 6 + [1] * 6 + [2] * 2
    assert (turn.number, turn.rows, turn.oldest, turn.newest) == (2, 2, 7, 7)


@random
@given(
    data=st.data(),
    name=conditions,
    counted=st.booleans(),
    cores=cores,
    ordered=orders,
)
@pytest.mark.usefixtures("short_turns")
def test_exactly_one_core_stores_a_row(data, name, counted, cores, ordered):
    left, right = data.draw(streams())
    text, _ = CONDITIONS[name]
    window = sj.CountWindow(1000) if counted else sj.TimeWindow(1000)
    time = None if counted else "t"
    join, stored = sj.StreamJoin(text, window, time, cores=cores, ordered=ordered), Counter()
    alone = sj.StreamJoin(text, window, time)
    for step in data.draw(steps_of(left, right)):
        if data.draw(st.integers(0, 4)) == 0:
            join = sj.StreamJoin.restore(join.snapshot())
        push(join, step)
        alone.push(*map(table, step))
        if join._state.engine is None:
            continue
        if ordered == "none" and cores == 1:
            return
        turns = [core.turns for core in join._state.engine.executor.cores]
        assert all(each == turns[0] for each in turns)
        stored = Counter(id for part in held(join) for each in part.values() for id in each)
        assert set(stored.values()) <= {1}
        live = join.stats.live_left, join.stats.live_right
        assert live == (alone.stats.live_left, alone.stats.live_right)
        assert stored.total() == sum(live)
        busy = sum(bool(core.live_left) for core in join.stats.cores)
        event(f"cores with rows: {busy} of {cores}")


@pytest.mark.parametrize("cores", [2, 3, 4, 5])
@pytest.mark.usefixtures("short_turns")
def test_the_streams_turns_are_half_a_round_apart(cores):
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(1000), cores=cores)
    rows = [{"id": place, "k": place, "o": 0} for place in range(4 * cores * 3)]
    for first in range(0, len(rows), 5):  # turns change within pushes
        push(join, (rows[first : first + 5], rows[first : first + 5]))
    for number, part in enumerate(held(join)):
        turns = {side: {id // 4 % cores for id in ids} for side, ids in part.items()}
        assert turns == {"left": {number}, "right": {(number - cores // 2) % cores}}
        assert {len(ids) for ids in part.values()} == {12}


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("ordered", ["none", "inner"])
def test_memory_falls_in_every_core(counted, ordered):
    window = sj.CountWindow(20) if counted else sj.TimeWindow(10)
    time = None if counted else "t"
    join = sj.StreamJoin("l.k = r.k", window, time, cores=3, ordered=ordered)
    most = []
    for first in range(0, 600, 6):
        rows = [{"id": place, "t": place, "k": place, "o": 0} for place in range(first, first + 6)]
        push(join, (rows, rows))
        if not counted:
            join.advance(first)
        stats = join.stats
        most.append(max(max(core.live_left, core.live_right) for core in stats.cores))
        assert stats.live_left == sum(core.live_left for core in stats.cores)
    assert 0 < max(most[10:]) <= 20
    if not counted:
        join.advance(10_000)
        check(join)
        stats = join.stats
        assert [(core.live_left, core.live_right) for core in stats.cores] == [(0, 0)] * 3
        assert (stats.bytes, stats.subwindows) == (0, 0)


def test_statistics_of_cores():
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(10), cores=2)
    rows = table([{"id": place, "k": place, "o": 0} for place in range(7)])
    join.push(rows, rows)
    first, second = join.stats.cores
    assert (first.core, first.is_alive, first.live_left, first.live_right) == (0, True, 5, 2)
    assert (second.core, second.is_alive, second.live_left, second.live_right) == (1, True, 2, 5)
    assert min(first.seconds, second.seconds) > 0
    assert sj.StreamJoin("l.k = r.k", sj.CountWindow(10)).stats.cores == ()
