"""When a row of a result must be out: as soon as no row that is on time can change it.

Only what a push and the watermark say is looked at; when a session closes depends on more, and so
nothing is demanded of sessions before the join is finished. What comes too early is found anyhow:
a row without a match that meets one later is wrong.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from .cases import Case
from .nested_loop import arrivals
from .outcomes import Row, Rows


@dataclass(frozen=True)
class Moment:
    """What has come up to the end of a step."""

    case: Case  # with the steps up to it

    @property
    def order(self) -> tuple[list[int], list[int]] | None:
        return self.case.block.order if self.case.ordered_by_column else None

    def is_due(self, row: Row) -> bool:
        """Whether a row of the result must be out by now."""
        kind, arrived = self.case.kind, self.case.arrived
        ids, side = self.ids_of(row), self.side_of(row)
        if kind.keeps_late and row[-1]:
            return any(each in late for each, late in zip(ids, arrived.late, strict=True))
        if side is None:
            is_there = all(each in rows for each, rows in zip(ids, arrived.rows, strict=True))
            if not kind.reduces and self.case.window[0] in ("time", "count"):
                return is_there
            return is_there and self.is_final(0, ids[0])
        return ids[side] in arrived.rows[side] and self.is_final(side, ids[side])

    def find_wrong(self, given: Rows, expected: Rows) -> Rows:
        """What is there by now and should not be, or the other way round, if rows come early.

        A row is there that is alone by now and whose patience is over; it may be, if it stays so.
        """
        alone = self.case.expect()
        must = Counter(row for row in alone if self.is_due(row) or self.has_waited(row))
        may = Counter(row for row in alone if row in expected)
        return (must - given) + (given - must - may)

    def has_waited(self, row: Row) -> bool:
        """Whether the newest time of either stream is beyond a row's patience."""
        arrived, side = self.case.arrived, self.side_of(row)
        if side is None or (self.case.kind.keeps_late and row[-1]):
            return False
        time = arrived.times[side][self.ids_of(row)[side]]
        assert self.case.kind.patience is not None
        return time is None or time + self.case.kind.patience < max(arrived.newest.values())

    def ids_of(self, row: Row) -> list[Any]:
        """The rows of both sides in a row of the result, None where it has none."""
        sides = self.case.kind.sides
        if len(sides) == 2:
            return list(row[:2])
        return [row[0], None] if sides == "l" else [None, row[0]]

    def side_of(self, row: Row) -> int | None:
        """The side of a row that is alone; None if it is a pair."""
        ids = self.ids_of(row)
        return ids.index(None) ^ 1 if None in ids else None

    def is_final(self, side: int, row: int) -> bool:
        """Whether no row on time can match a row that is there."""
        (name, *sizes), arrived = self.case.window, self.case.arrived
        time, watermark = self.case.block.times[side][row], arrived.watermark
        if name == "count":
            rows = [each for of, each in arrivals(self.case.steps, self.order) if of == side]
            return len(rows) - rows.index(row) > int(sizes[side])
        if time is None:
            return True
        if watermark is None:
            return False
        if name == "tumbling":
            length, offset = int(sizes[0]), int(sizes[1])
            return (time - offset) // length * length + length + offset <= watermark
        if name == "time":
            before, after = int(sizes[0]), int(sizes[1])
            reach = after if side == 0 else before
            if side == 1 and self.case.kind.reduces:  # left rows wait for rows yet to come
                reach += after
            return time + reach < watermark
        return False


def find_overdue(case: Case, given: list[Rows], expected: Rows) -> Rows:
    """The rows that were missing at the end of a step; ``given`` is what each step gave."""
    if case.kind.patience is not None and case.window[0] != "time":
        return Counter()
    so_far: Rows = Counter()
    for place, rows in enumerate(given):
        so_far.update(rows)
        moment = Moment(replace(case, steps=case.steps[: place + 1]))
        if not moment.case.is_open:
            continue
        if case.kind.patience is not None:
            if wrong := moment.find_wrong(so_far, expected):
                return wrong
            continue
        due = Counter({row: count for row, count in expected.items() if moment.is_due(row)})
        if missing := due - so_far:
            return missing
    return Counter()
