"""A join over keys by threads that share its indexes (section 4 of the paper).

One thread, the source, publishes tuples; any number of workers carry out tasks; whoever has completed
some tries to propagate results, in the order of arrival. Workers may come and go at any time::

    source --> work queue --> workers --> work queue --> propagation --> deliver
               (arrival)      (any order)  (completed)   (arrival)

Workers run kernels without the GIL and meet here in between. A merge needs them out of the way for
two moments (`quiet`): to freeze one index, and to swap it. In between, one worker merges while the
others go on without updating that index (`merging`).

Invariants:
    1. A pair is found once, by the tuple that arrived later: what an entry may see follows from the
       order of arrival, and the edge cuts that into what is searched and what is compared.
    2. Results go to ``deliver`` in the order of arrival, from one thread at a time.
    3. When the join is settled, both indexes hold all rows that were published and not dropped.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock, Thread

import numpy as np

from streamjoin.indexes.pim_tree import PIMTree
from streamjoin.indexes.window_index import LEAST
from streamjoin.kernels import Keys, Positions, RowIds
from streamjoin.parallel import shared_window, tasks, work_queue
from streamjoin.parallel.merging import merge_index
from streamjoin.parallel.shared_window import make_window
from streamjoin.parallel.tasks import AT, COUNT, FULL, MERGE, STUFFED
from streamjoin.parallel.work_queue import NEVER, NEXT, NOT_STORED, TAIL, make_queue

TASK = 32  # tuples
QUEUE, RING = 1 << 16, 1 << 18  # entries of the queue; rows that need not be in the index yet
ENOUGH = 1 << 12  # tuples after which a worker looks what else is to be done
BUFFER = 1 << 16  # matches

# Takes the first entry, the rows that all have found, by number, and where those of each end.
Deliver = Callable[[int, Positions, Positions], None]


@dataclass
class Entries:
    """Tuples on their way into the queue, in the order of arrival; see `WorkQueue` for the meaning."""

    sides: Positions
    keys: Keys
    rows: Positions
    lowers: Keys  # one row an entry
    uppers: Keys
    firsts: Positions
    lasts: Positions

    def __len__(self) -> int:
        return self.keys.size

    def take(self, order: Positions) -> "Entries":
        """Return entries in another order."""
        return Entries(*(column[order] for column in vars(self).values()))


@dataclass
class Buffer:
    """Matches that a worker has found; free again when the last of them has been propagated."""

    number: int
    found: RowIds
    last: int = 0  # behind the last entry that has matches here


@dataclass
class Side:
    """What is known of one window: its index, and how far its rows have come."""

    index: PIMTree
    published: int  # the number of the next row
    dropped: int  # rows before this one have left
    merged: int  # rows before this one are in T_S
    safe: int  # no search goes by an edge before this one
    glimpse: tuple[int, int] = (0, 0)  # an edge, and which entries must be through to call it safe
    merges: int = 0


class SharedJoin:
    """Two windows, or one, with shared indexes; the module docstring gives the design."""

    def __init__(
        self,
        indexes: list[PIMTree],
        deliver: Deliver,
        threads: int,
        ranges: int = 1,
        task: int = TASK,
        blocking: bool = False,
        queue: int = QUEUE,
        ring: int = RING,
    ) -> None:
        self.deliver, self.task, self.blocking = deliver, task, blocking
        self.ranges, self.ring = ranges, ring
        self.queue = make_queue(queue, ranges)
        self.head = 0  # entries before this one have been propagated
        for index in indexes:
            # While one is merged, the other's T_I goes on growing; and others may run ahead of the
            # slowest worker by a whole queue.
            index.reserve(queue + max(index.limit // 4, LEAST))
        self.sides = [side_of(index) for index in indexes]
        self.windows = [make_window(each.index.pim, ring, each.published) for each in self.sides]
        self.limits = np.full(4, NEVER)
        for number, side in enumerate(self.sides):
            # Half a period apart, lest both are merged at once.
            due = side.merged + side.index.limit // (1 + number)
            self.set_limits(number, due, side.merged + side.index.fresh_room)
        self.failure: BaseException | None = None
        self.when_failed: Callable[[], None] | None = None
        self._changed = Condition()
        self._inside = 0  # workers that may be working on a task
        self._halts = False
        self._quieting, self._merging, self._propagating = Lock(), Lock(), Lock()
        self._wanted = 0
        self._workers: dict[int, Thread] = {}
        self._buffers: dict[int, Buffer] = {}
        self._spare: list[Buffer] = []
        self.resize(threads)

    def set_limits(self, number: int, due: int, full: int) -> None:
        """Set at which edge an index is merged, and at which its T_I may have no room."""
        self.limits[number] = due
        self.limits[2 + number] = full if full == NEVER else full - self.queue.states.size

    # Workers.

    @property
    def threads(self) -> int:
        """How many workers there should be."""
        return self._wanted

    def resize(self, threads: int) -> None:
        """Let workers join or leave; those that leave finish their task."""
        with self._changed:
            self._wanted = threads
            for number in range(threads):
                worker = self._workers.get(number)
                if worker is None or not worker.is_alive():
                    name = f"streamjoin worker {number}"
                    worker = Thread(target=self._run, args=(number,), name=name, daemon=True)
                    self._workers[number] = worker
                    worker.start()
            self._changed.notify_all()

    def _run(self, number: int) -> None:
        """Work until nobody wants this worker any more."""
        progress, buffer = np.zeros(4, np.int64), self._take_buffer(1)
        try:
            while self._enter(number):
                status = self._work(progress, buffer)
                while status == FULL:
                    # Still inside: a task that has begun is finished before anything else happens.
                    buffer = self._next_buffer(progress, buffer)
                    status = self._work(progress, buffer)
                if 2 * progress[COUNT] > buffer.found.size:
                    buffer = self._next_buffer(progress, buffer)
                self._leave()
                self.propagate()
                if status == MERGE:
                    self._merge()
                elif status == STUFFED:
                    self._merge()
                    self._rest()
        except BaseException as error:
            self._fail(error)
        finally:
            self._give_buffer(buffer, int(progress[AT]))

    def _work(self, progress: Positions, buffer: Buffer) -> int:
        left, right = self.windows[0], self.windows[-1]
        return tasks.work(
            self.queue,
            left,
            right,
            len(self.windows) == 1,
            self.limits,
            self.task,
            ENOUGH,
            progress,
            buffer.number,
            buffer.found,
        )

    def _enter(self, number: int) -> bool:
        """Wait until there is work, and nobody wants quiet; return whether to go on."""
        with self._changed:
            while True:
                if number >= self._wanted or self.failure is not None:
                    return False
                if not self._halts and self.has_work:
                    self._inside += 1
                    return True
                self._changed.wait()

    @property
    def has_work(self) -> bool:
        """Whether entries can be acquired."""
        return bool(self.queue.control[NEXT] < self.queue.control[TAIL])

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def _rest(self) -> None:
        """Wait a little for a merge that another worker is at."""
        with self._changed:
            self._changed.wait(0.001)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Let no worker work on anything, and begin when all have finished their task."""
        with self._quieting:
            with self._changed:
                self._halts = True
                work_queue.stop(self.queue, 1)
                while self._inside:
                    self._changed.wait()
            try:
                yield
            finally:
                with self._changed:
                    self._halts = False
                    work_queue.stop(self.queue, 0)
                    self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Note why the join cannot go on, and wake all who wait for it."""
        with self._changed:
            self.failure = self.failure or error
            work_queue.stop(self.queue, 1)
            self._changed.notify_all()
        if self.when_failed is not None:
            self.when_failed()

    def check(self) -> None:
        """Raise what has stopped the join, if anything has."""
        if self.failure is not None:
            raise self.failure

    # Buffers.

    def _take_buffer(self, least: int) -> Buffer:
        with self._changed:
            fits = [each for each in self._spare if each.found.size >= least]
            if fits:
                buffer = fits[0]
                self._spare.remove(buffer)
            else:
                number = max(self._buffers, default=-1) + 1
                buffer = Buffer(number, np.empty(max(BUFFER, least), np.int32))
                self._buffers[number] = buffer
            buffer.last = NEVER
            return buffer

    def _give_buffer(self, buffer: Buffer, last: int) -> None:
        with self._changed:
            buffer.last = last

    def _next_buffer(self, progress: Positions, buffer: Buffer) -> Buffer:
        """Go on with another buffer; if not even one entry's matches fit, with a larger one."""
        self._give_buffer(buffer, int(progress[AT]))
        least = 4 * buffer.found.size if not progress[COUNT] else 1
        progress[COUNT] = 0
        return self._take_buffer(least)

    # Propagation.

    def propagate(self) -> None:
        """Deliver the results of completed entries, unless another thread does."""
        while work_queue.count_completed(self.queue, self.head) > self.head:
            if not self._propagating.acquire(blocking=False):
                return  # the other one looks again before it is through
            try:
                self._deliver(work_queue.count_completed(self.queue, self.head))
            finally:
                self._propagating.release()

    def _deliver(self, upto: int) -> None:
        first = self.head
        if upto == first:
            return
        slots = np.arange(first, upto) & (self.queue.states.size - 1)
        ends = np.cumsum(self.queue.ends[slots] - self.queue.starts[slots])
        rows = np.empty(int(ends[-1]), np.int64)
        for number in np.unique(self.queue.buffers[slots]):
            found = self._buffers[int(number)].found
            work_queue.copy_found(self.queue, first, ends, number, found, rows)
        self.deliver(first, rows, ends)
        with self._changed:
            self.head = upto
            free = [each for each in self._buffers.values() if each.last <= upto]
            for buffer in free:
                buffer.last = NEVER
            self._spare += free
            self._changed.notify_all()

    # The source.

    def publish(self, entries: Entries) -> None:
        """Put entries into the queue, as room comes; rows to be stored are numbered on."""
        first = 0
        while first < len(entries):
            room = self._wait_for_room(entries, first)
            part = slice(first, first + room)
            for number, side in enumerate(self.sides):
                mine = entries.rows[part] != NOT_STORED
                if len(self.sides) == 2:
                    mine &= entries.sides[part] == number
                keys = entries.keys[part][mine]
                shared_window.keep_keys(self.windows[number], side.published, keys)
                side.published += keys.size
            work_queue.publish(
                self.queue,
                entries.sides[part],
                entries.keys[part],
                entries.rows[part],
                entries.lowers[part].ravel(),
                entries.uppers[part].ravel(),
                entries.firsts[part],
                entries.lasts[part],
            )
            with self._changed:
                self._changed.notify_all()
            first += room

    def _wait_for_room(self, entries: Entries, first: int) -> int:
        """Wait until entries fit into the queue, and their keys into the rings; return how many."""
        with self._changed:
            while True:
                self.check()
                tail = int(self.queue.control[TAIL])
                room = min(self.queue.states.size - (tail - self.head), len(entries) - first)
                for number in range(len(self.sides)):
                    room = min(room, self._ring_room(number))
                if room > 0:
                    return room
                self._changed.wait()

    def _ring_room(self, number: int) -> int:
        """Return how many more rows fit into a ring without touching what a search may look at.

        A search goes by the edge that it has seen first. When all entries are through that were
        acquired at the time of a glimpse, no search goes by an edge from before it.
        """
        side = self.sides[number]
        edge, acquired = side.glimpse
        if self.head >= acquired:
            side.safe = max(side.safe, edge)
            window = self.windows[number]
            side.glimpse = shared_window.edge_of(window), int(self.queue.control[NEXT])
        return side.safe + self.ring - side.published

    def wait(self) -> None:
        """Wait until the results of all that was published have been delivered."""
        with self._changed:
            while self.head < self.queue.control[TAIL]:
                self.check()
                self._changed.wait()
            self.check()

    def settle(self) -> None:
        """Wait, and let the indexes hold all rows that were published and not dropped."""
        self.wait()
        with self._merging, self.quiet():
            for number, side in enumerate(self.sides):
                window = self.windows[number]
                shared_window.catch_up(window, shared_window.edge_of(window), side.published)
                self.note_rows(side, side.published)

    def note_rows(self, side: Side, edge: int) -> None:
        """Let an index know how many rows it holds, now that all before the edge are in it."""
        side.index.base, side.index.size = side.dropped % (1 << 32), edge - side.dropped
        side.index.fresh_count = edge - side.merged

    def close(self) -> None:
        """Let all workers leave, and wait for them."""
        with self._changed:
            self._wanted = 0
            work_queue.stop(self.queue, 1)
            self._changed.notify_all()
        for worker in self._workers.values():
            worker.join()

    # Merging.

    def _merge(self) -> None:
        """Merge the windows that are due, unless another worker is at it."""
        if not self._merging.acquire(blocking=False):
            return
        try:
            for number in range(len(self.sides)):
                if shared_window.edge_of(self.windows[number]) >= self.limits[number]:
                    merge_index(self, number)
        finally:
            self._merging.release()

    def processed(self, number: int) -> int:
        """Return the first row of a window whose entry nobody has acquired; in quiet only."""
        tail, mask = int(self.queue.control[TAIL]), self.queue.states.size - 1
        slots = np.arange(int(self.queue.control[NEXT]), tail) & mask
        mine = self.queue.rows[slots] != NOT_STORED
        if len(self.sides) == 2:
            mine &= self.queue.sides[slots] == number
        rows = self.queue.rows[slots[mine]]
        return int(rows[0]) if rows.size else self.sides[number].published


def side_of(index: PIMTree) -> Side:
    """Return what is known of a window before anything comes."""
    end = index.base + index.size
    return Side(index, end, index.base, end - index.fresh_count, end, (end, 0))
