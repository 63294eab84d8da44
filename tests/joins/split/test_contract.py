"""The contract of every join, for one that is spread over cores; and the order of its results."""

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st

import streamjoin as sj
from tests.joins.small_streams import (
    CONDITIONS,
    check,
    conditions,
    fitting,
    steps_of,
    streams,
    table,
)
from tests.joins.split.running import algorithms, cores, orders, push, random, run, sequence
from tests.oracle import Arrivals, join_by_count, join_by_time

sizes = st.tuples(st.integers(1, 12), st.integers(1, 12))


@random
@given(
    data=st.data(),
    name=conditions,
    sizes=sizes,
    order=st.sampled_from([None, "o"]),
    cores=cores,
    ordered=orders,
    algorithm=algorithms,
    threads=st.integers(1, 4),
)
def test_count_windows(data, name, sizes, order, cores, ordered, algorithm, threads):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[fitting(name, algorithm)]
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    join = sj.StreamJoin(
        text, window, algorithm=algorithm, order=order, threads=threads,
        cores=cores, ordered=ordered,
    )  # fmt: skip
    steps = data.draw(steps_of(left, right))
    saves = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    found, join = run(join, steps, saves)
    assert Counter(found) == join_by_count(steps, predicate, *sizes, order)
    Arrivals(steps, order).check(found, ordered)
    assert join._state.engine is None or join.stats.matches == len(found)


@random
@given(
    data=st.data(),
    name=conditions,
    before=st.integers(0, 8),
    after=st.integers(1, 8),
    cores=cores,
    ordered=orders,
    algorithm=algorithms,
    threads=st.integers(1, 4),
)
def test_time_windows(data, name, before, after, cores, ordered, algorithm, threads):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[fitting(name, algorithm, timed=True)]
    window = sj.TimeWindow(before=before, after=after)
    join = sj.StreamJoin(
        text, window, time="t", algorithm=algorithm, threads=threads, cores=cores, ordered=ordered
    )
    steps = data.draw(steps_of(left, right))
    saves = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    found, join = run(join, steps, saves)
    assert Counter(found) == join_by_time(left, right, predicate, before, after)
    Arrivals(steps).check(found, ordered)
    if join._state.engine is not None:
        chains = [
            chain for part in join._state.engine.executor.chain_pairs for chain in part.values()
        ]
        event(
            f"late index: {any(each.late_index is not None for chain in chains for each in chain)}"
        )


@random
@given(data=st.data(), name=conditions, before=st.integers(0, 6), cores=cores, ordered=orders)
def test_watermarks_drop_exactly_the_late_rows(data, name, before, cores, ordered):
    left, right = data.draw(streams(most=25))
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(before=before, after=4)
    join = sj.StreamJoin(text, window, time="t", threads=1, cores=cores, ordered=ordered)
    found, watermark, late, kept = [], -1, 0, ([], [])
    steps = data.draw(steps_of(left, right))
    for step in steps:
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot())
        found += push(join, step)
        for rows, side in zip(step, kept, strict=True):
            on_time = [row for row in rows if row["t"] is None or row["t"] >= watermark]
            side += on_time
            late += len(rows) - len(on_time)
        if data.draw(st.booleans()):
            watermark = max(watermark, data.draw(st.integers(0, 30)))
            join.advance(watermark)
            check(join)
    assert Counter(found) == join_by_time(*kept, predicate, before, 4)
    Arrivals(steps).check(found, ordered)
    if join._state.engine is not None:
        assert join.stats.late == late


@random
@given(
    data=st.data(),
    name=conditions,
    delay=st.integers(0, 10),
    rows=st.sampled_from([None, 3, 10, 1000]),
    cores=cores,
    ordered=orders,
)
def test_a_watermark_that_follows_the_data(data, name, delay, rows, cores, ordered):
    steps = data.draw(steps_of(*data.draw(streams(most=25))))
    text, _ = CONDITIONS[name]
    alone = sj.StreamJoin(text, sj.TimeWindow(3), "t", delay=delay, threads=1)
    split = sj.StreamJoin(
        text, sj.TimeWindow(3), "t", delay=delay, batch_rows=rows, cores=cores, ordered=ordered
    )
    expected, _ = run(alone, steps)
    found, _ = run(split, steps)
    found += sequence(split.flush())
    assert Counter(found) == Counter(expected)
    Arrivals(steps).check(found, ordered)


# Batch mode, and results that are left where they are: these are in no order.


@random
@given(
    data=st.data(),
    name=conditions,
    sizes=st.one_of(st.none(), sizes),
    order=st.sampled_from([None, "o"]),
    rows=st.sampled_from([None, 1, 3, 10, 1000]),
    cores=cores,
    ordered=orders,
)
def test_batch_mode_and_find(data, name, sizes, order, rows, cores, ordered):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[name]
    order = None if sizes is None else order
    window = sj.TimeWindow(3) if sizes is None else sj.CountWindow(left=sizes[0], right=sizes[1])
    time = "t" if sizes is None else None
    join = sj.StreamJoin(
        text, window, time, order=order, batch_rows=rows, cores=cores, ordered=ordered
    )
    steps = data.draw(steps_of(left, right))
    found, aside = [], Counter()
    for step in steps:
        act = data.draw(st.sampled_from(["push", "push", "push", "save", "flush", "find"]))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        if act == "flush":
            found += sequence(join.flush())
        if act == "find":
            results = join.find(*map(table, step))
            if data.draw(st.booleans()):
                assert len(join.stats.cores) == cores * (cores > 1 or ordered != "none") or (
                    join._state.engine is None
                )
            count, left_there = results.count(), Counter(sequence(results.to_table()))
            assert left_there.total() == count
            aside += left_there
        else:
            found += push(join, step)
        check(join)
    found += sequence(join.flush())
    Arrivals(steps, order).check(found, ordered)
    expected = (
        join_by_time(left, right, predicate, 3, 3)
        if sizes is None
        else join_by_count(steps, predicate, *sizes, order)
    )
    assert Counter(found) + aside == expected


# A stream with itself.


@random
@given(
    data=st.data(),
    name=conditions,
    size=st.one_of(st.none(), st.integers(1, 9)),
    cores=cores,
    ordered=orders,
)
def test_self_joins(data, name, size, cores, ordered):
    rows, _ = data.draw(streams(most=30))
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(before=2, after=4) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(text, window, time, cores=cores, ordered=ordered)
    found, rest, steps = [], list(rows), []
    while rest:
        count = data.draw(st.sampled_from([1, 3, 7, 40]))
        steps.append((rest[:count], rest[:count]))
        batch, rest = table(rest[:count]), rest[count:]
        found += sequence(join.push(left=batch, right=batch))
        check(join)
    expected = (
        join_by_time(rows, rows, predicate, 2, 4)
        if size is None
        else join_by_count(steps, predicate, size, size)
    )
    assert Counter(found) == expected
    Arrivals(steps).check(found, ordered)
