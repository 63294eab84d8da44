"""Joins inside session windows: at the end of each session, or as its rows come (`emit`).

A session is made of rows of both streams with equal keys, without a pause longer than the gap. Rows
that come later can make it longer, or bridge the pause between two; so all rows of open sessions
wait, and when there is something to join they are cut into sessions anew (`keys.sessions`). With
``emit="eager"``, a step gives the pairs that are now in one session and were not before::

    new left rows   with all right ones of their session
    old left rows   with new right ones
    old left rows   with old right ones, where two sessions have become one

A session is closed when no row that is still on time can belong to it. Only the equalities make
sessions: a row that another part of the condition rules out, by NULL or by itself, waits as well.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from streamjoin.batches import owned
from streamjoin.joins.adviser import Adviser
from streamjoin.joins.closed import ClosedRows, word_keys
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings
from streamjoin.joins.plan import SIDES, JoinPlan
from streamjoin.joins.prepared import Prepared
from streamjoin.joins.session_rows import (
    NEW,
    Numbered,
    Part,
    Parts,
    both,
    combined,
    with_bridges,
    with_sessions,
)
from streamjoin.kernels import MAX_KEY, MIN_KEY, Flags
from streamjoin.keys.operands import Side
from streamjoin.keys.sessions import session_starts


class SessionJoin:
    """The rows of open sessions; ``eager`` gives matches as they come."""

    def __init__(
        self, plan: JoinPlan, closed: ClosedRows, deliver: Deliver, eager: bool, adviser: Adviser
    ) -> None:
        self.plan, self.closed, self.deliver, self.eager = plan, closed, deliver, eager
        self.adviser = adviser
        self.parts: Parts = {side: [] for side in SIDES}
        self.first_end = MAX_KEY  # no session ends before
        self.seconds = {"sessions": 0.0, "probe": 0.0, "insert": 0.0, "expire": 0.0}
        self.commands: dict[str, int] = {"close": 0}
        self.inserted: list[Prepared] = []  # by the last step

    @cached_property
    def inner(self) -> JoinPlan:
        """The plan of rows whose sessions are known."""
        return with_sessions(self.plan)

    @property
    def gap(self) -> int:
        """The longest pause inside a session."""
        assert self.plan.longest_pause is not None
        return self.plan.longest_pause

    is_lasting = True

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on."""
        self.closed.threads = threads

    def _number(self, parts: Parts) -> Numbered:
        """Cut rows into sessions."""
        begin = perf_counter()
        everything = [part for side in SIDES for part in parts[side]]
        nothing = np.empty(0, np.int64)
        groups = [word_keys(self.plan, part.batch.keys)[0] for part in everything]
        found = session_starts(
            np.concatenate([*groups, nothing]),
            np.concatenate([*(part.times for part in everything), nothing]),
            self.gap,
        )
        ends = np.cumsum([0, *(len(part.batch) for part in everything)])
        cut = iter([found.of_rows[first:last] for first, last in pairwise(ends)])
        numbers = {side: [next(cut) for _ in parts[side]] for side in SIDES}
        self.seconds["sessions"] += perf_counter() - begin
        return Numbered(parts, numbers, found.lasts)

    def _with(self, batches: Batches) -> Parts:
        """Return the parts, and those that are coming."""
        parts = {side: list(self.parts[side]) for side in SIDES}
        for side, batch in batches.items():
            if len(batch.kept):
                parts[side].append(Part(batch.kept, np.full(len(batch.kept), NEW)))
        return parts

    def search(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for pairs that new rows have brought into one session; changes nothing."""
        if self.eager and any(len(batch.kept) for batch in batches.values()):
            everything = self._number(self._with(batches))
            begin = perf_counter()
            for sides in self._asks(everything):
                yield from self.closed.join(sides, deliver or self.deliver)
            self.seconds["probe"] += perf_counter() - begin

    def _asks(self, everything: Numbered) -> Iterator[dict[Side, Prepared]]:
        """Yield what is to be joined with what; see the module docstring."""
        count = everything.lasts.size
        old, anything = everything.old(), everything.mark(np.ones(count, np.bool_))
        new = both(anything, old, flipped=True)
        touched = {side: np.zeros(count, np.bool_) for side in SIDES}
        least, greatest = np.full(count, MAX_KEY), np.full(count, MIN_KEY)
        for side in SIDES:
            for part, numbers, fresh in zip(
                everything.parts[side], everything.numbers[side], new[side], strict=True
            ):
                touched[side][numbers[fresh]] = True
                np.minimum.at(least, numbers[~fresh], part.before[~fresh])
                np.maximum.at(greatest, numbers[~fresh], part.before[~fresh])
        bridged = both(old, everything.mark(least < greatest))
        asks = [
            (new, everything.mark(touched["left"]), self.inner),
            (both(old, everything.mark(touched["right"])), new, self.inner),
            (bridged, bridged, with_bridges(self.inner)),
        ]
        for left, right, plan in asks:
            marks = {"left": left["left"], "right": right["right"]}
            chosen = {side: everything.select(side, marks[side], plan) for side in SIDES}
            yield {side: rows for side, rows in chosen.items() if rows is not None}

    def store(self, batches: Batches) -> None:
        """Let rows wait for the end of their sessions."""
        begin = perf_counter()
        self.inserted = [batch.kept for batch in batches.values() if len(batch.kept)]
        for batch in self.inserted:
            part = Part(batch.with_rows(owned(batch.rows)), np.full(len(batch), NEW))
            self.parts[batch.side] = combined([*self.parts[batch.side], part])
            self.first_end = min(self.first_end, int(part.times.min()) + self.gap)
        self.seconds["insert"] += perf_counter() - begin
        if self.eager and self.inserted:
            everything = self._number(self.parts)
            for side in SIDES:
                pairs = zip(self.parts[side], everything.numbers[side], strict=True)
                self.parts[side] = [Part(part.batch, numbers) for part, numbers in pairs]

    @property
    def saved(self) -> dict[str, Any]:
        """What `restore` needs beside the rows: nothing."""
        return {}

    def restore(self, batches: Batches, saved: Mapping[str, Any] | None = None) -> None:
        """Take back rows that were stored before, without looking for matches."""
        self.store(batches)
        self.inserted = []

    def _ended(self, clock: Clock) -> tuple[Numbered, Flags] | None:
        """Return which sessions have ended; None if none can have."""
        if not clock.is_over and (clock.watermark is None or clock.watermark <= self.first_end):
            return None
        everything = self._number(self.parts)
        if clock.watermark is None or clock.is_over:
            return everything, np.ones(everything.lasts.size, np.bool_)
        return everything, everything.lasts < clock.watermark - self.gap

    def closing(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Look for the matches of sessions that have ended."""
        ended = None if self.eager else self._ended(clock)
        if ended is not None:
            everything, flags = ended
            marks = everything.mark(flags)
            chosen = {side: everything.select(side, marks[side], self.inner) for side in SIDES}
            sides = {side: rows for side, rows in chosen.items() if rows is not None}
            yield from self.closed.join(sides, deliver or self.deliver)

    def advance(self, clock: Clock) -> None:
        """Forget the rows of sessions that have ended."""
        ended = self._ended(clock)
        if ended is None:
            return
        begin = perf_counter()
        everything, flags = ended
        kept = everything.mark(~flags)
        for side in SIDES:
            self.parts[side] = combined(
                Part(part.batch.take(np.flatnonzero(keep)), part.before[keep])
                for part, keep in zip(self.parts[side], kept[side], strict=True)
                if keep.any()
            )
        rest = everything.lasts[~flags]
        self.first_end = int(rest.min()) + self.gap if rest.size else MAX_KEY
        self.commands["close"] += int(flags.sum())
        self.seconds["expire"] += perf_counter() - begin

    @property
    def rows(self) -> dict[Side, list[Prepared]]:
        """All rows that are held."""
        return {side: [part.batch for part in self.parts[side]] for side in SIDES}

    @property
    def holdings(self) -> Holdings:
        """What is held."""
        return Holdings(
            {side: sum(len(part.batch) for part in self.parts[side]) for side in SIDES},
            self.nbytes,
            self._number(self.parts).lasts.size,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all rows and keys."""
        parts = [part for side in SIDES for part in self.parts[side]]
        return sum(part.batch.rows.nbytes + part.batch.keys.nbytes for part in parts)

    @property
    def span(self) -> tuple[int, int] | None:
        """The time of the first row that waits, and when a session may end; None if none waits."""
        times = [int(part.times.min()) for side in SIDES for part in self.parts[side]]
        return (min(times), self.first_end + 1) if times else None

    def report(self) -> None:
        """Nothing is ever lost here."""
