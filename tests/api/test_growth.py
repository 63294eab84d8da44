"""A join that grows for ever says so, once."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.api import growth

WINDOWS = {
    "time": sj.TimeWindow(before=6, after=4),
    "tumbling": sj.TumblingWindow(10),
    "session": sj.SessionWindow(10),
}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(growth, "MANY_ROWS", 100)


def rows(first, count=60, step=1):
    times = np.arange(first, first + count * step, step)
    return pa.table({"k": np.arange(first, first + count), "t": times})


def told(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    assert all(each.category is sj.StreamJoinWarning for each in caught)
    return caught


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_without_a_watermark_there_is_one_warning(window):
    join = sj.StreamJoin("l.k = r.k", window, "t")

    def push():
        for first in range(0, 600, 60):
            join.push(rows(first), rows(first))

    [warning] = told(push)
    for text in ("rows", str(window), "delay=", "advance("):
        assert text in str(warning.message)
    assert warning.filename == __file__
    assert told(push) == []


@pytest.mark.parametrize("cores", [None, 2])
def test_a_source_is_watched_too(cores):
    join = sj.StreamJoin("l.k = r.k", WINDOWS["time"], "t", cores=cores)
    steps = [(rows(first), rows(first)) for first in range(0, 600, 60)]
    assert len(told(lambda: list(join.stream(steps)))) == 1


def test_a_stream_that_stands_still_is_named():
    join = sj.StreamJoin("l.k = r.k", WINDOWS["time"], "t", delay=1)
    join.push(rows(0), rows(0))

    def push():
        for first in range(60, 600, 60):
            join.push(left=rows(first))

    [warning] = told(push)
    for text in ("right has not moved on", "advance("):
        assert text in str(warning.message)


@pytest.mark.parametrize(
    ("options", "each"),
    [
        ({"delay": 5}, lambda join: None),
        ({}, lambda join: join.advance(join.stats.rows_left - 60)),
    ],
    ids=["delay", "advance"],
)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_watermark_that_moves_is_fine(window, options, each):
    join = sj.StreamJoin("l.k = r.k", window, "t", **options)
    for first in range(0, 1200, 60):
        join.push(rows(first), rows(first))
        each(join)


def test_what_is_short_or_small_is_fine():
    one = sj.StreamJoin("l.k = r.k", WINDOWS["time"], "t")
    one.push(rows(0, 5000), rows(0, 5000))  # a table, more or less
    one.push(left=rows(0, 1))
    near = sj.StreamJoin("l.k = r.k", sj.TimeWindow(100), "t")
    for first in range(0, 1200, 60):
        near.push(rows(first), rows(first))
    few = sj.StreamJoin("l.k = r.k", WINDOWS["time"], "t")
    for first in range(0, 100_000, 4000):
        few.push(rows(first, 2), rows(first, 2))
    counted = sj.StreamJoin("l.k = r.k", sj.CountWindow(9))
    for first in range(0, 1200, 60):
        counted.push(rows(first), rows(first))


def test_whoever_turns_it_into_an_error_may_go_on():
    join, other = (sj.StreamJoin("l.k = r.k", WINDOWS["time"], "t") for _ in range(2))
    failed = found = 0
    for first in range(0, 600, 60):
        batch = rows(first)
        try:
            found += join.push(batch, rows(first)).num_rows
        except sj.StreamJoinWarning:
            failed += 1
            found += join.push(batch, rows(first)).num_rows
    assert failed == 1
    assert found == 600
    told(lambda: [other.push(rows(first), rows(first)) for first in range(0, 600, 60)])
    assert join.stats.live_left == other.stats.live_left


@pytest.mark.parametrize("options", [{}, {"unmatched": "early", "patience": 5}])
def test_rows_without_a_match_that_never_come_are_part_of_it(options):
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), "t", how="left_anti", **options)

    def push():
        for first in range(0, 600, 60):
            join.push(rows(first), rows(first))

    [warning] = told(push)
    text = "how='left_anti' has given none of them as a row without a match"
    assert (text in str(warning.message)) == (not options)
