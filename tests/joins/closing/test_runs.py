"""Windows that close: choices, stats, schema, memory, streams and snapshots of whole runs."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.api import snapshots
from streamjoin.indexes.catalogue import EAGER, LAZY
from streamjoin.joins.tumbling.eager_window import EagerWindow, Recipe
from tests.joins.closing.small_rows import (
    SESSION,
    TUMBLING,
    WAYS,
    both_emits,
    both_windows,
    every_way,
    pairs,
    rows,
)

# Windows of both kinds side by side, as `emit="auto"` may choose.


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    lazy=st.sets(st.integers(0, 4)),
    save=st.sets(st.integers(0, 5)),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 49)), min_size=1, max_size=20),
)
def test_a_choice_for_each_window(lazy, save, steps):
    """What is decided when a window opens holds until it closes, in a restored join too."""

    def choose(join):
        executor = join._state.engine.executor

        def window(number):
            eager = EagerWindow(executor.closed.within_one, Recipe("pmj_jb", 1))
            executor.open_window = lambda: None if number in lazy else eager
            return type(executor)._window(executor, number)

        executor._window = window
        return join

    join = sj.StreamJoin("l.k = r.k", TUMBLING, "t", algorithm="pmj_jb", tuning={"delta": 3})
    join.push(rows(), rows())
    choose(join)
    results, sides = [], ([], [])
    for number, (is_left, time) in enumerate(steps):
        if number in save:
            join = choose(sj.StreamJoin.restore(join.snapshot()))
        sides[is_left].append((number, time // 10))
        row = rows((1, time), first=number)
        results.append(join.push(**{"left" if is_left else "right": row}))
    expected = [(a, b) for a, one in sides[1] for b, other in sides[0] if one == other]
    assert pairs(*results, join.finish()) == Counter(expected)


# Stats, schema, memory, streams, snapshots.


@both_windows
@both_emits
def test_stats(window, emit):
    join = sj.StreamJoin("l.k = r.k", window, "t", emit=emit)
    assert join.schema is None
    waiting = join.push(left=rows((1, 1), (1, 41), (None, 1)))
    assert (waiting.num_rows, waiting.schema.names) == (0, ["id", "k", "t", "x"])
    assert join.advance(0).schema.names == ["id", "k", "t", "x"]
    assert (join.stats.live_left, join.stats.subwindows) == (3, 0)
    found = join.push(right=rows((1, 2), (1, 60), (1, None), (1, -1)))
    assert found.schema == join.schema
    stats = join.stats
    assert (stats.rows_left, stats.rows_right, stats.late, stats.null_times) == (3, 4, 1, 1)
    assert (stats.live_left, stats.live_right, stats.subwindows) == (2, 2, 3)
    assert stats.bytes > 0
    assert stats.matches == found.num_rows == (emit == "eager")
    closed = join.advance(50)
    assert closed.schema == join.schema
    stats = join.stats
    assert (stats.matches, closed.num_rows) == (1, emit == "close")
    # a session at 41 is open until 52, a window until 50
    open_left = 1 if window == SESSION else 0
    assert (stats.live_left, stats.live_right) == (open_left, 1)
    assert stats.subwindows == 1 + open_left
    assert join.finish().schema == join.schema
    assert (join.stats.live_left, join.stats.live_right, join.stats.bytes) == (0, 0, 0)


@both_windows
@every_way
def test_rows_of_closed_windows_are_forgotten(window, algorithm, emit):
    if window == SESSION and algorithm in EAGER:
        return
    join = sj.StreamJoin(
        "l.k = r.k", window, "t", algorithm=algorithm, emit=emit, delay=0, threads=1
    )
    live, found = [], 0
    for first in range(0, 3000, 30):
        batch = rows(*((k % 7, first + k) for k in range(10)))
        found += join.push(batch, batch.slice(0)).num_rows
        live.append((join.stats.live_left, join.stats.subwindows, join.stats.bytes))
    assert max(live) <= (20, 14, 100_000)
    assert found + join.finish().num_rows == 100 * (6 * 2 + 4)
    assert join.stats.matches == 1600


@both_windows
@both_emits
def test_a_source_as_a_stream(window, emit):
    join = sj.StreamJoin("l.k = r.k", window, "t", emit=emit, delay=5, batch_rows=3)
    batches = [rows((1, t), (2, t + 1), first=t) for t in range(0, 90, 30)]
    found = [part.rows for part in join.stream((each, each.slice(0)) for each in batches)]
    assert pairs(*found, join.finish()) == Counter(
        (t, t) for each in (0, 30, 60) for t in (each, each + 1)
    )


@both_windows
def test_a_snapshot_of_an_older_format_is_refused(window, monkeypatch):
    join = sj.StreamJoin("l.k = r.k", window, "t")
    join.push(rows((1, 1)), rows((1, 1)))
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "FORMAT", 4)
        data = join.snapshot()
    with pytest.raises(sj.SnapshotError, match=r"has format 4, .* reads 5; restore it with"):
        sj.StreamJoin.restore(data)
    assert sj.StreamJoin.restore(join.snapshot()).finish().num_rows == 1


@pytest.mark.parametrize(("algorithm", "emit"), [*WAYS, *((name, "close") for name in LAZY)])
def test_a_snapshot_holds_the_whole_configuration(algorithm, emit):
    knobs = {"pmj_jb": {"delta": 3, "group": 2}, "prj": {"bits": 4}}.get(algorithm)
    window = sj.TumblingWindow("1 day", "1 hour")
    join = sj.StreamJoin(
        "l.k = r.k",
        window,
        "t",
        algorithm=algorithm,
        threads=2,
        emit=emit,
        optimize="latency",
        tuning=knobs,
    )
    again = sj.StreamJoin.restore(join.snapshot())
    assert again._state.config == join._state.config
