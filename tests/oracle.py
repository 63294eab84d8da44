"""The nested loop that every join must agree with: short, slow and obviously right.

Rows are dicts with an ``id``; a predicate takes two of them and returns True, False or None.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Predicate = Callable[[Row, Row], bool | None]
Pairs = Counter[tuple[Any, Any]]  # (left id, right id), a multiset
Steps = list[tuple[list[Row], list[Row]]]  # the (left, right) rows of each push


def join_by_time(
    left: list[Row], right: list[Row], predicate: Predicate, before: int, after: int
) -> Pairs:
    """Pairs with l.t - before <= r.t <= l.t + after; late rows are for the caller to leave out."""
    return Counter(
        (one["id"], other["id"])
        for one in left
        for other in right
        if one["t"] is not None
        and other["t"] is not None
        and one["t"] - before <= other["t"] <= one["t"] + after
        and predicate(one, other)
    )


def join_by_count(
    steps: Steps,
    predicate: Predicate,
    left_size: int,
    right_size: int,
    order: str | None = None,
) -> Pairs:
    """Each arriving row meets the last rows of the other stream that arrived before it.

    ``steps`` are the (left, right) rows of each push. Arrival order is: step, then the ``order``
    column if there is one, then left before right, then the place in the batch.
    """
    pairs: Pairs = Counter()
    lefts: list[Row] = []
    rights: list[Row] = []
    for left, right in steps:
        arriving = [(row, False) for row in left] + [(row, True) for row in right]
        if order is not None:
            arriving.sort(key=lambda arrival: arrival[0][order])  # stable: left stays first
        for row, is_right in arriving:
            if is_right:
                met = [one for one in lefts[-left_size:] if predicate(one, row)]
                pairs.update((one["id"], row["id"]) for one in met)
                rights.append(row)
            else:
                met = [other for other in rights[-right_size:] if predicate(row, other)]
                pairs.update((row["id"], other["id"]) for other in met)
                lefts.append(row)
    return pairs


class Arrivals:
    """The place of every row among both streams, and in its own; see `join_by_count`."""

    def __init__(self, steps: Steps, order: str | None = None) -> None:
        self.among_both: dict[tuple[str, Any], int] = {}
        self.in_stream: dict[tuple[str, Any], int] = {}
        counts = Counter[str]()
        for left, right in steps:
            arriving = [(row, "left") for row in left] + [(row, "right") for row in right]
            if order is not None:
                arriving.sort(key=lambda arrival: arrival[0][order])
            for row, side in arriving:
                self.among_both[side, row["id"]] = counts.total()
                self.in_stream[side, row["id"]] = counts[side]
                counts[side] += 1

    def finder(self, pair: tuple[Any, Any]) -> int:
        """A match belongs to the later of its rows."""
        left, right = pair
        return max(self.among_both["left", left], self.among_both["right", right])

    def place(self, pair: tuple[Any, Any]) -> int:
        """The place of the earlier row in its stream."""
        left, right = ("left", pair[0]), ("right", pair[1])
        return self.in_stream[min(left, right, key=self.among_both.__getitem__)]

    def check(self, found: list[tuple[Any, Any]], ordered: str | int) -> None:
        """Assert that a sequence of matches is in the order that was asked for."""
        if ordered == "none":
            return
        if ordered == "outer":
            keys = [(self.finder(pair), 0) for pair in found]
        else:
            precision = 1 if ordered == "inner" else int(ordered)
            keys = [(self.finder(pair), self.place(pair) // precision) for pair in found]
        assert keys == sorted(keys)
