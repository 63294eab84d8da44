"""A race: joins over the same streams, one tuple at a time, measured in turns.

A *turn* is some tuples for each join; a *round* is so many turns that every index is merged or
archived a whole number of times, and gives one value of each join's rate, with what merging costs::

    B+-Tree     |--turn--|        |--turn--|        |       a round
    PIM-Tree    |        |--turn--|        |--turn+m|       m: a merge, once a round or more often

All joins find the same number of matches; this is asserted.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import ceil
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.harness.series import Series
from benchmarks.harness.turns import check_agreement, repeat, take_turns
from benchmarks.pimtree.joins import Make
from benchmarks.pimtree.workloads import AHEAD, KeyRings, TupleLoad

TURN = 1 << 16  # tuples
LEAST = 1 << 18  # tuples of a round, if there is time
RATE, WINDOW = "M tuples/s, both streams", "tuples in a window"  # axes


class Race:
    """Some joins, and what has been measured of them."""

    def __init__(self, load: TupleLoad, joins: Mapping[str, Make], slides: float = 0) -> None:
        self.load, self.streams = load, KeyRings(load)
        self.joins = {name: make(self.streams) for name, make in joins.items()}
        self.rates: dict[str, list[float]] = {name: [] for name in joins}  # M tuples/s
        self.tuples, self.matches = 0, 0
        self._fill()
        self.slide(slides)

    def _fill(self) -> None:
        """Fill the windows, without probing."""
        for side in self.sides:
            left = int(self.streams.windows[side])
            while left:
                count = min(left, AHEAD)
                self._insert(side, count)
                left -= count

    def _insert(self, side: int, count: int) -> None:
        keys = self.streams.draw(side, count)
        order = np.argsort(keys, kind="stable")
        for join in self.joins.values():
            join.insert(side, keys[order], order)

    @property
    def sides(self) -> range:
        """The streams that there are."""
        return range(1 if self.load.itself else 2)

    def slide(self, times: float) -> None:
        """Let the windows slide by so many times their length without probing."""
        for side in self.sides:
            window = int(self.streams.windows[side])
            left = int(times * window)
            while left:
                count = min(left, max(window // 8, 1), AHEAD)
                gone = self.streams.take(side, self.streams.drawn[side] - window, count)
                for join in self.joins.values():
                    join.expire(side, gone)
                self._insert(side, count)
                left -= count
        for join in self.joins.values():
            join.prepare()

    @property
    def round(self) -> int:
        """How many tuples a round has."""
        shares = [1.0] if self.load.itself else [self.load.share, 1 - self.load.share]
        periods = (
            ceil(join.period(side) / shares[side])
            for join in self.joins.values()
            for side in self.sides
        )
        longest = max(periods)
        return longest * max(LEAST // longest, 1)

    def run(self, rounds: int, tuples: int | None = None) -> None:
        """Measure some rounds, of so many tuples if that is given."""
        tuples = tuples or self.round
        for _ in range(rounds):
            seconds = dict.fromkeys(self.joins, 0.0)
            left = tuples
            while left:
                turn = min(left, TURN)
                self._turn(turn, seconds)
                left -= turn
            for name, each in seconds.items():
                self.rates[name].append(tuples / each / 1e6)

    def measure(self, seconds: float, least: int = 1) -> dict[str, float]:
        """Measure rounds for some seconds, after a turn that does not count; return the medians."""
        self._turn(min(TURN, self.round), dict.fromkeys(self.joins, 0.0))
        repeat(partial(self.run, 1), least, seconds=seconds)
        return {name: median(rates) for name, rates in self.rates.items()}

    def vary(self, matches: float) -> None:
        """Go on with another band, and forget what was measured."""
        self.load = self.streams.load = replace(self.load, matches=matches)
        self.rates = {name: [] for name in self.joins}
        self.tuples, self.matches = 0, 0

    def _turn(self, count: int, seconds: dict[str, float]) -> None:
        order = self.load.order(count)
        for side in self.sides:
            self.streams.draw(side, int((order == side).sum()))
        found: dict[str, int] = {}

        def join(name: str) -> None:
            begin = perf_counter()
            found[name] = self.joins[name].run(order)
            seconds[name] += perf_counter() - begin

        take_turns({name: partial(join, name) for name in self.joins}, rounds=1)
        check_agreement(found)
        self.tuples += count
        self.matches += next(iter(found.values()))

    @property
    def match_rate(self) -> float:
        """How many matches a tuple had."""
        return self.matches / self.tuples

    def series(self, name: str) -> Series:
        """Return the rates of a join."""
        load = self.load
        return Series(
            f"{name}, windows of {load.left:,} and {load.right:,}",
            tuple(self.rates[name]),
            "M tuples/s",
        )
