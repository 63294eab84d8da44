"""Splitters: keys that cut the key space into cells with about the same number of rows each.

Cell i holds the keys from ``splitters[i - 1]`` up to, not including, ``splitters[i]``::

    splitters          10    20    20    50
    cells       0       1     2     3     4         cell 2 is empty: one key, 20, fills more
    keys       < 10   10-19   -   20-49  >= 50      than a cell

The first splitters come from a sample. Later ones come from PanJoin's adjustment (III-B,
Algorithm 1): how many rows each cell had, and the least and the greatest key in it. A new splitter
lies in the cell where the running count passes its share, interpolated between the two keys. The
formula as printed lacks the least key as an offset.

A key that fills several cells takes the splitters of all of them, so repeated splitters show how
heavy a cell is: see `weights`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Keys, kernel

Cells = NDArray[np.int32]  # the cell of each key


@dataclass(frozen=True)
class Histogram:
    """Rows in each cell, and the least and the greatest key among them."""

    counts: Keys
    least: Keys
    greatest: Keys

    @classmethod
    def empty(cls, cells: int) -> "Histogram":
        """Return a histogram of nothing."""
        return cls(np.zeros(cells, np.int64), np.full(cells, MAX_KEY), np.full(cells, MIN_KEY))

    @classmethod
    def of(cls, keys: Keys, splitters: Keys) -> "Histogram":
        """Count keys by cell."""
        return cls.of_cells(keys, locate(keys, splitters), splitters.size + 1)

    @classmethod
    def of_cells(cls, keys: Keys, cells: Cells, number: int) -> "Histogram":
        """Count keys whose cells are known, out of ``number`` cells."""
        histogram = cls.empty(number)
        count_keys(keys, cells, histogram.counts, histogram.least, histogram.greatest)
        return histogram

    def to_lists(self) -> list[list[int]]:
        """Return the histogram in a form that JSON can hold."""
        return [each.tolist() for each in (self.counts, self.least, self.greatest)]

    @classmethod
    def from_lists(cls, lists: list[list[int]]) -> "Histogram":
        """Read what `to_lists` returned."""
        return cls(*(np.array(each, np.int64) for each in lists))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(
            self.counts + other.counts,
            np.minimum(self.least, other.least),
            np.maximum(self.greatest, other.greatest),
        )

    @property
    def total(self) -> int:
        return int(self.counts.sum())


@kernel
def locate(keys: Keys, splitters: Keys) -> Cells:
    """Return the cell of each key."""
    cells = np.empty(keys.size, np.int32)
    for i in range(keys.size):
        cells[i] = np.searchsorted(splitters, keys[i], side="right")
    return cells


@kernel
def count_keys(keys: Keys, cells: NDArray[Any], counts: Keys, least: Keys, greatest: Keys) -> None:
    """Add keys to a histogram."""
    for i in range(keys.size):
        key, cell = keys[i], cells[i]
        counts[cell] += 1
        least[cell] = min(least[cell], key)
        greatest[cell] = max(greatest[cell], key)


def from_sample(sample: Keys, cells: int) -> Keys:
    """Return splitters that cut a sample into equal parts; an empty one gives equal ranges."""
    if not sample.size:
        return np.linspace(MIN_KEY, MAX_KEY, cells + 1)[1:-1].astype(np.int64)
    places = np.arange(1, cells) * sample.size // cells
    return np.sort(sample)[places]


def adjust(histogram: Histogram, cells: int) -> Keys:
    """Return splitters that would spread the same rows evenly over ``cells`` (Algorithm 1).

    Cells without rows are skipped: their share falls into the next cell that has some.
    """
    reached = np.cumsum(histogram.counts)
    shares = np.arange(1, cells) * histogram.total / cells
    owners = np.searchsorted(reached, shares)
    counts, least = histogram.counts[owners], histogram.least[owners]
    inside = (shares - (reached[owners] - counts)) / np.maximum(counts, 1)
    # A span may exceed int64. As a double it loses digits, but a splitter need not be exact.
    span = histogram.greatest[owners].astype(np.float64) - least.astype(np.float64)
    steps = np.minimum(inside * span, 2.0**63 - 1024).astype(np.int64)
    beyond = steps > MAX_KEY - np.maximum(least, 0)
    moved = np.where(beyond, MAX_KEY, least + np.where(beyond, 0, steps))
    return np.maximum.accumulate(np.minimum(moved, histogram.greatest[owners]))


def weights(splitters: Keys) -> Keys:
    """Return how many shares each cell holds: one, but none or several where splitters repeat.

    >>> weights(np.array([10, 20, 20, 50]))
    array([1, 1, 0, 2, 1])
    """
    held = np.ones(splitters.size + 1, np.int64)
    for cell in range(1, splitters.size):
        if splitters[cell] == splitters[cell - 1]:
            held[cell + 1] += held[cell]
            held[cell] = 0
    return held
