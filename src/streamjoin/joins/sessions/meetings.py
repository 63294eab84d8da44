"""Finds the rows that new rows meet in open sessions.

The matches to give as rows arrive are the pairs that are now in one session and were not before::

    new left rows   with all right ones of their session
    old left rows   with new right ones
    old left rows   with old right ones, where two sessions have become one
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from streamjoin.joins.sessions.merging import Change
from streamjoin.joins.sessions.plan import (
    SESSION,
    in_sessions,
    matching_in,
    with_bridges,
    with_sessions,
)
from streamjoin.joins.sessions.rows import SessionRows
from streamjoin.joins.tumbling.closed import Sides
from streamjoin.kernels.compile import Flags, Positions
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared, concatenate


@dataclass(frozen=True)
class SessionStep:
    """New rows, what they change, and where each row's session is in that change."""

    batches: dict[Side, Prepared]
    change: Change
    sessions: dict[Side, Positions]


def split_by_side(of_rows: Positions, batches: dict[Side, Prepared]) -> dict[Side, Positions]:
    """Split a value per row of all batches, concatenated, into those of each batch."""
    ends = np.cumsum([0, *map(len, batches.values())])
    slices = (of_rows[first:last] for first, last in pairwise(ends))
    return dict(zip(batches, slices, strict=True))


class Meetings:
    """Selects what to join; ``held`` are the rows of open sessions, of both sides."""

    def __init__(self, plan: JoinPlan, held: Mapping[Side, SessionRows]) -> None:
        self.plan, self.held = plan, held

    @cached_property
    def inner(self) -> JoinPlan:
        """The plan of rows whose sessions are known."""
        return with_sessions(self.plan)

    @cached_property
    def bridges(self) -> JoinPlan:
        """The same, only for pairs that were in different sessions before."""
        return with_bridges(self.inner)

    def select_joins(self, step: SessionStep) -> Iterator[Sides]:
        """Yield the pairs of row sets to join."""
        change, inner = step.change, self.inner
        new = {
            side: matching_in(batch, inner, step.sessions[side])
            for side, batch in step.batches.items()
        }
        touched = {side: np.zeros(change.ids.size, np.bool_) for side in SIDES}
        for side, batch in new.items():
            touched[side][batch.keys.equalities[SESSION]] = True
        if "left" in new:
            right = [self._select_held(change, "right", touched["left"], inner), new.get("right")]
            met = [batch for batch in right if batch is not None]
            if met:
                yield {"left": new["left"], "right": concatenate(met)}
        if "right" in new:
            left = self._select_held(change, "left", touched["right"], inner)
            if left is not None:
                yield {"left": left, "right": new["right"]}
        bridged = np.bincount(change.into, minlength=change.ids.size) > 1
        if bridged.any():
            old = {side: self._select_held(change, side, bridged, self.bridges) for side in SIDES}
            yield {side: batch for side, batch in old.items() if batch is not None}

    def _select_held(
        self, change: Change, side: Side, chosen: Flags, plan: JoinPlan
    ) -> Prepared | None:
        """Return the stored rows of chosen sessions of a change."""
        met = np.flatnonzero(chosen[change.into])
        sessions, held = change.met[met], self.held[side]
        rows, found = held.can_match(*held.of(sessions))
        if not rows.size:
            return None
        before = sessions[found] if plan is self.bridges else None
        return in_sessions(held.take(rows), plan, change.into[met][found], before)
