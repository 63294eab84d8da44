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
from streamjoin.windows import CountWindow, TimeWindow, parse_window

LARGEST = 2**63 - 1

durations = st.one_of(st.integers(0, 5), st.integers(0, LARGEST))


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
        (lambda: TimeWindow("-1 second"), "cannot be negative"),
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
    ],
)
def test_windows_on_the_command_line(text, window):
    assert parse_window(text) == window


@pytest.mark.parametrize("text", ["", "count", "count ten", "count -5", "count 0", "before 5 s"])
def test_windows_refused_on_the_command_line(text):
    with pytest.raises(WindowError):
        parse_window(text)


def test_windows_need_no_third_party_package():
    code = "import sys, streamjoin.windows; assert not {'numpy', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
