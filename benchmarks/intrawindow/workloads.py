"""Workloads of the study of intra-window joins (its section 4.2) that are generated.

Two streams of keys with the times at which they arrive, in ms, ascending; one window holds all of
them. At rest, all times are 0, and so is the window. *Micro* is the synthetic workload, of which
each trait is a number::

    rate 4 a ms, window 3 ms, dupe 2       keys   3 1 0 5 2 4 1 0 3 5 4 2    0 .. 5, each twice
                                           times  0 . . . 1 . . . 2 . . .    rows / rate

Keys of a side without skew are 0, 1, 2, ... in random order, each ``dupe`` times, as in the study;
with fewer rows on one side, its keys are some of the other's. With a skew of s, the right keys are
Zipf(s) over the left ones, which stay unique: both sides drawn from Zipf(1.6) would have 10^13
matches, so the study cannot have meant that. Times with a skew of s are Zipf(s) over the
milliseconds of the window, the first ones the fullest.

The table with the statistics of YSB and DEBS is not in the text that we have. Their sizes here are
chosen: the rate of YSB is ten tuples a microsecond; DEBS has a million rows a side and 251 million
matches, as the study's public scripts say, and numbers of users that make this plausible.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import Keys

Times = NDArray[np.float64]

SEED = 11
YSB_CAMPAIGNS, YSB_RATE, YSB_WINDOW = 1_000, 10_000, 1_000
DEBS_ROWS, DEBS_USERS = 1_000_000, (5_800, 900)  # posts and comments
DEBS_SKEW = 0.18  # of users: fitted to 251 million matches


@dataclass(frozen=True)
class Workload:
    """Two streams in one window."""

    name: str
    left_keys: Keys
    right_keys: Keys
    left_times: Times
    right_times: Times
    window: float  # ms; 0 for data at rest
    matches: int  # known from how it is made, or counted by ``count_matches``
    source: str = "generated"

    @property
    def inputs(self) -> int:
        """Tuples of both sides."""
        return self.left_keys.size + self.right_keys.size

    def resting(self) -> "Workload":
        """Return the same keys, all there at once."""
        nothing = [np.zeros(keys.size) for keys in (self.left_keys, self.right_keys)]
        keys = self.left_keys, self.right_keys
        return Workload(self.name, *keys, nothing[0], nothing[1], 0, self.matches, self.source)


def count_matches(left: Keys, right: Keys) -> int:
    """Count pairs of equal keys, from how often each key occurs.

    >>> count_matches(np.array([1, 1, 2, 3]), np.array([1, 1, 1, 3, 4]))
    7
    """
    (left_keys, left_counts), (right_keys, right_counts) = (
        np.unique(keys, return_counts=True) for keys in (left, right)
    )
    _, lefts, rights = np.intersect1d(left_keys, right_keys, True, return_indices=True)
    return int(left_counts[lefts] @ right_counts[rights])


def draw_zipf(rng: np.random.Generator, skew: float, values: int, count: int) -> Keys:
    """Draw numbers below ``values``, of which i has a share like (i + 1)^-skew; ascending."""
    shares = np.cumsum(np.arange(1, values + 1, dtype=np.float64) ** -skew)
    gaps = np.cumsum(rng.standard_exponential(count + 1))  # sorted uniform numbers, without sorting
    drawn = np.searchsorted(shares, gaps[:-1] / gaps[-1] * shares[-1], "right")
    return np.minimum(drawn, values - 1)


def repeat_keys(rng: np.random.Generator, rows: int, dupe: int) -> Keys:
    """Return 0, 1, 2, ..., each ``dupe`` times, in random order."""
    keys = np.arange(rows) // dupe
    rng.shuffle(keys)
    return keys


def draw_times(rng: np.random.Generator, rows: int, window: float, skew: float) -> Times:
    """Return the times of arrival of a stream."""
    if skew == 0:
        return np.arange(rows, dtype=np.float64) * (window / max(rows, 1))
    return draw_zipf(rng, skew, max(int(window), 1), rows).astype(np.float64)


def make_micro(
    rate_left: float,
    rate_right: float,
    window: float = 1_000,
    dupe: int = 1,
    key_skew: float = 0.0,
    arrival_skew: float = 0.0,
    seed: int = SEED,
) -> Workload:
    """Draw Micro; rates are tuples a ms."""
    rng = np.random.default_rng(seed)
    lefts, rights = round(rate_left * window), round(rate_right * window)
    left = repeat_keys(rng, lefts, dupe)
    if key_skew:
        names = rng.permutation(-(-lefts // dupe))  # the frequent keys are not the small ones
        right = names[draw_zipf(rng, key_skew, names.size, rights)]
        rng.shuffle(right)
    else:
        right = repeat_keys(rng, rights, dupe)
    left_times = draw_times(rng, lefts, window, arrival_skew)
    right_times = draw_times(rng, rights, window, arrival_skew)
    matches = count_matches(left, right)
    return Workload("Micro", left, right, left_times, right_times, window, matches)


def make_static_micro(rows: int, dupe: int = 1, seed: int = SEED) -> Workload:
    """Draw Micro at rest, of which each key occurs ``dupe`` times on each side."""
    rng = np.random.default_rng(seed)
    left, right = (repeat_keys(rng, rows, dupe) for _ in range(2))
    return Workload(
        f"Micro d{dupe}, {rows / 1e6:g}M x {rows / 1e6:g}M",
        *(left, right, np.zeros(rows), np.zeros(rows)),
        *(0, rows * dupe),
    )


def make_static_foreign(lefts: int, rights: int, seed: int = SEED) -> Workload:
    """Draw unique keys at rest, and foreign keys to them."""
    rng = np.random.default_rng(seed)
    left, right = repeat_keys(rng, lefts, 1), rng.integers(0, lefts, rights)
    name = f"Micro, {lefts / 1e6:g}M x {rights / 1e6:g}M foreign keys"
    return Workload(name, left, right, np.zeros(lefts), np.zeros(rights), 0, rights)


def make_ysb(rate: float = YSB_RATE, window: float = YSB_WINDOW, seed: int = SEED) -> Workload:
    """Draw the Yahoo benchmark: campaigns at rest, and a steady stream of advertisements."""
    rng = np.random.default_rng(seed)
    rows = round(rate * window)
    left, right = rng.permutation(YSB_CAMPAIGNS), rng.integers(0, YSB_CAMPAIGNS, rows)
    times = np.zeros(YSB_CAMPAIGNS), draw_times(rng, rows, window, 0)
    return Workload("YSB", left, right, *times, window, rows)


def make_debs(rows: int = DEBS_ROWS, seed: int = SEED) -> Workload:
    """Draw posts and comments at rest, by their users, of whom some write much more than others."""
    rng = np.random.default_rng(seed)
    left, right = (draw_zipf(rng, DEBS_SKEW, users, rows) for users in DEBS_USERS)
    for keys in (left, right):
        rng.shuffle(keys)
    matches = count_matches(left, right)
    return Workload("DEBS", left, right, np.zeros(rows), np.zeros(rows), 0, matches)
