"""Small streams and the conditions they are joined by, for the contracts of all joins.

Few values, so that ties and NULLs are everywhere; `steps_of` cuts streams into any pushes.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.conditions.recognition import parse_condition
from streamjoin.indexes.catalogue import TWO_KEYS
from streamjoin.plans.limits import Limits
from tests.oracle import Pairs, Predicate, Row, Steps

TINY = Limits(  # chains, sealing, late indexes and expiry all happen within a few rows
    least_counted_rows=4,
    least_timed_rows=4,
    large_batch_rows=8,
    slice_rows=2,
    least_expired_rows=8,
    small_piece_rows=8,
)
SCHEMA = pa.schema(
    {"id": pa.int64(), "t": pa.int64(), "k": pa.int64(), "s": pa.string(), "a": pa.int64(),
     "b": pa.int32(), "x": pa.float64(), "o": pa.int64()}
)  # fmt: skip


def known(*values: Any) -> bool:
    return all(value is not None for value in values)


def compare(left: str, right: str, test: Callable[[Any, Any], bool]) -> Predicate:
    """A condition over one column of each side that NULL never passes."""

    def predicate(one: Row, other: Row) -> bool:
        return known(one[left], other[right]) and test(one[left], other[right])

    return predicate


def both(*predicates: Predicate) -> Predicate:
    return lambda one, other: all(predicate(one, other) for predicate in predicates)


EQUAL = compare("k", "k", lambda one, other: one == other)
SAME_TEXT = compare("s", "s", lambda one, other: one == other)
NEAR = compare("a", "a", lambda one, other: abs(one - other) <= 1)
NEAR_X = compare("x", "x", lambda one, other: abs(one - other) <= 0.2)

# SQL text (read by DuckDB too, but for `duck`), and the same in Python.
CONDITIONS: dict[str, tuple[str, Predicate]] = {
    "equality": ("l.k = r.k", EQUAL),
    "text": ("l.s = r.s", SAME_TEXT),
    "two equalities": ("l.k = r.k and l.s = r.s", both(EQUAL, SAME_TEXT)),
    "null-safe": ("l.k <=> r.k", lambda one, other: one["k"] == other["k"]),
    "null-safe text": ("l.s <=> r.s", lambda one, other: one["s"] == other["s"]),
    "band": ("abs(l.a - r.a) <= 1", NEAR),
    "asymmetric band": (
        "l.a between r.b - 1 and r.b + 2",
        compare("a", "b", lambda one, other: -1 <= one - other <= 2),
    ),
    "double band": ("abs(l.x - r.x) <= 0.2", NEAR_X),
    "two bands": (
        "abs(l.a - r.a) <= 1 and abs(l.x - r.x) <= 0.2",
        both(NEAR, NEAR_X),
    ),
    "bands with or": (
        "(l.a - r.a between -4 and -2 or l.a - r.a = 0 or l.a - r.a between 2 and 3)",
        compare("a", "a", lambda one, other: one - other in (-4, -3, -2, 0, 2, 3)),
    ),
    "inequality": ("l.a < r.b", compare("a", "b", lambda one, other: one < other)),
    "arithmetic": (
        "l.a * 2 >= r.b + r.a",
        lambda one, other: (
            known(one["a"], other["b"], other["a"]) and one["a"] * 2 >= other["b"] + other["a"]
        ),
    ),
    "not equal": ("l.a <> r.a", compare("a", "a", lambda one, other: one != other)),
    "two inequalities": (
        "l.a < r.a and l.b > r.b",
        both(
            compare("a", "a", lambda one, other: one < other),
            compare("b", "b", lambda one, other: one > other),
        ),
    ),
    "equality and band": ("l.k = r.k and abs(l.a - r.a) <= 1", both(EQUAL, NEAR)),
    "text and double band": (
        "l.s = r.s and abs(l.x - r.x) <= 0.2",
        both(SAME_TEXT, NEAR_X),
    ),
    "equality and two ranges": (
        "l.k = r.k and abs(l.a - r.a) <= 1 and l.b <= r.b",
        both(EQUAL, NEAR, compare("b", "b", lambda one, other: one <= other)),
    ),
    "equality and not equal": (
        "l.k = r.k and l.a <> r.a",
        both(EQUAL, compare("a", "a", lambda one, other: one != other)),
    ),
    "residual": (
        "abs(l.a - r.a) <= 3 and l.a + r.b > 1",
        both(
            compare("a", "a", lambda one, other: abs(one - other) <= 3),
            compare("a", "b", lambda one, other: one + other > 1),
        ),
    ),
    "residual text": (
        "l.k = r.k and length(l.s) = length(r.s) and l.s || r.s <> 'aa'",
        both(
            EQUAL,
            compare("s", "s", lambda one, other: len(one) == len(other) and one + other != "aa"),
        ),
    ),
    "filters": (
        "abs(l.a - r.a) <= 1 and l.b > 0 and r.s is not null",
        lambda one, other: NEAR(one, other) and known(one["b"], other["s"]) and one["b"] > 0,
    ),
}
conditions = st.sampled_from(sorted(CONDITIONS))


def fitting(name: str, algorithm: str, timed: bool = False) -> str:
    """The same condition, or another where an index by two ranges at once has too few of them."""
    ranges = len(list(parse_condition(CONDITIONS[name][0]).ranges())) + timed
    return "two inequalities" if algorithm in TWO_KEYS and ranges < 2 else name


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values, values, values, values)


ROWS = st.fixed_dictionaries(
    {
        "t": maybe(st.integers(0, 30)),
        "k": maybe(st.integers(0, 3)),
        "s": maybe(st.sampled_from(["", "a", "b", "ab"])),
        "a": maybe(st.integers(-3, 3)),
        "b": maybe(st.integers(-2, 3)),
        "x": maybe(st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5])),
        "o": st.integers(0, 5),
    }
)


def many_rows(random: Random, size: int) -> list[Row]:
    """Rows whose times go on, with some that come late, and few different values."""
    values: dict[str, Sequence[Any]] = {
        "k": range(4), "s": ["", "a", "b", "ab"], "a": range(-3, 4), "b": range(-2, 4),
        "x": [0.0, -0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5],
    }  # fmt: skip
    rows = []
    for place in range(random.randint(size // 2, size)):
        row = {name: random.choice([None, *among, *among]) for name, among in values.items()}
        late = random.choice([0, 0, 0, 1, 2, random.randint(0, 20)])
        row["t"] = random.choice([None] + [max(place // 2 - late, 0)] * 9)
        rows.append({**row, "o": random.randint(0, 5)})
    return rows


@st.composite
def streams(draw: st.DrawFn, most: int = 40) -> list[list[Row]]:
    """Two lists of rows with ids, NULLs, ties, and times out of order.

    Half of them are few rows that shrink well, half enough to fill chains of subwindows.
    """
    sides, seed = [], draw(st.one_of(st.none(), st.integers(0, 10**6)))
    for first in (0, 1000):
        if seed is None:
            rows = draw(st.lists(ROWS, max_size=most))
        else:
            rows = many_rows(Random(seed + first), 2 * most)
        sides.append([{**row, "id": first + place} for place, row in enumerate(rows)])
    return sides


@st.composite
def steps_of(draw: st.DrawFn, left: Iterable[Row], right: Iterable[Row]) -> Steps:
    """Any cut of two streams into pushes of either side or of both."""
    steps: Steps = []
    rows = [list(left), list(right)]
    while rows[0] or rows[1]:
        sides = draw(st.sampled_from(["left", "right", "both"]))
        step = []
        for place, side in enumerate(("left", "right")):
            size = draw(st.sampled_from([0, 1, 1, 2, 5, 9, 40])) if sides in (side, "both") else 0
            step.append(rows[place][:size])
            rows[place] = rows[place][size:]
        steps.append((step[0], step[1]))
        if len(steps) > 30:  # enough small ones: the rest at once
            steps.append((rows[0], rows[1]))
            break
    return steps


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def pairs(result: pa.Table) -> Pairs:
    return Counter(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))


def check(join: sj.StreamJoin) -> None:
    """Every invariant of every structure that the join holds."""
    if join._state.engine is not None:
        for part in join._state.engine.executor.chain_pairs:
            for chain in part.values():
                chain.check()


def push(
    join: sj.StreamJoin,
    left: Sequence[Row] = (),
    right: Sequence[Row] = (),
    both_sides: bool = False,
) -> Pairs:
    """Push rows, the empty side left out half of the time."""
    given_sides = {}
    if left or both_sides:
        given_sides["left"] = table(left)
    if right or both_sides:
        given_sides["right"] = table(right)
    result = join.push(**given_sides)
    check(join)
    return pairs(result) if "id_right" in result.schema.names else Counter()


def run(
    join: sj.StreamJoin, steps: Steps, save_before: Container[int] = ()
) -> tuple[Pairs, sj.StreamJoin]:
    found: Pairs = Counter()
    for number, (left, right) in enumerate(steps):
        if number in save_before:
            join = sj.StreamJoin.restore(join.snapshot())
            check(join)
        found += push(join, left, right, both_sides=number % 3 == 0)
    return found, join


def duckdb_pairs(
    text: str,
    left: Sequence[Row],
    right: Sequence[Row],
    before: int | None = None,
    after: int | None = None,
) -> Pairs:
    window = "" if before is None else f" and r.t between l.t - {before} and l.t + {after}"
    text = text.replace("l.k <=> r.k", "l.k is not distinct from r.k")
    text = text.replace("l.s <=> r.s", "l.s is not distinct from r.s")
    with duckdb.connect() as connection:
        connection.register("l", table(left))
        connection.register("r", table(right))
        rows = connection.sql(f"select l.id, r.id from l, r where {text}{window}").fetchall()
    return Counter(rows)
