"""A hash table that maps each group to a number, such as its newest session.

::

    slots    group 7 | number 4      linear probing by a secret hash, at most two thirds full
             empty   | none
             group 9 | number 1

A group's number can change, but a group cannot be removed: the owner, who knows which numbers still
count, rebuilds the table from those (`GroupTable.renew`).

Invariants:

1. A group is in at most one slot, and no slot is empty between that one and its hash's.
2. ``used`` counts the slots that are not empty; they are at most two thirds of all.

Cost: O(1) per group, amortised; 16 bytes per slot. At most half of a rebuilt table is used.
"""

import numpy as np

from streamjoin.kernels.compile import Int, Keys, Positions, inlined, kernel
from streamjoin.kernels.prefetch import AHEAD, prefetch
from streamjoin.keys.hashing import Secrets, mix_secretly, process_seed, secrets_of

NONE = -1
SLOT = 2  # numbers per slot: the group, and its number or NONE
FEWEST_SLOTS = 1 << 6  # if there are any


@inlined
def home_of(slots: Keys, secrets: Secrets, group: Int) -> Int:
    """Return where a group's slot is unless another group has taken it."""
    return SLOT * (mix_secretly(group, secrets) & (slots.size // SLOT - 1))


@inlined
def ask_for(slots: Keys, secrets: Secrets, groups: Keys, place: Int) -> None:
    """Prefetch the slot of a group; past the end, that of the last group."""
    prefetch(slots, home_of(slots, secrets, groups[min(place, groups.size - 1)]))


@inlined
def slot_of(slots: Keys, secrets: Secrets, group: Int) -> Int:
    """Return the place of a group's slot, or of the empty slot it would take."""
    at = home_of(slots, secrets, group)
    while slots[at + 1] != NONE and slots[at] != group:
        at = (at + SLOT) & (slots.size - 1)
    return at


@kernel
def look_up(slots: Keys, secrets: Secrets, groups: Keys) -> Keys:
    """Return the number of each group, or NONE; look up equal neighbours only once."""
    found = np.empty_like(groups)
    for i in range(groups.size):
        ask_for(slots, secrets, groups, i + AHEAD)
        if i > 0 and groups[i] == groups[i - 1]:
            found[i] = found[i - 1]
        else:
            found[i] = slots[slot_of(slots, secrets, groups[i]) + 1]
    return found


@kernel
def put(slots: Keys, secrets: Secrets, groups: Keys, numbers: Keys) -> int:
    """Set the numbers of groups; return how many groups are new. There must be room."""
    new = 0
    for i in range(groups.size):
        ask_for(slots, secrets, groups, i + AHEAD)
        at = slot_of(slots, secrets, groups[i])
        new += slots[at + 1] == NONE
        slots[at], slots[at + 1] = groups[i], numbers[i]
    return new


@kernel
def claim(slots: Keys, secrets: Secrets, groups: Keys) -> Positions:
    """Number each group by the first place where it occurs; return that number per place."""
    firsts = np.empty_like(groups)
    for i in range(groups.size):
        ask_for(slots, secrets, groups, i + AHEAD)
        at = slot_of(slots, secrets, groups[i])
        if slots[at + 1] == NONE:
            slots[at], slots[at + 1] = groups[i], i
        firsts[i] = slots[at + 1]
    return firsts


@kernel
def count_kept(slots: Keys, renumbered: Keys) -> int:
    """Count the groups whose number does not become NONE."""
    count = 0
    for at in range(0, slots.size, SLOT):
        count += slots[at + 1] != NONE and renumbered[slots[at + 1]] != NONE
    return count


@kernel
def move(old: Keys, renumbered: Keys, slots: Keys, secrets: Secrets) -> None:
    """Copy the groups whose number does not become NONE into an empty table."""
    for at in range(0, old.size, SLOT):
        if old[at + 1] != NONE and renumbered[old[at + 1]] != NONE:
            to = slot_of(slots, secrets, old[at])
            slots[to], slots[to + 1] = old[at], renumbered[old[at + 1]]


class GroupTable:
    """See the module docstring."""

    def __init__(self, room: int = 0) -> None:
        count = FEWEST_SLOTS if room else 0
        while count < 2 * room:
            count *= 2
        self.slots = np.full(SLOT * count, NONE)
        self.secrets = secrets_of(process_seed(), "groups")
        self.used = 0

    @property
    def groups(self) -> Keys:
        """The groups of all slots that are not empty."""
        return self.slots[::SLOT][self.slots[1::SLOT] != NONE]

    @property
    def numbers(self) -> Keys:
        """The numbers of `groups`."""
        numbers = self.slots[1::SLOT]
        return numbers[numbers != NONE]

    def find(self, groups: Keys) -> Keys:
        """Return the number of each group, or NONE."""
        return (
            look_up(self.slots, self.secrets, groups) if self.used else np.full(groups.size, NONE)
        )

    def has_room(self, count: int) -> bool:
        """Whether there is room for ``count`` new groups."""
        return 3 * (self.used + count) <= self.slots.size  # that is, two thirds of the slots

    def put(self, groups: Keys, numbers: Keys) -> None:
        """Set the numbers, from 0 on, of groups; see `has_room`."""
        assert self.has_room(groups.size)
        self.used += put(self.slots, self.secrets, groups, numbers)

    def renew(self, renumbered: Keys, room: int = 0) -> None:
        """Rebuild the table: number n becomes ``renumbered[n]``, and is dropped if that is NONE.

        Leaves room for ``room`` more groups. O(slots).
        """
        used = count_kept(self.slots, renumbered)
        slots = GroupTable(used + room).slots
        move(self.slots, renumbered, slots, self.secrets)
        self.slots, self.used = slots, used

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return self.slots.nbytes

    def check(self) -> None:
        """Raise unless all invariants hold."""
        groups, numbers = self.groups, self.numbers
        assert np.unique(groups).size == groups.size, "1: a group is there twice"
        assert np.array_equal(self.find(groups), numbers), "1: out of reach"
        assert self.used == groups.size, "2"
        assert self.has_room(0), "2: too full"


def first_places(groups: Keys) -> Positions:
    """Return, for each place, the first place with the same group.

    >>> first_places(np.array([7, 9, 7, 8, 9]))
    array([0, 1, 0, 3, 1])
    """
    if not groups.size:
        return groups
    table = GroupTable(groups.size)
    return claim(table.slots, table.secrets, groups)
