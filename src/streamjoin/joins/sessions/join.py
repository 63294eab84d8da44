"""Joins inside session windows: at the end of each session, or as its rows come (`emit`).

A session is made of rows of both streams with equal keys, without a pause longer than the gap. Rows
that come later can make it longer, or bridge the pause between two. So all rows of open sessions
wait, and what the sessions are is kept up to date (`open_sessions`), with the rows that each has
(`rows`). With ``emit="eager"``, a step gives the pairs that are now in one session and were not
before (`meetings`).

A session is closed when no row that is still on time can belong to it. Only the equalities make
sessions: a row that another part of the condition rules out, by NULL or by itself, waits as well.

Cost, beside that of the joins: of a push, its rows and, if eager, those of the sessions that they
touch; of a watermark, the rows of sessions that end. What else is held does not count. To undo a
step, which only an interrupt asks for, everything is put together anew, in O(rows).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from streamjoin.choice.algorithm import Adviser
from streamjoin.errors import StreamJoinError
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings, timed
from streamjoin.joins.sessions.cutting import Sessions, session_starts
from streamjoin.joins.sessions.groups import SessionGroups
from streamjoin.joins.sessions.meetings import Coming, Meetings, cut
from streamjoin.joins.sessions.open_sessions import OpenSessions
from streamjoin.joins.sessions.plan import SESSION, in_sessions, matching_in
from streamjoin.joins.sessions.rows import SessionRows
from streamjoin.joins.tumbling.closed import MUCH, ClosedRows, Sides, raise_failed
from streamjoin.kernels.compile import MAX_KEY, Keys, Positions
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared


@dataclass(frozen=True)
class Ended:
    """Sessions that have ended, their rows, and which of the sessions each is in."""

    sessions: Keys
    rows: dict[Side, tuple[Keys, Positions]]


class SessionJoin:
    """The rows of open sessions; ``eager`` gives matches as they come."""

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
        self._coming: Coming | None = None  # what was searched for: it may be stored next
        self._closing: tuple[Clock, Ended | None] | None = None  # what was closed may be forgotten

        self._sizes: dict[Side, int] | None = None  # rows when a step began that can be undone

    is_lasting = True
    can_undo = True

    def begin(self) -> None:
        """Begin a step."""
        self._sizes = {side: held.nexts.size for side, held in self.held.items()}

    def undo(self) -> None:
        """Take out what this step has stored."""
        self._coming = self._closing = None
        if self._sizes != {side: held.nexts.size for side, held in self.held.items()}:
            assert self._sizes is not None
            before = {side: held.first_rows(self._sizes[side]) for side, held in self.held.items()}
            self._make_empty()
            self.restore({side: batch for side, batch in before.items() if batch is not None})

    def conclude(self) -> None:
        """Keep what this step has stored."""
        self._sizes = None

    def ends(self, clock: Clock) -> bool:
        """Whether `advance` drops a session."""
        return self._ended(clock) is not None

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on."""
        self.closed.threads = self.adviser.threads = threads

    def _make_empty(self) -> None:
        self.open = OpenSessions(self.gap)
        self.held = {side: SessionRows(self.plan, side) for side in SIDES}
        self.meetings = Meetings(self.plan, self.held)

    def _look_at(self, batches: Batches) -> Coming:
        """Tell what batches change; once, if they are stored after their matches were taken."""
        kept = {side: batch.kept for side, batch in batches.items() if len(batch.kept)}
        last = self._coming
        if last is not None and [*map(id, last.batches.values())] == [*map(id, kept.values())]:
            return last
        begin = perf_counter()
        change = self.open.plan(self.groups.of(kept, self.open, self.held), times_of(kept))
        self._coming = Coming(kept, change, cut(change.of_rows, kept))
        self.seconds["sessions"] += perf_counter() - begin
        return self._coming

    def search(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for pairs that new rows have brought into one session; changes nothing."""
        if self.eager and any(len(batch.kept) for batch in batches.values()):
            coming = self._look_at(batches)
            deliver = deliver or self.deliver
            joined = (
                item
                for sides in self.meetings.asks(coming)
                for item in self.closed.join(sides, deliver)
            )
            yield from timed(joined, self.seconds, "probe")

    def store(self, batches: Batches) -> None:
        """Let rows wait for the end of their sessions."""
        coming = self._look_at(batches)
        begin = perf_counter()
        change = coming.change
        self._coming = self._closing = None
        self._append(coming.batches)
        self.inserted = list(coming.batches.values())
        self.open.apply(change)
        into = change.ids[change.into]
        gone = into != change.met
        for side, held in self.held.items():
            held.open(self.open.size)
            held.merge(change.met[gone], into[gone])
            if side in coming.batches:
                held.add_last(change.ids[coming.sessions[side]])
        self.seconds["insert"] += perf_counter() - begin

    def _append(self, batches: Batches) -> None:
        """Add rows that are in no session yet: of all sides, or of none if that fails."""
        sizes = {side: held.nexts.size for side, held in self.held.items()}
        try:
            for side, batch in batches.items():
                self.held[side].append(batch)
        except BaseException:
            for side, held in self.held.items():
                held.cut(sizes[side])
            raise

    @property
    def saved(self) -> dict[str, Any]:
        """What `restore` needs beside the rows: nothing."""
        return {}

    def restore(self, batches: Batches, saved: Mapping[str, Any] | None = None) -> None:
        """Take back rows that were stored before, without looking for matches."""
        self.store(batches)
        self.inserted = []

    def join_all(self, batches: Batches, deliver: Deliver | None = None) -> Iterator[Any]:
        """Join rows that are all there, beside what is held; nothing is stored."""
        kept = {side: batch.kept for side, batch in batches.items() if len(batch.kept)}
        begin = perf_counter()
        numbers = cut(self._cut_anew(kept).of_rows, kept)
        self.seconds["sessions"] += perf_counter() - begin
        sides = {side: matching_in(kept[side], self.meetings.inner, numbers[side]) for side in kept}
        yield from self.closed.join(sides, deliver or self.deliver)

    def _cut_anew(self, batches: dict[Side, Prepared]) -> Sessions:
        """Cut rows into sessions, whatever is held."""
        groups = SessionGroups(self.plan).of(batches)
        return session_starts(groups, times_of(batches), self.gap)

    def _ended(self, clock: Clock) -> Ended | None:
        """Return what has ended; None if nothing has."""
        if self._closing is not None and self._closing[0] is clock:
            return self._closing[1]
        before = MAX_KEY + 1
        if not clock.is_over:
            if clock.watermark is None or clock.watermark - self.gap <= self.open.first_last:
                return None
            before = clock.watermark - self.gap
        begin = perf_counter()
        sessions = self.open.ended(before)
        ended = None
        if sessions.size:
            ended = Ended(sessions, {side: held.of(sessions) for side, held in self.held.items()})
        self._closing = clock, ended
        self.seconds["sessions"] += perf_counter() - begin
        return ended

    def closing(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Look for the matches of sessions that have ended."""
        ended = None if self.eager else self._ended(clock)
        if ended is None:
            return
        errors: list[StreamJoinError] = []
        for first, last in self._spans(ended):
            try:
                sides = self._within(ended, first, last)
            except StreamJoinError as error:  # more than fits into a batch
                errors.append(error)
                continue
            joined = self.closed.join_windows(sides, deliver or self.deliver, SESSION, errors)
            yield from timed(joined, self.seconds, "probe")
        raise_failed(errors)

    def _spans(self, ended: Ended) -> Iterator[tuple[int, int]]:
        """Cut what has ended so that the rows of some sessions are not too many for a join."""
        parts = -(-sum(held.held.nbytes for held in self.held.values()) // MUCH)
        count = ended.sessions.size
        return pairwise([*range(0, count, -(-count // max(parts, 1))), count])

    def _within(self, ended: Ended, first: int, last: int) -> Sides:
        """Return the rows of some of the sessions that have ended."""
        sides: Sides = {}
        for side, held in self.held.items():
            rows, numbers = held.can_match(*ended.rows[side])
            if last - first < ended.sessions.size:
                chosen = (numbers >= first) & (numbers < last)
                rows, numbers = rows[chosen], numbers[chosen]
            if rows.size:
                sides[side] = in_sessions(held.take(rows), self.meetings.inner, numbers)
        return sides

    def advance(self, clock: Clock) -> None:
        """Forget the rows of sessions that have ended."""
        ended = self._ended(clock)
        self._coming = self._closing = None
        if ended is None:
            return
        begin = perf_counter()
        self.open.end(ended.sessions)
        renumbered = self.open.compact()
        for side, held in self.held.items():
            held.forget(ended.sessions, ended.rows[side][0])
            if renumbered is not None:
                held.renumber(renumbered)
        self.commands["close"] += ended.sessions.size
        self.seconds["expire"] += perf_counter() - begin

    @property
    def rows(self) -> dict[Side, list[Prepared]]:
        """All rows that are held."""
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
        """Bytes of all rows and keys, and of what tells their sessions."""
        return self.open.nbytes + sum(held.nbytes for held in self.held.values())

    @property
    def span(self) -> tuple[int, int] | None:
        """The time of the first row that waits, and when a session ends; None if none waits."""
        span = self.open.span
        return None if span is None else (span[0], span[1] + self.gap + 1)

    def report(self) -> None:
        """Nothing is ever lost here."""

    def check(self) -> None:
        """Raise unless rows are in the sessions that they would be cut into if all came now."""
        self.open.check()
        ids: list[Keys] = []
        sessions = self.open.ended(MAX_KEY + 1)
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
