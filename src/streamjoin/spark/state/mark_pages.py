"""Which of a core's rows are settled, beside the segments, which never change.

Where it counts whether rows match, a core numbers the rows that it stores (in count windows, their
ordinals are their numbers). A bit tells for each number whether the row is settled, as those of
`plans.marks` do for the rows of an engine. The bits are kept in pages::

    numbers     0 .. 65 535    .. 131 071     .. 196 607
    page        (gone)         1              2             none: no row of it is settled
    state       marks-left-1-8f3a..           marks-left-2-c07e..

A micro-batch writes the pages in which a row was settled, under new ids, and removes what it
replaces, and the pages that have no row any more. An id contains a digest of the bits, as that of a
segment does, so ids tell whether an engine that a worker has kept knows what the state knows.
A row that is settled stays settled, so the bits of an earlier batch are a part of those of a later
one, and an engine that has more than the state has belongs to a task that failed.

Which rows were given early takes no bits: that follows from their times (`JoinCore._forget_early`).

Cost: 8 KB a page that has changed, and one bit a row in memory, beside the engine's own.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from streamjoin.errors import SnapshotError
from streamjoin.kernels.compile import Flags, Int, Keys, kernel
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES
from streamjoin.spark.state.digests import digest
from streamjoin.spark.state.segments import WAY_OUT, Manifest, Page
from streamjoin.spark.state.store import Store

PAGE_BITS = 16  # of a number; a page has 2 to that many rows
PAGE_BYTES = 1 << (PAGE_BITS - 3)
Bytes = NDArray[np.uint8]


@kernel
def set_numbers(bits: Bytes, base: Int, numbers: Keys, changed: Flags, page_bits: Int) -> None:
    """Set the bits of numbers, and note in which pages any was not set."""
    for number in numbers:
        place = number - base
        byte, mask = bits[place >> 3], np.uint8(1 << (place & 7))
        if not byte & mask:
            bits[place >> 3] = byte | mask
            changed[place >> page_bits] = True


@kernel
def read_numbers(bits: Bytes, base: Int, numbers: Keys) -> Flags:
    """Return the bits of numbers; those that no page has are not set."""
    flags = np.zeros(numbers.size, np.bool_)
    for i in range(numbers.size):
        place = numbers[i] - base
        if 0 <= place < 8 * bits.size:
            flags[i] = (bits[place >> 3] >> np.uint8(place & 7)) & 1
    return flags


class SideBook:
    """The pages of one side, from ``first`` on without a gap."""

    def __init__(self) -> None:
        self.first = 0
        self.bits: Bytes = np.empty(0, np.uint8)
        self.changed: Flags = np.empty(0, np.bool_)  # since they were written
        self.ids: dict[int, str] = {}  # of the pages that are in the state

    @property
    def base(self) -> int:
        """The first number of the first page."""
        return self.first << PAGE_BITS

    def page(self, number: int) -> Bytes:
        """Return the bits of a page, in place."""
        begin = (number - self.first) * PAGE_BYTES
        return self.bits[begin : begin + PAGE_BYTES]

    def make_room(self, first: int, last: int) -> None:
        """Have pages from ``first`` to ``last``."""
        if not self.changed.size:
            self.first = first
        before = max(self.first - first, 0)
        after = max(last + 1 - self.first - self.changed.size, 0)
        if before or after:
            self.first -= before
            self.bits = np.pad(self.bits, (before * PAGE_BYTES, after * PAGE_BYTES))
            self.changed = np.pad(self.changed, (before, after))

    def settle(self, numbers: Keys) -> None:
        """Note that rows are settled."""
        if numbers.size:
            self.make_room(int(numbers.min()) >> PAGE_BITS, int(numbers.max()) >> PAGE_BITS)
            set_numbers(self.bits, self.base, numbers, self.changed, PAGE_BITS)

    def keep(self, pages: set[int]) -> None:
        """Forget all pages but these: none must know more than what the state has.

        A page that no row is in may get new ones.
        """
        for number in range(self.first, self.first + self.changed.size):
            if number not in pages:
                self.page(number)[:] = 0
        last = self.first + self.changed.size
        first = min((each for each in pages if each >= self.first), default=last)
        if first > self.first:
            self.bits = self.bits[(first - self.first) * PAGE_BYTES :].copy()
            self.changed = self.changed[first - self.first :].copy()
            self.first = first
        self.ids = {number: id_ for number, id_ in self.ids.items() if number in pages}


class MarkBook:
    """The pages of both sides, as one engine knows them."""

    def __init__(self) -> None:
        self.sides: dict[Side, SideBook] = {side: SideBook() for side in SIDES}

    def settle(self, side: Side, every: Iterable[Keys]) -> None:
        """Note that rows are settled, given by their numbers."""
        for numbers in every:
            self.sides[side].settle(numbers)

    def read(self, side: Side, numbers: Keys) -> Flags:
        """Return which rows are settled."""
        book = self.sides[side]
        return read_numbers(book.bits, book.base, numbers)

    def catch_up(self, store: Store, manifest: Manifest) -> set[Side] | None:
        """Read what the state has and this has not; return the sides where there was anything.

        Returns None if this has bits that the state has not.
        """
        found: set[Side] = set()
        for side, book in self.sides.items():
            pages = {page.number: page for page in manifest.marks if page.side == side}
            if any(number not in pages for number in book.ids.keys() & find_live(manifest, side)):
                return None
            book.keep(set(pages))
            for number, page in pages.items():
                if book.ids.get(number) == page.id:
                    continue
                known = read_page(store, page)
                book.make_room(number, number)
                bits = book.page(number)
                if (bits & ~known).any():
                    return None
                bits[:] = known
                book.ids[number] = page.id
                found.add(side)
        return found

    def write(self, store: Store, manifest: Manifest, live: dict[Side, set[int]]) -> None:
        """Write the pages that have changed, and remove those that no live row is in."""
        kept = []
        for page in manifest.marks:
            book = self.sides[page.side]
            place = page.number - book.first
            is_live = page.number in live[page.side]
            if is_live and not book.changed[place]:
                kept.append(page)
            else:
                store.remove(page.id)
        for side, book in self.sides.items():
            for place in np.flatnonzero(book.changed).tolist():
                number = book.first + place
                if number in live[side]:
                    data = book.page(number).tobytes()
                    page = Page(f"marks-{side}-{number}-{digest(data)}", side, number)
                    store.write(page.id, data)
                    book.ids[number] = page.id
                    kept.append(page)
            book.changed[:] = False
            book.keep(live[side])
        manifest.marks = sorted(kept, key=lambda page: (page.side, page.number))


def find_live(manifest: Manifest, side: Side) -> set[int]:
    """Return the pages that a side's segments have rows of."""
    found: set[int] = set()
    for segment in manifest.of(side):
        for first, count in segment.runs:
            found |= pages_between(first, first + count)
    return found


def pages_between(first: int, end: int) -> set[int]:
    """Return the pages of the numbers from ``first`` on, before ``end``."""
    return set(range(first >> PAGE_BITS, ((end - 1) >> PAGE_BITS) + 1))


def remove_pages(store: Store, manifest: Manifest, live: dict[Side, set[int]]) -> None:
    """Remove the pages that no live row is in, without a look at the others."""
    for page in manifest.marks:
        if page.number not in live[page.side]:
            store.remove(page.id)
    manifest.marks = [each for each in manifest.marks if each.number in live[each.side]]


def read_page(store: Store, page: Page) -> Bytes:
    """Return the bits of a page, as they were written."""
    wanted = page.id.rpartition("-")[2]
    data = store.find_copy(page.id)
    if data is None or digest(data) != wanted:
        data = store.read(page.id)
    if data is None or digest(data) != wanted or len(data) != PAGE_BYTES:
        what = "is not there" if data is None else f"of {len(data)} bytes is not what was written"
        raise SnapshotError(
            f"{page.id}, which tells which rows had matches, {what}: the checkpoint is damaged; "
            f"{WAY_OUT}"
        )
    return np.frombuffer(data, np.uint8)
