"""Joins inside session windows: at the end of each session, or as its rows arrive (`emit`).

A session consists of rows of both streams with equal keys, without a pause longer than the gap.
Later rows can extend it, or bridge the pause between two sessions. So all rows of open sessions
wait, and the sessions (`open_sessions`) and their rows (`rows`) are kept up to date. With
``emit="eager"``, a step gives the pairs that are now in one session and were not before
(`meetings`).

A session closes when no row that is still on time can belong to it. Only the equalities define
sessions: a row that another part of the condition rules out, by NULL or by itself, waits as well.

Cost, apart from the joins: for a push, its rows and, if eager, those of the sessions they touch;
for a watermark, the rows of sessions that end. Other stored rows cost nothing. Undoing a step,
which only an interrupt needs, rebuilds everything in O(rows).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from streamjoin.choice.algorithm import Adviser
from streamjoin.errors import StreamJoinError
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings, time_items
from streamjoin.joins.outcomes.outcome import Alone, leftovers
from streamjoin.joins.sessions.cutting import Sessions, session_starts
from streamjoin.joins.sessions.groups import SessionGroups
from streamjoin.joins.sessions.meetings import Meetings, SessionStep, split_by_side
from streamjoin.joins.sessions.open_sessions import OpenSessions
from streamjoin.joins.sessions.plan import SESSION, in_sessions, matching_in
from streamjoin.joins.sessions.rows import SessionRows
from streamjoin.joins.tumbling.closed import (
    ClosedRows,
    ClosingWindows,
    Sides,
    raise_failed,
)
from streamjoin.kernels.compile import MAX_KEY, Keys, Positions
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared


@dataclass(frozen=True)
class Ended:
    """Sessions that have ended, their rows, and the session of each row."""

    sessions: Keys
    rows: dict[Side, tuple[Keys, Positions]]


class SessionJoin(ClosingWindows):
    """The rows of open sessions; ``eager`` gives matches as rows arrive."""

    def __init__(
        self, plan: JoinPlan, closed: ClosedRows, deliver: Deliver, eager: bool, adviser: Adviser
    ) -> None:
        assert plan.longest_pause is not None
        self.plan, self.closed, self.deliver, self.eager = plan, closed, deliver, eager
        self.adviser, self.gap = adviser, plan.longest_pause
        self.groups = SessionGroups(plan)
        self._make_empty()
        self.seconds = {"sessions": 0.0, "probe": 0.0, "insert": 0.0, "expire": 0.0}
        self.commands: dict[str, int] = {"close": 0}
        self.inserted: list[Prepared] = []  # by the last step
        self._planned: SessionStep | None = None  # the step that probed; it may be inserted next
        self._closing: tuple[Clock, Ended | None] | None = None  # what closed, to expire next

        self._sizes: dict[Side, int] | None = None  # rows before a step that can be undone

    def begin(self) -> None:
        """Begin a step."""
        self._sizes = {side: held.nexts.size for side, held in self.held.items()}

    def undo(self) -> None:
        """Remove what this step has stored."""
        self._planned = self._closing = None
        if self._sizes != {side: held.nexts.size for side, held in self.held.items()}:
            assert self._sizes is not None
            before = {side: held.first_rows(self._sizes[side]) for side, held in self.held.items()}
            self._make_empty()
            self.restore({side: batch for side, batch in before.items() if batch is not None})

    def conclude(self) -> None:
        """Keep what this step has stored."""
        self._sizes = None

    def would_expire(self, clock: Clock) -> bool:
        """Whether `expire` drops a session."""
        return self._find_ended(clock) is not None

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on."""
        self.closed.threads = self.adviser.threads = threads

    def _make_empty(self) -> None:
        self.open = OpenSessions(self.gap, self.plan.limits)
        self.held = {side: SessionRows(self.plan, side) for side in SIDES}
        self.meetings = Meetings(self.plan, self.held)

    def _plan_step(self, batches: Batches) -> SessionStep:
        """Return what batches change; computed once for a probe and the insert that follows."""
        stored = {side: batch.stored for side, batch in batches.items() if len(batch.stored)}
        last = self._planned
        if last is not None and [*map(id, last.batches.values())] == [*map(id, stored.values())]:
            return last
        begin = perf_counter()
        change = self.open.plan(self.groups.of(stored, self.open, self.held), times_of(stored))
        self._planned = SessionStep(stored, change, split_by_side(change.of_rows, stored))
        self.seconds["sessions"] += perf_counter() - begin
        return self._planned

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for pairs that new rows have brought into one session; changes nothing."""
        if self.eager and any(len(batch.stored) for batch in batches.values()):
            step = self._plan_step(batches)
            deliver = deliver or self.deliver
            joined = (
                item
                for sides in self.meetings.select_joins(step)
                for item in self.closed.join(sides, deliver)
            )
            yield from time_items(joined, self.seconds, "probe")

    def insert(self, batches: Batches) -> None:
        """Store rows until their sessions end."""
        step = self._plan_step(batches)
        begin = perf_counter()
        change = step.change
        self._planned = self._closing = None
        self._append(step.batches)
        self.inserted = list(step.batches.values())
        self.open.apply(change)
        into = change.ids[change.into]
        gone = into != change.met
        for side, held in self.held.items():
            held.open(self.open.size)
            held.merge(change.met[gone], into[gone])
            if side in step.batches:
                held.add_last(change.ids[step.sessions[side]])
        self.seconds["insert"] += perf_counter() - begin

    def _append(self, batches: Batches) -> None:
        """Add rows, not yet in any session: of all sides, or of none if that fails."""
        sizes = {side: held.nexts.size for side, held in self.held.items()}
        try:
            for side, batch in batches.items():
                self.held[side].append(batch)
        except BaseException:
            for side, held in self.held.items():
                held.keep_first(sizes[side])
            raise

    has_runs = False  # matches do not depend on how rows were pushed
    is_restored = True

    @property
    def closing(self) -> "SessionJoin":
        """The executor itself: its windows close."""
        return self

    @property
    def saved(self) -> dict[str, Any]:
        """What `restore` needs beside the rows: nothing."""
        return {}

    def restore(self, batches: Batches, saved: Mapping[str, Any] | None = None) -> None:
        """Load rows that were stored before, without looking for matches."""
        self.insert(batches)
        self.inserted = []

    def join_all(self, batches: Batches, deliver: Deliver | None = None) -> Iterator[Any]:
        """Join rows by themselves, apart from stored ones; store nothing."""
        stored = {side: batch.stored for side, batch in batches.items() if len(batch.stored)}
        begin = perf_counter()
        numbers = split_by_side(self._cut_anew(stored).of_rows, stored)
        self.seconds["sessions"] += perf_counter() - begin
        inner = self.meetings.inner
        sides = {side: matching_in(stored[side], inner, numbers[side]) for side in stored}
        yield from self.closed.join(sides, deliver or self.deliver)

    def _cut_anew(self, batches: dict[Side, Prepared]) -> Sessions:
        """Cut rows into sessions, regardless of stored ones."""
        groups = SessionGroups(self.plan).of(batches)
        return session_starts(groups, times_of(batches), self.gap)

    def _find_ended(self, clock: Clock) -> Ended | None:
        """Return the sessions that have ended, or None."""
        if self._closing is not None and self._closing[0] is clock:
            return self._closing[1]
        before = MAX_KEY + 1
        if not clock.is_over:
            if clock.watermark is None or clock.watermark - self.gap <= self.open.first_last:
                return None
            before = clock.watermark - self.gap
        begin = perf_counter()
        sessions = self.open.find_ended(before)
        ended = None
        if sessions.size:
            ended = Ended(sessions, {side: held.of(sessions) for side, held in self.held.items()})
        self._closing = clock, ended
        self.seconds["sessions"] += perf_counter() - begin
        return ended

    def close(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Look for the matches of sessions that have ended."""
        ended = self._find_ended(clock) if self.plan.follows or not self.eager else None
        if ended is None:
            return
        errors: list[StreamJoinError] = []
        for first, last in self._cut_into_joins(ended):
            try:
                sides = self._select_sessions(ended, first, last)
            except StreamJoinError as error:  # more than fits into a batch
                errors.append(error)
                continue
            if self.eager:
                yield from leftovers(sides)
                continue
            joined = self.closed.join_windows(sides, deliver or self.deliver, SESSION, errors)
            yield from time_items(joined, self.seconds, "probe")
        raise_failed(errors)

    def find_closed(self, clock: Clock) -> dict[Side, Keys]:
        """Return the ordinals of rows whose sessions have ended, if rows are observed."""
        ended = self._find_ended(clock)
        if ended is None:
            return {}
        found = {side: held.ordinals_of(ended.rows[side][0]) for side, held in self.held.items()}
        return {side: ordinals for side, ordinals in found.items() if ordinals is not None}

    def _cut_into_joins(self, ended: Ended) -> Iterator[tuple[int, int]]:
        """Cut what has ended so that the rows of some sessions are not too many for a join."""
        held_bytes = sum(held.held.nbytes for held in self.held.values())
        parts = -(-held_bytes // self.plan.limits.join_bytes)
        count = ended.sessions.size
        return pairwise([*range(0, count, -(-count // max(parts, 1))), count])

    def _select_sessions(self, ended: Ended, first: int, last: int) -> Sides:
        """Return the rows of some of the ended sessions."""
        sides: Sides = {}
        for side, held in self.held.items():
            rows, numbers = held.can_match(*ended.rows[side])
            if last - first < ended.sessions.size:
                chosen = (numbers >= first) & (numbers < last)
                rows, numbers = rows[chosen], numbers[chosen]
            if rows.size:
                sides[side] = in_sessions(held.take(rows), self.meetings.inner, numbers)
        return sides

    def expire(self, clock: Clock) -> None:
        """Drop the rows of sessions that have ended."""
        ended = self._find_ended(clock)
        self._planned = self._closing = None
        if ended is None:
            return
        begin = perf_counter()
        self.open.expire(ended.sessions)
        renumbered = self.open.compact()
        for side, held in self.held.items():
            held.expire(ended.sessions, ended.rows[side][0])
            if renumbered is not None:
                held.renumber(renumbered)
        self.commands["close"] += ended.sessions.size
        self.seconds["expire"] += perf_counter() - begin

    def take_early(self, bound: int) -> Iterator[Alone]:
        """Give the rows before a time that are not settled, each once."""
        for side, held in self.held.items():
            yield from held.held.take_early(self.plan, side, bound)

    @property
    def rows(self) -> dict[Side, list[Prepared]]:
        """All stored rows."""
        return {
            side: [held.take(held.rows)] if held.count else [] for side, held in self.held.items()
        }

    @property
    def holdings(self) -> Holdings:
        """What is held."""
        counts = {side: held.count for side, held in self.held.items()}
        return Holdings(counts, self.nbytes, len(self.open))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, keys and sessions."""
        return self.open.nbytes + sum(held.nbytes for held in self.held.values())

    @property
    def span(self) -> tuple[int, int] | None:
        """The time of the first stored row, and when a session ends; None if there are no rows."""
        span = self.open.span
        return None if span is None else (span[0], span[1] + self.gap + 1)

    def check(self) -> None:
        """Raise unless rows are in the sessions into which all of them would be cut now."""
        self.open.check()
        ids: list[Keys] = []
        sessions = self.open.find_ended(MAX_KEY + 1)
        for held in self.held.values():
            held.check()
            rows, found = held.of(sessions)
            assert rows.size == held.count
            ids.append(sessions[found])
        kept = {side: batch for side, batches in self.rows.items() for batch in batches}
        anew = self._cut_anew(kept)
        pairs = set(zip(np.concatenate(ids).tolist(), anew.of_rows.tolist(), strict=True))
        assert len(pairs) == sessions.size == anew.firsts.size
        for session, number in pairs:
            times = anew.firsts[number], anew.lasts[number]
            assert (self.open.table.firsts[session], self.open.table.lasts[session]) == times


def times_of(batches: dict[Side, Prepared]) -> Keys:
    """Return the times of the rows of all batches, one after the other."""
    times = [batch.times for batch in batches.values() if batch.times is not None]
    return np.concatenate([*times, np.empty(0, np.int64)])
