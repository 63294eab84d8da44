"""When a row of a result must be out: as soon as no row that is on time can change it.

Only what a push and the watermark say is looked at; when a session closes depends on more, and so
nothing is demanded of sessions before the join is finished. What comes too early is found anyhow:
a row without a match that meets one later is wrong.
"""

from collections import Counter
from dataclasses import dataclass, replace

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
        ids = list(row[:2])
        if len(kind.sides) == 1:
            ids = [row[0], None] if kind.sides == "l" else [None, row[0]]
        if kind.keeps_late and row[-1]:
            return any(each in late for each, late in zip(ids, arrived.late, strict=True))
        if None not in ids:
            is_there = all(each in rows for each, rows in zip(ids, arrived.rows, strict=True))
            if not kind.reduces and self.case.window[0] in ("time", "count"):
                return is_there
            return is_there and self.is_final(0, ids[0])
        side = ids.index(None) ^ 1
        return ids[side] in arrived.rows[side] and self.is_final(side, ids[side])

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
    so_far: Rows = Counter()
    for place, rows in enumerate(given):
        so_far += rows
        moment = Moment(replace(case, steps=case.steps[: place + 1]))
        if not moment.case.is_open:
            continue
        due = Counter({row: count for row, count in expected.items() if moment.is_due(row)})
        if missing := due - so_far:
            return missing
    return Counter()
