"""Joins inside windows that close, as nested loops: short, slow and obviously right.

Rows are dicts as in `oracle`, times and lengths whole numbers of one unit, computed exactly.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.joins.small_streams import table
from tests.oracle import Pairs, Predicate, Row

# The columns, or what is computed of them, that each condition of `small_streams` compares.
GROUPS = {
    "equality": ["k"],
    "text": ["s"],
    "two equalities": ["k", "s"],
    "null-safe": ["k"],
    "null-safe text": ["s"],
    "equality and band": ["k"],
    "text and double band": ["s"],
    "equality and two ranges": ["k"],
    "equality and not equal": ["k"],
    "residual text": ["k", "length"],
}


def tumbling(
    left: Sequence[Row],
    right: Sequence[Row],
    predicate: Predicate,
    length: int,
    offset: int = 0,
    until: int | None = None,
) -> Pairs:
    """Pairs in one window; with ``until``, of windows only that end then or before."""
    pairs: Pairs = Counter()
    for one in left:
        for other in right:
            if one["t"] is None or other["t"] is None or not predicate(one, other):
                continue
            number = (one["t"] - offset) // length
            is_closed = until is None or offset + (number + 1) * length <= until
            if is_closed and number == (other["t"] - offset) // length:
                pairs[one["id"], other["id"]] += 1
    return pairs


def sessions(
    left: Sequence[Row],
    right: Sequence[Row],
    predicate: Predicate,
    gap: int,
    group: Callable[[Row], Any],
    until: int | None = None,
) -> Pairs:
    """Pairs in one session; with ``until``, of sessions only that no row from then on can join."""
    groups: defaultdict[Any, list[tuple[int, int, Row]]] = defaultdict(list)
    for side, arriving in enumerate((left, right)):
        for row in arriving:
            if row["t"] is not None and group(row) is not None:
                groups[group(row)].append((row["t"], side, row))
    pairs: Pairs = Counter()
    for rows in groups.values():
        rows.sort(key=lambda each: each[0])
        cuts = [at for at in range(1, len(rows)) if rows[at][0] - rows[at - 1][0] > gap]
        for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            if until is not None and rows[last - 1][0] + gap >= until:
                continue
            one, other = ([row for _, side, row in rows[first:last] if side == at] for at in (0, 1))
            pairs.update((a["id"], b["id"]) for a in one for b in other if predicate(a, b))
    return pairs


def group_of(name: str) -> Callable[[Row], tuple[Any, ...] | None]:
    """What rows must have in common, by the name of a condition; NULL is in no session."""
    columns = GROUPS.get(name, [])

    def group(row: Row) -> tuple[Any, ...] | None:
        known = {**row, "length": None if row["s"] is None else len(row["s"])}
        values = tuple(known[column] for column in columns)
        return None if None in values and "null-safe" not in name else values

    return group


@dataclass
class Arrived:
    """The rows that came in time, and the watermark as it should be."""

    delay: int | None = None
    watermark: int | None = None
    left: list[Row] = field(default_factory=list)
    right: list[Row] = field(default_factory=list)
    late: int = 0
    newest: dict[str, int] = field(default_factory=dict)

    def push(self, left: Sequence[Row], right: Sequence[Row]) -> None:
        for side, rows in (("left", left), ("right", right)):
            for row in rows:
                if row["t"] is None:
                    continue
                self.newest[side] = max(self.newest.get(side, row["t"]), row["t"])
                if self.watermark is not None and row["t"] < self.watermark:
                    self.late += 1
                else:
                    getattr(self, side).append(row)
        if self.delay is not None and len(self.newest) == 2:
            self.advance(min(self.newest.values()) - self.delay)

    def advance(self, watermark: int) -> None:
        self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)

    @property
    def sides(self) -> tuple[list[Row], list[Row]]:
        return self.left, self.right


def pushed(left: Sequence[Row], right: Sequence[Row]) -> dict[str, pa.Table]:
    """What a push gets: a side without rows is left out half of the time."""
    sides = {}
    if left or len(right) % 2:
        sides["left"] = table(left)
    if right or len(left) % 2:
        sides["right"] = table(right)
    return sides
