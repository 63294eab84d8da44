"""The work queue: the tuples of both streams in order of arrival, and what they found.

It is a ring of entries, numbered from the beginning of the stream. Three positions only move on::

    head                  next               tail
      | completed, active  |  available        |
    --+--------------------+-------------------+---------    modulo the size of the ring
      propagated before    acquired before     published before

An entry is *available* until a thread acquires it, *active* until its matches are found, and then
*completed*: its ``states`` number is its position plus one, so a reused slot needs no reset. An
entry says which stored rows it may match, ``firsts`` to ``lasts``: the earliest and the latest
tuple of the opposite window at its arrival. They follow from the order of arrival alone, so a
thread need not look them up when it acquires the entry, as in the paper.

Invariants: entries from ``head`` to ``tail`` are never overwritten; only the source writes
``tail``, only the thread that propagates writes ``head``, and ``next`` moves by compare-and-swap.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels import atomics
from streamjoin.kernels.compile import Int, Keys, Positions, RowIds, bare, inlined, kernel

TAIL, NEXT, HALT = (place * atomics.LINE for place in range(3))  # places in ``control``
NOT_STORED = -1
NEVER = np.iinfo(np.int64).max  # an entry or a row that never comes


@dataclass(frozen=True)
class Entries:
    """Tuples on their way into the queue, in order of arrival; see `WorkQueue`."""

    sides: Positions
    keys: Keys
    rows: Positions
    lowers: Keys  # one row per entry
    uppers: Keys
    firsts: Positions
    lasts: Positions

    def __len__(self) -> int:
        return self.keys.size

    def columns(self) -> list[Positions]:
        """Return the columns, as `publish` takes them."""
        return [column.ravel() for column in vars(self).values()]

    def part(self, first: int, last: int) -> "Entries":
        """Return some of them."""
        return Entries(*(column[first:last] for column in vars(self).values()))

    def take(self, order: Positions) -> "Entries":
        """Return them in another order."""
        return Entries(*(column[order] for column in vars(self).values()))

    @classmethod
    def concatenate(cls, parts: "list[Entries]") -> "Entries":
        """Concatenate entries."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class WorkQueue(NamedTuple):
    """The arrays of the queue, as kernels take them; all but the last have one size."""

    sides: NDArray[np.int64]  # 0: a tuple of the left stream, 1: of the right one
    keys: NDArray[np.int64]
    rows: NDArray[np.int64]  # the number of its row in its window, or NOT_STORED
    lowers: NDArray[np.int64]  # the ranges of keys that it matches, one or more per entry
    uppers: NDArray[np.int64]
    firsts: NDArray[np.int64]  # the stored rows that it may match
    lasts: NDArray[np.int64]
    states: NDArray[np.int64]
    buffers: NDArray[np.int64]  # which buffer has its matches,
    starts: NDArray[np.int64]  # and where
    ends: NDArray[np.int64]
    control: NDArray[np.int64]


def make_queue(size: int, ranges: int) -> WorkQueue:
    """Allocate a queue of ``size`` entries, a power of two, with ``ranges`` key ranges each."""
    sizes = dict.fromkeys(WorkQueue._fields, size)
    sizes |= {"lowers": size * ranges, "uppers": size * ranges, "control": 3 * atomics.LINE}
    return WorkQueue(**{name: np.zeros(size, np.int64) for name, size in sizes.items()})


@inlined
def acquire(queue: WorkQueue, most: Int) -> tuple[Int, Int]:
    """Take at most ``most`` next entries; return the first, and the one after the last."""
    while True:
        first = atomics.load(queue.control, NEXT)
        last = min(first + most, atomics.load(queue.control, TAIL))
        if first == last or atomics.swap(queue.control, NEXT, first, last):
            return first, last


@bare
def count_completed(queue: WorkQueue, head: int) -> int:
    """Return the first entry from ``head`` on that is not completed."""
    mask = queue.states.size - 1
    while atomics.load(queue.states, head & mask) == head + 1:
        head += 1
    return head


@bare
def publish(
    queue: WorkQueue,
    left: Keys,
    right: Keys,
    sides: Positions,
    keys: Keys,
    rows: Positions,
    lowers: Keys,
    uppers: Keys,
    firsts: Positions,
    lasts: Positions,
) -> tuple[int, int]:
    """Append entries, and put keys to be stored into their windows' rings.

    There must be room. Returns how many rows each side is to store.
    """
    tail, mask = queue.control[TAIL], queue.states.size - 1
    ranges = queue.lowers.size // queue.states.size
    lefts = rights = 0
    for i in range(keys.size):
        if rows[i] != NOT_STORED and sides[i] == 0:
            left[rows[i] & (left.size - 1)] = keys[i]
            lefts += 1
        elif rows[i] != NOT_STORED:
            right[rows[i] & (right.size - 1)] = keys[i]
            rights += 1
        slot = (tail + i) & mask
        queue.sides[slot], queue.keys[slot], queue.rows[slot] = sides[i], keys[i], rows[i]
        queue.firsts[slot], queue.lasts[slot] = firsts[i], lasts[i]
        for each in range(ranges):
            queue.lowers[slot * ranges + each] = lowers[i * ranges + each]
            queue.uppers[slot * ranges + each] = uppers[i * ranges + each]
    atomics.store(queue.control, TAIL, tail + keys.size)
    return lefts, rights


@bare
def halt(queue: WorkQueue, on: bool) -> None:
    """Stop entries from being acquired, or allow it again."""
    atomics.store(queue.control, HALT, np.int64(on))


@kernel
def measure_found(
    queue: WorkQueue, first: int, last: int, buffers: int
) -> tuple[Positions, Positions]:
    """Return where the matches of each entry end, and which buffers have some."""
    mask, total = queue.states.size - 1, np.int64(0)
    ends, used = np.empty(last - first, np.int64), np.zeros(buffers, np.int64)
    for entry in range(first, last):
        slot = entry & mask
        total += queue.ends[slot] - queue.starts[slot]
        ends[entry - first] = total
        used[queue.buffers[slot]] = 1
    return ends, used


@bare
def copy_found(
    queue: WorkQueue, first: int, ends: Positions, buffer: int, found: RowIds, rows: Positions
) -> None:
    """Copy the matches of entries from ``first`` on that lie in one buffer, as numbers of rows.

    ``ends`` are where the matches of each entry end among those of all.
    """
    mask = queue.states.size - 1
    for i in range(ends.size):
        slot = (first + i) & mask
        if queue.buffers[slot] == buffer:
            count = queue.ends[slot] - queue.starts[slot]
            for j in range(count):
                distance = np.int64(found[queue.starts[slot] + j])
                rows[ends[i] - count + j] = queue.firsts[slot] + distance
