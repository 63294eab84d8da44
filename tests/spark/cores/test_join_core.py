"""Join cores without Spark: any cut, core count, worker, hint and failure gives the same pairs."""

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, event, example, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.errors import SnapshotError
from streamjoin.indexes.catalogue import ONE_KEY, TWO_KEYS
from streamjoin.plans.limits import use_limits
from streamjoin.spark.cores import join_core, portions
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.routing import table as routing
from streamjoin.spark.routing.exchange import StreamPacker
from streamjoin.spark.routing.parcels import Role, unpack_rows
from streamjoin.spark.state import segments as state
from streamjoin.spark.tasks import Moment
from tests.joins.small_streams import CONDITIONS, SCHEMA, TINY, conditions, fitting, many_rows
from tests.oracle import join_by_count, join_by_time
from tests.spark.answers import duckdb_pairs, within
from tests.spark.in_process import STEADY, Cluster, Luck, make_join

TIME = pa.timestamp("us", "UTC")
TIMED = SCHEMA.set(SCHEMA.get_field_index("t"), pa.field("t", TIME))

# Rows come from a seed, which cannot be shrunk.
random = settings(max_examples=16, phases=[Phase.explicit, Phase.reuse, Phase.generate])
seeds = st.integers(0, 10**6)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Let subwindows, segments, portions and epochs change within a few rows; keep hints apart."""
    monkeypatch.setattr(routing, "HISTOGRAM_ROWS", 20)
    monkeypatch.setattr(state, "SMALL_SEGMENTS", 4)
    monkeypatch.setattr(state, "SEGMENT_BYTES", 600)
    monkeypatch.setattr(join_core, "LOAD_BYTES", 1500)
    monkeypatch.setattr(portions, "PORTION_BYTES", 400)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    with use_limits(TINY):
        yield


def timed(rows):
    """Rows as a table; times count milliseconds."""
    return pa.Table.from_pylist(
        [{**row, "t": None if row["t"] is None else 1000 * row["t"]} for row in rows], TIMED
    )


def two_streams(seed, size=80):
    """Rows with ids; in half of the streams keys drift, and one key gets hot in the end."""
    dice, sides = Random(seed), []
    drifts = dice.random() < 0.5
    for first in (0, 1000):
        rows = many_rows(dice, size)
        for place, row in enumerate(rows):
            row["id"] = first + place
            row["t"] = None if row["t"] is None else row["t"] + 1
            if drifts and row["a"] is not None:
                row["a"] += place // 3
            if drifts and place > len(rows) // 2 and dice.random() < 0.9:
                row["k"] = 1
        sides.append(rows)
    return sides


def cut(seed, left, right, most=12):
    """Cut two streams into micro-batches, in which either side may be empty."""
    dice, steps, rows = Random(seed), [], [list(left), list(right)]
    while rows[0] or rows[1]:
        sizes = [dice.choice([0, 1, 2, 5, most]) for _ in rows]
        steps.append(tuple(side[:size] for side, size in zip(rows, sizes, strict=True)))
        rows = [side[size:] for side, size in zip(rows, sizes, strict=True)]
    return steps


def on_time(rows, late_until):
    return [
        row for row in rows if row["t"] is not None and (not late_until or row["t"] > late_until)
    ]


algorithms = st.sampled_from(sorted([*ONE_KEY, *TWO_KEYS]))


@random
@given(
    seed=seeds,
    name=conditions,
    cores=st.sampled_from([1, 2, 2, 3, 4]),
    routing=st.sampled_from(["auto", "auto", "auto", "split"]),
    before=st.integers(0, 8),
    after=st.integers(1, 8),
    delay=st.sampled_from([0, 2, 5, 100]),
    algorithm=algorithms,
)
def test_time_windows(seed, name, cores, routing, before, after, delay, algorithm):
    on, predicate = CONDITIONS[fitting(name, algorithm, timed=True)]
    left, right = two_streams(seed)
    join = make_join(
        on, TIMED, cores, routing, algorithm=algorithm,
        window=sj.TimeWindow(before=before, after=after), time="t",
    )  # fmt: skip
    cluster = Cluster(join, Luck(), seed, delay)
    found, kept, epochs = Counter(), ([], []), 0
    for step in cut(seed, left, right):
        fresh = [on_time(rows, cluster.late_until) for rows in step]
        found += cluster.pairs(*map(timed, step))
        for side, rows in zip(kept, fresh, strict=True):
            side += rows
        epochs = max([epochs, *(len(held.table.epochs) for held in cluster.manifests())])
        if cluster.random.random() < 0.3:
            cluster.idle()
    assert found == join_by_time(*kept, predicate, before, after)
    event(f"{join.routing if cores > 1 else 'one core'}, {epochs} epochs")
    cluster.watermark = 10**6
    cluster.idle()
    for store in cluster.stores.values():
        assert (store.saved, store.segments, store.timers) == (None, {}, set())


@random
@given(
    seed=seeds,
    name=conditions,
    cores=st.integers(1, 4),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    ordered=st.booleans(),
    algorithm=algorithms,
)
@example(
    3345, "two inequalities", 4, (13, 1), False, "bi_sort"
)  # a late worker meets compacted segments
def test_count_windows(seed, name, cores, sizes, ordered, algorithm):
    on, predicate = CONDITIONS[fitting(name, algorithm)]
    left, right = two_streams(seed)
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    order = "o" if ordered else None
    join = make_join(on, TIMED, cores, window=window, order=order, algorithm=algorithm)
    cluster = Cluster(join, Luck(), seed)
    steps, found = cut(seed, left, right), Counter()
    for step in steps:
        found += cluster.pairs(*map(timed, step))
    assert found == join_by_count(steps, predicate, *sizes, "o" if ordered else None)


def plain(first, count, t=1, **values):
    """Rows that all match each other under ``l.a < r.b``."""
    row = {"t": t, "k": 1, "s": "", "a": 0, "b": 1, "x": 0.0, "o": 0, **values}
    return timed([{**row, "id": first + place} for place in range(count)])


NONE = plain(0, 0)
EVERY = "l.a < r.b"


def test_a_retry_in_the_same_worker_after_rows_have_left_a_count_window():
    found = []
    for fails in (False, True):
        cluster = Cluster(make_join(EVERY, TIMED, 2, window=sj.CountWindow(7)))
        cluster.pairs(plain(0, 1), plain(100, 12))  # core 0 keeps six, in two subwindows
        cluster.pairs(NONE, plain(112, 1))
        step = plain(1, 1), plain(113, 1)  # core 0 keeps neither, and drops a subwindow after them
        if fails:
            cluster.fail(*step)
        found.append(cluster.pairs(*step))
    assert found[0] == found[1]


def test_a_worker_that_has_the_engine_reads_nothing(monkeypatch):
    monkeypatch.setattr(state, "SMALL_SEGMENTS", 1000)
    join = make_join(EVERY, TIMED, 2, window=sj.TimeWindow("100 ms"), time="t")
    cluster = Cluster(join)
    for number in range(1, 10):
        cluster.pairs(plain(10 * number, 3, t=number), plain(10 * number, 3, t=number))
        assert sum(store.reads for store in cluster.stores.values()) == 0
    assert cluster.metrics.cache_hits == 2
    cluster.restart()
    held = sum(len(store.segments) for store in cluster.stores.values())
    assert held > 2 * 9
    cluster.pairs(plain(1, 1, t=10), plain(1, 1, t=10))
    assert cluster.metrics.cache_misses == 2
    assert sum(store.reads for store in cluster.stores.values()) == held


@pytest.mark.parametrize("window", [sj.TimeWindow("10 days"), sj.CountWindow(10**6)], ids=str)
def test_many_small_segments_are_put_together(window, monkeypatch):
    monkeypatch.setattr(state, "SMALL_SEGMENTS", 32)
    monkeypatch.setattr(state, "SEGMENT_BYTES", 1 << 20)
    others = {"time": "t"} if isinstance(window, sj.TimeWindow) else {}
    cluster = Cluster(make_join(EVERY, TIMED, 1, window=window, **others))
    [store] = cluster.stores.values()
    written = 0
    for number in range(300):
        before = set(store.segments)
        found = cluster.pairs(plain(number, 1, t=number + 1), NONE)
        assert not found
        written += sum(
            segment.rows for segment in store.manifest.segments if segment.id not in before
        )
        assert len(store.segments) <= 33
    assert cluster.rows_held() == [300]
    assert written < 300 * 6  # a row is written O(log n) times
    assert cluster.pairs(NONE, plain(0, 1, t=300)).total() == 300


def test_one_time_far_ahead_does_not_keep_the_state():
    join = make_join(EVERY, TIMED, 1, window=sj.TimeWindow("5 ms"), time="t")
    cluster, held = Cluster(join), []
    for number in range(1, 100):
        left = pa.concat_tables([plain(0, 10, t=10 * number), plain(10, number == 3, t=10**9)])
        cluster.pairs(left, plain(0, 10, t=10 * number))
        held.append(cluster.rows_held()[0])
    assert max(held) <= 60


def test_rows_held_are_those_that_the_window_needs():
    join = make_join(EVERY, TIMED, 3, window=sj.TimeWindow(before=7, after=3), time="t")
    cluster = Cluster(join, Luck(failures=0.2), seed=1, delay=2)
    for number in range(1, 40):
        sides = [[{"t": 2 * number - late} for late in (0, 1, 2, 9)] for _ in range(2)]
        late_until = cluster.late_until or -100
        rows = [plain(4 * number, 0)] * 2
        for side, times in enumerate(sides):
            rows[side] = pa.concat_tables(
                plain(4 * number + place, 1, **row) for place, row in enumerate(times)
            )
        cluster.pairs(*rows)
        late = sum(row["t"] <= late_until for times in sides for row in times)
        assert cluster.metrics.late == late
        assert cluster.metrics.rows_left == cluster.metrics.rows_right == 4
        assert cluster.metrics.live_rows == sum(cluster.rows_held())
        # Of a batch's times all but the late ones are needed together, or not at all.
        assert sum(cluster.rows_held()) <= 3 * (7 + 3 + 2 * 2 + 4)


def test_times_after_the_year_9999():
    join = make_join(EVERY, TIMED, 2, window=sj.TimeWindow("5 ms"), time="t")
    cluster, far = Cluster(join), 10**15
    assert cluster.pairs(plain(0, 1, t=far), plain(0, 1, t=far)).total() == 1
    assert cluster.pairs(plain(1, 1, t=far + 1), plain(1, 1, t=far + 1)).total() == 3


def test_rows_before_1970_are_not_late_while_there_is_no_watermark():
    join = make_join(EVERY, TIMED, 2, window=sj.TimeWindow("5 ms"), time="t")
    cluster = Cluster(join)
    assert cluster.pairs(plain(0, 2, t=-(10**6)), plain(0, 2, t=-(10**6))).total() == 4
    assert cluster.pairs(plain(2, 1, t=-(10**6)), plain(2, 1, t=-(10**6))).total() == 5


@pytest.mark.parametrize(
    ("on", "columns", "window", "told"),
    [
        ("l.a <= r.b", 8, sj.TimeWindow("5 ms"), "condition was l.a < r.b and is l.a <= r.b"),
        (EVERY, 7, sj.TimeWindow("5 ms"), "left columns was id bigint, t timestamp, k bigint"),
        (EVERY, 8, sj.TimeWindow("6 ms"), "after=5 milliseconds) and is TimeWindow(before=6 mill"),
        (EVERY, 8, sj.CountWindow(5), "and is CountWindow(left=5, right=5)"),
        ("l.k = r.k", 8, sj.TimeWindow("5 ms"), "routing was split and is hash"),
    ],
)
def test_another_join_is_refused(on, columns, window, told):
    first = make_join(EVERY, TIMED, 2, window=sj.TimeWindow("5 ms"), time="t")
    cluster = Cluster(first)
    cluster.pairs(plain(0, 1), plain(0, 1))
    time = "t" if isinstance(window, sj.TimeWindow) else None
    other = make_join(on, pa.schema(list(TIMED)[:columns]), 2, window=window, time=time)
    [store, _] = cluster.stores.values()
    JoinCore(first, first.labels[0], store, 0, cluster.moment)
    with pytest.raises(SnapshotError) as caught:
        JoinCore(other, other.labels[0], store, 0, cluster.moment)
    assert told in str(caught.value)
    assert "go back to the join that began it, or start this one with a new" in str(caught.value)


SKEWED = pa.schema({"id": pa.int64(), "k": pa.int64(), "t": TIME})


def hot(rng, number, rows):
    """Nine of ten rows have one key, and later another one."""
    return np.where(rng.random(rows) < 0.9, number // 8, rng.integers(0, 10**6, rows))


def drifting(rng, number, rows):
    """Keys that move on a little with every batch."""
    return rng.integers(0, 1000, rows) + 40 * number


def rising(rng, number, rows):
    """Keys that are always greater than all before, as those of a sequence."""
    return np.arange(rows) + rows * number


def narrowing(rng, number, rows):
    """Keys that come to crowd where few were before."""
    return rng.normal(0, 10**6 if number < 5 else 10**3, rows).astype(np.int64)


BAND = "abs(l.k - r.k) <= 2"


@pytest.mark.parametrize("luck", [STEADY, Luck(hints=0.0), Luck()], ids=["steady", "lost", "luck"])
@pytest.mark.parametrize(
    ("keys", "on"),
    [
        (hot, "l.k = r.k"),
        (drifting, BAND),
        (narrowing, BAND),
        (rising, BAND),
    ],
)
def test_skew_and_drift_are_spread(keys, on, luck):
    rng, rows, window = np.random.default_rng(1), 150, sj.TimeWindow("5 ms")
    cluster = Cluster(make_join(on, SKEWED, 3, window=window, time="t"), luck, delay=1)
    found, sides, epochs, shares = Counter(), ([], []), set(), []
    for number in range(16):
        for side in sides:
            times = pa.array(np.sort(rng.integers(0, 10, rows) + 10 * number + 1) * 1000, TIME)
            ids = np.arange(rows) + number * rows
            side.append(pa.table([ids, keys(rng, number, rows), times], schema=SKEWED))
        found += cluster.pairs(sides[0][-1], sides[1][-1])
        epochs.add(str(cluster.manifests()[0].table.splitters))
        shares.append(max(cluster.rows_held()) / sum(cluster.rows_held()))
    assert found == duckdb_pairs(*map(pa.concat_tables, sides), f"{on} and {within(window)}")
    assert len(epochs) > 1
    # Of hashes nothing is known in the first batch; its rows leave the window with the second one.
    first = 2 if keys is hot and luck.hints else 0
    assert max(shares[first : first + 2] + shares[-3:]) < 0.5, shares


def test_the_first_batch_of_an_equality_goes_to_one_core_each(monkeypatch):
    spec = make_join("l.k = r.k", SKEWED, 4, window=sj.TimeWindow("5 ms"), time="t")
    times = pa.array(np.full(1000, 5000), TIME)
    rows = pa.table([np.arange(1000), np.arange(1000), times], schema=SKEWED)

    def packed(batch):
        monkeypatch.setattr(Moment, "current", lambda: Moment("query", "run", batch))
        sent = [row for each in StreamPacker(spec, "left")(iter(rows.to_batches()))
                for row in each.to_pylist()]  # fmt: skip
        counts = [unpack_rows(row["data"])[0].num_rows for row in sent]
        return {row["role"] for row in sent}, counts

    roles, counts = packed(0)
    assert roles == {Role.STORE}
    assert sum(counts) == 1000
    assert max(counts) < 300
    assert packed(1) == ({Role.PICK}, [1000] * 4)  # the state may have another table
