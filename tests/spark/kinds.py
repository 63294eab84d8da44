"""What each kind of join gives, from the pairs that an inner join gives: short and obvious.

Rows are known by their ids, which no two rows of a side share.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

HOW = ["inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti"]
Given = Counter[tuple[Any, ...]]


def kind_of(pairs: Iterable[tuple[Any, Any]], left: set[Any], right: set[Any], how: str) -> Given:
    """Return the ids of what a join gives: of both sides, or of the one that it is about."""
    found = list(pairs)
    met = {one for one, _ in found}, {other for _, other in found}
    if how.startswith("left_"):
        return Counter((each,) for each in left if (each in met[0]) == (how == "left_semi"))
    if how.startswith("right_"):
        return Counter((each,) for each in right if (each in met[1]) == (how == "right_semi"))
    given: Given = Counter(found)
    if how in ("left", "full"):
        given.update((each, None) for each in left - met[0])
    if how in ("right", "full"):
        given.update((None, each) for each in right - met[1])
    return given


def ids_of(joined: pa.Table) -> Given:
    """Return the ids of rows that were given."""
    names = [name for name in ("id", "id_right") if name in joined.schema.names]
    return Counter(zip(*(joined[name].to_pylist() for name in names), strict=True))
