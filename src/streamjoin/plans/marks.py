"""Marks: which rows are settled, a bit each.

A row is settled once nothing more has to be said about it alone: it has a match, or it was given as
one without. Whoever holds rows whose matches count (outer, semi and anti joins) holds marks beside
them, and never changes the rows themselves::

    rows        0   1   2   3   4   5   6   7   8   9  10  11
    due at     10  12  11  19  17  16  22  25  23  24  21  26
    bits        1   0   1   0   0   0   0   1   0   0   0   0
    blocks     [     12      ][     16       ][     21       ]     of 4 rows here
    due before 17 and not settled: 1 in the first block, 5 in the second; the third need not be read

Rows are *due* when no other row can match them any more, which is told by a key: a time, or the
ordinal in count windows. A block knows the least key of its rows that are not settled, or less:
rows that find a match do not change it. So looking for rows that are due costs a pass over the
blocks that have any, and those whose least key is out of date.

Rows may be dropped at the front. Bits do not move then, and neither do blocks; both do once in a
while, by whole blocks.

`MarksOf` are the marks of some rows, of one holder or of several, in another order: settling them
settles the rows where they are held.

Where rows may be given *early*, before it is known that they match nothing (``unmatched="early"``),
there are marks of a second kind beside these: whether a row's patience has run out. If it was not
settled then, it was given; and if it is settled by a match later on, it has to be taken back::

    settled   patience out     so far
      0           0            nothing was given
      0           1            given as a row without a match
      1           0            has a match, or was given when it was due
      1           1            the same; whether it was taken back, nobody needs to know any more

Cost: 1 bit per row and 8 bytes per block, twice if rows may be given early.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Flags, Int, Keys, Positions, RowIds, kernel

BLOCK = 1024  # rows, a multiple of 8
Bytes = NDArray[np.uint8]
NO_KEYS = np.empty(0, np.int64)


@kernel
def settle_rows(bits: Bytes, first: Int, rows: Positions | RowIds) -> Positions:
    """Set the bits of rows; return which of them, by their places, had none before."""
    fresh = np.empty(rows.size, np.int64)
    count = 0
    for i in range(rows.size):
        place = first + rows[i]
        byte, mask = bits[place >> 3], np.uint8(1 << (place & 7))
        fresh[count] = i
        count += (byte & mask) == 0
        bits[place >> 3] = byte | mask
    return fresh[:count]


@kernel
def unsettle_rows(bits: Bytes, first: Int, rows: Positions | RowIds) -> None:
    """Clear the bits of rows."""
    for row in rows:
        place = first + row
        bits[place >> 3] &= ~np.uint8(1 << (place & 7))


@kernel
def write_bits(bits: Bytes, first: Int, flags: Flags) -> None:
    """Set or clear the bits from ``first`` on."""
    for i in range(flags.size):
        place = first + i
        mask = np.uint8(1 << (place & 7))
        if flags[i]:
            bits[place >> 3] |= mask
        else:
            bits[place >> 3] &= ~mask


@kernel
def read_bits(bits: Bytes, first: Int, rows: Positions | RowIds) -> Flags:
    """Return the bits of rows."""
    flags = np.empty(rows.size, np.bool_)
    for i in range(rows.size):
        place = first + rows[i]
        flags[i] = (bits[place >> 3] >> np.uint8(place & 7)) & 1
    return flags


@kernel
def list_clear(bits: Bytes, first: Int, size: Int) -> Positions:
    """Return the rows that have no bit."""
    clear = np.empty(size, np.int64)
    count = 0
    for row in range(size):
        place = first + row
        clear[count] = row
        count += not (bits[place >> 3] >> np.uint8(place & 7)) & 1
    return clear[:count]


@kernel
def lower_blocks(blocks: Keys, first: Int, flags: Flags, keys: Keys, base: Int) -> None:
    """Let blocks know the keys of new rows that are not settled."""
    for i in range(flags.size):
        if not flags[i]:
            key = keys[i] if keys.size else base + i
            block = (first + i) // BLOCK
            blocks[block] = min(blocks[block], key)


@kernel
def settle_due(
    bits: Bytes, blocks: Keys, first: Int, size: Int, bound: Int, keys: Keys, base: Int
) -> Positions:
    """Set the bits of rows whose key is before a bound; return those that had none.

    Without ``keys``, that of row i is ``base + i``.
    """
    due = np.empty(size, np.int64)
    count = 0
    for block in range(first // BLOCK, (first + size + BLOCK - 1) // BLOCK):
        if blocks[block] >= bound:
            continue
        least = MAX_KEY
        for place in range(max(block * BLOCK, first), min((block + 1) * BLOCK, first + size)):
            mask = np.uint8(1 << (place & 7))
            if bits[place >> 3] & mask:
                continue
            key = keys[place - first] if keys.size else base + place - first
            if key < bound:
                bits[place >> 3] |= mask
                due[count] = place - first
                count += 1
            else:
                least = min(least, key)
        blocks[block] = least
    return due[:count]


class SomeMarks(Protocol):
    """The marks of some rows, which are numbered from 0."""

    def __len__(self) -> int:
        """Count the rows."""
        ...

    def read(self, rows: Positions | RowIds) -> Flags:
        """Return which rows are settled."""
        ...

    def settle(self, rows: Positions | RowIds) -> Positions:
        """Settle rows, which may be named repeatedly; return the places of those that were not."""
        ...

    def unsettle(self, rows: Positions | RowIds) -> None:
        """Take that back."""
        ...

    def read_early(self, rows: Positions | RowIds) -> Flags:
        """Return whose patience has run out."""
        ...

    def list_open(self) -> Positions:
        """Return the rows of which nothing was given so far: neither settled, nor given early."""
        ...


class Marks:
    """The marks of rows that come at one end and may be dropped at the other."""

    def __init__(self, size: int = 0, is_early: bool = False) -> None:
        self.early = Marks(size) if is_early else None  # whose patience has run out
        self.first, self.size = 0, size
        self.bits: Bytes = np.zeros(-(-size // 8), np.uint8)
        self.blocks: Keys = np.full(-(-size // BLOCK), MAX_KEY, np.int64)

    @classmethod
    def of(cls, flags: Flags, early: Flags | None = None) -> "Marks":
        """Return the marks of rows of which some are settled, and some ``early``."""
        marks = cls(is_early=early is not None)
        marks.append(flags, early=early)
        return marks

    def __len__(self) -> int:
        return self.size

    def read(self, rows: Positions | RowIds) -> Flags:
        """Return which rows are settled."""
        return read_bits(self.bits, self.first, rows)

    def read_early(self, rows: Positions | RowIds) -> Flags:
        """Return whose patience has run out."""
        return np.zeros(rows.size, np.bool_) if self.early is None else self.early.read(rows)

    def list_open(self) -> Positions:
        """Return the rows of which nothing was given so far."""
        rows = list_clear(self.bits, self.first, self.size)
        return rows if self.early is None else rows[~self.early.read(rows)]

    def append(
        self, flags: Flags, keys: Keys = NO_KEYS, base: int = 0, early: Flags | None = None
    ) -> None:
        """Add rows; without ``keys`` and a ``base`` to count from, they are never due."""
        if self.early is not None:
            self.early.append(np.zeros_like(flags) if early is None else early, keys, base)
        end = self.first + self.size
        self._make_room(end + flags.size)
        write_bits(self.bits, end, flags)
        lower_blocks(self.blocks, end, flags, keys, base)
        self.size += flags.size

    def _make_room(self, places: int) -> None:
        """Have bits and blocks for so many places; O(1) per row, amortised."""
        if places > 8 * self.bits.size:
            grown = np.zeros(max(-(-places // 8), self.bits.size + self.bits.size // 2), np.uint8)
            grown[: self.bits.size] = self.bits
            self.bits = grown
        if places > BLOCK * self.blocks.size:
            more = max(-(-places // BLOCK), self.blocks.size + self.blocks.size // 2)
            blocks = np.full(more, MAX_KEY, np.int64)
            blocks[: self.blocks.size] = self.blocks
            self.blocks = blocks

    def drop_first(self, count: int) -> None:
        """Forget the first rows."""
        if self.early is not None:
            self.early.drop_first(count)
        self.first += count
        self.size -= count
        gone = self.first // BLOCK
        self.blocks[:gone] = MAX_KEY
        if 2 * gone > self.blocks.size:
            self.bits = self.bits[gone * BLOCK // 8 :].copy()
            self.blocks = self.blocks[gone:].copy()
            self.first -= gone * BLOCK

    def keep_first(self, count: int) -> None:
        """Forget all but the first rows."""
        if self.early is not None:
            self.early.keep_first(count)
        self.size = min(self.size, count)

    def settle(self, rows: Positions | RowIds) -> Positions:
        """Settle rows, which may be named repeatedly; return the places of those that were not."""
        return settle_rows(self.bits, self.first, rows)

    def unsettle(self, rows: Positions | RowIds) -> None:
        """Take that back; they may be due."""
        unsettle_rows(self.bits, self.first, rows)
        self.blocks[(self.first + rows) // BLOCK] = MIN_KEY

    def settle_due(self, bound: int, keys: Keys = NO_KEYS, base: int = 0) -> Positions:
        """Settle the rows whose key is before a bound; return those that were not settled."""
        if bound > MAX_KEY:
            return self.settle(np.arange(self.size))
        if bound <= MIN_KEY or not self.size or self.blocks.min() >= bound:
            return np.empty(0, np.int64)
        return settle_due(self.bits, self.blocks, self.first, self.size, bound, keys, base)

    def take_early(self, bound: int, keys: Keys) -> tuple[Positions, Positions]:
        """Note whose patience has run out, as their key is before a bound.

        Returns these rows, and those of them that are not settled.
        """
        assert self.early is not None
        rows = self.early.settle_due(bound, keys)
        return rows, rows[~self.read(rows)]

    @property
    def nbytes(self) -> int:
        """Bytes of bits and blocks."""
        early = 0 if self.early is None else self.early.nbytes
        return self.bits.nbytes + self.blocks.nbytes + early

    def check(self, keys: Keys) -> None:
        """Assert that no block's key is above that of one of its rows that is not settled."""
        blocks = (self.first + np.arange(self.size)) // BLOCK
        is_open = ~self.read(np.arange(self.size))
        assert (self.blocks[blocks[is_open]] <= keys[is_open]).all()


class Part(NamedTuple):
    """Some rows of others' marks: those named, or a stretch of them."""

    marks: SomeMarks
    rows: Positions | slice

    def __len__(self) -> int:
        rows = self.rows
        return rows.stop - rows.start if isinstance(rows, slice) else rows.size

    def held(self, rows: Positions | RowIds) -> Positions | RowIds:
        """Return where rows are held."""
        if not isinstance(self.rows, slice):
            return self.rows[rows]
        return rows + self.rows.start if self.rows.start else rows


class MarksOf:
    """The marks of some rows of others; ``parts`` are one after the other."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.ends = np.cumsum([0, *map(len, parts)])

    @classmethod
    def select(cls, marks: SomeMarks, rows: Positions | slice) -> "MarksOf":
        """Return the marks of some rows; a slice has both of its ends."""
        return cls([Part(marks, rows)])

    @classmethod
    def concatenate(cls, every: Sequence[SomeMarks]) -> "MarksOf":
        """Put marks one after the other."""
        return cls([Part(marks, slice(0, len(marks))) for marks in every])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def _split(
        self, rows: Positions | RowIds
    ) -> Iterator[tuple[SomeMarks, Positions | RowIds, Positions]]:
        """Yield the marks of each part, its rows among these, and their places."""
        for number, part in enumerate(self.parts):
            first, end = self.ends[number], self.ends[number + 1]
            places = np.flatnonzero((rows >= first) & (rows < end))
            yield part.marks, part.held(rows[places] - first), places

    def _read(self, rows: Positions | RowIds, name: str) -> Flags:
        if len(self.parts) == 1:
            [part] = self.parts
            return getattr(part.marks, name)(part.held(rows))
        flags = np.empty(rows.size, np.bool_)
        for marks, held, places in self._split(rows):
            flags[places] = getattr(marks, name)(held)
        return flags

    def read(self, rows: Positions | RowIds) -> Flags:
        """Return which rows are settled."""
        return self._read(rows, "read")

    def read_early(self, rows: Positions | RowIds) -> Flags:
        """Return whose patience has run out."""
        return self._read(rows, "read_early")

    def list_open(self) -> Positions:
        """Return the rows of which nothing was given so far."""
        rows = np.arange(len(self))
        return rows[~(self.read(rows) | self.read_early(rows))]

    def settle(self, rows: Positions | RowIds) -> Positions:
        """Settle rows where they are held; return the places of those that were not settled."""
        if len(self.parts) == 1:
            [part] = self.parts
            return part.marks.settle(part.held(rows))
        fresh = [places[marks.settle(held)] for marks, held, places in self._split(rows)]
        return np.concatenate([np.empty(0, np.int64), *fresh])

    def unsettle(self, rows: Positions | RowIds) -> None:
        """Take that back."""
        for marks, held, _ in self._split(rows):
            marks.unsettle(held)
