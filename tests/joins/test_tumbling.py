"""Tumbling windows: the oracle's pairs, when they close or as rows come, however they come."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from joins.closing_streams import go, joined
from joins.small_streams import CONDITIONS, conditions, duckdb_pairs, pairs, streams, table
from joins.window_oracle import Arrived, pushed, tumbling
from streamjoin.advisor import EAGER, LAZY
from streamjoin.intrawindow.prj import join_parts
from streamjoin.intrawindow.tables import PAD

random = settings(max_examples=15, suppress_health_check=list(HealthCheck))
KNOBS = {
    "prj": {"bits": 2},
    "mway": {"run_rows": 3},
    "mpass": {"run_rows": 3},
    "pmj_jm": {"delta": 4},
    "pmj_jb": {"delta": 5},
}
equalities = st.sampled_from(["equality", "text", "two equalities", "null-safe", "residual text"])
windows = st.tuples(st.integers(1, 12), st.integers(0, 7))


def before_1970(rows):
    """The same rows with times on both sides of 1970."""
    return [
        [row if row["t"] is None else {**row, "t": row["t"] - 14} for row in side] for side in rows
    ]


def exactly(arrived, found, predicate, window, until):
    assert found == tumbling(*arrived.sides, predicate, *window, until=until)


def closed_so_far(predicate, window):
    """At any time, just the windows are out that the watermark has passed."""

    def check(found, arrived):
        until = -(10**9) if arrived.watermark is None else arrived.watermark
        exactly(arrived, found, predicate, window, until)

    return check


def all_so_far(predicate, window):
    """At any time, all pairs of the rows that have come."""
    return lambda found, arrived: exactly(arrived, found, predicate, window, None)


@pytest.mark.parametrize("algorithm", ["auto", *LAZY, "bi_sort", "scan"])
@random
@given(data=st.data(), name=equalities, window=windows, threads=st.sampled_from([1, 2, 3]))
def test_equalities_when_windows_close(algorithm, data, name, window, threads):
    rows = before_1970(data.draw(streams(most=20)))
    text, predicate = CONDITIONS[name]
    tuning = data.draw(st.sampled_from([None, KNOBS.get(algorithm)]))
    join = sj.StreamJoin(
        text,
        sj.TumblingWindow(*window),
        time="t",
        algorithm=algorithm,
        threads=threads,
        tuning=tuning,
    )
    found, _ = go(data, join, rows, arrived := Arrived(), closed_so_far(predicate, window))
    exactly(arrived, found, predicate, window, None)


@pytest.mark.parametrize("algorithm", ["auto", *EAGER, "bi_sort", "pim_tree"])
@random
@given(data=st.data(), name=equalities, window=windows, threads=st.sampled_from([1, 2, 3]))
def test_equalities_as_rows_come(algorithm, data, name, window, threads):
    rows = before_1970(data.draw(streams(most=20)))
    text, predicate = CONDITIONS[name]
    tuning = data.draw(st.sampled_from([None, KNOBS.get(algorithm)]))
    join = sj.StreamJoin(
        text,
        sj.TumblingWindow(*window),
        time="t",
        algorithm=algorithm,
        threads=threads,
        tuning=tuning,
        emit="eager",
    )
    after = [] if algorithm.startswith("pmj") else [all_so_far(predicate, window)]
    found, _ = go(data, join, rows, arrived := Arrived(), *after)
    exactly(arrived, found, predicate, window, None)
    event(f"late rows: {arrived.late > 0}")


@pytest.mark.parametrize("emit", ["close", "eager", "auto"])
@settings(random, max_examples=30)
@given(data=st.data(), name=conditions, window=windows)
def test_any_condition(emit, data, name, window):
    rows = before_1970(data.draw(streams(most=20)))
    text, predicate = CONDITIONS[name]
    join = sj.StreamJoin(text, sj.TumblingWindow(*window), time="t", threads=1, emit=emit)
    after = [] if emit == "auto" else [closed_so_far(predicate, window)]
    if emit == "eager":
        after = [all_so_far(predicate, window)]
    found, _ = go(data, join, rows, arrived := Arrived(), *after)
    exactly(arrived, found, predicate, window, None)


@random
@given(
    data=st.data(),
    name=conditions,
    emit=st.sampled_from(["close", "eager"]),
    rows=st.sampled_from([None, 1, 3, 10, 1000]),
    delay=st.sampled_from([None, 0, 3, 10]),
)
def test_batch_mode_and_a_watermark_that_follows_the_data(data, name, emit, rows, delay):
    streams_of_rows = before_1970(data.draw(streams(most=20)))
    text, predicate = CONDITIONS[name]
    join = sj.StreamJoin(
        text,
        sj.TumblingWindow(7, 2),
        time="t",
        threads=1,
        emit=emit,
        batch_rows=rows,
        delay=delay,
    )
    found, _ = go(data, join, streams_of_rows, arrived := Arrived(delay))
    exactly(arrived, found, predicate, (7, 2), None)


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
    text, predicate = CONDITIONS["equality"]
    window = sj.TumblingWindow(1000)
    join = sj.StreamJoin(text, window, "t", algorithm, threads=threads, tuning={"delta": delta})
    found, size = Counter(), data.draw(st.integers(1, 4))
    for number, first in enumerate(range(0, max(len(left), len(right)), size)):
        if number in saves:
            join = sj.StreamJoin.restore(join.snapshot())
        span = slice(first, first + size)
        found += joined(join.push(**pushed(left[span], right[span])))
    found += joined(join.finish())
    assert found == tumbling(left, right, predicate, 1000)


def test_many_rows_of_one_key_in_a_small_partition():
    """Buckets of a table are told apart by the bits of the code only, not by those of the row."""
    code = np.uint64(0xABCDEF01 << 32)
    left, right = (code | np.array(rows, np.uint64) for rows in (range(64), [2**31 - 1]))
    starts, counts = np.empty(1, np.int32), np.empty(1, np.int32)
    table_words = np.empty(left.size + PAD, np.uint64)
    whole = np.array([0, left.size]), np.array([0, 1])
    total = join_parts(left, right, *whole, 28, table_words, starts, counts)
    assert (total, counts.tolist()) == (64, [64])


@settings(random, max_examples=25)
@given(
    rows=streams(most=20),
    name=conditions,
    window=windows,
    algorithm=st.sampled_from(["auto", "npj", "mway", "shj_jb"]),
)
def test_tables_agree_with_duckdb(rows, name, window, algorithm):
    left, right = before_1970(rows)
    text, predicate = CONDITIONS[name]
    length, offset = window
    numbers = [f"floor(({side}.t - {offset}) / {length})" for side in "lr"]
    expected = duckdb_pairs(f"({text}) and {numbers[0]} = {numbers[1]}", left, right)
    assert tumbling(left, right, predicate, *window) == expected
    options = {"on": text, "window": sj.TumblingWindow(*window), "time": "t"}
    options["algorithm"] = algorithm
    assert pairs(sj.join_tables(table(left), table(right), **options)) == expected
    results = sj.find_matches(table(left), table(right), **options)
    assert results.count() == expected.total()
    assert pairs(results.to_table()) == expected


@random
@given(data=st.data(), name=conditions, emit=st.sampled_from(["close", "eager"]))
def test_self_joins(data, name, emit):
    rows, _ = before_1970(data.draw(streams(most=20)))
    text, predicate = CONDITIONS[name]
    join = sj.StreamJoin(text, sj.TumblingWindow(6), time="t", threads=1, emit=emit)
    found, arrived, rest = Counter(), Arrived(), list(rows)
    while rest:
        size = data.draw(st.sampled_from([1, 3, 7, 40]))
        batch, rest = rest[:size], rest[size:]
        one = table(batch)
        found += joined(join.push(one, one))
        arrived.push(batch, batch)
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot())
            watermark = data.draw(st.integers(-20, 20))
            found += joined(join.advance(watermark))
            arrived.advance(watermark)
    found += joined(join.finish())
    assert found == tumbling(*arrived.sides, predicate, 6)
