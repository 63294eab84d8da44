"""Streams and queries of two inequalities, as the SPO-Join paper has them (section 5.2).

    Q1  l.power < r.power and l.cool > r.cool            racks of a data centre, two streams
    Q2  abs(l.lon - r.lon) < 0.03 and the same of lat    where taxi trips begin, a band in the plane
    Q3  l.distance > r.distance and l.fare < r.fare      taxi trips, a stream with itself

The data are generated, with the traits that matter. Distances are lognormal and fares follow them,
in hundredths of a mile and in cents, so both have many ties; trips begin in clusters; cooling
follows power. How closely the second column follows the first, the *noise*, is what makes the match
rate of Q1 and Q3::

    noise 0      o             no pair of rows is in opposite orders: no match
               o               more noise: some neighbours change places, each a match
             o                 much: half of all pairs do

so for every match rate that is asked for, the noise is found with a sample. Columns are integers
(a millionth of a degree for Q2, whose band is then 30,000): with binary fractions it would depend
on rounding whether a pair at the edge of a band matches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.harness.peers import Comparison, compare_band
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Int, Keys, Positions, bare

SEED = 11
SAMPLE, STEPS = 100_000, 24  # rows and bisections with which a noise is found
MILLION = 1_000_000
MEDIAN_MILES, SPREAD_MILES = 1.8, 0.75  # of the lognormal distances
BASE_FARE, CENTS_A_MILE = 250, 250
RACK_WATTS, SPREAD_WATTS, COOLING = 3_000.0, 800.0, 0.4
CLUSTERS, CITY, CLUSTER = 40, 0.08, 0.012  # their number, and spreads in degrees
BAND = 30_000  # millionths of a degree

Noise = float | None
Relation = Literal["<", ">", "band"]


class Rows(NamedTuple):
    """The two columns that a condition compares, in the order of arrival."""

    first: Keys
    second: Keys

    def part(self, begin: int, end: int) -> "Rows":
        """Return some of the rows."""
        return Rows(self.first[begin:end], self.second[begin:end])


class Ranges(NamedTuple):
    """What probes look for, one after the other: keys in two closed ranges."""

    first_lower: Keys
    first_upper: Keys
    second_lower: Keys
    second_upper: Keys

    def part(self, begin: int, end: int) -> "Ranges":
        """Return some of the probes."""
        return Ranges(*(each[begin:end] for each in self))


def find_range(relation: Relation, side: int, keys: Keys) -> tuple[Keys, Keys]:
    """Return the keys of the other side that match; ``side`` is 0 for left rows, 1 for right.

    >>> find_range(">", 0, np.array([7]))[1]
    array([6])
    """
    if relation == "band":
        return keys - (BAND - 1), keys + (BAND - 1)
    if (relation == "<") == (side == 0):
        return keys + 1, np.full_like(keys, MAX_KEY)
    return np.full_like(keys, MIN_KEY), keys - 1


@bare
def count_crossings(order: Positions, ranks: Positions, tree: Positions) -> Int:
    """Count pairs (i, j) with i in a group before j's and ``ranks[i] > ranks[j]``.

    ``order`` numbers groups of equal keys, ascending; ranks are from 1 on. ``tree`` (zeros, one
    more than the greatest rank) becomes a Fenwick tree of the ranks so far. O(n log n).
    """
    count, done = np.int64(0), np.int64(0)
    for i in range(order.size):
        while order[done] < order[i]:  # ends at i at the latest
            at = ranks[done]
            while at < tree.size:
                tree[at] += 1
                at += at & -at
            done += 1
        count += done
        at = ranks[i]
        while at > 0:
            count -= tree[at]
            at -= at & -at
    return count


def count_pairs(rows: Rows) -> int:
    """Count the pairs of rows that are in one order by the first column and not by the second.

    >>> count_pairs(Rows(np.array([1, 2, 2, 3]), np.array([5, 5, 4, 9])))
    1
    """
    by_first = np.argsort(rows.first, kind="stable")
    groups = np.unique(rows.first[by_first], return_inverse=True)[1].astype(np.int64)
    ranks = np.unique(rows.second[by_first], return_inverse=True)[1].astype(np.int64) + 1
    return int(count_crossings(groups, ranks, np.zeros(ranks.max(initial=0) + 1, np.int64)))


def draw_trips(rng: np.random.Generator, count: int, noise: Noise) -> Rows:
    """Draw distances in hundredths of a mile, and fares in cents that are off by ``noise``."""
    miles = rng.lognormal(np.log(MEDIAN_MILES), SPREAD_MILES, count)
    distances = np.rint(miles * 100).astype(np.int64)
    fares = BASE_FARE + CENTS_A_MILE * distances / 100 + rng.normal(0, 1, count) * (noise or 0)
    return Rows(distances, np.rint(fares).astype(np.int64))


def draw_racks(rng: np.random.Generator, count: int, noise: Noise) -> Rows:
    """Draw power and cooling in milliwatts; ``noise`` is that of cooling."""
    watts = rng.normal(RACK_WATTS, SPREAD_WATTS, count)
    cooling = COOLING * watts * 1_000 + rng.normal(0, 1, count) * (noise or 0)
    return Rows(np.rint(watts * 1_000).astype(np.int64), np.rint(cooling).astype(np.int64))


def draw_places(rng: np.random.Generator, count: int, noise: Noise = None) -> Rows:
    """Draw where trips begin, in millionths of a degree, most of them in a few clusters."""
    fixed = np.random.default_rng(CLUSTERS)  # both streams are of one city
    centres = fixed.normal((-73.98, 40.75), CITY, (CLUSTERS, 2))
    shares = fixed.dirichlet(np.full(CLUSTERS, 0.5))
    points = centres[rng.choice(CLUSTERS, count, p=shares)] + rng.normal(0, CLUSTER, (count, 2))
    longitude, latitude = np.rint(points * MILLION).astype(np.int64).T.copy()
    return Rows(longitude, latitude)


Draw = Callable[[np.random.Generator, int, Noise], Rows]


@dataclass(frozen=True)
class Query:
    """A condition on two columns, and the rows that it is for."""

    name: str
    columns: tuple[str, str]
    relations: tuple[Relation, Relation]
    draw: Draw
    noise: Noise = None
    itself: bool = False  # whether a stream is joined with itself

    @property
    def on(self) -> str:
        """The condition as SQL.

        >>> Q3.on
        'l.distance > r.distance and l.fare < r.fare'
        """
        return " and ".join(
            f"abs(l.{column} - r.{column}) < {BAND}"
            if relation == "band"
            else f"l.{column} {relation} r.{column}"
            for column, relation in zip(self.columns, self.relations, strict=True)
        )

    @property
    def comparisons(self) -> list[Comparison]:
        """The condition as other engines take it."""
        every: list[Comparison] = []
        for column, relation in zip(self.columns, self.relations, strict=True):
            if relation == "band":
                every += compare_band(column, BAND - 1)
            else:
                every.append(Comparison(column, relation, column))
        return every

    def rows(self, rng: np.random.Generator, count: int) -> Rows:
        """Draw rows."""
        return self.draw(rng, count, self.noise)

    def ranges(self, rows: Rows, side: int) -> Ranges:
        """Return what rows of one side look for on the other."""
        first, second = (
            find_range(relation, side, keys)
            for relation, keys in zip(self.relations, rows, strict=True)
        )
        return Ranges(*first, *second)

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Return rows as a record batch."""
        return pa.record_batch(dict(zip(self.columns, rows, strict=True)))

    def with_matches(self, matches: float, window: int = MILLION) -> "Query":
        """Return the query on data where a row meets so many rows of a window, by a sample."""
        if "band" in self.relations:
            return self
        wanted = matches / window

        def share(noise: float) -> float:
            sample = self.draw(np.random.default_rng(SAMPLE), SAMPLE, noise)
            return count_pairs(sample) / SAMPLE**2

        low, high = 1e-3, 1e7
        for _ in range(STEPS):
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if share(middle) < wanted else (low, middle)
        return Query(self.name, self.columns, self.relations, self.draw, high, self.itself)


Q1 = Query("Q1", ("power", "cool"), ("<", ">"), draw_racks)
Q2 = Query("Q2", ("lon", "lat"), ("band", "band"), draw_places)
Q3 = Query("Q3", ("distance", "fare"), (">", "<"), draw_trips, itself=True)
QUERIES = (Q3, Q2, Q1)  # as figures 7 to 9 have them


def describe_data(query: Query, rows: Rows, window: int) -> dict[str, Any]:
    """Return what tells of the data: spread, ties, correlation, and how many rows a row meets."""
    sample = rows.part(0, SAMPLE)
    columns: dict[str, Any] = {}
    for name, keys in zip(query.columns, rows, strict=True):
        columns[name] = {
            "quartiles": np.quantile(keys, (0.25, 0.5, 0.75)).tolist(),
            "rows with the same value": keys.size / np.unique(keys).size,
        }
    return {
        "condition": query.on,
        "noise": query.noise,
        "columns": columns,
        "correlation": float(np.corrcoef(rows.first, rows.second)[0, 1]),
        "matches of a row": measure_match_share(query, sample) * window,
        "window": window,
    }


def measure_match_share(query: Query, rows: Rows) -> float:
    """Return the share of a window that a row meets, by some rows."""
    if "band" not in query.relations:
        return count_pairs(rows) / rows.first.size**2
    probes: NDArray[np.bool_] = np.ones((200, rows.first.size), np.bool_)
    for keys in rows:
        lower, upper = find_range("band", 0, keys[:200])
        probes &= (keys >= lower[:, None]) & (keys <= upper[:, None])
    return float(probes.mean())
