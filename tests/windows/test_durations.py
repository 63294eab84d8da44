"""Durations: what is read, what is refused, and that nothing is rounded."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.errors import WindowError
from streamjoin.windows.durations import format_duration, parse_duration

SECOND = 1_000_000

durations = st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1))


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [
        ("10 minutes", 600 * SECOND),
        ("10 MINUTES", 600 * SECOND),
        ("1 hour 30 minutes", 5400 * SECOND),
        ("1 hour, 30 minutes", 5400 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("90min", 5400 * SECOND),
        ("500 ms", SECOND // 2),
        ("500 milliseconds", SECOND // 2),
        ("1.5 seconds", 3 * SECOND // 2),
        (".5s", SECOND // 2),
        ("5 sec", 5 * SECOND),
        ("7 us", 7),
        ("7 µs", 7),
        ("2000 ns", 2),
        ("1 microsecond", 1),
        ("2 weeks", 14 * 86_400 * SECOND),
        ("1 d", 86_400 * SECOND),
        ("interval 3 days", 3 * 86_400 * SECOND),
        ("INTERVAL '10' MINUTE", 600 * SECOND),
        ("interval '10 minutes'", 600 * SECOND),
        ("  2 hours  ", 7200 * SECOND),
        ("1 hour -30 minutes", 1800 * SECOND),
        ("0 seconds", 0),
        (timedelta(minutes=10), 600 * SECOND),
        (timedelta(microseconds=3), 3),
        (250, 250_000),
        (0, 0),
        (np.int64(250), 250_000),
    ],
)
def test_durations_that_are_read(value, microseconds):
    assert parse_duration(value) == microseconds
    assert type(parse_duration(value)) is int


def test_fractions_are_exact():
    assert parse_duration("0.1 seconds") == 100_000
    assert parse_duration("0.000003 seconds") == 3
    assert parse_duration("9007199254740993 us") == 9_007_199_254_740_993  # no double holds it


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("", "cannot be read"),
        ("soon", "cannot be read"),
        ("10", "cannot be read"),
        ("minutes 10", "cannot be read"),
        ("10 minutes and a bit", "cannot be read"),
        ("00:10:00", "cannot be read"),
        ("1e3 seconds", "unknown unit 'e'"),
        ("10 parsecs", "unknown unit 'parsecs'"),
        ("1 month", "no fixed length"),
        ("2 YEARS", "no fixed length"),
        ("3M", "no fixed length"),
        ("-5 minutes", "cannot be negative"),
        (-1, "cannot be negative"),
        (timedelta(seconds=-1), "cannot be negative"),
        ("0.5 us", "whole number of microseconds"),
        ("1 ns", "whole number of microseconds"),
        (1.5, '"1.5 ms"'),
        (True, "is a bool"),
        (None, "is a NoneType"),
        (np.timedelta64(1, "s"), "is a timedelta64"),
        ("300000 years", "the unit 'years' has no fixed length"),
        (float("nan"), "or an integer (milliseconds)."),
        (float("inf"), "or an integer (milliseconds)."),
        (timedelta.max, "can be held"),
        (10**30, "can be held"),
    ],
)
def test_durations_that_are_refused(value, rule):
    with pytest.raises(WindowError) as caught:
        parse_duration(value)
    assert rule in str(caught.value)
    assert repr(value) in str(caught.value)


@given(durations)
def test_a_printed_duration_reads_back(microseconds):
    assert parse_duration(format_duration(microseconds)) == microseconds


@given(durations)
def test_a_timedelta_and_its_text_agree(microseconds):
    delta = timedelta(microseconds=microseconds)
    assert parse_duration(delta) == parse_duration(f"{microseconds} us") == microseconds
