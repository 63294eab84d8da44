"""Crossings: the tuples that lie in two ranges at once, found on request.

A probe has a range of places by the first key and one by the second (`Sought`). The tuples of the
second range are in `Permutation.places`; those whose place lies in the first range match. They are
found by marks (`marking`) or, if there is little to look at, by a scan (`scanning`). Rows are
written in blocks of bounded size; counting writes none at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streamjoin.indexes.two_keys.bitmap import make_bitmap, make_counts
from streamjoin.indexes.two_keys.marking import FRESH, count_marked, list_marked
from streamjoin.indexes.two_keys.places import Sought
from streamjoin.indexes.two_keys.scanning import (
    ZONE,
    Zones,
    count_scanned,
    count_zones,
    list_scanned,
)
from streamjoin.kernels.compile import Flags, Positions, RowIds
from streamjoin.kernels.interrupts import checkpoint

EXPECTED_MATCHES = 64  # per probe, for which the first block has room
FIRST_ROWS, GROWTH = 4096, 8  # least room of the first block, and how much larger the next one is
SAMPLED_PROBES = 32  # from which the cost of a scan is estimated
SCAN_PLACE_NS, SCAN_ZONE_NS = 0.2, 1.0  # per place compared, and per zone looked at
MARK_TUPLE_NS, FIND_MARKS_NS = 1.5, 50.0  # per mark, and to find the marks of one probe


@dataclass(frozen=True)
class Crossing:
    """What a batch of probes finds in a `Permutation`; the search runs only on request."""

    rows: RowIds
    places: RowIds
    zones: Zones
    sought: Sought

    @cached_property
    def scans(self) -> bool:
        """Whether a scan is likely to cost less than marking."""
        probes = self.sought.lows.size
        step = max(-(-probes // SAMPLED_PROBES), 1)
        seen, scanned = count_zones(self.zones, self.sought, step)
        scan = step * (SCAN_ZONE_NS * seen + SCAN_PLACE_NS * ZONE * scanned)
        return scan < MARK_TUPLE_NS * self.places.size + FIND_MARKS_NS * probes

    @cached_property
    def lengths(self) -> Positions:
        probes = self.sought.lows.size
        lengths = np.empty(probes, np.int64)
        marks = None if self.scans else make_counts(self.places.size)
        state = np.zeros(3, np.int64)
        while state[0] < probes:
            checkpoint()
            if marks is None:
                state[0] = count_scanned(self.places, self.zones, self.sought, state[0], lengths)
            else:
                count_marked(self.places, self.sought, marks, state, lengths)
        return lengths

    def __len__(self) -> int:
        return int(self.lengths.sum())

    def of(self, flags: Flags) -> "Crossing":
        return replace(self, sought=self.sought.of(flags))

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all matches in blocks of about ``size``: the probe's name or number, the row id.

        With few probes, the first blocks are smaller: fresh memory costs more than a search.
        """
        size, probes = max(size, ZONE), self.sought.lows.size
        room = min(size, max(FIRST_ROWS, EXPECTED_MATCHES * probes))
        if names is None:
            names = np.arange(probes, dtype=np.int32)
        state = np.array([0, FRESH, 0, 0])
        bitmap = None if self.scans else make_bitmap(self.places.size)
        while state[0] < probes:
            checkpoint()
            found = (np.empty(room, np.int32), np.empty(room, np.int32))
            told = (self.sought, state, names, *found)
            if bitmap is None:
                count = list_scanned(self.rows, self.places, self.zones, *told)
            else:
                count = list_marked(self.rows, self.places, self.sought, bitmap, *told[1:])
            room = min(size, GROWTH * room)
            if count:
                yield found[0][:count], found[1][:count]
