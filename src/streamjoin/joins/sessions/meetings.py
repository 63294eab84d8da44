"""Rows that come to open sessions, and which others they meet in one session thereby.

Matches that are wanted as rows come are the pairs that are now in one session and were not
before::

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
    """Rows that come, what they change, and where the session of each stands in that."""

    batches: dict[Side, Prepared]
    change: Change
    sessions: dict[Side, Positions]


def split_by_side(of_rows: Positions, batches: dict[Side, Prepared]) -> dict[Side, Positions]:
    """Split what is known of the rows of all batches, one after the other, into those of each."""
    ends = np.cumsum([0, *map(len, batches.values())])
    slices = (of_rows[first:last] for first, last in pairwise(ends))
    return dict(zip(batches, slices, strict=True))


class Meetings:
    """Tells what is to be joined; ``held`` are the rows of open sessions, of both sides."""

    def __init__(self, plan: JoinPlan, held: Mapping[Side, SessionRows]) -> None:
        self.plan, self.held = plan, held

    @cached_property
    def inner(self) -> JoinPlan:
        """The plan of rows whose sessions are known."""
        return with_sessions(self.plan)

    @cached_property
    def bridges(self) -> JoinPlan:
        """The same for pairs only that were in different sessions before."""
        return with_bridges(self.inner)

    def select_joins(self, step: SessionStep) -> Iterator[Sides]:
        """Yield what is to be joined with what."""
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
        """Return the rows that are held of sessions that are chosen among those of a change."""
        met = np.flatnonzero(chosen[change.into])
        sessions, held = change.met[met], self.held[side]
        rows, found = held.can_match(*held.of(sessions))
        if not rows.size:
            return None
        before = sessions[found] if plan is self.bridges else None
        return in_sessions(held.take(rows), plan, change.into[met][found], before)
