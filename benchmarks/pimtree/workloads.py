"""Two streams of tuples, as the benchmarks of joins over whole windows draw them.

Keys lie in a ring for each stream, which holds the window and what comes next, so that a join knows
the key of a tuple that expires. Drawing is no part of what is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import gamma, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import Keys

SPAN = 1 << 40  # keys are this times a number that is about 1
AHEAD = 1 << 18  # tuples that may be drawn before they are joined

Sides = NDArray[np.uint8]


@dataclass(frozen=True)
class Distribution:
    """How keys are spread."""

    name: str
    draw: Callable[[np.random.Generator, int], NDArray[np.float64]]
    density: float  # the mean density at a key: the integral of the density's square

    def keys(self, rng: np.random.Generator, count: int) -> Keys:
        """Draw keys."""
        return (self.draw(rng, count) * SPAN).astype(np.int64)


def gamma_distribution(shape: float, scale: float) -> Distribution:
    """Return Gamma(shape, scale)."""
    density = gamma(2 * shape - 1) / (gamma(shape) ** 2 * 2 ** (2 * shape - 1) * scale)
    return Distribution(
        f"Gamma({shape:g}, {scale:g})", lambda rng, count: rng.gamma(shape, scale, count), density
    )


UNIFORM = Distribution("uniform", lambda rng, count: rng.random(count), 1.0)
GAUSSIAN = Distribution(
    "Gaussian(0.5, 0.125)",
    lambda rng, count: rng.normal(0.5, 0.125, count),
    1 / (2 * 0.125 * sqrt(pi)),
)
GAMMA = gamma_distribution(3, 3)
EXPONENTIAL = gamma_distribution(1, 5)


@dataclass(frozen=True)
class TupleLoad:
    """What is joined: two streams, by a band that gives a tuple so many matches on average."""

    left: int  # window, tuples
    right: int
    matches: float = 2.0
    spread: Distribution = UNIFORM
    share: float = 0.5  # of all tuples, how many are left ones
    itself: bool = False  # the left stream with itself
    seed: int = 7

    @property
    def reach(self) -> int:
        """How far a match may be."""
        searched = self.share * self.right + (1 - self.share) * self.left
        return round(self.matches / 2 / searched / self.spread.density * SPAN)

    def order(self, count: int) -> Sides:
        """Return whose tuples come, as evenly as can be."""
        if self.itself:
            return np.zeros(count, np.uint8)
        lefts = np.floor(np.arange(1, count + 1) * self.share)
        return (1 - np.diff(lefts, prepend=0)).astype(np.uint8)


def make_square(window: int, matches: float = 2.0, spread: Distribution = UNIFORM) -> TupleLoad:
    """Return a load with two windows of one size."""
    return TupleLoad(window, window, matches, spread)


class KeyRings:
    """Both streams: rings of keys, and what has been drawn."""

    def __init__(self, load: TupleLoad) -> None:
        self.load = load
        self.windows = np.array([load.left, load.right])
        self.rings = [
            np.zeros(1 << int(window + AHEAD).bit_length(), np.int64) for window in self.windows
        ]
        self.drawn = [0, 0]
        self.rng = np.random.default_rng(load.seed)

    def draw(self, side: int, count: int) -> Keys:
        """Draw the next keys of a stream into its ring."""
        keys, ring = self.load.spread.keys(self.rng, count), self.rings[side]
        ring[np.arange(self.drawn[side], self.drawn[side] + count) & (ring.size - 1)] = keys
        self.drawn[side] += count
        return keys

    def take(self, side: int, first: int, count: int) -> Keys:
        """Return keys of a stream."""
        ring = self.rings[side]
        return ring[np.arange(first, first + count) & (ring.size - 1)]
