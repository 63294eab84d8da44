"""A join core: a part of both windows, and a thread that probes and fills it (SplitJoin 4).

::

    Work -> probe both regions -> Parts, the last one with the step's star
         -> insert, if it is this core's turn
         -> expire what has left the window

Cores never talk to each other. Each gets all rows, probes its part of the window with them, and
stores those whose turn is its own (`turns`). It also expires rows by itself: rows leave a count
window because newer ones arrived, and a time window because the clock that travels with the rows
has passed them. There are no expiry messages.

A core that fails for a reason other than the data (no memory, a bug) dies: its part of the window
is lost, its next star says so, and from then on it sends stars without matches, so that nothing
waits for it.
"""

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from streamjoin.errors import StreamJoinError
from streamjoin.joins.executor import CoreReport, Deliver
from streamjoin.joins.messages import Part, Problem, Span, Step, Work
from streamjoin.joins.ordering.arranging import fetch_stored
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivery, leave_in_place
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.sliding.sizes import Sizes
from streamjoin.joins.split.turns import Turn, assign_turns
from streamjoin.kernels.channels import Channel, ClosedError
from streamjoin.kernels.compile import Flags, Keys
from streamjoin.kernels.interrupts import Stopped, work_for
from streamjoin.keys.operands import Side
from streamjoin.options.ordering import Ordering
from streamjoin.plans.limits import Limits
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared


class Core:
    """One of several cores; ``number`` is its position among them."""

    def __init__(
        self, number: int, manager: Manager, sizes: dict[Side, Sizes], ordering: Ordering | None
    ) -> None:
        self.number, self.manager, self.sizes, self.ordering = number, manager, sizes, ordering
        self.turns: dict[Side, Turn] = {side: Turn() for side in SIDES}
        self.is_alive = True
        self.busy_seconds = 0.0  # of all work
        self._death: Problem | None = None  # until it has been reported
        self._probed: dict[Side, Prepared] = {}
        self._next_turns = self.turns

    def run(self, inbox: Channel[Work], outbox: Channel[Part]) -> None:
        """Work until the channels are closed."""
        try:
            while True:
                for part in self.run_work(inbox.get()):
                    outbox.put(part)
        except ClosedError:
            return

    def run_work(self, work: Work) -> Iterator[Part]:
        """Probe, insert and expire, as the work asks for."""
        begun = perf_counter()
        if work.step is not None:
            problems: list[Problem] = []
            last = Part(work.step, work.step.last)
            try:
                if not work.step.is_last:
                    self.take_turns(work.step, work.living)
                with work_for(work.step.holder):
                    for part in self._probe(work.step) if self.is_alive else ():
                        if part.upto == work.step.last:
                            last = part
                        else:
                            yield part
            except Stopped:  # the call that asked for it was interrupted, and drops it
                pass
            except StreamJoinError as error:  # the data's fault: the same for any core
                problems.append(Problem(self.number, error))
            except Exception as error:
                self._die(error)
            if self._death is not None:
                problems.append(self._death)
                self._death = None
            span = Span(self.number, begun, perf_counter())
            yield replace(last, ends=True, problems=tuple(problems), spans=(span,))
        try:
            if work.inserts:
                self.turns = self._next_turns
                if self.is_alive:
                    self.manager.insert(self._probed)
                    self._seal(work.living)
            if work.clock is not None and self.is_alive:
                self.manager.expire(work.clock)
        except Exception as error:
            self._die(error)
        self.busy_seconds += perf_counter() - begun

    def take_turns(self, step: Step, living: tuple[int, ...]) -> None:
        """Mark the rows to store here, if the step stores rows."""
        self._probed, self._next_turns = {}, dict(self.turns)
        for ahead, side in enumerate(SIDES):
            batch = step.batches.get(side)
            if batch is None:
                continue
            numbers, self._next_turns[side] = assign_turns(
                self.turns[side], self.sizes[side], batch
            )
            marks = self._is_mine(numbers, ahead, living)
            self._probed[side] = batch.with_stored(
                None if marks.all() else np.broadcast_to(marks, len(batch))
            )

    def _is_mine(self, turns: Keys, ahead: int, living: tuple[int, ...]) -> Flags:
        """Return which turns are this core's; the right stream is half a round ahead."""
        count = max(len(living), 1)
        return np.array(living or (0,))[(turns + ahead * (count // 2)) % count] == self.number

    def _seal(self, living: tuple[int, ...]) -> None:
        """Seal the newest subwindow when it is full and the turn is over: it will not grow."""
        for ahead, side in enumerate(SIDES):
            chain, turn = self.manager.chains[side], np.array([self.turns[side].number])
            coming = len(self._probed.get(side, ()))
            is_full = bool(chain.subwindows) and chain.is_full(coming)
            if is_full and not self._is_mine(turn, ahead, living)[0]:
                chain.subwindows[-1].seal()

    def _probe(self, step: Step) -> Iterator[Part]:
        if step.is_last:
            return
        if self.ordering is None or step.deliver is not None:
            yield from self._probe_unordered(step, step.deliver or self.manager.deliver)
            return
        found = self.manager.probe(self._probed, step.interleaved, deliver=leave_in_place)
        everything = list(found)
        cuts = cut_by_arrival(step, everything, self.manager.plan.limits)
        for number, upto in enumerate(cuts):
            joined: dict[Side, list[Any]] = {side: [] for side in SIDES}
            for each in everything:
                if len(cuts) > 1:
                    each = select_arrivals(each, cuts[number - 1] if number else step.first, upto)
                joined[each.batch.side] += fetch_stored(each, self.ordering)
            yield Part(step, upto, joined)

    def _probe_unordered(self, step: Step, deliver: Deliver) -> Iterator[Part]:
        """Send matches as they are found, many at a time, since each part wakes a thread."""
        held: dict[Side, list[Any]] = {side: [] for side in SIDES}
        matches = 0
        deliver = deliver_with_side(deliver)
        for side, found in self.manager.probe(self._probed, step.interleaved, deliver):
            held[side].append(found)
            matches += found.matches if isinstance(found, Delivery) else 0
            if matches >= self.manager.plan.limits.part_matches:
                yield Part(step, step.first, held)
                held, matches = {side: [] for side in SIDES}, 0
        yield Part(step, step.last, held)

    def report(self) -> CoreReport:
        """Report what the core holds, and how long it has worked."""
        rows = {side: len(chain) for side, chain in self.manager.chains.items()}
        return CoreReport(self.number, self.is_alive, rows, self.busy_seconds)

    def _die(self, error: Exception) -> None:
        lost = sum(len(chain) for chain in self.manager.chains.values())
        for chain in self.manager.chains.values():
            chain.clear()
        self.is_alive, self._death = False, Problem(self.number, error, lost)


def deliver_with_side(deliver: Deliver) -> Deliver:
    """Tag every delivery with the side that found it."""

    def tell(found: Found) -> Iterator[tuple[Side, Any]]:
        for each in deliver(found):
            yield found.batch.side, each

    return tell


def cut_by_arrival(step: Step, found: list[Found], limits: Limits) -> list[int]:
    """Return arrivals that cut a step into parts of bounded size; the last is the step's end.

    A single row may have more matches than that.
    """
    if sum(len(each.matches) for each in found) <= limits.ordered_candidates:
        return [step.last]
    candidates = np.zeros(step.last - step.first, np.int64)
    for each in found:
        np.add.at(candidates, arrivals_of(each) - step.first, each.matches.lengths)
    blocks = np.cumsum(candidates) // limits.ordered_candidates
    cuts = np.flatnonzero(np.diff(blocks)) + step.first + 1
    return [*(int(each) for each in cuts), step.last]


def select_arrivals(found: Found, first: int, last: int) -> Found:
    """Return the matches of the rows that arrived in [first, last)."""
    arrivals = arrivals_of(found)
    return replace(found, matches=found.matches.of((arrivals >= first) & (arrivals < last)))


def arrivals_of(found: Found) -> Any:
    """Return the arrival of each probe."""
    return found.batch.arrivals[found.order]
