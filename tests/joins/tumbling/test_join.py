"""What tumbling windows alone have: eager algorithms, and an oracle beside ours."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import EAGER
from streamjoin.joins.equality.lazy.prj import join_parts
from streamjoin.joins.equality.words import PAD, rows_of, uppers_of
from tests.joins.closing.streams import (
    KNOBS,
    WINDOWS,
    all_so_far,
    before_1970,
    equalities,
    expected,
    go,
    joined,
)
from tests.joins.closing.window_oracle import Arrived, pushed
from tests.joins.small_streams import CONDITIONS, conditions, duckdb_pairs, streams

random = settings(max_examples=15, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("algorithm", ["auto", *EAGER, "bi_sort", "pim_tree"])
@random
@given(data=st.data(), name=equalities, threads=st.sampled_from([1, 2, 3]))
def test_equalities_as_rows_come(algorithm, data, name, threads):
    rows, window = before_1970(data.draw(streams(most=20))), data.draw(WINDOWS["tumbling"])
    tuning = data.draw(st.sampled_from([None, KNOBS.get(algorithm)]))
    options = {"threads": threads, "tuning": tuning, "emit": "eager"}
    join = sj.StreamJoin(CONDITIONS[name][0], window, "t", algorithm=algorithm, **options)
    after = [] if algorithm.startswith("pmj") else [all_so_far(name, window)]
    found, _ = go(data, join, rows, arrived := Arrived(), *after)
    assert found == expected(arrived.sides, name, window)
    event(f"late rows: {arrived.late > 0}")


@pytest.mark.parametrize("algorithm", ["pmj_jm", "pmj_jb"])
@settings(random, max_examples=25)
@given(
    data=st.data(),
    delta=st.integers(1, 7),
    saves=st.sets(st.integers(0, 12), max_size=3),
    threads=st.sampled_from([1, 2, 3]),
)
def test_runs_survive_a_save_in_the_middle_of_a_window(algorithm, data, delta, saves, threads):
    left, right = data.draw(streams(most=15))
    window = sj.TumblingWindow(1000)
    join = sj.StreamJoin(
        CONDITIONS["equality"][0],
        window,
        "t",
        algorithm=algorithm,
        threads=threads,
        tuning={"delta": delta},
    )
    found, size = Counter(), data.draw(st.integers(1, 4))
    for number, first in enumerate(range(0, max(len(left), len(right)), size)):
        if number in saves:
            join = sj.StreamJoin.restore(join.snapshot())
        span = slice(first, first + size)
        found += joined(join.push(**pushed(left[span], right[span])))
    found += joined(join.finish())
    assert found == expected((left, right), "equality", window)


def test_many_rows_of_one_key_in_a_small_partition():
    """Buckets of a table are told apart by the bits of the code only, not by those of the row."""
    code = np.uint64(0xABCDEF01 << 32)
    left, right = (code | np.array(rows, np.uint64) for rows in (range(64), [2**31 - 1]))
    counts = np.empty(1, np.int32)
    whole = np.array([0, left.size]), np.array([0, 1])
    total = join_parts(np.append(left, np.zeros(PAD, np.uint64)), right, *whole, 28, counts)
    assert (total, counts.tolist()) == (64, [64])
    assert (uppers_of(right).tolist(), rows_of(right).tolist()) == ([0], [2**31 - 1])


@settings(random, max_examples=25)
@given(rows=streams(most=20), name=conditions, window=WINDOWS["tumbling"])
def test_the_oracle_agrees_with_duckdb(rows, name, window):
    sides = before_1970(rows)
    length, offset = window.length_us // 1000, window.offset_us // 1000
    numbers = [f"floor(({side}.t - {offset}) / {length})" for side in "lr"]
    on = f"({CONDITIONS[name][0]}) and {numbers[0]} = {numbers[1]}"
    assert expected(sides, name, window) == duckdb_pairs(on, *sides)


@pytest.mark.parametrize("algorithm", ["auto", "shj_jm", "pmj_jb"])
def test_thousands_of_windows_in_one_push(algorithm):
    """Two rows a side in each; those of the second push are in windows that the first opened."""
    times = np.arange(4_000)
    rows = pa.table(
        {"k": np.zeros(4_000, np.int64), "t": np.random.default_rng(3).permutation(times)}
    )
    join = sj.StreamJoin(
        "l.k = r.k", sj.TumblingWindow(2), "t", algorithm=algorithm, threads=1, emit="eager"
    )
    half = rows.slice(0, 2_000)
    total = (
        join.push(half, half).num_rows + join.push(rows.slice(2_000), rows.slice(2_000)).num_rows
    )
    assert join.stats.subwindows == 2_000
    assert len(join._state.engine.executor.adviser.watched) <= 64
    assert total + join.finish().num_rows == 2_000 * 4


def test_many_small_pushes_wait_in_few_batches():
    join = sj.StreamJoin("l.k = r.k", sj.TumblingWindow(1_000), "t", threads=1)
    for time in range(500):
        row = pa.table({"k": [time % 5], "t": [time * 3]})
        join.push(row, row)
    waiting = join._state.engine.executor.pending["left"].waiting
    assert len(waiting) <= 10
    assert np.concatenate([each.batch.times for each in waiting]).tolist() == list(
        range(0, 1500, 3)
    )
    matches = 4 * 67**2 + 66**2, 34**2 + 4 * 33**2  # of 334 and 166 rows, by five keys
    assert (join.advance(1_000).num_rows, join.finish().num_rows) == matches


@pytest.mark.parametrize("emit", ["close", "eager"])
def test_statistics_count_what_closes(emit):
    join = sj.StreamJoin("l.k = r.k", sj.TumblingWindow(10), "t", threads=1, emit=emit)
    left = pa.table({"k": [1, 1, 1], "t": [0, 10, 20]})
    join.push(left, left.slice(1))
    assert join.stats.commands == {"close": 0}
    join.advance(20)
    assert (join.stats.commands, join.stats.subwindows) == ({"close": 2}, 1)
    join.finish()
    assert (join.stats.commands, join.stats.subwindows) == ({"close": 3}, 0)
    assert join.stats.seconds["probe"] > 0
