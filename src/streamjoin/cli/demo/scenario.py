"""A scenario: two streams, a condition and a window, and the same join in SQL.

A stream is a sequence of batches, one every `Pace.seconds`. Event times lie in the interval of
their batch, less up to `DISORDER_US`::

    batch          0         1         2
    arrives     |---------|---------|---------|
    times     |...........|
                        |...........|            rows of batch 1 may be older than some of batch 0
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

START_US = 1_767_605_400_000_000  # a Monday morning
DISORDER_US = 200_000  # less than any watermark delay here, or rows would be late

Batches = Iterator[tuple[pa.Table, pa.Table]]


@dataclass(frozen=True)
class Pace:
    """Seconds from one batch to the next, and rows per batch and side."""

    seconds: float
    rows: int

    def batches(self, seconds: float) -> int:
        """Return how many batches a run of this length has."""
        return max(1, round(seconds / self.seconds))

    def ids(self, number: int) -> pa.Array:
        """Return ids that are unique on one side, for one batch."""
        return pa.array(np.arange(number * self.rows, (number + 1) * self.rows))

    def times(self, random: np.random.Generator, number: int) -> pa.Array:
        """Return the event times of one batch, slightly out of order."""
        arrival = START_US + (number + random.random(self.rows)) * self.seconds * 1e6
        times = arrival - random.integers(0, DISORDER_US, self.rows)
        return pa.array(times.astype(np.int64), pa.timestamp("us", "UTC"))


@dataclass(frozen=True)
class Scenario:
    """What to join; ``columns`` are those of the left and the right stream, with SQL types."""

    title: str
    sides: tuple[str, str]
    columns: tuple[str, str]
    on: str
    window: str
    generate: Callable[[Pace, int], Batches]
    shown: dict[str, str]  # the columns of a match that show why it is one, with their headings

    def sql(self, left: str, right: str) -> str:
        """Return the join of two whole tables as DuckDB takes it."""
        return (
            f"select l.*, r.* from {left} l join {right} r on {self.on} "
            f"and r.ts between l.ts - interval '{self.window}' and l.ts + interval '{self.window}'"
        )
