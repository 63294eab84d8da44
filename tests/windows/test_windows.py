"""Windows: what is read, what is refused, and that a window survives being written."""

import subprocess
import sys
from dataclasses import FrozenInstanceError
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.errors import StreamJoinError, WindowError
from streamjoin.windows import (
    CountWindow,
    SessionWindow,
    TimeWindow,
    TumblingWindow,
    parse_window,
)
from streamjoin.windows.durations import format_duration

LARGEST = 2**63 - 1

durations = st.one_of(st.integers(0, 5), st.integers(0, LARGEST))
lengths = st.one_of(st.integers(1, 5), st.integers(1, LARGEST))


@given(durations, durations)
def test_a_time_window_survives_its_repr_and_two_flips(before, after):
    if before == after == 0:
        before = 1
    window = TimeWindow(before=f"{before} us", after=f"{after} us")
    assert (window.before_us, window.after_us) == (before, after)
    assert (window.flip().before_us, window.flip().after_us) == (after, before)
    assert window.flip().flip() == window
    assert eval(repr(window)) == window
    assert hash(window) == hash(window.flip().flip())


@given(lengths, durations)
def test_a_tumbling_window_survives_its_repr_and_its_text(length, offset):
    window = TumblingWindow(f"{length} us", timedelta(microseconds=offset))
    assert (window.length_us, window.offset_us) == (length, offset % length)
    assert eval(repr(window)) == window == window.flip()
    assert repr(window).replace("'", "") == str(window)
    shifted = f"tumbling {format_duration(length)} offset {format_duration(offset)}"
    assert parse_window(shifted) == window
    assert parse_window(f"tumbling {length} us").offset_us == 0


@given(lengths)
def test_a_session_window_survives_its_repr_and_its_text(gap):
    window = SessionWindow(timedelta(microseconds=gap))
    assert window.gap_us == gap
    assert eval(repr(window)) == window == window.flip()
    assert repr(window).replace("'", "") == str(window)
    assert parse_window(f"session {format_duration(gap)}") == window


def test_a_tumbling_window_has_a_length_and_an_offset():
    assert TumblingWindow("1 hour") == TumblingWindow(3_600_000, 0)
    assert TumblingWindow("1 hour", "75 minutes") == TumblingWindow("1 hour", offset="15 minutes")
    assert TumblingWindow("1 hour", "1 hour") == TumblingWindow("1 hour")
    assert TumblingWindow("1 day", "22 hours").offset == timedelta(hours=22)
    assert TumblingWindow(timedelta(days=1)).length == timedelta(days=1)
    assert str(TumblingWindow("1 hour")) == "TumblingWindow(length=1 hour)"


def test_a_session_window_has_a_gap():
    assert SessionWindow("10 minutes") == SessionWindow(gap=600_000)
    assert SessionWindow(timedelta(seconds=1)).gap == timedelta(seconds=1)
    assert str(SessionWindow("90 s")) == "SessionWindow(gap=1 minute 30 seconds)"


def test_kinds_of_windows_differ():
    windows = {TimeWindow("1 s"), CountWindow(1), TumblingWindow("1 s"), SessionWindow("1 s")}
    assert len(windows) == 4


def test_a_time_window_has_two_ends():
    assert TimeWindow("10 minutes") == TimeWindow(before="600 s", after=600_000)
    assert TimeWindow(before="1 hour") == TimeWindow(before="1 hour", after=0)
    assert TimeWindow(after="1 hour").before == timedelta(0)
    assert TimeWindow(timedelta(hours=1)).after == timedelta(hours=1)
    assert str(TimeWindow("10 minutes")) == "TimeWindow(before=10 minutes, after=10 minutes)"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TimeWindow(), "has no length"),
        (lambda: TimeWindow("0 seconds"), r"'0 seconds' has no length.*l\.ts = r\.ts"),
        (lambda: TimeWindow(before=0, after=0), "has no length"),
        (lambda: TimeWindow(before=0), "has no length"),
        (lambda: TimeWindow("-1 second"), "cannot be negative.*one end"),
        (lambda: TimeWindow("1 s", before="1 s"), "either one duration"),
        (lambda: TimeWindow("1 s", after=0), "either one duration"),
        (lambda: CountWindow(), "both sides need a size"),
        (lambda: CountWindow(left=5), "both sides need a size"),
        (lambda: CountWindow(0), "size of 0"),
        (lambda: CountWindow(-3), "size of -3"),
        (lambda: CountWindow(True), "size of True"),
        (lambda: CountWindow(1.5), r"size of 1\.5"),
        (lambda: CountWindow(2**63), "from 1 to"),
        (lambda: CountWindow(left=5, right=0), "size of 0"),
        (lambda: CountWindow(5, right=5), "either one size"),
        (lambda: TumblingWindow("0 seconds"), r"'0 seconds' has no length.*l\.ts = r\.ts"),
        (lambda: TumblingWindow(0, offset="1 s"), "0 has no length"),
        (lambda: TumblingWindow(-1), "-1: a duration cannot be negative"),
        (lambda: TumblingWindow(1.5), r"1\.5 is a float"),
        (lambda: TumblingWindow(None), "is a NoneType"),
        (lambda: TumblingWindow("1 month"), "no fixed length"),
        (lambda: TumblingWindow("1 day", "-2 hours"), '-2 hours.*cannot be negative.*"22 hours"'),
        (lambda: TumblingWindow("1 day", 0.5), r"0\.5 is a float"),
        (lambda: TumblingWindow(2**63), "can be held"),
        (lambda: SessionWindow(0), r"a gap of 0 .*l\.ts = r\.ts"),
        (lambda: SessionWindow("-1 s"), "cannot be negative"),
        (lambda: SessionWindow(True), "is a bool"),
        (lambda: SessionWindow(1e3), r"1000\.0 is a float"),
    ],
)
def test_windows_that_are_refused(build, message):
    with pytest.raises(WindowError, match=message) as caught:
        build()
    assert isinstance(caught.value, StreamJoinError)


def test_a_count_window_has_two_sizes():
    assert CountWindow(1000) == CountWindow(left=1000, right=1000)
    assert CountWindow(left=1, right=2).flip() == CountWindow(left=2, right=1)
    assert CountWindow(np.int64(7)).left == 7
    assert eval(repr(CountWindow(left=1, right=2))) == CountWindow(left=1, right=2)


def test_windows_are_frozen():
    with pytest.raises(FrozenInstanceError):
        TimeWindow("1 s").before_us = 5
    with pytest.raises(FrozenInstanceError):
        CountWindow(1).left = 5
    with pytest.raises(FrozenInstanceError):
        TumblingWindow("1 s").length_us = 5
    with pytest.raises(FrozenInstanceError):
        SessionWindow("1 s").gap_us = 5


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10 minutes", TimeWindow("10 minutes")),
        (" 1h30m ", TimeWindow("90 minutes")),
        ("before 1 hour, after 5 minutes", TimeWindow(before="1 hour", after="5 minutes")),
        ("BEFORE 1 hour AFTER 0 s", TimeWindow(before="1 hour")),
        ("count 1000", CountWindow(1000)),
        ("count 10 20", CountWindow(left=10, right=20)),
        ("Count 10, 20", CountWindow(left=10, right=20)),
        ("count 10,20", CountWindow(left=10, right=20)),
        ("tumbling 1 minute", TumblingWindow("1 minute")),
        ("tumbling 1 hour offset 15 minutes", TumblingWindow("1 hour", "15 minutes")),
        (" Tumbling 1h30m,  OFFSET 5min ", TumblingWindow("90 minutes", "5 minutes")),
        ("tumbling 1 hour, 30 minutes, offset 1 s", TumblingWindow("90 minutes", "1 s")),
        ("session 10 minutes", SessionWindow("10 minutes")),
        ("SESSION 1h, 30m", SessionWindow("90 minutes")),
    ],
)
def test_windows_as_text(text, window):
    assert parse_window(text) == window


@pytest.mark.parametrize(
    "text",
    [
        "",
        "count",
        "count ten",
        "count -5",
        "count 0",
        "before 5 s",
        "tumbling",
        "tumbling 0 s",
        "tumbling hour",
        "tumbling 1 hour offset",
        "tumbling offset 1 s",
        "tumbling 1 hour offset -1 s",
        "session",
        "session 0 s",
        "session 5",
        "sessions 5 s",
    ],
)
def test_windows_as_text_that_are_refused(text):
    with pytest.raises(WindowError):
        parse_window(text)


def test_windows_need_no_third_party_package():
    code = "import sys, streamjoin.windows; assert not {'numpy', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
