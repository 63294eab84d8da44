"""Tumbling and session windows over every type of time, at their edges, and over odd keys."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import EAGER, LAZY
from tests.joins.closing.window_oracle import sessions, tumbling

few = settings(max_examples=15, suppress_health_check=list(HealthCheck))
DAY = 86_400 * 10**9
UNITS = {  # nanoseconds of one tick
    pa.int64(): 10**6,
    pa.int16(): 10**6,
    pa.timestamp("s"): 10**9,
    pa.timestamp("ms", "UTC"): 10**6,
    pa.timestamp("us"): 10**3,
    pa.timestamp("ns"): 1,
    pa.date32(): DAY,
    pa.date64(): DAY,
}
MOST, LEAST = 2**63 - 1, -(2**63)
emits = pytest.mark.parametrize("emit", ["close", "eager"])


def same(one, other):
    return one["k"] == other["k"]


def ticks(type, values):
    """Times so many ticks after 1970; a date64 holds milliseconds."""
    stored = [value * 86_400_000 for value in values] if pa.types.is_date64(type) else values
    width = pa.int64() if type.bit_width == 64 else {16: pa.int16(), 32: pa.int32()}[type.bit_width]
    return pa.array(stored, width).view(type)


def made(type, times, first=0, k=None):
    ids = pa.array(range(first, first + len(times)), pa.int64())
    keys = pa.array([1] * len(times) if k is None else k)
    return pa.table({"id": ids, "k": keys, "t": ticks(type, times)})


def pairs(*results):
    found = Counter()
    for result in results:
        found.update(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))
    return found


def dicts(table, times, unit):
    """The rows of a table, with times in nanoseconds."""
    keys = zip(table["id"].to_pylist(), table["k"].to_pylist(), times, strict=True)
    return [{"id": id, "k": k, "t": t * unit} for id, k, t in keys]


def join_all(on, window, left, right, **options):
    """The pairs of a join whose rows come in two pushes, the later half first, and are saved."""
    join = sj.StreamJoin(on, window, time="t", **options)
    results = []
    later = [each.slice(len(each) // 2) for each in (left, right)]
    earlier = [each.slice(0, len(each) // 2) for each in (left, right)]
    for halves in (later, earlier):
        results.append(join.push(*halves))
        join = sj.StreamJoin.restore(join.snapshot())
    return pairs(*results, join.finish())


@emits
@pytest.mark.parametrize("type", UNITS, ids=str)
@few
@given(
    times=st.lists(st.integers(-40, 40), min_size=1, max_size=14),
    length=st.integers(1, 30),
    offset=st.integers(0, 40),
    part=st.sampled_from([1, 2, 3]),
)
def test_any_type_of_time(type, emit, times, length, offset, part):
    """Lengths and offsets are parts of a tick too; but a duration has whole microseconds."""
    unit = UNITS[type]
    length_us, offset_us = (max(each * unit // part // 1000, 1) for each in (length, offset))
    window = sj.TumblingWindow(timedelta(microseconds=length_us), timedelta(microseconds=offset_us))
    left, right = made(type, times), made(type, times[::-1], 100)
    expected = tumbling(
        dicts(left, times, unit),
        dicts(right, times[::-1], unit),
        same,
        length_us * 1000,
        offset_us * 1000,
    )
    assert join_all("l.k = r.k", window, left, right, emit=emit) == expected
    gap = sj.SessionWindow(timedelta(microseconds=length_us))
    expected = sessions(
        dicts(left, times, unit),
        dicts(right, times[::-1], unit),
        same,
        length_us * 1000,
        lambda row: row["k"],
    )
    assert join_all("l.k = r.k", gap, left, right, emit=emit) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.timestamp("s"), pa.timestamp("ns")),
        (pa.date32(), pa.timestamp("us")),
        (pa.int64(), pa.int16()),
    ],
    ids=str,
)
def test_two_types_of_time(one, other):
    lefts, rights = [-1, 0, 1, 2], [-1, 0, 1, 2]
    left, right = made(one, lefts), made(other, rights, 100)
    hours = 10**9 * 3600
    for window, length in ((sj.TumblingWindow("36 hours"), 36), (sj.TumblingWindow(1), None)):
        expected = tumbling(
            dicts(left, lefts, UNITS[one]),
            dicts(right, rights, UNITS[other]),
            same,
            length * hours if length else 10**6,
        )
        assert join_all("l.k = r.k", window, left, right) == expected


EXTREMES = [LEAST, LEAST + 1, -3, -1, 0, 1, MOST - 1, MOST]


@emits
@pytest.mark.parametrize("unit", ["ms", "ns"])
@pytest.mark.parametrize(
    ("length", "offset"),
    [
        ("1 ms", "0 s"),
        ("1 ms", "500 us"),
        ("1500 us", "700 us"),
        ("1 us", "0 s"),
        ("3 ms", "1 ms"),
        ("36500 days", "1 day"),
        (timedelta(microseconds=MOST), timedelta(microseconds=MOST - 1)),
    ],
)
def test_extreme_times(unit, length, offset, emit):
    type = pa.int64() if unit == "ms" else pa.timestamp("ns")
    left, right = made(type, EXTREMES), made(type, EXTREMES[::-1], 100)
    window = sj.TumblingWindow(length, offset)
    rows = dicts(left, EXTREMES, UNITS[type]), dicts(right, EXTREMES[::-1], UNITS[type])
    expected = tumbling(*rows, same, window.length_us * 1000, window.offset_us * 1000)
    assert join_all("l.k = r.k", window, left, right, emit=emit) == expected
    session = sj.SessionWindow(length)
    expected = sessions(*rows, same, session.gap_us * 1000, lambda row: 1)
    assert join_all("l.k = r.k", session, left, right, emit=emit) == expected


@emits
@pytest.mark.parametrize(
    "window", [sj.TumblingWindow(1), sj.TumblingWindow(7), sj.SessionWindow(3)]
)
def test_watermarks_beyond_all_times(window, emit):
    rows = made(pa.int64(), [LEAST, 0, MOST])
    join = sj.StreamJoin("l.k = r.k and l.t = r.t", window, "t", emit=emit, delay="1 day")
    found = join.push(rows, rows.slice(0, 1)).num_rows  # the watermark is before all times
    assert join.stats.live_left == 3
    found += join.push(right=rows.slice(2)).num_rows  # a day before the last one
    assert join.stats.live_left == 1
    found += join.advance(MOST + 5).num_rows
    assert (join.stats.live_left, join.stats.live_right, found) == (0, 0, 2)
    join.push(rows)
    assert join.stats.late == 3


def test_after_the_end_everything_is_late():
    rows = made(pa.int64(), [LEAST, 0, MOST])
    for window in (sj.TumblingWindow(5), sj.SessionWindow(5), sj.TimeWindow(5)):
        join = sj.StreamJoin("l.k = r.k", window, time="t")
        join.push(rows, rows.slice(0))
        join.finish()
        join = sj.StreamJoin.restore(join.snapshot())
        assert join.push(rows, rows.slice(0)).num_rows == 0
        assert join.finish().num_rows == 0
        assert join.stats.late == 6


def test_the_end_may_come_before_the_other_stream():
    rows = made(pa.int64(), [0, 1])
    join = sj.StreamJoin("l.k = r.k", sj.TumblingWindow(5), time="t")
    join.push(left=rows)
    assert join.finish().num_rows == 0
    join = sj.StreamJoin.restore(join.snapshot())
    join.push(left=rows)
    assert join.push(right=rows).num_rows == 0
    assert join.finish().num_rows == 0
    assert (join.stats.late, join.stats.live_left, join.stats.live_right) == (4, 0, 0)


@pytest.mark.parametrize(
    ("watermark", "found"),
    [
        (datetime(2024, 1, 1, 12), 0),
        (date(2024, 1, 2), 1),
        (datetime(2024, 1, 2, 0, 0, 0, 1, tzinfo=UTC), 1),
        (datetime(2024, 1, 3), 2),
    ],
)
def test_a_window_closes_when_the_watermark_reaches_its_end(watermark, found):
    times = pa.array([datetime(2024, 1, 1, 23), datetime(2024, 1, 2)], pa.timestamp("us", "UTC"))
    rows = pa.table({"k": [1, 1], "t": times})
    join = sj.StreamJoin("l.k = r.k", sj.TumblingWindow("1 day"), time="t")
    join.push(rows, rows.slice(0))
    assert join.advance(watermark).num_rows == found
    assert join.stats.subwindows == 2 - found


NAN = float("nan")
KEYS = {
    "doubles": ([NAN, -NAN, 0.0, -0.0, 1.5, None, float("inf")], pa.float64()),
    "integers": ([MOST, LEAST, -1, 0, 2**31, -(2**31) - 1, 2**32, None], pa.int64()),
    "strings": (["", "a", "ä", "aa", None, "a\0"], pa.string()),
    "decimals": ([1, 2, None, -1], pa.decimal128(30, 2)),
}


def expected_pairs(values, times, length):
    def key(value):
        if value is None:
            return None
        return "nan" if value != value else value + 0 if isinstance(value, float) else value

    rows = [
        {"id": at, "k": key(v), "t": t} for at, (v, t) in enumerate(zip(values, times, strict=True))
    ]
    return tumbling(
        rows, rows, lambda one, two: one["k"] is not None and one["k"] == two["k"], length
    )


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("algorithm", ["auto", *LAZY, *EAGER])
def test_odd_keys(name, algorithm):
    values, type = KEYS[name]
    values = values * 3
    times = [at // 5 for at in range(len(values))]
    rows = pa.table({"id": range(len(values)), "k": pa.array(values, type), "t": times})
    expected = expected_pairs(values, times, 2)
    for on in ("l.k = r.k", "l.k = r.k and l.id + r.id >= 0 and l.t - l.t = r.t - r.t"):
        join = sj.StreamJoin(on, sj.TumblingWindow(2), "t", algorithm=algorithm, threads=2)
        found = [join.push(rows.slice(at, 4), rows.slice(at, 4)) for at in range(0, len(rows), 4)]
        assert pairs(*found, join.finish()) == expected
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(2), time="t")
    join.push(rows, rows)
    assert pairs(join.finish()) == expected_pairs(values, [0] * len(values), 1)
