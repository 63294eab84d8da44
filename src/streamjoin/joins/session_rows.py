"""Rows that wait for the end of their session, with the numbers of the sessions they are in."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from streamjoin.joins.plan import SIDES, JoinPlan, KeyColumns
from streamjoin.joins.prepared import Prepared, concatenate
from streamjoin.kernels import Flags, Keys
from streamjoin.keys.operands import Side
from streamjoin.keys.parts import COMPARISONS, EqualityPart, RangePart
from streamjoin.predicates import Equality, NotEqual

NEW = -1  # the session of a row that has just come


@dataclass
class Part:
    """A batch that waits, and the sessions its rows were in when last looked at."""

    batch: Prepared
    before: Keys

    @property
    def times(self) -> Keys:
        """When its rows are."""
        assert self.batch.times is not None
        return self.batch.times


def combined(parts: Iterable[Part]) -> list[Part]:
    """Return the same rows in few parts, of which each is at least twice as large as the next."""
    kept: list[Part] = []
    for part in parts:
        tail, size = [part], len(part.batch)
        while kept and len(kept[-1].batch) < 2 * size:
            size += len(kept[-1].batch)
            tail.append(kept.pop())
        if len(tail) > 1:
            before = np.concatenate([each.before for each in tail])
            part = Part(concatenate([each.batch for each in tail]), before)
        kept.append(part)
    return kept


Parts = dict[Side, list[Part]]
Marks = dict[Side, list[Flags]]  # of the rows of each part


@dataclass(frozen=True)
class Numbered:
    """Rows with the numbers of their sessions, and the last time of each session."""

    parts: Parts
    numbers: dict[Side, list[Keys]]
    lasts: Keys

    def mark(self, chosen: Flags) -> Marks:
        """Mark the rows of some sessions."""
        return {side: [chosen[each] for each in self.numbers[side]] for side in SIDES}

    def old(self) -> Marks:
        """Mark the rows that were there before."""
        return {side: [part.before != NEW for part in self.parts[side]] for side in SIDES}

    def select(self, side: Side, flags: list[Flags], plan: JoinPlan) -> Prepared | None:
        """Return the marked rows of a side as one batch, under a plan that knows their sessions."""
        chosen = []
        for part, numbers, marked in zip(self.parts[side], self.numbers[side], flags, strict=True):
            rows = np.flatnonzero(marked & part.batch.matching)
            if rows.size:
                chosen.append(
                    in_sessions(part.batch.take(rows), numbers[rows], part.before[rows], plan)
                )
        return concatenate(chosen) if chosen else None


def with_sessions(plan: JoinPlan) -> JoinPlan:
    """Return the plan of rows whose sessions are known: their numbers are one more equality.

    Where rows of one session are sure to have equal keys, it is the only one.
    """
    assert plan.time_part is not None
    operands = plan.ranges[plan.time_part].operands
    session = EqualityPart(Equality("l.session", "r.session"), operands, exact=True)
    is_sure = len(plan.equalities) <= 1 and all(part.exact for part in plan.equalities)
    return replace(plan, equalities=(session,) if is_sure else (session, *plan.equalities))


def with_bridges(plan: JoinPlan) -> JoinPlan:
    """Return the same for pairs only that were in different sessions before."""
    assert plan.time_part is not None
    operands = plan.ranges[plan.time_part].operands
    source = NotEqual("l.session", "r.session")
    differ = RangePart(source, operands, floating=False, exact=COMPARISONS["<>"])
    return replace(plan, ranges=(*plan.ranges, differ))


def in_sessions(batch: Prepared, numbers: Keys, before: Keys, plan: JoinPlan) -> Prepared:
    """Return rows under a plan that knows their sessions."""
    equalities = batch.keys.equalities if len(plan.equalities) > 1 else ()
    ranges = batch.keys.ranges
    if len(plan.ranges) > len(ranges):
        ranges = (*ranges, before)
    return Prepared(
        plan, batch.side, batch.rows, KeyColumns((numbers, *equalities), ranges, batch.keys.rows)
    )


def both(some: Marks, others: Marks, flipped: bool = False) -> Marks:
    """Mark the rows that are marked in both or, ``flipped``, in the first only."""
    return {
        side: [a & (b ^ flipped) for a, b in zip(some[side], others[side], strict=True)]
        for side in SIDES
    }
