"""Ordered results on Spark: each joined row has the numbers that the definition gives it.

Arrival is micro-batch, then the ``order`` column if there is one, then left before right, then the
place in the batch. Rows that cannot match, and late ones, count too.
"""

from collections import Counter
from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.errors import SnapshotError
from streamjoin.options.ordering import Ordering
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.test_contract import CONDITIONS, conditions, fitting
from tests.spark.cores.test_join_core import (
    EVERY,
    NONE,
    TIMED,
    algorithms,
    cut,
    on_time,
    plain,
    random,
    seeds,
    small,  # noqa: F401
    timed,
    two_streams,
)
from tests.spark.in_process import Cluster, Luck, make_join
from tests.spark.streams import random_batches as streaming
from tests.spark.streams.running import Streams, finish

ORDERS = ["outer", "inner", 1, 3, 1000]
OTHER = {"left": "right", "right": "left"}


def matches_in_order(steps, meets, order=None):
    """Yield (arrival, place, left id, right id) of all matches, in inner order: a nested loop.

    ``steps`` are the (left, right) rows of each micro-batch; ``meets`` gets the side of the row
    that comes, the row, another one of the other stream, and how many came after that one.
    """
    seen, arrival = {"left": [], "right": []}, 0
    for left, right in steps:
        arriving = [("left", row) for row in left] + [("right", row) for row in right]
        if order is not None:
            arriving.sort(key=lambda each: each[1][order])  # stable: left stays first
        for side, row in arriving:
            others = seen[OTHER[side]]
            for place, other in enumerate(others):
                if meets(side, row, other, len(others) - place):
                    pair = (row, other) if side == "left" else (other, row)
                    yield arrival, place, pair[0]["id"], pair[1]["id"]
            seen[side].append(row)
            arrival += 1


def pairwise(predicate):
    """Let a predicate take the row that comes, and another one."""
    return lambda side, row, other: (
        predicate(row, other) if side == "left" else predicate(other, row)
    )


def in_groups(expected, ordered):
    """Return matches as joined rows have them: ids, and the columns that ``ordered`` asks for."""
    precision = Ordering.parse(ordered).precision
    return [
        (left, right, arrival, *([] if precision is None else [place // precision]))
        for arrival, place, left, right in expected
    ]


def numbered(batches):
    """Return ids and order columns of joined rows, in the order they came."""
    names = ["id", "id_right", "_arrival", "_matched"]
    return [
        tuple(row[name] for name in names if name in row)
        for batch in batches
        for row in batch.to_pylist()
    ]


def by_order(row):
    return row[2:]


def assert_ordered(found, expected, ordered):
    """Assert that rows, sorted by their order columns, are in the order of the definition."""
    expected = in_groups(expected, ordered)
    assert Counter(found) == Counter(expected)
    assert sorted(expected, key=by_order) == expected
    if ordered in ("inner", 1):  # no two rows are equal in the order
        assert sorted(found, key=by_order) == expected


class OrderedCluster(Cluster):
    """A cluster that asserts that what leaves a core in a micro-batch is in order."""

    def _task(self, label, work):
        rows = super()._task(label, work)
        found = numbered(rows)
        assert found == sorted(found, key=by_order)
        return rows


@pytest.fixture(autouse=True)
def few_at_once():
    """Let cores send their rows in many parts."""
    with use_limits(Limits(ordered_candidates=16)):
        yield


@random
@given(
    seed=seeds,
    name=conditions,
    cores=st.sampled_from([1, 2, 2, 3, 4]),
    before=st.integers(0, 8),
    after=st.integers(1, 8),
    delay=st.sampled_from([0, 2, 5, 100]),
    ordered=st.sampled_from(ORDERS),
    algorithm=algorithms,
)
def test_time_windows(seed, name, cores, before, after, delay, ordered, algorithm):
    on, predicate = CONDITIONS[fitting(name, algorithm, timed=True)]
    matches = pairwise(predicate)
    join = make_join(
        on, TIMED, cores, algorithm=algorithm, ordered=ordered,
        window=sj.TimeWindow(before=before, after=after), time="t",
    )  # fmt: skip
    cluster, dice = OrderedCluster(join, Luck(), seed, delay), Random(seed)
    steps, found, fresh = cut(seed, *two_streams(seed)), [], set()
    for step in steps:
        fresh |= {row["id"] for rows in step for row in on_time(rows, cluster.late_until)}
        found += numbered(cluster.batch(*map(timed, step)))
        if dice.random() < 0.3:
            cluster.idle()

    def meets(side, row, other, _):
        if not {row["id"], other["id"]} <= fresh:
            return False
        later = (other["t"] - row["t"]) * (1 if side == "left" else -1)
        return -before <= later <= after and matches(side, row, other)

    assert_ordered(found, list(matches_in_order(steps, meets)), ordered)
    cluster.watermark = 10**6
    cluster.idle()
    for store in cluster.stores.values():
        assert (store.segments, store.timers) == ({}, set())


@random
@given(
    seed=seeds,
    name=conditions,
    cores=st.integers(1, 4),
    most=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    order=st.sampled_from([None, "o"]),
    ordered=st.sampled_from(ORDERS),
    algorithm=algorithms,
)
@example(3345, "two inequalities", 4, (13, 1), None, "inner", "bi_sort")  # compacted segments
def test_count_windows(seed, name, cores, most, order, ordered, algorithm):
    on, predicate = CONDITIONS[fitting(name, algorithm)]
    matches = pairwise(predicate)
    window = sj.CountWindow(left=most[0], right=most[1])
    join = make_join(
        on, TIMED, cores, algorithm=algorithm, ordered=ordered, window=window, order=order
    )
    cluster = OrderedCluster(join, Luck(), seed)
    steps = cut(seed, *two_streams(seed))
    found = [row for step in steps for row in numbered(cluster.batch(*map(timed, step)))]

    def meets(side, row, other, back):
        return back <= getattr(window, OTHER[side]) and matches(side, row, other)

    assert_ordered(found, list(matches_in_order(steps, meets, order)), ordered)


WINDOWS = [{"window": sj.TimeWindow("100 ms"), "time": "t"}, {"window": sj.CountWindow(6)}]


@pytest.mark.parametrize("window", WINDOWS, ids=["time", "count"])
def test_a_retry_and_a_restart_give_the_same_numbers(window):
    steps = [(plain(10 * n, 3, t=n), plain(100 + 10 * n, 2, t=n)) for n in range(1, 8)]
    found = []
    for trouble in (False, True):
        cluster = OrderedCluster(make_join(EVERY, TIMED, 3, ordered="inner", **window))
        rows = []
        for number, step in enumerate(steps):
            if trouble:
                cluster.fail(*step)
            if trouble and number % 2:
                cluster.restart()
            rows += numbered(cluster.batch(*step))
        found.append(sorted(rows, key=by_order))
    assert found[0] == found[1]
    assert len(found[0]) > 50


def test_numbers_go_on_when_all_rows_have_left_the_window():
    join = make_join(EVERY, TIMED, 2, window=sj.TimeWindow("5 ms"), time="t", ordered="inner")
    cluster = OrderedCluster(join)
    assert numbered(cluster.batch(plain(0, 2), plain(10, 1))) == [(0, 10, 2, 0), (1, 10, 2, 1)]
    cluster.watermark = cluster.last_watermark = 10**6
    cluster.idle()
    assert cluster.rows_held() == [0, 0]
    late, fresh = plain(2, 1, t=7), plain(3, 1, t=2 * 10**6)
    found = cluster.batch(pa.concat_tables([late, fresh]), plain(11, 1, t=2 * 10**6))
    assert numbered(found) == [(3, 11, 5, 3)]
    assert (cluster.metrics.late, cluster.metrics.rows_left, cluster.metrics.probes) == (1, 2, 4)


def test_a_worker_that_was_elsewhere_does_not_set_numbers_back():
    join = make_join(EVERY, TIMED, 1, window=sj.TimeWindow("5 ms"), time="t", ordered="inner")
    cluster = OrderedCluster(join)
    cluster.batch(plain(0, 1, t=3), NONE)
    [here], elsewhere = cluster.workers, type(cluster.workers[0])(cluster.workers[0])
    cluster.workers = [type(here)()]
    cluster.batch(plain(1, 4, a=None, t=3), NONE)  # they count, and nothing is stored
    cluster.workers, cluster.watermark = [elsewhere], 100
    cluster.idle()  # drops the row that is held, in the worker that has not seen the others
    cluster.batch(plain(5, 1, t=200), NONE)
    assert numbered(cluster.batch(NONE, plain(9, 1, t=200))) == [(5, 9, 6, 5)]


def test_rows_far_ahead_are_read_back_in_their_order():
    join = make_join(EVERY, TIMED, 1, window=sj.TimeWindow("1 s"), time="t", ordered="inner")
    cluster, far = OrderedCluster(join), 10**6
    times = [1, far, 1, 1, far]
    cluster.batch(pa.concat_tables(plain(i, 1, t=t) for i, t in enumerate(times)), NONE)
    [manifest] = cluster.manifests()
    assert [segment.rows for segment in manifest.segments] == [3, 2]  # those far ahead apart
    cluster.restart()
    found = numbered(cluster.batch(NONE, plain(9, 1, t=far)))
    assert found == [(1, 9, 5, 1), (4, 9, 5, 4)]


def test_a_state_of_another_order_is_refused():
    window = {"window": sj.CountWindow(5)}
    cluster = Cluster(make_join(EVERY, TIMED, 2, **window))
    cluster.batch(plain(0, 1), plain(0, 1))
    cluster.spec = make_join(EVERY, TIMED, 2, ordered=4, **window)
    with pytest.raises(SnapshotError, match="ordered was nothing and is 4"):
        cluster.batch(plain(1, 1), plain(1, 1))


@pytest.mark.spark
@pytest.mark.slow
def test_a_streaming_query(session, tmp_path):
    streams, batches = Streams(session, tmp_path), streaming.make_batches(6, count=3, latest=14)
    for batch in batches:
        streams.add(*map(streaming.table, batch))
    window, on = streaming.WINDOW, "l.k = r.k and l.s || r.s <> 'ab'"
    joined = streams.join(on, window=window, time="t", cores=2, ordered="inner")
    assert joined.columns[-2:] == ["_arrival", "_matched"]
    query = streams.start(joined)
    finish(query)
    fresh = {row["id"] for rows in streaming.flat(streaming.on_time(batches)) for row in rows}

    def meets(side, row, other, _):
        left, right = (row, other) if side == "left" else (other, row)
        return (
            {row["id"], other["id"]} <= fresh
            and streaming.same(left, right)
            and left["s"] + right["s"] != "ab"
            and -window.before_us <= right["t"] - left["t"] <= window.after_us
        )

    expected = in_groups(matches_in_order(batches, meets), "inner")
    columns = ["id", "id_right", "_arrival", "_matched"]
    ordered = session.table(query.name).orderBy("_arrival", "_matched").select(*columns)
    assert [tuple(row) for row in ordered.collect()] == expected
    assert len(expected) > 100
