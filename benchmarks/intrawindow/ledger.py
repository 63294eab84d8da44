"""When matches come out, and how long after their tuples: kept without keeping the matches.

A block of pairs gets the time at which it is written. Latencies of its pairs are counted in bins
that grow with the latency, each 0.4 % wide: the upper bits of the number itself, as a float32, are
the bin, for the bits of positive floats ascend as the floats do::

    latency   sign, exponent, mantissa              bin
    1.5 ms    0 01111111 1000000000000000 0000000   bits >> 15
    1.501 ms  0 01111111 1000000000100000 1100010   the same
    1.6 ms    0 01111111 1001100110011001 1001101   another

Each thread has bins of its own. Counting is no part of what is measured, but a pair takes up to a
tenth of a microsecond, as the times of its tuples are anywhere in memory: of millions of matches,
every ``stride``-th is counted. Blocks, and with them progress, are entered whole.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.intrawindow.workloads import Times
from streamjoin.kernels.compile import Int, RowIds, bare

SHIFT = 15
BINS = 1 << (31 - SHIFT)
POINTS = 100  # of a curve

Bins = NDArray[np.int64]
Curve = list[tuple[float, float]]


@bare
def count_latencies(lefts: Times, rights: Times, now: Int, bins: Bins) -> None:
    """Count how long after the later of its two tuples each pair comes out."""
    for i in range(lefts.size):
        later = max(lefts[i], rights[i])
        bins[np.float32(max(now - later, 0.0)).view(np.int32) >> SHIFT] += 1


@dataclass
class Ledger:
    """What has come out so far."""

    left_times: Times
    right_times: Times
    stride: int = 1
    skip: dict[int, int] = field(default_factory=dict)  # pairs until the next one, by thread
    bins: dict[int, Bins] = field(default_factory=dict)  # by thread
    blocks: list[tuple[float, int]] = field(default_factory=list)  # when, and pairs

    def add(self, thread: int, now: float, left: RowIds, right: RowIds) -> None:
        """Enter a block of pairs that a thread has written at ``now``."""
        bins = self.bins.get(thread)
        if bins is None:
            bins = self.bins[thread] = np.zeros(BINS, np.int64)
        skip = self.skip.get(thread, 0)
        some = slice(skip, None, self.stride)
        lefts, rights = self.left_times[left[some]], self.right_times[right[some]]
        count_latencies(lefts, rights, float(now), bins)
        self.skip[thread] = (skip - left.size) % self.stride
        self.blocks.append((now, left.size))

    @property
    def matches(self) -> int:
        """Pairs that have come out."""
        return sum(pairs for _, pairs in self.blocks)

    def latency(self, share: float) -> float:
        """Return the latency, ms, that so many of the matches do not exceed; 0 without any."""
        counts = np.cumsum(sum(self.bins.values(), np.zeros(BINS, np.int64)))
        if counts[-1] == 0:
            return 0.0
        place = int(np.searchsorted(counts, share * counts[-1]))
        edges = np.array([place, place + 1], np.int64) << SHIFT
        return float(edges.astype(np.int32).view(np.float32).mean()) if place else 0.0

    def progress(self) -> tuple[Times, NDArray[np.int64]]:
        """Return the times of blocks, ascending, and how many matches are out at each."""
        blocks = sorted(self.blocks)
        times = np.array([time for time, _ in blocks], np.float64)
        return times, np.cumsum(np.array([pairs for _, pairs in blocks], np.int64))

    def reached(self, share: float) -> float:
        """Return when that share of the matches is out, ms; 0 without any."""
        times, out = self.progress()
        return float(times[np.searchsorted(out, share * out[-1])]) if out.size else 0.0

    def curve(self) -> Curve:
        """Return (ms, share of the matches that is out), at most ``POINTS`` of them."""
        times, out = self.progress()
        if not out.size:
            return []
        shares = np.arange(1, POINTS + 1) / POINTS
        at = np.unique(np.searchsorted(out, np.floor(shares * out[-1])))
        return [(float(times[each]), float(out[each] / out[-1])) for each in at]
