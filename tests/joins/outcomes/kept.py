"""The nested loop that ``keep`` must agree with: the k best pairs per left row, then ``how``."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

import streamjoin as sj
from tests.joins.small_streams import CONDITIONS, SCHEMA, table
from tests.oracle import Predicate, Row

HOWS = (
    "inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti",
)  # fmt: skip
COUNTED_HOWS = ("inner", "left", "left_semi", "left_anti")
Distance = Callable[[Row, Row], Any]
Given = Counter[tuple[Any, Any]]  # (left id, right id), None for a side that is not there


def open_join(*arguments: Any, **options: Any) -> sj.StreamJoin:
    """A join that knows the columns of both sides: without them, it could not give lonely rows."""
    join = sj.StreamJoin(*arguments, **options)
    join.push(left=table([]), right=table([]))
    return join


def apart(left: str, right: str) -> Distance:
    def distance(one: Row, other: Row) -> Any:
        known = one[left] is not None and other[right] is not None
        return abs(one[left] - other[right]) if known else None

    return distance


# By the name of a condition: nearest=, and the distance in Python. None: what suggests itself.
DISTANCES: dict[str, tuple[str | None, Distance]] = {
    "band": (None, apart("a", "a")),
    "asymmetric band": (None, apart("a", "b")),
    "double band": (None, apart("x", "x")),
    "bands with or": (None, apart("a", "a")),
    "inequality": (None, apart("a", "b")),
    "equality and band": (None, apart("a", "a")),
    "equality and two ranges": (None, apart("a", "a")),
    "text and double band": (None, apart("x", "x")),
    "residual": (None, apart("a", "a")),
    "filters": (None, apart("a", "a")),
    "two bands": ("abs(l.x - r.x)", apart("x", "x")),
    "two inequalities": ("abs(l.b - r.b)", apart("b", "b")),
    "equality": ("abs(l.x - r.x)", apart("x", "x")),
    "text": ("abs(l.a - r.b)", apart("a", "b")),
    "null-safe": ("abs(l.a - r.a)", apart("a", "a")),
    "not equal": ("abs(l.x - r.x)", apart("x", "x")),
    "arithmetic": ("abs(l.b - r.b)", apart("b", "b")),
    "residual text": ("cast(abs(l.a - r.a) as decimal(30, 4))", apart("a", "a")),
}
assert set(DISTANCES) <= set(CONDITIONS)


def null_first(value: Any) -> Any:
    return (value is not None, value if value is not None else 0)


def null_last(value: Any) -> Any:
    return (value is None, value if value is not None else 0)


def rank_of(
    keep: str, distance: Distance, schema: pa.Schema = SCHEMA, timed: bool = True
) -> Callable[[Row, Row], Any]:
    def rank(one: Row, other: Row) -> Any:
        time = other["t"]
        if keep == "last" and time is not None:
            time = -time
        times = (null_last(time),) if timed else ()
        columns = tuple(null_first(other[name]) for name in schema.names)
        first = (null_last(distance(one, other)),) if keep == "nearest" else ()
        return (*first, *times, *columns)

    return rank


def keep_pairs(
    left: Iterable[Row], right: Sequence[Row], predicate: Predicate, rank: Any, k: int
) -> Given:
    kept: Given = Counter()
    for one in left:
        met = sorted(
            (other for other in right if predicate(one, other)), key=lambda other: rank(one, other)
        )
        kept.update((one["id"], other["id"]) for other in met[:k])
    return kept


def give(kept: Given, left: Iterable[Row], right: Iterable[Row], how: str) -> Given:
    """What a join gives whose matches are these."""
    met = {one for one, _ in kept}, {other for _, other in kept}
    alone_left = Counter((row["id"], None) for row in left if row["id"] not in met[0])
    alone_right = Counter((None, row["id"]) for row in right if row["id"] not in met[1])
    none: Given = Counter()
    return {
        "inner": kept,
        "left": kept + alone_left,
        "right": kept + alone_right,
        "full": kept + alone_left + alone_right,
        "left_semi": Counter((one, None) for one in met[0]),
        "left_anti": none + alone_left,
        "right_semi": Counter((None, other) for other in met[1]),
        "right_anti": none + alone_right,
    }[how]


def ids(result: pa.Table, how: str) -> Given:
    none = [None] * len(result)
    if "id" not in result.schema.names:  # nothing is known of the other side so far
        return Counter()
    first = result["id"].to_pylist()
    if how.startswith("right_"):
        return Counter(zip(none, first, strict=True))
    if how.startswith("left_") or "id_right" not in result.schema.names:
        return Counter(zip(first, none, strict=True))
    return Counter(zip(first, result["id_right"].to_pylist(), strict=True))
