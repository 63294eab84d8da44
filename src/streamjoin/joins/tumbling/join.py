"""Joins inside tumbling windows: at the end of each, or as its rows come (`emit`).

A window is open until the watermark has passed its end. Rows of a window that is joined ``lazily``
wait, and are joined once it closes. In an eager window, rows go through an eager algorithm as they
come, and only what it has left is found at the end. Both give the same pairs::

    emit="close"    rows wait . . . . . . . . . . | closed: all matches
    emit="eager"    matches . matches . matches . | closed: what is left (PMJ), or nothing
    emit="auto"     one or the other, decided when a window opens

Until windows are forgotten, `undo` takes out what the last step has stored.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from streamjoin.choice.algorithm import Adviser
from streamjoin.errors import StreamJoinError
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings, timed
from streamjoin.joins.tumbling.closed import MUCH, ClosedRows, raise_failed
from streamjoin.joins.tumbling.eager_window import EagerWindow
from streamjoin.joins.tumbling.pending import Pending, taken
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import WINDOW, by_window, window_numbers

AFTER_ALL = 2**63  # greater than any number
BEFORE_ALL = -(2**63)
OpenWindow = Callable[[], EagerWindow | None]  # None: its rows wait


@dataclass
class Step:
    """What `TumblingJoin.undo` needs to know of a step."""

    known: set[int]  # the windows that were open before
    stored: list[EagerWindow] = field(default_factory=list)  # those with a push, which is settled
    ending: list[EagerWindow] = field(default_factory=list)  # those that have begun to close


class TumblingJoin:
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
        self.pending: dict[Side, Pending] = {side: Pending() for side in SIDES}
        self.eager: dict[int, EagerWindow] = {}  # by number
        self.touched: list[EagerWindow] = []  # those with a push that is not settled
        self.lazy: set[int] = set()  # the numbers of other open windows, where there is a choice
        self.seconds = {"probe": 0.0, "insert": 0.0, "expire": 0.0}
        self.commands: dict[str, int] = {"close": 0}
        self.inserted: list[Prepared] = []  # by the last step
        self._step: Step | None = None  # one that can be undone

    is_lasting = True
    can_undo = True

    def begin(self) -> None:
        """Begin a step."""
        self._step = Step({*self.eager, *self.lazy})
        for pending in self.pending.values():
            pending.begin()

    def undo(self) -> None:
        """Take out what this step has stored."""
        assert self._step is not None
        for window in self._step.stored:
            window.undo_settled()
        for window in self._step.ending:
            window.replay()
        self._keep_windows(self._step.known)
        for pending in self.pending.values():
            pending.undo()

    def conclude(self) -> None:
        """Keep what this step has stored."""
        self._step = None
        for pending in self.pending.values():
            pending.conclude()

    def _keep_windows(self, known: set[int]) -> None:
        """Forget all windows but those that were open before."""
        self.eager = {number: each for number, each in self.eager.items() if number in known}
        self.lazy &= known

    def ends(self, clock: Clock) -> bool:
        """Whether `advance` drops a window."""
        bound = self._bound(clock)
        if bound is None:
            return False
        waiting = (each.first for pending in self.pending.values() for each in pending.waiting)
        return any(number < bound for number in (*self.eager, *waiting))

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on; open eager windows keep theirs."""
        self.closed.threads = self.adviser.threads = threads

    def search(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for matches in eager windows; if that fails, or is not finished, nothing changes."""
        if self.open_window is not None:
            yield from self._working(self._push(batches, deliver or self.deliver))

    def _working(self, items: Generator[Any, None, None]) -> Iterator[Any]:
        """Pass items on; what others do with them is not the work of this join."""
        self.adviser.begin_work()
        try:
            for item in timed(items, self.seconds, "probe"):
                self.adviser.end_work()
                yield item
                self.adviser.begin_work()
        finally:
            self.adviser.end_work()

    def _push(self, batches: Batches, deliver: Deliver) -> Generator[Any, None, None]:
        """Take rows into eager windows, and take them out again unless all is delivered."""
        known = {*self.eager, *self.lazy}
        touched: list[EagerWindow] = []
        self.touched, finished = touched, False
        try:
            for number, places in by_window(batches):
                window = self._window(number)
                if window is None:
                    continue
                touched.append(window)
                for found in window.push(taken(batches, places)):
                    yield from deliver(found)
            finished = True
        finally:
            if not finished:
                for window in touched:
                    window.undo()
                self._keep_windows(known)

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

    def store(self, batches: Batches) -> None:
        """Keep the rows: those of eager windows are there already."""
        self.adviser.begin_work()
        self._keep(batches)
        if self.adviser.decides and self.open_window is not None:
            self.adviser.watch(batches, self.closed.within_one)
        self.adviser.end_work()

    def _keep(self, batches: Batches) -> None:
        begin = perf_counter()
        self.inserted = [batch.kept for batch in batches.values() if len(batch.kept)]
        for window in self.touched:
            window.settle()
        if self._step is not None:
            self._step.stored += self.touched
        self.touched = []
        for batch in self.inserted:
            if self.eager:
                waits = np.isin(window_numbers(batch), list(self.eager), invert=True)
                batch = batch.select(waits)
            self.pending[batch.side].add(batch)
        self.seconds["insert"] += perf_counter() - begin

    @property
    def has_runs(self) -> bool:
        """Whether it matters to any window how its rows were pushed."""
        return any(window.recipe.has_runs for window in self.eager.values())

    @property
    def saved(self) -> dict[str, Any]:
        """What `restore` needs beside the rows: how they were pushed into eager windows."""
        return {str(number): window.saved for number, window in self.eager.items()}

    def restore(self, batches: Batches, saved: Mapping[str, Any] | None = None) -> None:
        """Take back rows that were stored before, without looking for matches.

        Those of one window are in the order that they came in, and may come in several calls. More
        rows of a window may follow where it does not matter how they were pushed.
        """
        saved = saved or {}
        if self.open_window is not None:
            for number, places in by_window(batches):
                window = self.eager.get(number)
                if window is not None and not window.is_whole:
                    window.take_back(taken(batches, places))
                elif window is not None:  # more of it
                    window.push(taken(batches, places))
                    self.touched.append(window)
                elif str(number) in saved:
                    plan, sides = self.closed.within_one, taken(batches, places)
                    self.eager[number] = EagerWindow.restore(plan, saved[str(number)], sides)
                else:
                    self.lazy.add(number)
        self._keep(batches)
        self.inserted = []

    def _bound(self, clock: Clock) -> int | None:
        """Return the number of the first window that is still open."""
        part = self.plan.window_part
        assert part is not None
        if clock.is_over or (clock.watermark is not None and clock.watermark > MAX_KEY):
            return AFTER_ALL
        if clock.watermark is None or clock.watermark < MIN_KEY:
            return None
        return int(part.numbers(np.array([clock.watermark]))[0])

    def closing(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Look for the matches of windows that the watermark has passed."""
        bound = self._bound(clock)
        if bound is None:
            return
        yield from self._working(self._closing(bound, deliver or self.deliver))

    def _closing(self, bound: int, deliver: Deliver) -> Generator[Any, None, None]:
        """Look for the matches of the windows before ``bound``; one that fails fails alone."""
        errors: list[StreamJoinError] = []
        for number in sorted(number for number in self.eager if number < bound):
            if self._step is not None:
                self._step.ending.append(self.eager[number])
            try:
                found = self.eager[number].close()
                yield from self.closed.whole(item for each in found for item in deliver(each))
            except StreamJoinError as error:
                errors.append(error)
        for span in self._spans(bound):
            try:
                due = {side: self.pending[side].due(*span) for side in SIDES}
            except StreamJoinError as error:  # more than fits into a batch
                errors.append(error)
                continue
            sides = {side: rows for side, rows in due.items() if rows is not None}
            yield from self.closed.join_windows(sides, deliver, WINDOW, errors)
        raise_failed(errors)

    def _spans(self, bound: int) -> Iterator[tuple[int, int]]:
        """Cut the windows before ``bound`` so that the rows of some are not too many for a join."""
        parts = -(-sum(pending.nbytes for pending in self.pending.values()) // MUCH)
        bounds = [BEFORE_ALL, bound]
        if parts > 1:
            windows = set[int]().union(*(pending.windows for pending in self.pending.values()))
            due = sorted(number for number in windows if number < bound)
            bounds[1:1] = due[:: -(-len(due) // parts) or 1][1:]
        return pairwise(bounds)

    def advance(self, clock: Clock) -> None:
        """Forget the windows that the watermark has passed."""
        bound = self._bound(clock)
        if bound is None:
            return
        begin = perf_counter()
        self.adviser.begin_work()
        gone = {number for number in self.eager if number < bound}
        for number in gone:
            del self.eager[number]
        for pending in self.pending.values():
            gone.update(pending.drop(bound))
        self.commands["close"] += len(gone)
        self.lazy = {number for number in self.lazy if number >= bound}
        self.adviser.close(bound)
        self.adviser.end_work()
        self.seconds["expire"] += perf_counter() - begin

    @property
    def rows(self) -> dict[Side, list[Prepared]]:
        """All rows that are held, in the order of their arrival within a window."""
        held = {side: [each.batch for each in self.pending[side].waiting] for side in SIDES}
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
        """When the first window begins that is open, and when it ends; None if none is."""
        part = self.plan.window_part
        assert part is not None
        waiting = [each.first for pending in self.pending.values() for each in pending.waiting]
        first = min([*waiting, *self.eager], default=None)
        return None if first is None else (part.start(first), part.start(first + 1))

    def report(self) -> None:
        """Nothing is ever lost here."""
