"""Rows for joins on two inequalities, with as many matches as are asked for.

In SPO-Join's queries the two columns of a row go together: what draws more power is cooled more, a
longer trip costs more. A match is an exception to that, a pair that goes the other way::

    cool |           r'  .'        Q1   l.power < r.power and l.cool > r.cool
         |     l   . '             l and r match: l draws less, and is cooled more
         |      . '  r             l and r' do not
         |   . '
         +------------------ power

So ``cool = power + noise * normal``: with no noise nothing matches, and as long as the noise is
small beside the range of power, matches grow in proportion to it: of n rows, a row finds about
``n * noise / (range * sqrt(pi))``. Either inequality alone lets half of all pairs pass, whatever
the noise; this is what makes such a join hard for an index on one column.

The noise is found by a sample of a whole window a side, in which all matches are counted
(`count_matches`, O(n log n)): the first guess is put right until the sample has 1 % more or less.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamjoin.benchmarks.spark_inputs import Columns, Shape
from streamjoin.kernels import Keys, kernel

Q1 = "l.power < r.power and l.cool > r.cool"
Q3 = "l.distance > r.distance and l.fare < r.fare"
MOST_POWER = 4_000.0  # watts of a rack
TYPICAL_TRIP, SPREAD = 1.7, 0.8  # miles, and of their logarithm
FLAG_FALL, A_MILE = 3.0, 2.5  # dollars
CLOSE, TRIES = 0.01, 8  # to the number of matches that is asked for

Doubles = NDArray[np.float64]
DrawNoisy = Callable[[np.random.Generator, int, float], Columns]


def draw_racks(rng: np.random.Generator, rows: int, noise: float) -> Columns:
    """Return uniform power, and cooling that follows it."""
    power = rng.uniform(0, MOST_POWER, rows)
    return {"power": power, "cool": power + noise * rng.standard_normal(rows)}


def draw_trips(rng: np.random.Generator, rows: int, noise: float) -> Columns:
    """Return trips of which many are short, and fares that follow their distance."""
    distance = TYPICAL_TRIP * np.exp(SPREAD * rng.standard_normal(rows))
    fare = FLAG_FALL + A_MILE * distance + noise * rng.standard_normal(rows)
    return {"distance": distance, "fare": fare}


@dataclass(frozen=True)
class Query:
    """A condition, its data, and which columns have to be less and greater on the left."""

    on: str
    draw: DrawNoisy
    less: str
    greater: str

    def matches(self, left: Columns, right: Columns) -> Keys:
        """Count the matches of each left row."""
        names = self.less, self.greater
        less, greater = ((left[name], right[name]) for name in names)
        return count_matches(less, greater)


RACKS = Query(Q1, draw_racks, "power", "cool")
TRIPS = Query(Q3, draw_trips, "fare", "distance")


@dataclass(frozen=True)
class Statistics:
    """What a sample of one window a side is like."""

    rows: int  # of a side
    noise: float  # in the unit of the second column
    matches: float  # of a left row, on average
    median: float
    p99: float
    most: int
    correlation: float  # of a row's two columns

    def to_dict(self) -> dict[str, float]:
        """The statistics as they are written to JSON."""
        return asdict(self)


def find_noise(query: Query, rows: int, matches: float, seed: int) -> Statistics:
    """Return the noise at which a row finds so many of ``rows``, and what the data is like."""
    noise = 1.0
    for _ in range(TRIES):
        # The same random numbers in every try, so that they differ in their noise alone.
        left, right = (
            query.draw(np.random.default_rng((seed, side)), rows, noise) for side in (0, 1)
        )
        found = query.matches(left, right)
        if abs(found.mean() - matches) <= CLOSE * matches:
            return describe(query, left, found, noise)
        noise *= matches / max(float(found.mean()), 1 / rows)
    raise RuntimeError(
        f"{query.on}: {found.mean():.3f} matches a row, and {matches} were meant; more rows than "
        f"{rows:,} in the sample would help"
    )


def describe(query: Query, left: Columns, found: Keys, noise: float) -> Statistics:
    """Put the statistics together."""
    median, p99 = np.percentile(found, [50, 99])
    columns = left[query.less], left[query.greater]
    return Statistics(
        rows=found.size,
        noise=noise,
        matches=float(found.mean()),
        median=float(median),
        p99=float(p99),
        most=int(found.max()),
        correlation=float(np.corrcoef(*columns)[0, 1]),
    )


def shape_of(query: Query, statistics: Statistics, matches: int) -> Shape:
    """Return the data of a query for streams whose windows are as large as the sample."""
    noise = statistics.noise
    return Shape(lambda rng, rows: query.draw(rng, rows, noise), lambda _: query.on, matches)


def count_matches(less: tuple[Any, Any], greater: tuple[Any, Any]) -> Keys:
    """Count, for each left row, the right rows with more in one column and less in the other.

    Left rows come by the first column, the greatest first, and right rows that have more of it are
    put into a tree by their place in the second one.
    """
    (left_less, right_less), (left_greater, right_greater) = less, greater
    turns, arriving = np.argsort(left_less)[::-1], np.argsort(right_less)[::-1]
    above = right_less.size - np.searchsorted(right_less[arriving[::-1]], left_less[turns], "right")
    by_greater = np.argsort(right_greater)
    places = np.empty(by_greater.size, np.int64)
    places[by_greater] = np.arange(by_greater.size)
    below = np.searchsorted(right_greater[by_greater], left_greater[turns])
    counts = np.empty(turns.size, np.int64)
    counts[turns] = count_in_turn(above, places[arriving], below)
    return counts


@kernel
def count_in_turn(above: Keys, places: Keys, below: Keys) -> Keys:
    """Count, of the first ``above[i]`` places, those under ``below[i]``, by a Fenwick tree."""
    tree = np.zeros(places.size + 1, np.int64)
    counts = np.empty(above.size, np.int64)
    arrived = 0
    for i in range(above.size):
        while arrived < above[i]:
            node = places[arrived] + 1
            while node < tree.size:
                tree[node] += 1
                node += node & -node
            arrived += 1
        count, node = 0, below[i]
        while node > 0:
            count += tree[node]
            node -= node & -node
        counts[i] = count
    return counts
