"""Conditions with two ranges and more, in SQL and in Python, and rows for them.

Ties, NULL, NaN, both zeros, infinities and the ends of integers are among the values.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import inf, isnan, nan
from operator import ge, gt, le, lt, ne
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from streamjoin.indexes.two_keys import spo_join
from streamjoin.indexes.two_keys.crossing import Crossing
from streamjoin.indexes.two_keys.spo_join import SPOJoin
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.plans.limits import use_limits
from tests.joins.small_streams import (
    EQUAL,
    NEAR_X,
    SAME_TEXT,
    TINY,
    both,
    compare,
    known,
)
from tests.oracle import Pairs, Predicate, Row

random = settings(max_examples=20, suppress_health_check=list(HealthCheck))
OPERATORS = {"<": lt, "<=": le, ">": gt, ">=": ge, "<>": ne}
SPO = {"algorithm": "spo_join"}
threads = st.sampled_from([1, 2])


@pytest.fixture(autouse=True)
def tiny_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module, name, value in (
        (spo_join, "FEW_ROWS", 4),
        (spo_join, "FEW_PROBES", 3),
        (spo_join, "THREAD_TUPLES", 6),
        (SPOJoin.__init__, "__defaults__", (8, 1, 5)),
        (Crossing, "scans", property(lambda self: bool(self.places.size % 2))),
    ):
        monkeypatch.setattr(module, name, value)
    with use_limits(TINY):
        yield


# Conditions, in SQL and in Python.


def ordered(value: float) -> tuple[bool, float]:
    """A double in Spark's order: NaN equals itself and is the largest, and -0.0 is 0.0."""
    return (isnan(value), 0.0 if isnan(value) else value)


def test_of(left: str, sign: str, right: str) -> Predicate:
    """A comparison of two columns, as Spark makes it."""

    def holds(one: Any, other: Any) -> bool:
        if isinstance(one, float) or isinstance(other, float):
            one, other = ordered(one), ordered(other)
        return bool(OPERATORS[sign](one, other))

    return compare(left, right, holds)


test_of.__test__ = False  # type: ignore[attr-defined]


NEAR_B = compare("b", "b", lambda one, other: abs(one - other) <= 1)
LESS_A, MORE_X = test_of("a", "<", "a"), test_of("x", ">", "x")

CONDITIONS: dict[str, tuple[str, Predicate]] = {
    "two": ("l.a < r.a and l.x > r.x", both(LESS_A, MORE_X)),
    "of other columns": (
        "l.a <= r.b and l.b >= r.a",
        both(test_of("a", "<=", "b"), test_of("b", ">=", "a")),
    ),
    "turned around": ("r.a > l.a and r.x < l.x", both(LESS_A, MORE_X)),
    "three": (
        "l.a <= r.a and l.x >= r.x and l.b <> r.b",
        both(test_of("a", "<=", "a"), test_of("x", ">=", "x"), test_of("b", "<>", "b")),
    ),
    "not equal twice": (
        "l.a <> r.a and l.x <> r.x",
        both(test_of("a", "<>", "a"), test_of("x", "<>", "x")),
    ),
    "two bands": ("abs(l.b - r.b) <= 1 and abs(l.x - r.x) <= 0.2", both(NEAR_B, NEAR_X)),
    "band and inequality": ("abs(l.b - r.b) <= 1 and l.x > r.x", both(NEAR_B, MORE_X)),
    "bands with or": (
        "(l.b - r.b between -3 and -2 or l.b - r.b = 0 or l.b - r.b > 2) and l.a < r.a",
        both(compare("b", "b", lambda a, b: a - b in (-3, -2, 0) or a - b > 2), LESS_A),
    ),
    "arithmetic": (
        "l.b * 2 >= r.b + r.k and l.b - l.k < r.b",
        lambda one, other: (
            known(one["b"], one["k"], other["b"], other["k"])
            and one["b"] * 2 >= other["b"] + other["k"]
            and one["b"] - one["k"] < other["b"]
        ),
    ),
    "equality": ("l.k = r.k and l.a < r.a and l.x > r.x", both(EQUAL, LESS_A, MORE_X)),
    "text": (
        "l.s = r.s and l.b <> r.b and l.x > r.x",
        both(SAME_TEXT, test_of("b", "<>", "b"), MORE_X),
    ),
    "two equalities": (
        "l.k = r.k and l.s = r.s and l.a <> r.a and l.x <> r.x",
        both(EQUAL, SAME_TEXT, test_of("a", "<>", "a"), test_of("x", "<>", "x")),
    ),
    "residual": (
        "l.a < r.a and l.x > r.x and l.b + r.b > 0",
        both(LESS_A, MORE_X, compare("b", "b", lambda a, b: a + b > 0)),
    ),
    "residual text": (
        "l.k = r.k and abs(l.b - r.b) <= 1 and l.x > r.x and l.s || r.s <> 'aa'",
        both(EQUAL, NEAR_B, MORE_X, compare("s", "s", lambda a, b: a + b != "aa")),
    ),
    "filters": (
        "l.a < r.a and l.x > r.x and l.b > 0 and r.s is not null",
        lambda a, b: LESS_A(a, b) and MORE_X(a, b) and known(a["b"], b["s"]) and a["b"] > 0,
    ),
}
conditions = st.sampled_from(sorted(CONDITIONS))
SYMMETRIC = ["not equal twice", "two bands"]

INTEGERS = [MIN_KEY, -1, 0, 1, MAX_KEY]
DOUBLES = [-inf, -0.0, 0.0, 0.2, 0.1 + 0.2, inf, nan]


VALUES: dict[str, Sequence[Any]] = {
    "k": [None, *range(3), *range(3)],
    "s": [None, "", "a", "b", "a"],
    "a": [None, *INTEGERS, *INTEGERS],
    "b": [None, *range(-2, 3), *range(-2, 3)],
    "x": [None, *DOUBLES, *DOUBLES],
    "o": range(6),
}
TIMES = st.sampled_from([None, *range(20), *range(20), 10**9])
ROWS = st.fixed_dictionaries(
    {"t": TIMES} | {name: st.sampled_from(values) for name, values in VALUES.items()}
)


def many_rows(dice: Random, size: int) -> list[Row]:
    """Rows whose times go on, but for some that come late and a few far ahead."""
    rows = []
    for place in range(dice.randint(size // 2, size)):
        late = dice.choice([0, 0, 0, 1, 2, dice.randint(0, 15)])
        times = [max(place // 2 - late, 0)] * 20 + [None, 10**9]
        row = {name: dice.choice(values) for name, values in VALUES.items()}
        rows.append({**row, "t": dice.choice(times)})
    return rows


@st.composite
def streams(draw: st.DrawFn, most: int = 30, sides: Sequence[int] = (0, 1000)) -> list[list[Row]]:
    """Lists of rows: some few that shrink well, most of them enough for chains of subwindows."""
    seed = draw(st.one_of(st.just(-1), *[st.integers(0, 10**6)] * 3))
    chosen = []
    for first in sides:
        few = seed < 0
        rows = draw(st.lists(ROWS, max_size=most)) if few else many_rows(Random(seed + first), 80)
        chosen.append([{**row, "id": first + place} for place, row in enumerate(rows)])
    return chosen


def nested_loop(left: Sequence[Row], right: Sequence[Row], predicate: Predicate) -> Pairs:
    return Counter(
        (one["id"], other["id"]) for one in left for other in right if predicate(one, other)
    )


OTHERS = {"t": 0, "k": 1, "s": "a", "b": 1, "o": 0}


def every_value(first: int) -> list[Row]:
    """Rows with every pair of values, some twice, in no order."""
    values = list(product([None, *INTEGERS, 0], [None, *DOUBLES, 0.2]))
    order = np.random.default_rng(first).permutation(len(values))
    return [
        {**OTHERS, "id": first + place, "a": values[each][0], "x": values[each][1]}
        for place, each in enumerate(order)
    ]
