"""A hash table that grows: for each code, how many tuples have it, and a list of them.

::

    slots   code 3A | 2 tuples | latest: 4      linear probing, at most half full
    before  4 -> 1 -> none                      the tuple before, with the same code
    words   0 ... 4                             tuples in the order they came

A probe finds one slot, however often its key repeats: it knows its matches by their number and the
latest of them. Lists are followed when pairs are wanted. Slots move when the table grows; tuples
and lists never do, so what a probe has found stays true.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamjoin.intrawindow.pieces import Counted, Piece
from streamjoin.intrawindow.words import Words, rows_of
from streamjoin.kernels import Int, Positions, RowIds, copy_into, inlined, kernel
from streamjoin.keys.operands import Side
from streamjoin.prefetching import AHEAD, prefetch

Slots = NDArray[np.uint32]  # four numbers a slot: code, tuples, latest tuple, nothing
SLOT = 4
NONE = np.int32(-1)
FEWEST = 1 << 6  # slots to begin with: there may be many windows


@inlined
def ask_for(words: Words, place: Int, slots: Slots, mask: Int) -> None:
    """Prefetch the slot of a word; behind the last one, that of the last."""
    code = np.int64(words[min(place, words.size - 1)] >> np.uint64(32))
    prefetch(slots, SLOT * (code & mask))


@inlined
def slot_of(slots: Slots, code: Int, mask: Int) -> Int:
    """Return where the slot of a code is, or the empty one where it belongs."""
    at = np.int64(code) & mask
    while slots[SLOT * at + 1] != 0 and slots[SLOT * at] != code:
        at = (at + 1) & mask
    return SLOT * at


@kernel
def insert(words: Words, first: Int, slots: Slots, before: RowIds) -> int:
    """Add tuples, numbered from ``first``; return how many codes are new."""
    half, mask, new = np.uint64(32), np.int64(slots.size // SLOT - 1), 0
    for i in range(words.size):
        ask_for(words, i + AHEAD, slots, mask)
        code = np.uint32(words[i] >> half)
        at = slot_of(slots, code, mask)
        tuples, number = slots[at + 1], first + i
        before[number] = np.int32(slots[at + 2]) if tuples else NONE
        new += tuples == 0
        slots[at], slots[at + 1], slots[at + 2] = code, tuples + 1, number
    return new


@kernel
def move(old: Slots, slots: Slots) -> None:
    """Put the slots of a table into a larger one."""
    mask = np.int64(slots.size // SLOT - 1)
    for at in range(0, old.size, SLOT):
        if old[at + 1] != 0:
            to = slot_of(slots, old[at], mask)
            slots[to], slots[to + 1], slots[to + 2] = old[at], old[at + 1], old[at + 2]


@kernel
def probe(words: Words, slots: Slots, latest: RowIds, counts: RowIds) -> int:
    """Find the latest tuple with the code of each word, and their number; return that of all."""
    half, mask, total = np.uint64(32), np.int64(slots.size // SLOT - 1), 0
    for i in range(words.size):
        ask_for(words, i + AHEAD, slots, mask)
        at = slot_of(slots, np.uint32(words[i] >> half), mask)
        count: Int = np.int32(slots[at + 1])
        latest[i], counts[i] = np.int32(slots[at + 2]), count
        total += count
    return total


@kernel
def follow(
    latest: RowIds,
    totals: Positions,
    before: RowIds,
    rows: RowIds,
    names: RowIds,
    first: int,
    last: int,
    number: Int,
) -> tuple[RowIds, RowIds, int]:
    """Write out the pairs numbered ``first`` to ``last``.

    The pairs before may have ended within a list: ``number`` is the tuple to go on with, and so is
    what is returned.
    """
    size = last - first
    probes, found = np.empty(size, np.int32), np.empty(size, np.int32)
    probe, slot = np.searchsorted(totals, first, side="right") - 1, 0
    if totals[probe] == first:
        number = latest[probe]
    while True:
        name, end = names[probe], min(totals[probe + 1] - first, size)
        while slot < end:
            probes[slot], found[slot] = name, rows[number]
            number = before[number]
            slot += 1
        if slot == size:
            return probes, found, number
        probe += 1
        number = latest[probe]


@dataclass(frozen=True)
class Lists(Counted):
    """The lists of rows that probes have found."""

    latest: RowIds
    before: RowIds
    row_ids: RowIds

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all pairs in blocks of at most ``size``: the probe's name or number, the row id."""
        if names is None:
            names = np.arange(self.latest.size, dtype=np.int32)
        lists, number = (self.latest, self.totals, self.before, self.row_ids, names), 0
        for first in range(0, self.total, size):
            last = min(first + size, self.total)
            probes, rows, number = follow(*lists, first, last, number)
            yield probes, rows


class CodeTable:
    """Tuples of one side, to be found by their codes; see the module docstring."""

    def __init__(self) -> None:
        self.size, self.codes = 0, 0
        self.slots: Slots = np.zeros(SLOT * FEWEST, np.uint32)
        self.words: Words = np.empty(FEWEST, np.uint64)
        self.before: RowIds = np.empty(FEWEST, np.int32)

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """Bytes, slack included."""
        return self.slots.nbytes + self.words.nbytes + self.before.nbytes

    def insert(self, words: Words) -> None:
        """Add tuples."""
        self._make_room(words.size)
        self.words[self.size : self.size + words.size] = words
        self.codes += insert(words, self.size, self.slots, self.before)
        self.size += words.size

    def probe(self, words: Words, probing: Side) -> Piece | None:
        """Look for tuples with the codes of words of the other side."""
        latest, counts = np.empty(words.size, np.int32), np.empty(words.size, np.int32)
        total = probe(words, self.slots, latest, counts)
        if not total:
            return None
        found = Lists(counts, total, latest, self.before, rows_of(self.words))
        return Piece(probing, rows_of(words), found)

    def _make_room(self, count: int) -> None:
        """Grow before tuples come, as if all had new codes."""
        needed = self.size + count
        if needed > self.words.size:
            grown = max(needed, 2 * self.words.size)
            words, before = np.empty(grown, np.uint64), np.empty(grown, np.int32)
            held: list[NDArray[Any]] = [self.words[: self.size], self.before[: self.size]]
            copy_into(held, [words, before])
            self.words, self.before = words, before
        slots = self.slots.size // SLOT
        if 2 * (self.codes + count) > slots:
            while slots < 2 * (self.codes + count):
                slots *= 2
            grown_slots = np.empty(SLOT * slots, np.uint32)  # zeros would have small pages
            grown_slots.fill(0)
            move(self.slots, grown_slots)
            self.slots = grown_slots
