"""The handshake join finds what the join in one piece finds, however batches cross in flight."""

import time
from collections import Counter, deque
from threading import Thread

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from benchmarks.splitjoin.handshake import ChainedCore, Handshake
from streamjoin.joins.build import make_engine
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.limits import Limits, use_limits
from streamjoin.plans.plan import SIDES

SCHEMA = pa.schema({"x": pa.int64(), "t": pa.timestamp("us"), "id": pa.int64()})
ON = "abs(l.x - r.x) <= 1"
random = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
keys = st.lists(st.one_of(st.none(), st.integers(0, 5)), min_size=0, max_size=5)
steps = st.lists(st.tuples(st.sampled_from(SIDES), keys), min_size=3, max_size=14)
windows = st.one_of(
    st.builds(sj.CountWindow, left=st.integers(1, 12), right=st.integers(1, 12)),
    st.builds(lambda us: sj.TimeWindow(f"{us} us"), st.integers(1, 12)),
)


@pytest.fixture(autouse=True)
def tiny_subwindows():
    with use_limits(Limits(least_counted_rows=4, least_timed_rows=4)):
        yield


def batches_of(steps):
    """Number the rows; the streams' times go on side by side."""
    made, next_id = [], 0
    clock = dict.fromkeys(SIDES, 0)
    for side, xs in steps:
        ids = list(range(next_id, next_id + len(xs)))
        times = list(range(clock[side], clock[side] + len(xs)))
        next_id, clock[side] = next_id + len(xs), clock[side] + len(xs)
        made.append((side, pa.record_batch({"x": xs, "t": times, "id": ids}, schema=SCHEMA)))
    return made


def chained_engine(window, algorithm, cores):
    """Return an engine, and a chain in the place of its executor."""
    time = "t" if isinstance(window, sj.TimeWindow) else None
    config = JoinOptions.check(ON, window, time, algorithm=algorithm, cores=cores, ordered="outer")
    engine = make_engine(config, dict.fromkeys(SIDES, SCHEMA))
    engine.executor = Handshake([core.manager for core in engine.executor.cores], depth=1)
    return engine


def expected(window, batches, delay):
    is_timed = isinstance(window, sj.TimeWindow)
    delay = f"{delay} us" if is_timed and delay is not None else None
    join = sj.StreamJoin(ON, window, time="t" if is_timed else None, delay=delay)
    nothing = pa.record_batch({"x": [], "t": [], "id": []}, schema=SCHEMA)
    join.push(nothing, nothing.slice(0))
    return sum((pairs([join.push(**{side: batch})]) for side, batch in batches), Counter())


def pairs(tables):
    rows = [row for table in tables for row in table.to_pylist()]
    return Counter((row["id"], row["id_right"]) for row in rows)


def rows_of(parts):
    found = [each for part in parts for side in part.found.values() for each in side]
    return pairs(rows for delivery in found for rows in delivery.rows)


@random
@given(
    data=st.data(),
    steps=steps,
    window=windows,
    algorithm=st.sampled_from(["scan", "bi_sort"]),
    count=st.integers(1, 4),
    delay=st.one_of(st.none(), st.integers(0, 3)),
)
def test_any_interleaving_finds_every_pair_once(data, steps, window, algorithm, count, delay):
    """Queues stand for the channels, and any queue may come next."""
    engine = chained_engine(window, algorithm, count)
    cores = engine.executor.cores
    queues = {(core, side): deque() for core in range(count) for side in SIDES}
    inputs, batches = deque(), batches_of(steps)
    found = Counter()

    def send(side, batch):
        coming = engine.prepare({side: batch})
        engine.count(coming)
        for message in engine.executor.messages(coming.prepared, engine.clock):
            queues[0 if message.way == "left" else count - 1, message.way].append(message)
        if delay is not None and isinstance(window, sj.TimeWindow):
            engine.follow(delay)

    inputs.extend(batches)
    while inputs or any(queues.values()):
        ready = [place for place, queue in queues.items() if queue] + ["source"] * bool(inputs)
        place = data.draw(st.sampled_from(ready))
        if place == "source":
            send(*inputs.popleft())
            continue
        core, side = place
        message = queues[place].popleft()
        onward = core + (1 if side == "left" else -1)
        if (onward, side) in queues:
            queues[onward, side].append(message)
        found += rows_of(cores[core].take(message))
    crossed = sum(core.crossings for core in cores)
    event("batches crossed" if crossed else "no batches crossed")
    assert found == expected(window, batches, delay)
    waiting = [len(core.passed[side]) for core in cores for side in SIDES]
    assert not any(waiting)  # every buffer is trimmed in the end


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.randoms(use_true_random=False),
    steps=st.lists(st.tuples(st.sampled_from(SIDES), keys), min_size=10, max_size=30),
    window=windows,
    count=st.integers(1, 4),
)
def test_threads_that_dawdle_find_every_pair_once(seed, steps, window, count):
    engine, batches = chained_engine(window, "bi_sort", count), batches_of(steps)
    pauses = [seed.choice([0, 0, 0.0005]) for _ in range(50)]

    def dawdle(core, message):
        time.sleep(pauses[(7 * core.number + message.number) % len(pauses)])
        return ChainedCore.take(core, message)

    for core in engine.executor.cores:
        core.take = dawdle.__get__(core)

    def read():
        for side, batch in batches:
            engine.submit({side: batch})
        engine.executor.submit_last()

    Thread(target=read, daemon=True).start()
    found = Counter()
    for gathered in engine.executor.gathered():
        found += pairs(rows for delivery in gathered.found for rows in delivery.rows)
        if gathered.step.is_last and gathered.ends:
            break
    assert found == expected(window, batches, None)
    assert [timing.step for timing in engine.executor.timings][-1] == len(batches) + 1
    assert all(len(timing.spans) == count for timing in engine.executor.timings)
    engine.executor.stop()


def test_an_error_in_a_core_reaches_the_collector():
    engine = chained_engine(sj.CountWindow(4), "scan", 2)

    def fail(*_):
        raise MemoryError("no more")

    engine.executor.cores[1].manager.probe = fail
    engine.submit({"left": batches_of([("left", [1])])[0][1]})
    with pytest.raises(MemoryError):
        next(each for each in engine.executor.gathered() if each.ends)
    engine.executor.stop()
