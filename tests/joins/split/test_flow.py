"""How a source, its results and the threads between them get along."""

import gc
import threading
import time
from collections import Counter
from weakref import ref

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.api.join_state import JoinState
from tests.joins.small_streams import CONDITIONS, check, conditions, steps_of, streams, table
from tests.joins.split.running import (
    as_source,
    cores,
    orders,
    push,
    random,
    sequence,
    slow_cores,
    wait_until,
)
from tests.oracle import join_by_count

every_order = pytest.mark.parametrize("ordered", ["none", "outer", "inner"])


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64())})


def pairs_of(count, read=None):
    """A source that tells how far it has been read."""
    for value in range(count):
        if read is not None:
            read.append(value)
        yield numbers(value), numbers(value)


# Back-pressure.


@every_order
def test_a_slow_reader_slows_the_source_down(ordered):
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), cores=2, ordered=ordered)
    read, taken, ahead = [], 0, []
    for piece in join.stream(pairs_of(300, read)):
        taken += piece.rows.num_rows
        if taken % 10 == 0:
            time.sleep(1e-3)  # the source runs ahead meanwhile, if it can
        ahead.append(len(read) - taken)
        assert len(join._state.engine.executor._sent) <= 40
    assert taken == 300
    assert max(ahead) <= 40


def test_a_source_that_is_not_read_at_all():
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), cores=3, ordered="outer")
    read = []
    results = join.stream(pairs_of(10_000, read))
    next(results)
    next(results)
    wait_until(lambda: is_still(read))
    assert len(read) <= 60
    results.close()
    assert len(read) <= 62


def is_still(read):
    before = len(read)
    time.sleep(5e-3)
    return len(read) == before


# Who stops reading.


@random
@given(
    data=st.data(),
    name=conditions,
    size=st.integers(1, 12),
    cores=cores,
    ordered=orders,
    seed=st.integers(0, 999),
)
def test_after_a_stream_that_was_left_the_join_goes_on(data, name, size, cores, ordered, seed):
    text, predicate = CONDITIONS[name]
    steps = data.draw(steps_of(*data.draw(streams())))
    join = sj.StreamJoin(text, sj.CountWindow(size), cores=cores, ordered=ordered)
    push(join, ([], []), both=True)
    begun, found = [], []
    source = iter(steps)

    def noted():
        for step in source:
            begun.append(step)
            yield from as_source([step])

    with slow_cores(seed):
        while len(begun) < len(steps):
            results = join.stream(noted())
            for _, piece in zip(range(data.draw(st.integers(1, 4))), results, strict=False):
                found += sequence(piece.rows)
            results.close()
            wait_until(lambda: not our_threads("streamjoin source"))
            rows = join.stats.rows_left, join.stats.rows_right
            # The source may have been read one item further than was sent.
            if rows != sizes_of(begun):
                assert rows == sizes_of(begun[:-1])
                found += push(join, begun[-1], both=True)
    expected = join_by_count(steps, predicate, size, size)
    assert not Counter(found) - expected
    # What was on its way is lost, but all rows are there.
    alone = sj.StreamJoin(text, sj.CountWindow(size))
    alone.push(table([]), table([]))
    for step in steps:
        alone.push(*map(table, step))
    probe = [{"id": 5000 + place, **values} for place, values in enumerate(PROBES)]
    last = push(join, (probe, []), both=True)
    assert Counter(last) == Counter(sequence(alone.push(table(probe), table([]))))
    check(join)


PROBES = [
    {"k": key, "s": text, "a": number, "b": number, "x": 0.1, "o": 0}
    for key, text, number in zip([0, 1, 2, 3], ["", "a", "b", "ab"], [-2, 0, 1, 3], strict=True)
]


def sizes_of(steps):
    return tuple(sum(len(step[side]) for step in steps) for side in (0, 1))


@every_order
@pytest.mark.parametrize("leave", ["close", "forget", "raise"])
def test_ways_to_leave_a_stream(ordered, leave):
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(1000), cores=2, ordered=ordered)
    results = join.stream(pairs_of(100))
    next(results)
    next(results)
    if leave == "close":
        results.close()
    elif leave == "raise":
        with pytest.raises(KeyError):
            results.throw(KeyError("reader"))
    del results
    gc.collect()
    stored = join.stats.live_left
    assert 2 <= stored < 100
    assert join.push(numbers(*range(stored))).num_rows == stored


@every_order
def test_nothing_comes_behind_the_end_of_a_stream(ordered, monkeypatch):
    # Once: a reader that had an item in hand when the stream was left sent it beside later pushes.
    look = JoinState.check

    def look_slowly(self, left, right):
        if threading.current_thread().name == "streamjoin source":
            time.sleep(2e-3)
        return look(self, left, right)

    monkeypatch.setattr(JoinState, "check", look_slowly)
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(1000), cores=2, ordered=ordered)
    for _ in range(5):
        results = join.stream(pairs_of(1000))
        next(results)
        next(results)
        results.close()
        rows = join.stats.rows_left
        wait_until(lambda: not our_threads("streamjoin source"))
        assert join.stats.rows_left == rows


def test_a_source_that_never_gives_anything_again_can_be_left():
    stop = threading.Event()

    def source():
        yield from pairs_of(3)
        stop.wait()

    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), cores=2)
    results = join.stream(source())
    assert [next(results).rows.num_rows for _ in range(3)] == [1, 1, 1]
    results.close()
    assert join.push(numbers(1)).num_rows == 1
    stop.set()


# One thing at a time.


def test_a_join_is_not_used_beside_its_stream():
    join = sj.StreamJoin("l.x = r.x", sj.TimeWindow(10), time="x", cores=2, ordered="outer")
    results = join.stream(pairs_of(50))
    next(results)
    next(results)
    uses = [
        lambda: join.push(numbers(1)), lambda: join.find(numbers(1)), join.flush, join.snapshot,
        lambda: join.advance(3), lambda: join.stats, lambda: next(join.stream([])),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(sj.StreamJoinError, match=r"reading a source.*close\(\)"):
            use()
    assert sum(piece.rows.num_rows for piece in results) > 0
    join.advance(1000)
    assert join.stats.live_left == 0


def test_two_joins_side_by_side():
    joins = [
        sj.StreamJoin("l.x = r.x", sj.CountWindow(100), cores=2, ordered=ordered)
        for ordered in ("none", "inner")
    ]
    found = Counter()
    for pieces in zip(*(join.stream(pairs_of(30)) for join in joins), strict=True):
        for number, piece in enumerate(pieces):
            found[number] += piece.rows.num_rows
    assert found == {0: 30, 1: 30}


@every_order
def test_pushes_from_one_thread_after_another(ordered):
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(100), cores=2, ordered=ordered)
    found = []
    for value in range(8):
        step = numbers(value), numbers(value // 2)
        thread = threading.Thread(target=lambda step=step: found.append(join.push(*step).num_rows))
        thread.start()
        thread.join()
    assert sum(found) == sum(1 for left in range(8) for right in range(8) if left == right // 2)


# Threads end with their join.


def our_threads(*names):
    names = names or ("streamjoin core", "streamjoin tree", "streamjoin source")
    return {each for each in threading.enumerate() if each.name.startswith(names)}


@every_order
def test_threads_end_with_their_join(ordered):
    gc.collect()
    before = our_threads()
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(100), cores=9, ordered=ordered)
    join.push(numbers(1), numbers(1))
    results = join.stream(pairs_of(1000))
    next(results)
    names = [each.name for each in our_threads() - before]
    assert {f"streamjoin core {number}" for number in range(9)} <= set(names)
    gone = ref(join._state.engine.executor)
    del results, join
    gc.collect()
    wait_until(lambda: not our_threads() - before)
    gc.collect()
    assert gone() is None


def test_a_join_that_was_never_used_has_no_threads():
    before = our_threads()
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(100), cores=3)
    saved = join.snapshot()
    join.push(numbers(1))
    sj.StreamJoin.restore(saved)
    assert our_threads() <= before


def test_memory_of_a_long_stream_is_bounded():
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(8), cores=2, ordered="inner")
    assert sum(piece.rows.num_rows for piece in join.stream(pairs_of(400))) == 400
    stats, executor = join.stats, join._state.engine.executor
    assert (stats.rows_left, stats.matches) == (400, 400)
    assert stats.live_left <= 8 + 2 * 4
    assert not executor._sent
