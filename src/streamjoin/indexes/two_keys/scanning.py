"""Matches by a scan: compares the places of the second range with the ends of the first.

For a few probes, marking would cost more than comparing the places themselves, with SIMD. A *zone*
of places is skipped if its least and greatest place show that none can match; where both keys grow
together, that is most zones. If they show that all match, the zone is counted without a scan.
"""

from typing import NamedTuple

import numpy as np

from streamjoin.indexes.two_keys.marking import FRESH
from streamjoin.indexes.two_keys.places import Sought
from streamjoin.kernels.compile import Int, Positions, RowIds, bare, inlined

ZONE = 1024  # places that are compared before any row is written down
SLICE = 1 << 20  # zones before the next checkpoint: a fifth of a second


class Zones(NamedTuple):
    """The least and the greatest of every `ZONE` places."""

    least: RowIds
    greatest: RowIds


@bare
def note_zones(places: RowIds, zones: Zones) -> None:
    """Write the least and the greatest of every `ZONE` places."""
    for zone in range(zones.least.size):
        low, high = places[zone * ZONE], places[zone * ZONE]
        for i in range(zone * ZONE, min((zone + 1) * ZONE, places.size)):
            low, high = min(low, places[i]), max(high, places[i])
        zones.least[zone], zones.greatest[zone] = low, high


def find_zones(places: RowIds) -> Zones:
    """Return the zones of a permutation."""
    count = -(-places.size // ZONE)
    zones = Zones(np.empty(count, np.int32), np.empty(count, np.int32))
    note_zones(places, zones)
    return zones


@inlined
def count_inside(places: RowIds, first: Int, last: Int, low: Int, high: Int) -> Int:
    """Count the places of a zone from ``low`` to before ``high``; SIMD."""
    zone = places[first:last]  # with ``first`` in the index there would be no SIMD
    least, greatest, count = np.int32(low), np.int32(high - 1), np.int32(0)
    for i in range(zone.size):
        count += np.int32(zone[i] >= least) & np.int32(zone[i] <= greatest)
    return np.int64(count)


@bare
def list_scanned(
    rows: RowIds,
    places: RowIds,
    zones: Zones,
    sought: Sought,
    state: Positions,
    names: RowIds,
    found_probes: RowIds,
    found_rows: RowIds,
) -> int:
    """Write down matches zone by zone, while room and slice suffice; return how many.

    ``state`` says where to go on: the probe, and its next place.
    """
    count: Int = 0
    room, work = found_rows.size, 0
    probe, position = state[0], state[1]
    while probe < sought.lows.size and work < SLICE:
        low, high = sought.lows[probe], sought.highs[probe]
        stop = sought.stops[probe] if low < high else np.int64(0)
        first = sought.starts[probe] if position == FRESH else position
        while first < stop:
            zone = first // ZONE
            last = min(stop, (zone + 1) * ZONE)
            if zones.least[zone] < high and zones.greatest[zone] >= low:
                if count + ZONE > room:
                    state[0], state[1] = probe, first
                    return count
                before = count
                if count_inside(places, first, last, low, high) > 0:
                    for i in range(first, last):
                        place = places[i]
                        found_rows[np.uint64(count)] = place
                        count += np.int64(place >= low) & np.int64(place < high)
                for i in range(before, count):
                    found_probes[i] = names[probe]
                    found_rows[i] = rows[found_rows[i]]
            first = last
            work += 1
        probe += 1
        work += 1
        position = np.int64(FRESH)
    state[0], state[1] = probe, position
    return count


@bare
def count_scanned(
    places: RowIds, zones: Zones, sought: Sought, probe: Int, lengths: Positions
) -> int:
    """Count the matches of probes, zone by zone; return the probe to go on with."""
    work: Int = 0
    while probe < sought.lows.size and work < SLICE:
        low, high = sought.lows[probe], sought.highs[probe]
        first, stop = sought.starts[probe], sought.stops[probe]
        if low >= high:
            stop = first
        count: Int = 0
        while first < stop:
            zone = first // ZONE
            last = min(stop, (zone + 1) * ZONE)
            if zones.least[zone] >= low and zones.greatest[zone] < high:
                count += last - first
            elif zones.least[zone] < high and zones.greatest[zone] >= low:
                count += count_inside(places, first, last, low, high)
            first = last
            work += 1
        lengths[probe] = count
        work += 1
        probe += 1
    return probe


@bare
def count_zones(zones: Zones, sought: Sought, step: int) -> tuple[int, int]:
    """Count the zones that a scan for every ``step``-th probe looks at, and those it scans."""
    seen = scanned = 0
    for probe in range(0, sought.lows.size, step):
        low, high = sought.lows[probe], sought.highs[probe]
        start, stop = sought.starts[probe], sought.stops[probe]
        if low < high and start < stop:
            first, last = start // ZONE, (stop - 1) // ZONE + 1
            seen += last - first
            for zone in range(first, last):
                scanned += (zones.least[zone] < high) & (zones.greatest[zone] >= low)
    return seen, scanned
