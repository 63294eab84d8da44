"""The number of the tumbling window that a row is in, as one more equality.

Two rows match only if they are in the same window, so its number is a key like any other: indexes,
hashes and routing need not know about windows.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

import numpy as np
import pyarrow as pa

from streamjoin.kernels.compile import Flags, Keys
from streamjoin.keys.bound_terms import EqualityPart, RangePart
from streamjoin.keys.operands import Side

LARGEST_SAFE = 1 << 62  # below it, the arithmetic of window numbers cannot overflow int64


@dataclass(frozen=True)
class WindowPart(EqualityPart):
    """An equality of window numbers; ``length`` and ``offset`` are in units of the time's keys."""

    time: RangePart
    length: Fraction
    offset: Fraction

    def keys(self, side: Side, batch: pa.RecordBatch) -> tuple[Keys, Flags | None]:
        """Return the number of each row's window, and which rows have a time."""
        times, has_time = self.time.keys(side, batch)
        return self.numbers(times), has_time

    def numbers(self, times: Keys) -> Keys:
        """Return the number of the window that each time is in."""
        return number_windows(times, self.length, self.offset)

    def start(self, number: int) -> int:
        """Return the first time in a window."""
        return number if self.length <= 1 else ceil(self.offset + number * self.length)


def number_windows(times: Keys, length: Fraction, offset: Fraction) -> Keys:
    """Return the number of the window that each time is in; window 0 begins at ``offset``.

    >>> number_windows(np.array([-1, 0, 59, 60]), Fraction(60), Fraction(0)).tolist()
    [-1, 0, 0, 1]
    """
    if length <= 1 or not times.size:
        return times  # windows no longer than the resolution of times: one per time
    parts = lcm(length.denominator, offset.denominator)  # of a unit, so that all is whole
    whole, start = int(length * parts), int(offset * parts)
    widest = max(abs(int(times.min())), abs(int(times.max())))
    if parts * widest + start < LARGEST_SAFE and whole < LARGEST_SAFE:
        return (times * parts - start) // whole
    return np.array([(int(time) * parts - start) // whole for time in times], np.int64)
