"""The slots of a hash table of codes, which grows in small steps, so that no insert takes long.

A slot has a code, how many tuples have it, and the latest of them (`code_table`). The last bits of
a code give its slot; if that is taken, the code goes to the next free one (linear probing).

Moving all slots into a larger table at once takes 13 ms for a million codes, while new rows wait.
So both tables are kept, and each insert first moves some slots. What belongs to one slot may belong
to one in each ``part`` of the larger table; a part has as many slots as the small table. Moving
begins at ``origin``, after an empty slot, and wraps around; in each part, only as many slots are
cleared as may be looked at (drawn with origin 0)::

    small    .  .  .  .  18 25 .  27     moved 4
    slots    .  11 .  03 .  ?  ?  ?      .  .  02 .  .  ?  ?  ?      cleared 5, in two parts

    a code that belongs to the first 4 small slots is in ``slots``, any other one in ``small``

Invariants, asserted by ``check_slots``:
    1. A code has one slot: in ``slots`` if its slot in ``small`` has been moved, or if there is no
       small table; otherwise in ``small``. No slot is empty between it and where it belongs.
    2. While the table grows, the last cleared slot of a part is empty: no search goes beyond it.
Moved codes leave empty slots, so clusters that wrap around the end find room there.
Costs: O(1) per code; while the table grows, that includes looking at `MOVES` small slots.
"""

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import Int, Positions, inlined, kernel
from streamjoin.kernels.prefetch import prefetch

Slots = NDArray[np.uint32]  # four numbers per slot
SLOT = 4
CODE, TUPLES, LATEST = 0, 1, 2  # the numbers of a slot; the fourth is unused
ORIGIN, MOVED, CLEARED = (
    0,
    1,
    2,
)  # what ``growth`` has, counted in slots, the last two from the first on
MOVES = 16  # slots per inserted tuple, so that a half-full table is moved in time
LEAST_CLEARED, CLEARED_AT_ONCE = 64, 1024  # slots of a part beyond the moved ones


def reserve_slots(count: int) -> Slots:
    """Allocate ``count`` slots, a power of two, without clearing them."""
    return np.empty(SLOT * count, np.uint32)  # np.zeros would use small pages


def make_slots(count: int) -> Slots:
    """Allocate ``count`` slots, and clear them."""
    slots = reserve_slots(count)
    slots.fill(0)
    return slots


@inlined
def home_of(slots: Slots, code: Int) -> Int:
    """Return the place of the slot that a code belongs to."""
    return (np.int64(code) * SLOT) & (slots.size - 1)


@inlined
def slot_of(slots: Slots, code: Int) -> Int:
    """Return the place of a code's slot, or of the empty slot it would take."""
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
    """Clear at least ``count`` slots of each part, from the origin on; never fewer than before."""
    first, end = growth[CLEARED], min(max(count, growth[CLEARED]), small.size // SLOT)
    begin, size = (SLOT * (growth[ORIGIN] + first)) & (small.size - 1), SLOT * (end - first)
    before_wrap = min(size, small.size - begin)
    for part in range(0, slots.size, small.size):
        slots[part + begin : part + begin + before_wrap] = 0
        slots[part : part + size - before_wrap] = 0
    growth[CLEARED] = end


@inlined
def keep_clear(slots: Slots, small: Slots, growth: Positions, at: Int) -> None:
    """Clear more slots if the last cleared one of a part has been taken."""
    place = (at // SLOT - growth[ORIGIN]) & (small.size // SLOT - 1)
    if place == growth[CLEARED] - 1:
        clear_until(slots, small, growth, growth[CLEARED] + LEAST_CLEARED)


@kernel
def first_after_empty(slots: Slots) -> int:
    """Return the slot after the first empty one, where moving begins."""
    at = 0
    while slots[at + TUPLES] != 0:
        at += SLOT
    return (at // SLOT + 1) & (slots.size // SLOT - 1)


@kernel
def move_some(small: Slots, slots: Slots, growth: Positions, count: Int) -> bool:
    """Move at least ``count`` small slots, up to the end of a cluster; tell if all are moved."""
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
