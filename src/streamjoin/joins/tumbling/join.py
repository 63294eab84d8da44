"""Joins inside tumbling windows: at the end of each, or as its rows arrive (`emit`).

A window is open until the watermark has passed its end. Rows of a lazy window wait, and are joined
once it closes. In an eager window, rows go through an eager algorithm as they arrive, and only what
it leaves is found at the end. Both give the same pairs::

    emit="close"    rows wait . . . . . . . . . . | closed: all matches
    emit="eager"    matches . matches . matches . | closed: what is left (PMJ), or nothing
    emit="auto"     one or the other, decided when a window opens

Until windows expire, `undo` removes what the last step has inserted.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from streamjoin.choice.algorithm import Adviser
from streamjoin.errors import StreamJoinError
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings, time_items
from streamjoin.joins.outcomes.outcome import Alone, leftovers
from streamjoin.joins.tumbling.closed import (
    ClosedRows,
    ClosingWindows,
    raise_failed,
)
from streamjoin.joins.tumbling.eager_window import EagerWindow
from streamjoin.joins.tumbling.pending import Pending, take_places
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import WINDOW, group_by_window, window_numbers

AFTER_ALL = 2**63  # greater than any number
BEFORE_ALL = -(2**63)
OpenWindow = Callable[[], EagerWindow | None]  # None: its rows wait


@dataclass
class UndoNotes:
    """What `TumblingJoin.undo` needs to know of a step."""

    known: set[int]  # the windows that were open before
    pushed: list[EagerWindow] = field(default_factory=list)  # windows with a settled push
    closing: list[EagerWindow] = field(default_factory=list)  # windows that have begun to close


class TumblingJoin(ClosingWindows):
    """The windows that are open; ``open_window`` decides how a new one is joined."""

    def __init__(
        self,
        plan: JoinPlan,
        closed: ClosedRows,
        open_window: OpenWindow | None,
        deliver: Deliver,
        adviser: Adviser,
    ) -> None:
        self.plan, self.closed, self.open_window, self.deliver = plan, closed, open_window, deliver
        self.adviser = adviser
        self.pending: dict[Side, Pending] = {side: Pending(plan.limits) for side in SIDES}
        self.eager: dict[int, EagerWindow] = {}  # by number
        self.touched: list[EagerWindow] = []  # windows with a push that is not settled
        self.lazy: set[int] = set()  # the numbers of other open windows, if there is a choice
        self.seconds = {"probe": 0.0, "insert": 0.0, "expire": 0.0}
        self.commands: dict[str, int] = {"close": 0}
        self.inserted: list[Prepared] = []  # by the last step
        self._notes: UndoNotes | None = None  # of the step that can be undone

    def begin(self) -> None:
        """Begin a step."""
        self._notes = UndoNotes({*self.eager, *self.lazy})
        for pending in self.pending.values():
            pending.begin()

    def undo(self) -> None:
        """Remove what this step has stored."""
        assert self._notes is not None
        for window in self._notes.pushed:
            window.undo_settled()
        for window in self._notes.closing:
            window.replay()
        self._forget_windows_but(self._notes.known)
        for pending in self.pending.values():
            pending.undo()

    def conclude(self) -> None:
        """Keep what this step has stored."""
        self._notes = None
        for pending in self.pending.values():
            pending.conclude()

    def _forget_windows_but(self, known: set[int]) -> None:
        """Forget all windows but those that were open before."""
        self.eager = {number: each for number, each in self.eager.items() if number in known}
        self.lazy &= known

    def would_expire(self, clock: Clock) -> bool:
        """Whether `expire` drops a window."""
        bound = self._first_open(clock)
        if bound is None:
            return False
        waiting = (each.first for pending in self.pending.values() for each in pending.waiting)
        return any(number < bound for number in (*self.eager, *waiting))

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on; open eager windows keep theirs."""
        self.closed.threads = self.adviser.threads = threads

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for matches in eager windows; nothing changes if that fails or is abandoned."""
        if self.open_window is not None:
            yield from self._time_work(self._push_eager(batches, deliver or self.deliver))

    def _time_work(self, items: Generator[Any, None, None]) -> Iterator[Any]:
        """Pass items on; the time others spend on them does not count as this join's work."""
        self.adviser.begin_work()
        try:
            for item in time_items(items, self.seconds, "probe"):
                self.adviser.end_work()
                yield item
                self.adviser.begin_work()
        finally:
            self.adviser.end_work()

    def _push_eager(self, batches: Batches, deliver: Deliver) -> Generator[Any, None, None]:
        """Push rows into eager windows, and remove them again unless everything is delivered."""
        known = {*self.eager, *self.lazy}
        touched: list[EagerWindow] = []
        self.touched, finished = touched, False
        try:
            for number, places in group_by_window(batches):
                window = self._window(number)
                if window is None:
                    continue
                touched.append(window)
                for found in window.push(take_places(batches, places)):
                    yield from deliver(found)
            finished = True
        finally:
            if not finished:
                for window in touched:
                    window.undo()
                self._forget_windows_but(known)

    def _window(self, number: int) -> EagerWindow | None:
        """Return the eager window of a number; None if its rows wait."""
        if number not in self.eager and number not in self.lazy:
            assert self.open_window is not None
            window = self.open_window()
            if window is None:
                self.lazy.add(number)
            else:
                self.eager[number] = window
        return self.eager.get(number)

    def insert(self, batches: Batches) -> None:
        """Keep the rows; those of eager windows are already there."""
        self.adviser.begin_work()
        self._insert(batches)
        if self.adviser.decides and self.open_window is not None:
            self.adviser.watch(batches, self.closed.within_one)
        self.adviser.end_work()

    def _insert(self, batches: Batches) -> None:
        begin = perf_counter()
        self.inserted = [batch.stored for batch in batches.values() if len(batch.stored)]
        for window in self.touched:
            window.settle()
        if self._notes is not None:
            self._notes.pushed += self.touched
        self.touched = []
        for batch in self.inserted:
            if self.eager:
                waits = np.isin(window_numbers(batch), list(self.eager), invert=True)
                batch = batch.select(waits)
            self.pending[batch.side].insert(batch)
        self.seconds["insert"] += perf_counter() - begin

    def take_inserted(self) -> list[Prepared]:
        """Return what the last step has stored, once: the next call returns nothing."""
        inserted, self.inserted = self.inserted, []
        return inserted

    @property
    def closing(self) -> "TumblingJoin":
        """The executor itself: its windows close."""
        return self

    @property
    def is_restored(self) -> bool:
        """Whether no eager window lacks rows that it had before."""
        return all(window.is_whole for window in self.eager.values())

    def join_all(self, batches: Batches, deliver: Deliver | None = None) -> Iterator[Any]:
        """Join rows by themselves, apart from stored ones; insert nothing."""
        sides = {side: batch.stored for side, batch in batches.items()}
        yield from self.closed.join(sides, deliver or self.deliver)

    @property
    def has_runs(self) -> bool:
        """Whether how rows were pushed matters to any window."""
        return any(window.recipe.has_runs for window in self.eager.values())

    @property
    def saved(self) -> dict[str, Any]:
        """What `restore` needs beside the rows: how they were pushed into eager windows."""
        return {str(number): window.saved for number, window in self.eager.items()}

    def restore(self, batches: Batches, saved: Mapping[str, Any] | None = None) -> None:
        """Load rows that were stored before, without looking for matches.

        Rows of one window are in order of arrival, and may be spread over several calls. More rows
        of a window may follow if it does not matter how they were pushed.
        """
        saved = saved or {}
        if self.open_window is not None:
            for number, places in group_by_window(batches):
                window = self.eager.get(number)
                if window is not None and not window.is_whole:
                    window.take_back(take_places(batches, places))
                elif window is not None:  # more of it
                    window.push(take_places(batches, places))
                    self.touched.append(window)
                elif str(number) in saved:
                    plan, sides = self.closed.within_one, take_places(batches, places)
                    self.eager[number] = EagerWindow.restore(plan, saved[str(number)], sides)
                else:
                    self.lazy.add(number)
        self._insert(batches)
        self.inserted = []

    def _first_open(self, clock: Clock) -> int | None:
        """Return the number of the first window that is still open."""
        part = self.plan.window_part
        assert part is not None
        if clock.is_over or (clock.watermark is not None and clock.watermark > MAX_KEY):
            return AFTER_ALL
        if clock.watermark is None or clock.watermark < MIN_KEY:
            return None
        return int(part.numbers(np.array([clock.watermark]))[0])

    def close(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Look for the matches of windows that the watermark has passed."""
        bound = self._first_open(clock)
        if bound is None:
            return
        yield from self._time_work(self._close_before(bound, deliver or self.deliver))

    def _close_before(self, bound: int, deliver: Deliver) -> Generator[Any, None, None]:
        """Look for the matches of the windows before ``bound``; a failure affects one window."""
        errors: list[StreamJoinError] = []
        for number in sorted(number for number in self.eager if number < bound):
            if self._notes is not None:
                self._notes.closing.append(self.eager[number])
            try:
                found = self.eager[number].close()
                yield from self.closed.all_or_nothing(
                    item for each in found for item in deliver(each)
                )
            except StreamJoinError as error:
                errors.append(error)
                self.closed.note_lost(self.eager[number].all_rows)
            else:
                if self.plan.follows:
                    yield from leftovers(self.eager[number].all_rows)
        for span in self._cut_into_joins(bound):
            try:
                due = {side: self.pending[side].select_windows(*span) for side in SIDES}
            except StreamJoinError as error:  # more than fits into a batch
                errors.append(error)
                continue
            sides = {side: rows for side, rows in due.items() if rows is not None}
            yield from self.closed.join_windows(sides, deliver, WINDOW, errors)
        raise_failed(errors)

    def _cut_into_joins(self, bound: int) -> Iterator[tuple[int, int]]:
        """Cut the windows before ``bound`` so that the rows of some are not too many for a join."""
        due_bytes = sum(pending.nbytes for pending in self.pending.values())
        parts = -(-due_bytes // self.plan.limits.join_bytes)
        bounds = [BEFORE_ALL, bound]
        if parts > 1:
            windows = set[int]().union(*(pending.windows for pending in self.pending.values()))
            due = sorted(number for number in windows if number < bound)
            bounds[1:1] = due[:: -(-len(due) // parts) or 1][1:]
        return pairwise(bounds)

    def expire(self, clock: Clock) -> None:
        """Drop the windows that the watermark has passed."""
        bound = self._first_open(clock)
        if bound is None:
            return
        begin = perf_counter()
        self.adviser.begin_work()
        gone = {number for number in self.eager if number < bound}
        for number in gone:
            del self.eager[number]
        for pending in self.pending.values():
            gone.update(pending.expire(bound))
        self.commands["close"] += len(gone)
        self.lazy = {number for number in self.lazy if number >= bound}
        self.adviser.close(bound)
        self.adviser.end_work()
        self.seconds["expire"] += perf_counter() - begin

    def take_early(self, bound: int) -> Iterator[Alone]:
        """Give the rows before a time that are not settled, each once."""
        for side in SIDES:
            if side in self.plan.follows:
                yield from self.pending[side].take_early(bound)
                for window in self.eager.values():
                    yield from window.sides[side].take_early(window.plan, side, bound)

    @property
    def rows(self) -> dict[Side, list[Prepared]]:
        """All stored rows, in order of arrival within a window."""
        held = {side: [each.marked for each in self.pending[side].waiting] for side in SIDES}
        for window in self.eager.values():
            for side in SIDES:
                held[side] += window.rows_of(side)
        return held

    @property
    def holdings(self) -> Holdings:
        """What is held."""
        eager = self.eager.values()
        return Holdings(
            {
                side: len(self.pending[side]) + sum(each.count(side) for each in eager)
                for side in SIDES
            },
            self.nbytes,
            len(self.eager.keys() | self.pending["left"].windows | self.pending["right"].windows),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, keys and tables."""
        waiting = sum(pending.nbytes for pending in self.pending.values())
        return waiting + sum(window.nbytes for window in self.eager.values())

    @property
    def span(self) -> tuple[int, int] | None:
        """When the first open window begins and ends; None if no window is open."""
        part = self.plan.window_part
        assert part is not None
        waiting = [each.first for pending in self.pending.values() for each in pending.waiting]
        first = min([*waiting, *self.eager], default=None)
        return None if first is None else (part.start(first), part.start(first + 1))
