"""A join over keys by threads that share its indexes (Shahvarani and Jacobsen, section 4).

One thread, the source, publishes tuples; any number of workers (a `Crew`) carry out tasks; a worker
that has completed some tries to propagate results, in order of arrival. Workers may come and go::

    source --> work queue --> workers --> work queue --> propagation --> deliver
               (arrival)      (any order)  (completed)   (arrival)

Workers run kernels without the GIL, and meet here in between. A merge needs them out of the way for
two moments (`quiet`): to freeze one index, and to swap it. In between, one worker merges while the
others go on without updating that index (`index_merge`).

Invariants:
    1. A pair is found once, by the tuple that arrived later: what an entry may see follows from the
       order of arrival, and the edge divides that into rows to search and rows to compare.
    2. Results go to ``deliver`` in order of arrival, from one thread at a time.
    3. When the join is settled, both indexes hold all rows that were published and not dropped.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock

import numpy as np

from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.indexes.trees.window_index import LEAST_TUPLES
from streamjoin.joins.shared import shared_window, tasks, work_queue
from streamjoin.joins.shared.buffers import BUFFER_MATCHES, Buffer, Buffers
from streamjoin.joins.shared.crew import Crew
from streamjoin.joins.shared.index_merge import merge_index
from streamjoin.joins.shared.shared_window import make_window
from streamjoin.joins.shared.tasks import AT, COUNT, FULL, MERGE, STUFFED
from streamjoin.joins.shared.work_queue import NEVER, NEXT, NOT_STORED, TAIL, Entries, make_queue
from streamjoin.kernels.compile import Positions

TASK_TUPLES = 32
QUEUE_ENTRIES = 1 << 16
RING_ROWS = 1 << 18  # that need not be in the index yet
ROUND_TUPLES = 1 << 12  # after which a worker looks for other things to do,
MERGING_ROUND_TUPLES = 1 << 8  # while an index is merged: workers never run idle, results wait
REST_SECONDS = 0.001

# Takes the first entry, the rows that all have found, by number, and where those of each end.
Deliver = Callable[[int, Positions, Positions], None]


@dataclass
class WindowProgress:
    """What is known about one window: its index, and the progress of its rows."""

    index: PIMTree
    published: int  # the number of the next row
    dropped: int  # rows before this one have left
    merged: int  # rows before this one are in T_S
    safe: int  # no search uses an edge before this one
    glimpse: tuple[int, int]  # an edge, and the entry up to which all must be done to call it safe
    merges: int = 0

    @classmethod
    def of(cls, index: PIMTree) -> "WindowProgress":
        """Return the progress before any row has been published."""
        end = index.base + index.size
        return cls(index, end, index.base, end - index.fresh_count, end, (end, 0))

    def note_rows(self, edge: int) -> None:
        """Tell the index how many rows it holds, now that all before the edge are in it."""
        dropped = min(self.dropped, edge)  # read once: rows go on leaving
        self.index.base, self.index.size = dropped % (1 << 32), edge - dropped
        self.index.fresh_count = edge - self.merged


class SharedJoin:
    """Two windows, or one, with shared indexes; the module docstring gives the design."""

    def __init__(
        self,
        indexes: list[PIMTree],
        deliver: Deliver,
        threads: int,
        ranges: int = 1,
        task: int = TASK_TUPLES,
        blocking: bool = False,
        queue: int = QUEUE_ENTRIES,
        ring: int = RING_ROWS,
        matches: int = BUFFER_MATCHES,
    ) -> None:
        self.deliver, self.task, self.blocking = deliver, task, blocking
        self.ranges, self.ring = ranges, ring
        self.queue = make_queue(queue, ranges)
        self.head = 0  # entries before this one have been propagated
        for index in indexes:
            # While one is merged, the other's T_I goes on growing; and as many rows as the ring has
            # may go into it beyond the edge.
            index.reserve(ring + max(index.limit // 4, LEAST_TUPLES))
        self.sides = [WindowProgress.of(index) for index in indexes]
        self.windows = [make_window(each.index.pim, ring, each.published) for each in self.sides]
        self.limits = np.full(4, NEVER)
        for number, side in enumerate(self.sides):
            # Half a period apart, so that they are not both merged at once.
            due = side.merged + side.index.limit // (1 + number)
            self.set_limits(number, due, side.merged + side.index.fresh_room)
        self.buffers = Buffers(matches)
        self._publishing, self._merging, self._propagating = Lock(), Lock(), Lock()
        self._came_by = False  # whether a worker wants to propagate
        self.crew = Crew(self._run, self.has_work, lambda on: work_queue.halt(self.queue, on))
        self.crew.resize(threads)

    def set_limits(self, number: int, due: int, full: int) -> None:
        """Set the edge at which an index is merged, and that at which its T_I may be full."""
        self.limits[number] = due
        self.limits[2 + number] = full if full == NEVER else full - self.ring

    # Workers.

    def _run(self, number: int) -> None:
        """Work until this worker is no longer needed."""
        progress, buffer = np.zeros(3, np.int64), self.buffers.take()
        while self.crew.enter(number):
            status = self._work(progress, buffer)
            while status == FULL:
                # Still inside: a task that has begun is finished before anything else happens.
                buffer = self._next_buffer(progress, buffer)
                status = self._work(progress, buffer)
            if 2 * progress[COUNT] > buffer.found.size:
                buffer = self._next_buffer(progress, buffer)
            self.crew.leave()
            self.propagate()
            if status in (MERGE, STUFFED):
                self._merge()
            if status == STUFFED:
                self.crew.rest(REST_SECONDS)  # another worker may be doing it
        self.buffers.give(buffer, int(progress[AT]))

    def _work(self, progress: Positions, buffer: Buffer) -> int:
        return tasks.work(
            self.queue,
            self.windows[0],
            self.windows[-1],
            len(self.windows) == 1,
            self.limits,
            self.task,
            MERGING_ROUND_TUPLES if self._merging.locked() else ROUND_TUPLES,
            progress,
            buffer.number,
            buffer.found,
        )

    def _next_buffer(self, progress: Positions, buffer: Buffer) -> Buffer:
        """Continue with another buffer, a larger one if not even one entry's matches fit."""
        self.buffers.give(buffer, int(progress[AT]))
        least = 1 if progress[COUNT] else 4 * buffer.found.size
        progress[COUNT] = 0
        return self.buffers.take(least)

    def has_work(self) -> bool:
        """Whether entries can be acquired."""
        return bool(self.queue.control[NEXT] < self.queue.control[TAIL])

    def quiet(self) -> AbstractContextManager[None]:
        """Keep all workers out of tasks; starts once they have finished their present ones."""
        return self.crew.quiet()

    # Propagation.

    def propagate(self) -> None:
        """Deliver the results of completed entries, unless another thread is doing so.

        If other threads asked meanwhile, it looks once more when it is done: otherwise the entries
        they completed would wait for the next call.
        """
        self._came_by = True
        while self._came_by and self._propagating.acquire(blocking=False):
            self._came_by = False
            try:
                self._deliver(work_queue.count_completed(self.queue, self.head))
            finally:
                self._propagating.release()

    def _deliver(self, upto: int) -> None:
        first = self.head
        if upto == first:
            return
        ends, used = work_queue.measure_found(self.queue, first, upto, len(self.buffers.all))
        rows = np.empty(int(ends[-1]), np.int64)
        for number in np.flatnonzero(used).tolist():
            found = self.buffers.all[number].found
            work_queue.copy_found(self.queue, first, ends, number, found, rows)
        self.deliver(first, rows, ends)
        self.head = upto
        self.buffers.collect(upto)
        self.crew.wake()

    # The source.

    def publish(self, entries: Entries) -> None:
        """Put entries into the queue as room becomes free; number the rows to be stored."""
        first = 0
        while first < len(entries):
            if (room := self._room()) <= 0:
                self.crew.wait_for(lambda: self._room() > 0)
                continue
            part = entries.part(first, first + room)
            with self._publishing:
                rings = self.windows[0].keys, self.windows[-1].keys
                counts = work_queue.publish(self.queue, *rings, *part.columns())
                for side, count in zip(self.sides, counts, strict=False):
                    side.published += count
            self.crew.wake()
            first += len(part)

    def _room(self) -> int:
        """Return how many entries fit into the queue, and their keys into the rings."""
        used = int(self.queue.control[TAIL]) - self.head
        rings = [self._ring_room(number) for number in range(len(self.sides))]
        return min(self.queue.states.size - used, *rings)

    def _ring_room(self, number: int) -> int:
        """Return how many more rows fit into a ring without touching what a search may look at.

        A search uses the edge that it saw first. Once all entries that were acquired at the time of
        a glimpse are done, no search uses an earlier edge.
        """
        side = self.sides[number]
        for _ in range(2):  # if no entry is active, the second glimpse is safe at once
            edge, acquired = side.glimpse
            if self.head >= acquired:
                side.safe = max(side.safe, edge)
                seen = shared_window.edge_of(self.windows[number])
                side.glimpse = seen, int(self.queue.control[NEXT])
        return side.safe + self.ring - side.published

    def wait(self) -> None:
        """Wait until all results of published entries have been delivered."""
        self.crew.wait_for(self.is_through)

    def is_through(self) -> bool:
        """Whether all results of published entries have been delivered."""
        return bool(self.head == self.queue.control[TAIL])

    def settle(self) -> None:
        """Wait, and complete the indexes with all rows that were published and not dropped."""
        self.wait()
        with self._merging, self.quiet():
            for number, side in enumerate(self.sides):
                window = self.windows[number]
                shared_window.catch_up(window, shared_window.edge_of(window), side.published)
                side.note_rows(side.published)

    def stop(self) -> None:
        """Make all workers leave, and wait for them."""
        self.crew.close()

    # Merging.

    def _merge(self) -> None:
        """Merge the windows that are due, unless another worker is doing so."""
        if not self._merging.acquire(blocking=False):
            return
        try:
            for number in range(len(self.sides)):
                if shared_window.edge_of(self.windows[number]) >= self.limits[number]:
                    merge_index(self, number)
        finally:
            self._merging.release()
        self.crew.wake()  # the edge has moved, for which the source may wait

    def processed(self, number: int) -> int:
        """Return the first row of a window whose entry is not acquired; only during quiet."""
        with self._publishing:  # the source may go on
            tail, published = int(self.queue.control[TAIL]), self.sides[number].published
        mask = self.queue.states.size - 1
        slots = np.arange(int(self.queue.control[NEXT]), tail) & mask
        mine = self.queue.rows[slots] != NOT_STORED
        if len(self.sides) == 2:
            mine &= self.queue.sides[slots] == number
        rows = self.queue.rows[slots[mine]]
        return int(rows[0]) if rows.size else published
