"""Whole windows: rows are forgotten one by one, out of order too, and nothing else is."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import WHOLE_WINDOWS
from streamjoin.indexes.trees import b_tree, chained_index, pim_tree
from streamjoin.joins.sliding.whole_window import WholeWindowSubwindow
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
from tests.joins.split.running import push, sequence
from tests.oracle import Arrivals, join_by_count, join_by_time

random = settings(max_examples=14, suppress_health_check=list(HealthCheck))
algorithms = st.sampled_from(sorted(WHOLE_WINDOWS))
every_algorithm = pytest.mark.parametrize("algorithm", WHOLE_WINDOWS)
structures = st.sampled_from([None, None, None, "pim_tree", "b_tree", "bi_sort", "rap_table"])
layouts = st.sampled_from(
    [(1, "none"), (1, "none"), (2, "none"), (3, "none"), (1, "outer"), (2, "outer"), (1, "inner"),
     (2, "inner")]
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let rows be forgotten, put behind and cut into pieces when there are a few of them."""
    for module in (b_tree, chained_index, pim_tree):
        monkeypatch.setattr(module, "LEAST_TUPLES", 8)
    # Of so many rows that leave together, one may be put behind.
    with use_limits(replace(TINY, least_expired_rows=8, small_piece_rows=4)):
        yield


def chains(join):
    return [chain for part in join._state.engine.executor.chain_pairs for chain in part.values()]


def switch(join, structure):
    """Let all rows to come go into another structure."""
    if structure is not None and join._state.engine is not None:
        for chain in chains(join):
            chain.structure = structure


def with_some_ahead(rows, seed):
    """Let some times be far ahead of the others."""
    dice = Random(seed)
    return [
        {**row, "t": row["t"] + dice.choice([0] * 15 + [15, 1000])} if row["t"] is not None else row
        for row in rows
    ]


# Against the oracle.


@random
@given(
    data=st.data(), name=conditions, before=st.integers(0, 6), algorithm=algorithms, layout=layouts
)
def test_time_windows(data, name, before, algorithm, layout):
    seed = data.draw(st.integers(0, 99))
    left, right = (with_some_ahead(rows, seed) for rows in data.draw(streams()))
    text, predicate = CONDITIONS[name]
    join = sj.StreamJoin(
        text, sj.TimeWindow(before=before, after=3), "t", algorithm=algorithm, threads=1,
        cores=layout[0], ordered=layout[1],
    )  # fmt: skip
    found, watermark, kept, steps = [], -1, ([], []), data.draw(steps_of(left, right))
    for step in steps:
        if data.draw(st.integers(0, 3)) == 0:
            join = sj.StreamJoin.restore(join.snapshot())
            check(join)
        switch(join, data.draw(structures))
        found += push(join, step)
        for rows, side in zip(step, kept, strict=True):
            side += [row for row in rows if row["t"] is None or row["t"] >= watermark]
        if data.draw(st.booleans()):
            watermark += data.draw(st.integers(0, 6))
            join.advance(watermark)
            check(join)
    assert Counter(found) == join_by_time(*kept, predicate, before, 3)
    Arrivals(steps).check(found, layout[1])


@random
@given(
    data=st.data(),
    name=conditions,
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
    algorithm=algorithms,
    layout=layouts,
)
def test_count_windows(data, name, sizes, order, algorithm, layout):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[name]
    if data.draw(st.booleans()):  # most rows cannot match, and count all the same
        for row in left + right:
            if row["id"] % 4:
                row.update(k=None, a=None)
    join = sj.StreamJoin(
        text, sj.CountWindow(left=sizes[0], right=sizes[1]), algorithm=algorithm, order=order,
        threads=1, cores=layout[0], ordered=layout[1],
    )  # fmt: skip
    found, steps = [], data.draw(steps_of(left, right))
    for step in steps:
        if data.draw(st.integers(0, 3)) == 0:
            join = sj.StreamJoin.restore(join.snapshot())
            check(join)
        switch(join, data.draw(structures))
        found += push(join, step)
    assert Counter(found) == join_by_count(steps, predicate, *sizes, order)
    Arrivals(steps, order).check(found, layout[1])


@random
@given(
    data=st.data(),
    name=conditions,
    size=st.one_of(st.none(), st.integers(1, 9)),
    algorithm=algorithms,
    layout=layouts,
)
def test_self_joins(data, name, size, algorithm, layout):
    rows, _ = data.draw(streams(most=30))
    rows = with_some_ahead(rows, 1) if size is None else rows
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(before=2, after=4) if size is None else sj.CountWindow(size)
    time, (cores, ordered) = "t" if size is None else None, layout
    join = sj.StreamJoin(
        text, window, time, algorithm=algorithm, threads=1, cores=cores, ordered=ordered
    )
    found, rest, steps, kept, watermark = [], list(rows), [], [], -1
    while rest:
        count = data.draw(st.sampled_from([1, 3, 7, 40]))
        steps.append((rest[:count], rest[:count]))
        kept += [row for row in rest[:count] if row["t"] is None or row["t"] >= watermark]
        batch, rest = table(rest[:count]), rest[count:]
        switch(join, data.draw(structures))
        found += sequence(join.push(left=batch, right=batch))
        check(join)
        if size is None and data.draw(st.booleans()):
            watermark += data.draw(st.integers(0, 6))
            join.advance(watermark)
            check(join)
        if data.draw(st.integers(0, 3)) == 0:
            join = sj.StreamJoin.restore(join.snapshot())
    expected = (
        join_by_time(kept, kept, predicate, 2, 4)
        if size is None
        else join_by_count(steps, predicate, size, size)
    )
    assert Counter(found) == expected
    Arrivals(steps).check(found, ordered)


# Directed.


def rows_of(first, count, times=None, key=0):
    times = range(first, first + count) if times is None else times
    return pa.table({"id": range(first, first + count), "t": list(times), "k": [key] * count})


def newest(join, side="left"):
    [held] = join._state.engine.chains[side].subwindows
    assert isinstance(held, WholeWindowSubwindow)
    return held


@every_algorithm
@pytest.mark.parametrize("ordered", ["none", "inner"])
def test_a_row_far_ahead_is_put_behind_and_found_when_its_time_comes(
    algorithm, ordered, monkeypatch
):
    join = sj.StreamJoin(
        "l.k = r.k", sj.TimeWindow(5), "t", algorithm=algorithm, threads=1, ordered=ordered
    )
    behind, live, held = [], [], []
    put_behind = WholeWindowSubwindow._put_behind

    def count(self, row_ids):
        behind.append(row_ids.size)
        put_behind(self, row_ids)

    monkeypatch.setattr(WholeWindowSubwindow, "_put_behind", count)
    for first in range(0, 1600, 20):
        times = list(range(first, first + 20))
        if first in (0, 60):
            times[7] = 10_000
        rows = rows_of(first, 20, times)
        found = join.push(rows, rows.slice(0)).num_rows
        assert found >= 20
        join.advance(first)
        if first % 400 == 0:
            join = sj.StreamJoin.restore(join.snapshot())
        check(join)
        live.append(join.stats.live_left)
        held.append(join.stats.bytes)
    assert sum(behind) >= 2
    assert max(live) <= 60
    assert max(held[40:]) <= 1.5 * max(held[:40])
    result = join.push(right=rows_of(5000, 1, [10_004]))
    assert sorted(result["id"].to_pylist()) == [7, 67]
    join.advance(20_000)
    assert join.stats.subwindows == join.stats.bytes == 0


@every_algorithm
def test_rows_of_a_count_window_leave_one_by_one(algorithm):
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(10), algorithm=algorithm, threads=1)
    for first in range(0, 200, 3):
        join.push(rows_of(first, 3), rows_of(first, 3))
        check(join)
        for side in ("left", "right"):
            assert newest(join, side).ordinals.values.tolist() == list(
                range(max(first + 3 - 10, 0), first + 3)
            )


@every_algorithm
def test_rows_that_cannot_match_are_not_held(algorithm):
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(100), algorithm=algorithm, threads=1)
    for first in range(0, 3000, 50):
        rows = rows_of(first, 50)
        keys = pa.array([1 if row % 10 == 0 else None for row in range(50)], pa.int64())
        rows = rows.set_column(2, "k", keys)
        assert join.push(rows, rows.slice(0)).num_rows == (75 if first else 25) + (
            25 * (first > 50)
        )
        check(join)
    assert join.stats.live_left == 10
    assert join.stats.bytes < 40_000


def test_forgetting_everything():
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), "t", algorithm="b_tree", threads=1)
    join.push(rows_of(0, 50), rows_of(0, 1))
    held = newest(join)
    held.expire(20)
    held.check()
    assert (len(held), held.first, held.last) == (30, 20, 49)
    held.expire(1000)
    held.check()
    assert len(held) == 0
    assert held.last < held.first


def test_rows_that_stay_in_the_way_are_waited_for():
    """Too many to be put behind: what is before them goes, the rest stays."""
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), "t", algorithm="b_tree", threads=1)
    times = [0, 1, 2, 90, 90, 3, 4, 91, *range(5, 61)]
    join.push(rows_of(0, 64, times), rows_of(0, 1))
    held = newest(join)
    held.expire(50)
    held.check()
    assert held.rows.take(np.arange(3, dtype=np.int32))["id"].to_pylist() == [3, 4, 5]
    assert (held.first, held.last) == (3, 91)


@every_algorithm
def test_results_that_are_left_where_they_are(algorithm):
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(5), algorithm=algorithm, threads=1)
    join.push(rows_of(0, 20), rows_of(0, 20))
    results = join.find(rows_of(20, 3), rows_of(20, 3))
    expected = [(one, two) for one in range(20, 23) for two in range(15, 20)] + [
        (one, two) for two in range(20, 23) for one in range(18, 23)
    ]
    assert results.count() == len(expected)
    assert sorted(sequence(results.to_table())) == sorted(expected)
    join.push(rows_of(23, 1))
    check(join)


def test_a_switch_seals_the_whole_window_which_still_forgets():
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(50), algorithm="pim_tree", threads=1)
    join.push(rows_of(0, 50), rows_of(0, 1))
    switch(join, "bi_sort")
    join.push(rows_of(50, 10))
    chain = join._state.engine.chains["left"]
    assert [each.structure for each in chain] == ["pim_tree", "bi_sort"]
    assert [len(each) for each in chain] == [40, 10]
    switch(join, "pim_tree")
    for first in range(60, 140, 20):
        join.push(rows_of(first, 20))
        assert join.push(right=rows_of(first, 1)).num_rows == 50
        check(join)
    assert [each.structure for each in chain] == ["pim_tree"]
    assert len(chain) == 50


def test_cores_share_what_is_expected():
    for cores in (1, 2, 4):
        join = sj.StreamJoin(
            "l.k = r.k", sj.CountWindow(1000), algorithm="pim_tree", threads=1, cores=cores
        )
        join.push(rows_of(0, 1000), rows_of(0, 1))
        held = [each for chain in chains(join) for each in chain]
        assert {each.index.capacity for each in held} == {1000 // cores}
