"""SPO-Join's streams: several inequalities and bands at once, in any window, cut in any way.

Everything is tiny here, as in `test_inequalities`.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.sliding.two_key_subwindow import TwoKeySubwindow
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.sliding.several_ranges import (
    CONDITIONS,
    LESS_A,
    SPO,
    SYMMETRIC,
    conditions,
    random,
    streams,
    test_of,
    threads,
)
from tests.joins.sliding.several_ranges import tiny_parts as tiny_parts
from tests.joins.small_streams import (
    both,
    check,
    pairs,
    push,
    run,
    steps_of,
    table,
)
from tests.oracle import Arrivals, join_by_count, join_by_time


@settings(random, max_examples=40)
@given(
    data=st.data(),
    sides=streams(),
    name=st.sampled_from([*sorted(CONDITIONS), "one"]),
    before=st.integers(0, 8),
    count=threads,
)
def test_time_windows_and_watermarks(data, sides, name, before, count):
    one = ("l.a < r.a", LESS_A)  # the window is the other range
    text, predicate = CONDITIONS.get(name, one)
    window = sj.TimeWindow(before=before, after=4)
    join = sj.StreamJoin(text, window, time="t", threads=count, **SPO)
    found, watermark, late, kept = Counter(), -1, 0, ([], [])
    for step in data.draw(steps_of(*sides)):
        act = data.draw(st.sampled_from(["push", "push", "save", "advance"]))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        found += push(join, *step)
        for rows, side in zip(step, kept, strict=True):
            on_time = [row for row in rows if row["t"] is None or row["t"] >= watermark]
            side += on_time
            late += len(rows) - len(on_time)
        if act == "advance":
            moved = data.draw(st.integers(0, 30))
            join.advance(moved)
            check(join)
            watermark = max(watermark, moved)
    assert found == join_by_time(*kept, predicate, before, 4)
    if join._state.engine is not None:
        held = join._state.engine.chains["left"].subwindows
        event(f"subwindows: {min(len(held), 5)}")
        event(f"late index: {any(each.late_index is not None for each in held)}")
        assert all(isinstance(each, TwoKeySubwindow) for each in held)
        assert (join.stats.late, join.stats.matches) == (late, found.total())


@settings(random, max_examples=40)
@given(
    data=st.data(),
    sides=streams(),
    name=conditions,
    window=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
    count=threads,
)
def test_count_windows(data, sides, name, window, order, count):
    text, predicate = CONDITIONS[name]
    counted = sj.CountWindow(left=window[0], right=window[1])
    join = sj.StreamJoin(text, counted, order=order, threads=count, **SPO)
    steps = data.draw(steps_of(*sides))
    saves = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    found, _ = run(join, steps, saves)
    assert found == join_by_count(steps, predicate, *window, order)


@random
@given(
    data=st.data(),
    rows=streams(sides=(0,)),
    name=st.sampled_from([*sorted(CONDITIONS), *SYMMETRIC * 3]),
    size=st.sampled_from([None, 1, 4, 11]),
    count=threads,
)
def test_a_stream_with_itself(data, rows, name, size, count):
    [rows], (text, predicate) = rows, CONDITIONS[name]
    window = sj.TimeWindow(3) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(text, window, time=time, threads=count, **SPO)
    found, rest, steps = Counter(), list(rows), []
    while rest:
        cut = data.draw(st.sampled_from([1, 7, 20, 40]))
        steps.append((rest[:cut], rest[:cut]))
        batch, rest = table(rest[:cut]), rest[cut:]
        found += pairs(join.push(left=batch, right=batch))
        check(join)
        if data.draw(st.integers(0, 3)) == 0:
            join = sj.StreamJoin.restore(join.snapshot())
    if size is None:
        assert found == join_by_time(rows, rows, predicate, 3, 3)
    else:
        assert found == join_by_count(steps, predicate, size, size)


def in_sequence(result):
    if "id_right" not in result.schema.names:
        return []
    return list(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))


@settings(random, max_examples=20)
@given(
    data=st.data(),
    sides=streams(),
    name=conditions,
    size=st.sampled_from([None, 1, 4, 11]),
    cores=st.sampled_from([1, 2, 3]),
    ordering=st.sampled_from(["none", "outer", "inner", 2]),
    streamed=st.booleans(),
)
def test_cores_and_the_order_of_results(data, sides, name, size, cores, ordering, streamed):
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(3) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(text, window, time=time, cores=cores, ordered=ordering, threads=2, **SPO)
    steps = data.draw(steps_of(*sides))
    found = []
    for number, (left, right) in enumerate(steps):
        if streamed and number == 2:
            source = [(table(left), table(right)) for left, right in steps[2:]]
            found += [pair for piece in join.stream(source) for pair in in_sequence(piece.rows)]
            break
        if number % 4 == 1:
            join = sj.StreamJoin.restore(join.snapshot())
        found += in_sequence(join.push(table(left), table(right)))
        check(join)
    if size is None:
        assert Counter(found) == join_by_time(*sides, predicate, 3, 3)
    else:
        assert Counter(found) == join_by_count(steps, predicate, size, size)
    Arrivals(steps).check(found, ordering)


@settings(random, max_examples=20)
@given(
    data=st.data(),
    sides=streams(),
    name=conditions,
    size=st.sampled_from([None, 4, 11]),
    rows=st.sampled_from([None, 3, 10, 1000]),
    count=threads,
    cores=st.sampled_from([1, 1, 2]),
)
def test_batch_mode_and_results_left_where_they_are(data, sides, name, size, rows, count, cores):
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(3) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(
        text, window, time=time, batch_rows=rows, threads=count, cores=cores, **SPO
    )
    steps, found = data.draw(steps_of(*sides)), Counter()
    for left, right in steps:
        act = data.draw(st.sampled_from(["push", "push", "find", "save", "flush"]))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        if act == "flush":
            found.update(in_sequence(join.flush()))
        if act == "find":
            results = join.find(table(left), table(right))
            counted = results.count()
            some = in_sequence(results.to_table())
            assert counted == len(some) == results.count()
            found.update(some)
        else:
            found.update(in_sequence(join.push(table(left), table(right))))
    found.update(in_sequence(join.flush()))
    if size is None:
        assert found == join_by_time(*sides, predicate, 3, 3)
    else:
        assert found == join_by_count(steps, predicate, size, size)


# Directed.


def many(size, seed, noise=None):
    """Rows whose keys have few values or, with some noise, grow together."""
    generator = np.random.default_rng(seed)
    keys = generator.integers(0, 100, (2, size))
    if noise is not None:
        keys[0] = generator.integers(0, 10**6, size)
        keys[1] = keys[0] + generator.integers(0, noise, size)
    return pa.table({"id": np.arange(size), "a": keys[0], "b": keys[1]})


@pytest.mark.parametrize("window", [1, 3, 50])
def test_tiny_windows_and_huge_batches_leave_no_expired_rows(window):
    text, predicate = "l.a < r.a and l.b > r.b", both(LESS_A, test_of("b", ">", "b"))
    tables = [(many(1500, 1), many(10, 2)), (many(0, 3), many(1500, 4)), (many(700, 5),) * 2]
    steps = [tuple(each.to_pylist() for each in step) for step in tables]
    join = sj.StreamJoin(text, sj.CountWindow(window), threads=2, **SPO)
    found = Counter()
    for left, right in tables:
        found += pairs(join.push(left, right.slice(0)))
        check(join)
    assert found == join_by_count(steps, predicate, window, window)
    assert join.stats.live_left <= 2 * window + 8


@pytest.mark.parametrize("window", [sj.CountWindow(5000), sj.TimeWindow(10**9), None], ids=str)
def test_many_rows_as_they_are_meant_to_be(window, monkeypatch):
    monkeypatch.undo()
    with use_limits(Limits(slice_rows=512)):
        join_many_rows(window)


def join_many_rows(window):
    left, right = many(4000, 6, noise=20_000), many(4000, 7, noise=20_000)
    one, other = ([side[name].to_numpy() for name in ("a", "b")] for side in (left, right))
    matching = (one[0][:, None] < other[0]) & (one[1][:, None] > other[1])
    text, time = "l.a < r.a and l.b > r.b", "id" if isinstance(window, sj.TimeWindow) else None
    found = []
    if window is None:
        found.append(sj.join_tables(left, right, on=text, threads=2, **SPO))
    else:
        join, first = sj.StreamJoin(text, window, time=time, threads=2, **SPO), 0
        for size in (1, 20, 3000, 5, 63, 64, 847):
            found.append(join.push(left.slice(first, size), right.slice(first, size)))
            first += size
        check(join)
    joined = pa.concat_tables(found)
    places = joined["id"].to_numpy() * 4000 + joined["id_right"].to_numpy()
    assert np.array_equal(np.sort(places), np.flatnonzero(matching))
