"""A hash table that grows: for each code, how many tuples have it, and a list of them.

::

    slots    code 3A | 2 tuples | latest: 4      at most half full (`slots`)
    tuples   4: row 7, before it 1               in the order they came: their row, and the tuple
             1: row 3, before it none            before with the same code

A probe finds one slot, however often its key repeats: it learns the number of its matches and the
latest of them. Lists are followed only when pairs are wanted. When the table grows, slots move, a
few with each insert; tuples and lists never change, so what a probe has found stays true. They are
copied to a larger array ahead of time, also a few with each insert.

Invariants, asserted by ``check``:
    1. Those of `slots`.
    2. A slot's latest tuple and those before it descend, and are as many as the slot says; every
       tuple is in exactly one such list.
    3. At most half of the slots are taken, or three quarters of those that are being moved.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamjoin.joins.equality.eager.slots import (
    CODE,
    LATEST,
    MOVES,
    SLOT,
    TUPLES,
    Slots,
    ask_for,
    check_slots,
    first_after_empty,
    home_of,
    is_moved,
    keep_clear,
    make_slots,
    move_some,
    reserve_slots,
    slot_of,
)
from streamjoin.joins.equality.pieces import Counted, Piece
from streamjoin.joins.equality.words import Words, rows_of
from streamjoin.kernels.compile import Int, Positions, RowIds, inlined, kernel
from streamjoin.kernels.prefetch import AHEAD, prefetch
from streamjoin.keys.operands import Side

Tuples = NDArray[np.int32]  # rows, and the tuples before
ROW, BEFORE = 0, 1
NONE = np.int32(-1)
FEWEST_SLOTS = 1 << 6  # to begin with: there may be many windows
NO_SLOTS: Slots = np.empty(0, np.uint32)


@inlined
def code_of(word: Int) -> Int:
    """Return the code of a word."""
    return np.uint32(word >> np.uint64(32))


@inlined
def look_up(slots: Slots, code: Int, i: Int, latest: RowIds, counts: RowIds) -> Int:
    """Write down what a probe has found; return the number of tuples."""
    at = slot_of(slots, code)
    latest[i], counts[i] = np.int32(slots[at + LATEST]), np.int32(slots[at + TUPLES])
    return counts[i]


@inlined
def add_to(slots: Slots, at: Int, word: Int, number: Int, tuples: Tuples) -> Int:
    """Add a tuple to its slot; return 1 if the code is new."""
    count = slots[at + TUPLES]
    tuples[ROW, number] = np.int32(np.uint32(word))
    tuples[BEFORE, number] = np.int32(slots[at + LATEST]) if count else NONE
    slots[at + CODE], slots[at + TUPLES], slots[at + LATEST] = code_of(word), count + 1, number
    return np.int64(count == 0)


@kernel
def insert(words: Words, first: Int, tuples: Tuples, slots: Slots) -> int:
    """Add tuples, numbered from ``first``; return how many codes are new."""
    new, last = 0, words.size - 1
    for i in range(words.size):
        prefetch(slots, home_of(slots, code_of(words[min(i + AHEAD, last)])))
        code = code_of(words[i])
        new += add_to(slots, slot_of(slots, code), words[i], first + i, tuples)
    return new


@kernel
def insert_growing(
    words: Words, first: Int, tuples: Tuples, small: Slots, slots: Slots, growth: Positions
) -> int:
    """Do the same as `insert` while slots are being moved."""
    new, last = 0, words.size - 1
    for i in range(words.size):
        ask_for(code_of(words[min(i + AHEAD, last)]), small, slots, growth)
        code = code_of(words[i])
        if is_moved(code, small, growth):
            at = slot_of(slots, code)
            new += add_to(slots, at, words[i], first + i, tuples)
            keep_clear(slots, small, growth, at)
        else:
            new += add_to(small, slot_of(small, code), words[i], first + i, tuples)
    return new


@kernel
def probe(words: Words, latest: RowIds, counts: RowIds, slots: Slots) -> int:
    """Find the latest tuple with the code of each word, and how many there are; return the sum."""
    total, last = 0, words.size - 1
    for i in range(words.size):
        prefetch(slots, home_of(slots, code_of(words[min(i + AHEAD, last)])))
        total += look_up(slots, code_of(words[i]), i, latest, counts)
    return total


@kernel
def probe_growing(
    words: Words, latest: RowIds, counts: RowIds, small: Slots, slots: Slots, growth: Positions
) -> int:
    """Do the same as `probe` while slots are being moved."""
    total, last = 0, words.size - 1
    for i in range(words.size):
        ask_for(code_of(words[min(i + AHEAD, last)]), small, slots, growth)
        code = code_of(words[i])
        if is_moved(code, small, growth):
            total += look_up(slots, code, i, latest, counts)
        else:
            total += look_up(small, code, i, latest, counts)
    return total


@kernel
def follow(
    latest: RowIds,
    totals: Positions,
    tuples: Tuples,
    names: RowIds,
    first: int,
    last: int,
    number: Int,
) -> tuple[RowIds, RowIds, int]:
    """Write out the pairs numbered ``first`` to ``last``.

    The last call may have ended within a list: ``number`` is the tuple to go on with. Returns the
    same for the next call.
    """
    size = last - first
    probes, found = np.empty(size, np.int32), np.empty(size, np.int32)
    probe, slot = np.searchsorted(totals, first, side="right") - 1, 0
    if totals[probe] == first:
        number = latest[probe]
    while True:
        name, end = names[probe], min(totals[probe + 1] - first, size)
        while slot < end:
            probes[slot], found[slot] = name, tuples[ROW, number]
            number = tuples[BEFORE, number]
            slot += 1
        if slot == size:
            return probes, found, number
        probe += 1
        number = latest[probe]


@dataclass(frozen=True)
class Lists(Counted):
    """The lists of rows that probes have found."""

    latest: RowIds
    tuples: Tuples

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all pairs in blocks of at most ``size``: the probe's name or number, the row id."""
        if names is None:
            names = np.arange(self.latest.size, dtype=np.int32)
        lists, number = (self.latest, self.totals, self.tuples, names), 0
        for first in range(0, self.total, size):
            last = min(first + size, self.total)
            probes, rows, number = follow(*lists, first, last, number)
            yield probes, rows


class CodeTable:
    """Tuples of one side, to be found by their codes; see the module docstring."""

    def __init__(self) -> None:
        self.size, self.codes = 0, 0
        self.slots = make_slots(FEWEST_SLOTS)
        self.small = NO_SLOTS  # the previous slots, while they are being moved
        self.growth: Positions = np.zeros(3, np.int64)
        self.tuples: Tuples = np.empty((2, FEWEST_SLOTS), np.int32)
        self.larger: Tuples | None = None  # the next array, while tuples are being copied to it
        self.copied = 0

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """Bytes, slack included."""
        larger = 0 if self.larger is None else self.larger.nbytes
        return self.small.nbytes + self.slots.nbytes + self.tuples.nbytes + larger

    def insert(self, words: Words) -> None:
        """Add tuples."""
        self._make_room(words.size)
        if self.small.size:
            self.codes += insert_growing(words, self.size, self.tuples, *self._tables)
        else:
            self.codes += insert(words, self.size, self.tuples, self.slots)
        self.size += words.size

    def probe(self, words: Words, probing: Side) -> Piece | None:
        """Look for tuples with the codes of words of the other side."""
        latest, counts = np.empty(words.size, np.int32), np.empty(words.size, np.int32)
        if self.small.size:
            total = probe_growing(words, latest, counts, *self._tables)
        else:
            total = probe(words, latest, counts, self.slots)
        if not total:
            return None
        found = Lists(counts, total, latest, self.tuples)
        return Piece(probing, rows_of(words), found)

    def _make_room(self, count: int) -> None:
        """Make room for new tuples, as if all had new codes."""
        self._grow(count)
        needed, room = self.size + count, self.tuples.shape[1]
        if 4 * needed > 3 * room and (self.larger is None or needed > self.larger.shape[1]):
            self.larger, self.copied = np.empty((2, 2 * max(room, needed)), np.int32), 0
        if self.larger is not None:
            end = self.size if needed > room else min(self.copied + MOVES * count, self.size)
            self.larger[:, self.copied : end] = self.tuples[:, self.copied : end]
            self.copied = end
            if needed > room:
                self.tuples, self.larger = self.larger, None

    def _grow(self, count: int) -> None:
        """Move some slots; start a larger table if ``count`` more codes would be too many."""
        while True:
            if self.small.size and move_some(*self._tables, MOVES * count):
                self.small = NO_SLOTS
            slots = self.slots.size // SLOT
            if self.small.size or 2 * (self.codes + count) <= slots:
                return
            while slots < 2 * (self.codes + count):
                slots *= 2
            self.small, self.slots = self.slots, reserve_slots(slots)
            self.growth[:] = first_after_empty(self.small), 0, 0

    @property
    def _tables(self) -> tuple[Slots, Slots, Positions]:
        return self.small, self.slots, self.growth

    def check(self) -> None:
        """Assert the invariants; tests call this after every step."""
        found = check_slots(*self._tables)
        assert len(found) == self.codes, "1"
        listed: list[int] = []
        for count, latest in found.values():
            numbers = [latest]
            while (number := int(self.tuples[BEFORE, numbers[-1]])) != NONE:
                assert number < numbers[-1], "2"
                numbers.append(number)
            assert len(numbers) == count, "2"
            listed += numbers
        assert sorted(listed) == list(range(self.size)), "2"
        assert 2 * self.codes <= self.slots.size // SLOT, "3"
        small = self.small.reshape(-1, SLOT)
        assert 4 * np.count_nonzero(small[:, TUPLES]) <= 3 * len(small), "3"
