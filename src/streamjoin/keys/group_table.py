"""A hash table of groups: for each group a number, such as the newest session it has.

::

    slots    group 7 | number 4      linear probing, at most half full
             empty   | none
             group 9 | number 1

A number can be changed, and a group cannot be taken out: who knows which numbers still count makes
a table anew from those (`GroupTable.renew`).

Invariants:

1. A group is in one slot at most, and none is empty between that and where its hash belongs.
2. ``used`` counts the slots that are not empty; they are at most half of all.

Cost: O(1) each, amortised; 16 bytes a slot. After growing, a third of them or less is used.
"""

import numpy as np

from streamjoin.kernels import Int, Keys, kernel
from streamjoin.keys.hashing import mix

NONE = -1
FEWEST = 1 << 6  # slots, if there are any


@kernel
def slot_of(groups: Keys, numbers: Keys, group: Int) -> Int:
    """Return the slot of a group, or the empty one where it belongs."""
    mask = groups.size - 1
    slot = mix(group) & mask
    while numbers[slot] != NONE and groups[slot] != group:
        slot = (slot + 1) & mask
    return slot


@kernel
def look_up(groups: Keys, numbers: Keys, wanted: Keys) -> Keys:
    """Return the number of each group, or NONE; equal neighbours are looked up once."""
    found = np.empty_like(wanted)
    for i in range(wanted.size):
        if i > 0 and wanted[i] == wanted[i - 1]:
            found[i] = found[i - 1]
        else:
            found[i] = numbers[slot_of(groups, numbers, wanted[i])]
    return found


@kernel
def put(groups: Keys, numbers: Keys, new_groups: Keys, new_numbers: Keys) -> Int:
    """Set the numbers of groups; return how many groups are new. There must be room."""
    new = 0
    for i in range(new_groups.size):
        slot = slot_of(groups, numbers, new_groups[i])
        new += numbers[slot] == NONE
        groups[slot], numbers[slot] = new_groups[i], new_numbers[i]
    return new


class GroupTable:
    """See the module docstring."""

    def __init__(self, room: int = 0) -> None:
        slots = FEWEST if room else 0
        while slots < 3 * room:
            slots *= 2
        self.groups, self.numbers = np.zeros(slots, np.int64), np.full(slots, NONE)
        self.used = 0

    def find(self, groups: Keys) -> Keys:
        """Return the number of each group, or NONE."""
        if not self.used:
            return np.full(groups.size, NONE)
        return look_up(self.groups, self.numbers, groups)

    def has_room(self, count: int) -> bool:
        """Whether so many groups may be new."""
        return 2 * (self.used + count) <= self.groups.size

    def put(self, groups: Keys, numbers: Keys) -> None:
        """Set the numbers, from 0 on, of groups; see `has_room`."""
        assert self.has_room(groups.size)
        self.used += int(put(self.groups, self.numbers, groups, numbers))

    def renew(self, renumbered: Keys, room: int = 0) -> None:
        """Make the table anew: number n becomes ``renumbered[n]``, and goes if that is NONE.

        There is room for so many more groups; O(slots).
        """
        slots = np.flatnonzero(self.numbers != NONE)
        numbers = renumbered[self.numbers[slots]]
        kept = numbers != NONE
        other = GroupTable(int(np.count_nonzero(kept)) + room)
        other.put(self.groups[slots[kept]], numbers[kept])
        self.groups, self.numbers, self.used = other.groups, other.numbers, other.used

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return self.groups.nbytes + self.numbers.nbytes

    def check(self) -> None:
        """Raise unless all invariants hold."""
        slots = np.flatnonzero(self.numbers != NONE)
        groups = self.groups[slots]
        assert np.unique(groups).size == groups.size, "1: a group is there twice"
        for slot, group in zip(slots.tolist(), groups, strict=True):
            assert slot_of(self.groups, self.numbers, group) == slot, "1: out of reach"
        assert self.used == slots.size, "2"
        assert 2 * self.used <= self.groups.size, "2: too full"
