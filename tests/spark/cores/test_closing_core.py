"""Cores of windows that close, without Spark: any cut, worker and failure gives the same pairs."""

from collections import Counter

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.spark.cores import join_core, portions
from streamjoin.spark.state import segments as state
from tests.joins.small_streams import CONDITIONS
from tests.spark.cores.test_join_core import TIMED, cut, on_time, seeds, timed, two_streams
from tests.spark.in_process import Cluster, Luck, make_join, pairs_of

random = settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])

EQUAL = ["npj", "prj", "mway", "mpass", "auto", "bi_sort"]
EAGER = ["shj_jm", "shj_jb", "pmj_jm", "pmj_jb", "auto"]


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Let portions and segments be small, these put together after a few; keep hints apart."""
    monkeypatch.setattr(state, "SMALL_SEGMENTS", 4)
    monkeypatch.setattr(state, "SEGMENT_BYTES", 600)
    monkeypatch.setattr(join_core, "LOAD_BYTES", 1500)
    monkeypatch.setattr(portions, "PORTION_BYTES", 400)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))


def sessions(left, right, gap, keyed):
    """Return the session of each row, by its id: one number for each."""
    groups, found = {}, {}
    for row in [*left, *right]:
        if row["k"] is not None or not keyed:
            groups.setdefault(row["k"] if keyed else None, []).append(row)
    for rows in groups.values():
        last, number = None, 0
        for row in sorted(rows, key=lambda row: row["t"]):
            if last is None or row["t"] - last > gap:
                number = len(found)
            found[row["id"]], last = number, row["t"]
    return found


def run(join, seed, delay):
    """Run a stream on a cluster of bad luck; return its pairs, and the rows that were on time."""
    left, right = two_streams(seed)
    cluster = Cluster(join, Luck(), seed, delay)
    found, kept = Counter(), ([], [])
    for step in cut(seed, left, right):
        fresh = [on_time(rows, cluster.late_until) for rows in step]
        found += cluster.pairs(*map(timed, step))
        for side, rows in zip(kept, fresh, strict=True):
            side += rows
        if cluster.random.random() < 0.3:
            found += pairs_of(cluster.idle())
    cluster.watermark = 10**6
    while any(store.timers for store in cluster.stores.values()):
        found += pairs_of(cluster.idle())
    for store in cluster.stores.values():
        assert (store.saved, store.segments, store.timers) == (None, {}, set())
    return found, *kept


def join_all(left, right, predicate, together):
    return Counter(
        (one["id"], two["id"])
        for one in left
        for two in right
        if predicate(one, two) and together(one, two)
    )


@random
@given(
    seed=seeds,
    name=st.sampled_from(["equality", "two equalities", "text", "band", "two inequalities"]),
    cores=st.sampled_from([1, 2, 3]),
    length=st.integers(1, 12),
    delay=st.sampled_from([0, 2, 5, 100]),
    algorithm=st.sampled_from([*EQUAL, *EAGER]),
    emit=st.sampled_from(["close", "eager"]),
)
@example(181997, "text", 3, 11, 0, "mway", "close")  # a core without rows forgets a watermark
def test_tumbling(seed, name, cores, length, delay, algorithm, emit):
    on, predicate = CONDITIONS[name]
    if name in ("band", "two inequalities") and algorithm != "bi_sort":
        algorithm = "auto"  # the others join by equality
    if algorithm != "auto" and ("jm" in algorithm or "jb" in algorithm):
        emit = "eager"
    elif algorithm in ("npj", "prj", "mway", "mpass"):
        emit = "close"
    tuning = {"delta": 6} if "pmj" in algorithm else {}
    join = make_join(
        on, TIMED, cores, algorithm=algorithm, emit=emit, tuning=tuning,
        window=sj.TumblingWindow(length), time="t",
    )  # fmt: skip
    found, left, right = run(join, seed, delay)

    def same(one, two):
        return one["t"] // length == two["t"] // length

    assert found == join_all(left, right, predicate, same)


@random
@given(
    seed=seeds,
    keyed=st.booleans(),
    cores=st.sampled_from([1, 2, 3]),
    gap=st.integers(1, 6),
    delay=st.sampled_from([0, 2, 5, 100]),
    emit=st.sampled_from(["close", "eager"]),
)
def test_sessions(seed, keyed, cores, gap, delay, emit):
    on = "l.k = r.k and l.a <= r.b" if keyed else "l.a <= r.b"
    window = sj.SessionWindow(gap)
    join = make_join(on, TIMED, cores if keyed else 1, emit=emit, window=window, time="t")
    found, left, right = run(join, seed, delay)
    number = sessions(left, right, gap, keyed)

    def predicate(one, two):
        return (
            (not keyed or (one["k"] is not None and one["k"] == two["k"]))
            and None not in (one["a"], two["b"])
            and one["a"] <= two["b"]
        )

    def same(one, two):
        return number.get(one["id"], -1) == number.get(two["id"], -2)

    assert found == join_all(left, right, predicate, same)
