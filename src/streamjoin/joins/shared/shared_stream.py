"""A source joined by threads over shared indexes: rows in, joined rows out, in order of arrival.

While a source is read, the two windows of a `Manager` are lent to a `SharedJoin`. The source's
thread stores rows and publishes their keys, workers find matches as row numbers, and the worker
that propagates fetches the joined rows. At the end, the manager gets both windows back, with all
new rows::

    submit        rows -> windows, keys -> work queue                the source's thread
    ``_deliver``  matches -> joined rows -> channel; then expiry     the worker that propagates
    gathered      channel -> consumer                                the consumer's thread

Rows leave a window once the results of a step are delivered, and only if no later step can meet
them, so no active entry refers to a row that has left.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Self

import numpy as np
import pyarrow as pa

from streamjoin.indexes.catalogue import kind_of
from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import Batches, Clock
from streamjoin.joins.messages import Gathered, Step
from streamjoin.joins.shared.fetching import NUMBERS, Fetcher, Published
from streamjoin.joins.shared.shared_join import SharedJoin
from streamjoin.joins.shared.work_queue import NOT_STORED, Entries
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.sliding.whole_window import WholeWindowSubwindow
from streamjoin.kernels.channels import Channel, ClosedError
from streamjoin.kernels.compile import Positions
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import SIDES, KeyColumns
from streamjoin.plans.prepared import Prepared

CHANNEL_DEPTH = 8  # parts of results that wait for the consumer


class SharedStream:
    """A source on its way through shared windows; the module docstring gives the design."""

    def __init__(self, manager: Manager, schema: pa.Schema, task: int) -> None:
        self.manager, self.plan, self.task = manager, manager.plan, task
        self.is_self_join, self.symmetric = manager.is_self_join, manager.symmetric
        self._fetcher = Fetcher(schema, self.symmetric, self._glimpse)
        self._results: Channel[Gathered] = Channel(CHANNEL_DEPTH)
        self._rows = Lock()  # guards what the windows keep besides their indexes
        self._steps: deque[Published] = deque()
        self._count = 0
        self._stuck: dict[Side, int] | None = None  # what could not expire, in a time window
        self._begin(manager.threads)

    @classmethod
    def of(cls, engine: Engine, task: int) -> Self | None:
        """Lend an engine's windows to threads, if their structures can be shared."""
        manager = engine.executor.manager
        if manager is None:
            return None
        chains = manager.chains.values()
        if not all(can_be_shared(chain) for chain in chains):
            return None
        for chain in chains:
            if not chain.subwindows:
                chain.create(max(chain.sizes.rows, 1))
        return cls(manager, engine.schema, task)

    def _begin(self, threads: int) -> None:
        """Lend the windows to threads."""
        sides = SIDES[:1] if self.is_self_join else SIDES
        held = [self.manager.chains[side].subwindows[0] for side in sides]
        self.held = [each for each in held if isinstance(each, WholeWindowSubwindow)]
        indexes = [each.index for each in self.held if isinstance(each.index, PIMTree)]
        plan, one = self.plan, np.zeros(1, np.int64)
        row = KeyColumns((one,) * len(plan.equalities), (one,) * len(plan.ranges), 1)
        ranges = max(len(self._ranges(side, row)) for side in SIDES)
        self._published = 0  # entries
        self.shared_join = SharedJoin(indexes, self._deliver, threads, ranges, self.task)
        self.shared_join.crew.when_failed = self._results.close

    def _window(self, side: Side) -> int:
        """Return the number of the window in which a side's rows are stored."""
        return 0 if self.is_self_join else NUMBERS[side]

    def _ranges(self, side: Side, keys: KeyColumns) -> list[Range]:
        """Return the ranges of keys that a side's rows match."""
        layout = self.held[self._window(OTHER[side])].layout
        index_keys = self.plan.index_keys(layout, keys)
        return self.plan.index_ranges(layout, side, index_keys, keys, None)

    # The source's thread.

    def submit(self, batches: Batches, interleaved: bool, clock: Clock) -> None:
        """Store the rows of a step, and have workers look for their matches."""
        if self._stuck is not None:
            self._put_stuck_rows_behind()
        self._count += 1
        step = Step(self._count, batches, interleaved, clock=clock)
        coming: dict[Side, Prepared] = {side: each for side, each in batches.items() if len(each)}
        if self.symmetric:
            coming.pop("right", None)
        if not coming:
            self.shared_join.wait()
            self._end(step, clock)
            return
        before = [side.published for side in self.shared_join.sides]
        with self._rows:
            self._insert(coming)
            parts = [self._entries(side, batch, before) for side, batch in coming.items()]
        entries, places = (
            Entries.concatenate(parts),
            [np.arange(len(each)) for each in coming.values()],
        )
        order = np.arange(len(entries))
        if interleaved and len(coming) == 2:
            order = np.argsort(np.concatenate([b.arrivals for b in coming.values()]), kind="stable")
            entries = entries.take(order)
        first = self._published
        self._published += len(entries)
        rows = np.concatenate(places)[order].astype(np.int32)
        self._steps.append(
            Published(step, first, self._published, entries.sides, rows, before[0], clock)
        )
        self.shared_join.publish(entries)

    def _insert(self, coming: Batches) -> None:
        """Store the rows of a step; a self-join stores each only once."""
        for side, batch in coming.items():
            if not self.is_self_join or side == "left":
                self.held[self._window(side)].append(batch)

    def _entries(self, side: Side, batch: Prepared, before: list[int]) -> Entries:
        """Return the entries of a batch, in its order, after both batches were stored."""
        own, other = self._window(side), self._window(OTHER[side])
        count = len(batch)
        rows = before[own] + np.arange(count)
        if self.is_self_join and side == "right":
            rows = np.full(count, NOT_STORED)
        window, dropped = self.held[other], self.shared_join.sides[other].dropped
        if self.plan.counted is not None:
            assert window.ordinals is not None
            assert batch.arrival is not None
            first, last = window.ordinals.rows(*batch.arrival.visible)
            firsts = dropped + np.maximum(first, 0)
            lasts = dropped + np.minimum(last, len(window) - 1)
        else:
            # Left rows of a step come before its right ones.
            seen = dropped + len(window) if side == "right" else before[other]
            # In a symmetric self-join, each row sees itself and those before it, once.
            firsts, lasts = np.full(count, dropped), np.full(count, seen - 1)
            lasts = rows if self.symmetric else lasts
        lowers = np.ones((count, self.shared_join.ranges), np.int64)
        uppers = np.zeros((count, self.shared_join.ranges), np.int64)
        for number, (lower, upper) in enumerate(self._ranges(side, batch.keys)):
            lowers[:, number], uppers[:, number] = lower, upper
        keys = self.plan.index_keys(self.held[own].layout, batch.keys)
        sides = np.full(count, NUMBERS[side])
        return Entries(sides, keys, rows, lowers, uppers, firsts, lasts)

    def expire(self, clock: Clock) -> None:
        """Do nothing: every step carries its own clock."""

    def submit_last(self) -> None:
        """Send an empty step: when it has been gathered, so have all before it."""
        self._count += 1
        step = Step(self._count, {}, is_last=True)
        with suppress(ClosedError):  # the join has failed, and the consumer will raise
            self.shared_join.crew.wait_until(self.shared_join.is_through)
            self._results.put(Gathered(step, step.first, step.last, [], ends=True))

    def _put_stuck_rows_behind(self) -> None:
        """Drop expired rows that lie after others which have not; see `WholeWindowSubwindow`."""
        assert self._stuck is not None
        threads = self.shared_join.crew.size
        self._give_back()
        for side, before in self._stuck.items():
            self.held[self._window(side)].expire(before)
        self._stuck = None
        self._begin(threads)

    # The worker that propagates.

    def _deliver(self, first: int, rows: Positions, ends: Positions) -> None:
        """Fetch the joined rows of some entries, step by step, and send them on."""
        starts = np.concatenate([[0], ends[:-1]])
        at, last = first, first + ends.size
        while at < last:
            published = self._steps[0]
            upto = min(last, published.last)
            part = slice(at - first, upto - first)
            inside = slice(at - published.first, upto - published.first)
            delivery = self._fetcher.fetch(published, inside, starts[part], ends[part], rows)
            is_end = upto == published.last
            if is_end:
                self._steps.popleft()
                self._expire(published.clock)
            step = published.step
            self._results.put(Gathered(step, step.first, step.last, [delivery], ends=is_end))
            at = upto

    def _glimpse(self, side: Side) -> tuple[WholeWindowSubwindow, int]:
        """Return a side's window in its present state, and the number of its first row."""
        number = self._window(side)
        with self._rows:
            return self.held[number].glimpse(), self.shared_join.sides[number].dropped

    def _expire(self, clock: Clock) -> None:
        """Drop the rows that no later row can meet."""
        before = self.manager.expiry_bounds(clock)
        if self.is_self_join and before:
            before = {"left": min(before.values())}
        for side, bound in before.items():
            number = self._window(side)
            with self._rows:
                window = self.held[number]
                gone, is_stuck = window.count_expired(bound)
                window.drop_rows(gone)
                self.shared_join.sides[number].dropped += gone
            if is_stuck:
                self._stuck = before

    def _end(self, step: Step, clock: Clock) -> None:
        """End a step that has no entries."""
        self._expire(clock)
        self._results.put(Gathered(step, step.first, step.last, [], ends=True))

    # The consumer's thread.

    def gathered(self) -> Iterator[Gathered]:
        """Yield everything gathered, for ever."""
        while True:
            try:
                yield self._results.get()
            except ClosedError:
                self.shared_join.crew.check()
                raise

    def wait(self) -> None:
        """Wait until all results of submitted steps have been delivered."""
        self.shared_join.wait()

    def report(self) -> None:
        """Raise if the join could not go on."""
        self.shared_join.crew.check()

    def set_threads(self, threads: int) -> None:
        """Change the number of workers."""
        self.shared_join.crew.resize(threads)

    def release(self) -> None:
        """Return the windows to the manager; remove empty ones from their chains."""
        self._give_back()
        for chain in self.manager.chains.values():
            chain.drop_empty()

    def _give_back(self) -> None:
        """Take the windows back from the threads; if these have failed, rebuild the indexes."""
        if self.shared_join.crew.failure is None:
            self.shared_join.settle()
        self.shared_join.stop()
        for window in self.held:
            if self.shared_join.crew.failure is not None:
                window.rebuild()
            window.note_times()


def can_be_shared(chain: Chain) -> bool:
    """Whether a chain is, or will be, one window with an index that threads can share."""
    if not chain.subwindows:
        return issubclass(kind_of(chain.structure), PIMTree)
    window = chain.subwindows[0]
    is_shared = isinstance(window, WholeWindowSubwindow) and isinstance(window.index, PIMTree)
    return is_shared and len(chain.subwindows) == 1
