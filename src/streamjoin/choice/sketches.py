"""Sketches streams of keys in two small arrays: how many are distinct, how skewed, what matches.

A hash sends each key to a place. A place counts its rows, and keeps the lowest of their hashes, as
a fraction::

    keys 7 7 9 4        counts   0   3   1   0       7 and 9 share a place
                        lows     1  .2  .6   1

Distinct keys: of n numbers between 0 and 1, the lowest is about 1 / (n + 1), so the sum of all lows
gives their number, with a standard error of 1 / sqrt(places), 2.2 % (Chassaing and Gerin,
"Efficient estimation of the cardinality of large data sets", 2006). While many places are empty,
the number of empty ones is a better estimate (linear counting; Whang et al., 1990).

The heaviest key: the rows of the fullest place, less what a place has on average.

Matches of two streams: a place where one has more rows than average has more of the other, too. The
sum of the products of both excesses estimates the matches (the tug of war of Alon et al., 1999,
with counts instead of signs), with a standard error of sqrt(F * G / places), where F and G are the
sums of the squares of both. That is 2.2 % of the matches if keys repeat evenly, and more than all
of them if one stream is very skewed. An estimate within three such errors of zero is replaced by
the number of matches there would be if each key of the stream with fewer keys also occurred in the
other.

A row costs a few nanoseconds; nothing is sampled.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import Int, Keys, bare, inlined

BITS = 11
PLACES = 1 << BITS
MOSTLY_FULL = 0.1  # share of empty places below which the lows are used
Counts = NDArray[np.int64]
Lows = NDArray[np.uint64]
ONE = np.uint64(2**64 - 1)


@inlined
def mix(key: Int) -> Int:
    """Map 64 bits to 64 bits, one to one, so that every input bit affects every output bit."""
    bits = np.uint64(key)
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return bits ^ (bits >> np.uint64(33))


@bare
def add_keys(keys: Keys, counts: Counts, lows: Lows) -> None:
    """Add keys to the counts and lows."""
    shift, rest = np.uint64(64 - BITS), np.uint64(BITS)
    for i in range(keys.size):
        bits = mix(keys[i])
        place = np.int64(bits >> shift)
        counts[place] += 1
        lows[place] = min(lows[place], bits << rest)


@dataclass
class Sketch:
    """What is known about the keys of one stream; see the module docstring.

    >>> sketch = Sketch.of(np.arange(100_000) // 10)
    >>> sketch.rows, 9_000 < sketch.distinct < 11_000, sketch.heaviest < 0.01
    (100000, True, True)
    """

    counts: Counts = field(default_factory=lambda: np.zeros(PLACES, np.int64))
    lows: Lows = field(default_factory=lambda: np.full(PLACES, ONE))

    @classmethod
    def of(cls, keys: Keys) -> "Sketch":
        """Sketch some keys."""
        sketch = cls()
        sketch.add(keys)
        return sketch

    def add(self, keys: Keys) -> None:
        add_keys(keys, self.counts, self.lows)

    @property
    def rows(self) -> int:
        """How many keys were added."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> float:
        """About how many of them are different."""
        empty = np.count_nonzero(self.counts == 0) / PLACES
        if empty > MOSTLY_FULL:
            return -PLACES * float(np.log(empty))
        lows = float(self.lows.astype(np.float64).sum()) / 2.0**64
        each = mean = (PLACES - 1) / lows  # keys per place; the low of an empty place is 1
        for _ in range(3):
            each = mean * (1 - float(np.exp(-each)))
        return min(PLACES * each, float(self.rows))

    @property
    def heaviest(self) -> float:
        """About what share of rows has the most frequent key; 0 if none stands out."""
        rows = self.rows
        return max(int(self.counts.max()) / rows - 1 / min(PLACES, rows), 0.0) if rows else 0.0

    def matches(self, other: "Sketch") -> float:
        """About how many pairs of rows have equal keys."""
        if not self.rows or not other.rows:
            return 0.0
        one, two = self.counts - self.counts.mean(), other.counts - other.counts.mean()
        found = float(one @ two) * PLACES / (PLACES - 1)
        error = 3 * float(np.sqrt((one @ one) * (two @ two) / PLACES))
        likely = self.rows * other.rows / max(self.distinct, other.distinct)
        return max(min(max(likely, found - error), found + error), 0.0)
