"""The numbers of tumbling windows, and the times that they begin at."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.keys.window_part import WindowPart


def part(length, offset):
    return WindowPart(None, None, True, None, length, offset)


fractions = st.builds(Fraction, st.integers(1, 40), st.sampled_from([1, 2, 3, 10]))


@given(length=fractions, share=st.fractions(0, 1, max_denominator=4), time=st.integers(-99, 99))
def test_a_window_begins_with_the_first_time_that_has_its_number(length, share, time):
    windows = part(length, length * share)
    numbers = windows.numbers(np.arange(time - 100, time + 1))
    first = time - 100 + int(np.flatnonzero(numbers == numbers[-1])[0])
    assert windows.start(int(numbers[-1])) == first


@pytest.mark.parametrize("offset", [Fraction(0), Fraction(1, 2), Fraction(1)])
def test_windows_of_one_tick(offset):
    """Each time is a window of its own, whatever the offset."""
    windows = part(Fraction(1), offset)
    assert windows.numbers(np.array([-1, 0, 7])).tolist() == [-1, 0, 7]
    assert [windows.start(number) for number in (-1, 0, 7)] == [-1, 0, 7]
