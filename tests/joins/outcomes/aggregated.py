"""The nested loop that aggregates of streams must agree with."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from tests.joins.outcomes.kept import null_first, null_last
from tests.joins.small_streams import SCHEMA
from tests.oracle import Predicate, Row

ASKED = {
    "n": "count(*)",
    "some": "count(r.b)",
    "total": "sum(r.b)",
    "mean": "avg(r.x)",
    "least": "min(r.b)",
    "best": "max(r.s)",
    "product": "sum(l.b * r.b)",
    "opens": "first(r.x)",
    "closes": "last(r.id)",
}
WITHOUT_LEFT = {name: text for name, text in ASKED.items() if name != "product"}
When = Callable[[Row], Any]  # by what the first and the last match go
Given = Counter[tuple[Any, ...]]


def order_of(when: When, is_last: bool) -> Callable[[Row], Any]:
    def key(other: Row) -> Any:
        time = when(other)
        time = -time if is_last and time is not None else time
        return (null_last(time), *(null_first(other[name]) for name in SCHEMA.names))

    return key


def some(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def aggregate(one: Row, met: Sequence[Row], when: When) -> dict[str, Any]:
    b = some(other["b"] for other in met)
    x = some(other["x"] for other in met)
    s = some(other["s"] for other in met)
    products = [one["b"] * each for each in b] if one["b"] is not None else []
    return {
        "n": len(met),
        "some": len(b),
        "total": sum(b) if b else None,
        "mean": sum(x) / len(x) if x else None,
        "least": min(b, default=None),
        "best": max(s, default=None, key=lambda text: text.encode()),
        "product": sum(products) if products else None,
        "opens": min(met, key=order_of(when, False))["x"] if met else None,
        "closes": min(met, key=order_of(when, True))["id"] if met else None,
    }


def aggregate_all(
    left: Iterable[Row],
    right: Sequence[Row],
    predicate: Predicate,
    how: str,
    asked: dict[str, str],
    when: When = lambda other: other["t"],
) -> Given:
    """Rows of the result: the left row's id, and its aggregates."""
    given: Given = Counter()
    for one in left:
        met = [other for other in right if predicate(one, other)]
        if met or how == "left":
            found = aggregate(one, met, when)
            given[tuple(show(each) for each in (one["id"], *(found[name] for name in asked)))] += 1
    return given


def show(value: Any) -> Any:
    """A value that is equal to itself, rounded where sums may differ in the last digit."""
    return repr(round(value, 9)) if isinstance(value, float) else value


def read_rows(result: pa.Table, asked: dict[str, str]) -> Given:
    if "n" not in result.schema.names:  # nothing is known of the other side so far
        return Counter()
    columns = [result[name].to_pylist() for name in ("id", *asked)]
    return Counter(tuple(map(show, row)) for row in zip(*columns, strict=True))
