"""What a thread does: acquire a task, find its matches, update the index (section 4.1).

A task is some consecutive entries of the work queue. All of this is one kernel without the GIL, so
threads meet in Python only when there is something to do there: a buffer is full, a merge is due,
the queue is empty, or the thread has worked for a while and results should be delivered.

As in the paper (Shahvarani and Jacobsen), threads go through the steps tuple by tuple: find the
matches of a tuple, insert it into the index, mark it as completed. Departures: a task is taken by
compare-and-swap instead of a mutex; a tuple is completed only after it was inserted, so that its
slot may be reused; and the edges move once per task.
"""

from streamjoin.indexes.trees.forest import NO_ROOM
from streamjoin.joins.shared import shared_window
from streamjoin.joins.shared.shared_window import EDGE, FROZEN, SharedWindow
from streamjoin.joins.shared.work_queue import HALT, NOT_STORED, WorkQueue, acquire
from streamjoin.kernels import atomics
from streamjoin.kernels.compile import Int, Positions, RowIds, bare, inlined

IDLE, HALTED, FULL, MERGE, ENOUGH, STUFFED = range(6)  # why a thread stops working
AT, END, COUNT = range(3)  # places in ``progress``


@inlined
def probe(queue: WorkQueue, slot: Int, window: SharedWindow, found: RowIds, count: Int) -> Int:
    """Write down the matches of an entry in a window."""
    ranges = queue.lowers.size // queue.states.size
    return shared_window.probe(
        window,
        queue.lowers,
        queue.uppers,
        slot * ranges,
        ranges,
        queue.firsts[slot],
        queue.lasts[slot],
        found,
        count,
    )


@inlined
def insert(queue: WorkQueue, slot: Int, window: SharedWindow) -> None:
    """Insert an entry into the index of its window, unless that is being merged."""
    if queue.rows[slot] != NOT_STORED and window.control[FROZEN] == 0:
        shared_window.insert(window, queue.keys[slot], queue.rows[slot])


@bare
def work(
    queue: WorkQueue,
    left: SharedWindow,
    right: SharedWindow,
    alone: bool,
    limits: Positions,
    task: int,
    enough: int,
    progress: Positions,
    buffer: int,
    found: RowIds,
) -> int:
    """Carry out tasks until there is something to do in Python, and return what.

    With ``alone``, the left window is the only one, and all entries probe it. ``limits`` are the
    edges at which the windows are merged, and those beyond which their T_I might be full.
    ``progress`` says where a task was left, and how far ``found`` is filled.
    """
    mask = queue.states.size - 1
    done = 0
    while True:
        if progress[AT] == progress[END]:
            if atomics.load(queue.control, HALT) != 0:
                return HALTED
            if atomics.load(left.control, EDGE) >= atomics.load(limits, 0):
                return MERGE
            if atomics.load(right.control, EDGE) >= atomics.load(limits, 1):
                return MERGE
            if atomics.load(left.control, EDGE) >= atomics.load(limits, 2):
                return STUFFED
            if atomics.load(right.control, EDGE) >= atomics.load(limits, 3):
                return STUFFED
            if done >= enough:
                return ENOUGH
            progress[AT], progress[END] = acquire(queue, task)
            if progress[AT] == progress[END]:
                return IDLE
        while progress[AT] < progress[END]:
            slot, count = progress[AT] & mask, progress[COUNT]
            is_left = queue.sides[slot] == 0
            if alone or not is_left:
                count = probe(queue, slot, left, found, count)
            else:
                count = probe(queue, slot, right, found, count)
            if count == NO_ROOM:
                return FULL
            queue.buffers[slot] = buffer
            queue.starts[slot], queue.ends[slot] = progress[COUNT], count
            if alone or is_left:
                insert(queue, slot, left)
            else:
                insert(queue, slot, right)
            # This comes last: the slot may be reused as soon as the entry is completed.
            atomics.store(queue.states, slot, progress[AT] + 1)
            progress[COUNT] = count
            progress[AT] += 1
            done += 1
        shared_window.move_edge(left)
        if not alone:
            shared_window.move_edge(right)
