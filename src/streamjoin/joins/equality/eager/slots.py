"""The slots of a hash table of codes, which grows little by little, so that nobody waits for it.

A slot has a code, how many tuples have it, and the latest of them (`code_table`). A code belongs to
the slot that its last bits tell; if that is taken, to the next one that is not (linear probing).

To move all slots into a larger table at once takes 13 ms for a million codes, and rows that come
meanwhile wait. So both are kept, and each insert moves some slots over first. What belongs to one
slot may belong to one in each ``part`` of the larger table, which has as many slots as the small
one. All of it begins at ``origin``, behind an empty slot, and goes round; and as much of each part
is cleared as may be looked at (drawn with origin 0)::

    small    .  .  .  .  18 25 .  27     moved 4
    slots    .  11 .  03 .  ?  ?  ?      .  .  02 .  .  ?  ?  ?      cleared 5, in two parts

    a code that belongs to the first 4 small slots is in ``slots``, any other one in ``small``

Invariants, asserted by ``check_slots``:
    1. A code has one slot: in ``slots`` if what it belongs to in ``small`` has been moved, or if
       there is none; otherwise in ``small``. No slot is empty between it and where it belongs.
    2. While it grows, the last slot that is cleared of a part is empty: nobody looks beyond it.
What is moved has left empty slots, so clusters that go round the end find room there.
Costs: O(1) for a code that comes; of it, `MOVES` small slots are looked at while the table grows.
"""

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import Int, Positions, inlined, kernel
from streamjoin.kernels.prefetch import prefetch

Slots = NDArray[np.uint32]  # four numbers a slot
SLOT = 4
CODE, TUPLES, LATEST = 0, 1, 2  # the numbers of a slot; the fourth is nothing
ORIGIN, MOVED, CLEARED = (
    0,
    1,
    2,
)  # what ``growth`` has, counted in slots, the last two from the first on
MOVES = 16  # slots for each tuple that comes: a table that is half full is moved in time
LEAST_CLEARED, CLEARED_AT_ONCE = 64, 1024  # slots of a part beyond those that are moved


def reserve_slots(count: int) -> Slots:
    """Allocate so many slots, a power of two, which are not cleared."""
    return np.empty(SLOT * count, np.uint32)  # zeros would have small pages


def make_slots(count: int) -> Slots:
    """Allocate so many slots, and clear them."""
    slots = reserve_slots(count)
    slots.fill(0)
    return slots


@inlined
def home_of(slots: Slots, code: Int) -> Int:
    """Return where the slot is that a code belongs to."""
    return (np.int64(code) * SLOT) & (slots.size - 1)


@inlined
def slot_of(slots: Slots, code: Int) -> Int:
    """Return where the slot of a code is, or the empty one where it belongs."""
    at = home_of(slots, code)
    while slots[at + TUPLES] != 0 and slots[at + CODE] != code:
        at = (at + SLOT) & (slots.size - 1)
    return at


@inlined
def is_moved(code: Int, small: Slots, growth: Positions) -> bool:
    """Whether a code is in ``slots``, if anywhere, and not in ``small``."""
    place = (home_of(small, code) // SLOT - growth[ORIGIN]) & (small.size // SLOT - 1)
    return place < growth[MOVED]


@inlined
def ask_for(code: Int, small: Slots, slots: Slots, growth: Positions) -> None:
    """Prefetch the slot of a code."""
    if is_moved(code, small, growth):
        prefetch(slots, home_of(slots, code))
    else:
        prefetch(small, home_of(small, code))


@inlined
def clear_until(slots: Slots, small: Slots, growth: Positions, count: Int) -> None:
    """Clear at least so many slots of each part, from the origin on; never less than before."""
    first, end = growth[CLEARED], min(max(count, growth[CLEARED]), small.size // SLOT)
    begin, size = (SLOT * (growth[ORIGIN] + first)) & (small.size - 1), SLOT * (end - first)
    before_wrap = min(size, small.size - begin)
    for part in range(0, slots.size, small.size):
        slots[part + begin : part + begin + before_wrap] = 0
        slots[part : part + size - before_wrap] = 0
    growth[CLEARED] = end


@inlined
def keep_clear(slots: Slots, small: Slots, growth: Positions, at: Int) -> None:
    """Clear more, if the last slot that is cleared of a part has been taken."""
    place = (at // SLOT - growth[ORIGIN]) & (small.size // SLOT - 1)
    if place == growth[CLEARED] - 1:
        clear_until(slots, small, growth, growth[CLEARED] + LEAST_CLEARED)


@kernel
def first_after_empty(slots: Slots) -> int:
    """Return the slot behind the first empty one: what is moved begins there."""
    at = 0
    while slots[at + TUPLES] != 0:
        at += SLOT
    return (at // SLOT + 1) & (slots.size // SLOT - 1)


@kernel
def move_some(small: Slots, slots: Slots, growth: Positions, count: Int) -> bool:
    """Move as many small slots or more, up to the end of a cluster; tell whether all are moved."""
    last, place = small.size // SLOT, growth[MOVED]
    end = min(place + count, last)
    while True:
        at = SLOT * ((growth[ORIGIN] + place) & (last - 1))
        if small[at + TUPLES] == 0:
            if place >= end:
                break
        else:
            if place + LEAST_CLEARED >= growth[CLEARED]:
                clear_until(slots, small, growth, place + CLEARED_AT_ONCE)
            to = slot_of(slots, small[at + CODE])
            slots[to + CODE], slots[to + TUPLES] = small[at + CODE], small[at + TUPLES]
            slots[to + LATEST] = small[at + LATEST]
            small[at + TUPLES] = 0
            keep_clear(slots, small, growth, to)
        place += 1
    clear_until(slots, small, growth, place + LEAST_CLEARED)
    growth[MOVED] = min(place, last)
    return growth[MOVED] == last


def check_slots(small: Slots, slots: Slots, growth: Positions) -> dict[int, tuple[int, int]]:
    """Assert the invariants, and return each code's number of tuples and the latest."""
    found: dict[int, tuple[int, int]] = {}
    is_clear = cleared_of(small, slots, growth)
    for table in (small, slots):
        taken = table.reshape(-1, SLOT)[:, TUPLES] != 0
        if table is slots:
            taken &= is_clear
        for slot in np.flatnonzero(taken).tolist():
            code, tuples, latest, _ = table.reshape(-1, SLOT)[slot].tolist()
            assert code not in found, "1: a code has two slots"
            if small.size:
                assert is_moved(np.uint32(code), small, growth) == (table is slots), "1: misplaced"
            assert slot_of(table, np.uint32(code)) == SLOT * slot, "1: out of reach"
            found[code] = tuples, latest
    if not is_clear.all():
        edge = (growth[ORIGIN] + growth[CLEARED] - 1) & (small.size // SLOT - 1)
        assert not slots.reshape(-1, SLOT)[edge :: small.size // SLOT, TUPLES].any(), "2"
    return found


def cleared_of(small: Slots, slots: Slots, growth: Positions) -> NDArray[np.bool_]:
    """Return which slots are cleared."""
    count = slots.size // SLOT
    if not small.size:
        return np.ones(count, np.bool_)
    places = (np.arange(count) - growth[ORIGIN]) & (small.size // SLOT - 1)
    return places < growth[CLEARED]
