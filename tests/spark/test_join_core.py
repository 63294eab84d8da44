"""Join cores without Spark: any cut, core count, worker, hint and failure gives the same pairs."""

import tempfile
from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from joins.test_contract import CONDITIONS, SCHEMA, conditions, many_rows
from oracle import join_by_count, join_by_time

import streamjoin as sj
from spark.answers import duckdb_pairs, within
from spark.in_process import STEADY, Cluster, Luck, make_join
from streamjoin.joins import engine as engines
from streamjoin.joins import routing
from streamjoin.spark import state

TIME = pa.timestamp("us", "UTC")
TIMED = SCHEMA.set(SCHEMA.get_field_index("t"), pa.field("t", TIME))

random = settings(max_examples=60)
seeds = st.integers(0, 10**6)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Let subwindows, segments and epochs change within a few rows; keep hints apart."""
    monkeypatch.setattr(engines, "FEW_ROWS", 4)
    monkeypatch.setattr(engines, "LEAST_ROWS", 4)
    monkeypatch.setattr(routing, "ENOUGH", 20)
    monkeypatch.setattr(state, "MANY", 4)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


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


def on_time(rows, watermark):
    return [row for row in rows if row["t"] is not None and row["t"] > watermark]


@random
@given(
    seed=seeds,
    name=conditions,
    cores=st.sampled_from([1, 2, 2, 3, 4]),
    routing=st.sampled_from(["auto", "auto", "auto", "split"]),
    before=st.integers(0, 8),
    after=st.integers(1, 8),
    delay=st.sampled_from([0, 2, 5, 100]),
)
def test_time_windows(seed, name, cores, routing, before, after, delay):
    on, predicate = CONDITIONS[name]
    left, right = two_streams(seed)
    join = make_join(
        on, TIMED, cores, routing,
        window=sj.TimeWindow(before=before, after=after), time="t",
    )  # fmt: skip
    cluster = Cluster(join, Luck(), seed, delay)
    found, kept, epochs = Counter(), ([], []), 0
    for step in cut(seed, left, right):
        fresh = [on_time(rows, cluster.watermark or -1) for rows in step]
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
)
@example(3345, "two inequalities", 4, (13, 1), False)  # a late worker meets compacted segments
def test_count_windows(seed, name, cores, sizes, ordered):
    on, predicate = CONDITIONS[name]
    left, right = two_streams(seed)
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    join = make_join(on, TIMED, cores, window=window, order="o" if ordered else None)
    cluster = Cluster(join, Luck(), seed)
    steps, found = cut(seed, left, right), Counter()
    for step in steps:
        found += cluster.pairs(*map(timed, step))
    assert found == join_by_count(steps, predicate, *sizes, "o" if ordered else None)


SKEWED = pa.schema({"id": pa.int64(), "k": pa.int64(), "t": TIME})


def hot(rng, number, rows):
    """Nine of ten rows have one key, and later another one."""
    return np.where(rng.random(rows) < 0.9, number // 8, rng.integers(0, 10**6, rows))


def drifting(rng, number, rows):
    """Keys that move on a little with every batch."""
    return rng.integers(0, 1000, rows) + 40 * number


def narrowing(rng, number, rows):
    """Keys that come to crowd where few were before."""
    return rng.normal(0, 10**6 if number < 5 else 10**3, rows).astype(np.int64)


@pytest.mark.parametrize("luck", [STEADY, Luck(hints=0.0), Luck()], ids=["steady", "lost", "luck"])
@pytest.mark.parametrize(
    ("keys", "on"),
    [(hot, "l.k = r.k"), (drifting, "abs(l.k - r.k) <= 2"), (narrowing, "abs(l.k - r.k) <= 2")],
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
    assert max(shares[:2] + shares[-3:]) < 0.5, shares
