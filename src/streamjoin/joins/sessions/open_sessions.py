"""The open sessions, kept up to date as rows arrive: they grow, merge and end.

A session has an id and three numbers, and a hash table gives the newest session of each group. The
others of the group follow in a list that descends in time, because most new rows belong to the
newest session, or to a new one::

    gap = 10                 group a: 0 1 2 3 4    50 51 52         group b: 7
    id     0      1     2
    first  0      7    50    newest     a -> 2, b -> 1
    last   4      7    52
    older  none   none  0    a: 2 -> 0

`plan` works out what new rows change (`merging`), without changing anything; `apply` carries it
out. When two sessions become one, it keeps the id of the newer one. Ids stay the same until
`compact`, and those of sessions that are gone are not reused before that.

The order in which sessions end has nothing to do with their ids. Looking at all of them for each
watermark would cost O(sessions). So a zone of 64 neighbouring ids has a lower bound of their last
times, and only zones whose bound has been passed are looked at. Last times only grow, so a bound
stays valid; looking at a zone makes its bound exact.

Invariants:

1. Each session that is not gone is in the list of one group, once. A list ends before a session
   that has ended, because all older ones have ended, too.
2. Lists descend: the pause to the next older session of the group is longer than the gap.
3. ``first <= last``; both are times of rows.
4. A zone's bound is not above the last time of any session in it that is not gone.

Cost: `plan` and `apply` O(rows), and O(1) per session met. `find_ended` looks at all bounds, and at
the 64 sessions of each zone in which one may have ended: at worst at all of them, a nanosecond
each. When most ids are gone, they are renumbered in O(sessions), so O(1) per session that goes.
"""

import numpy as np

from streamjoin.joins.sessions.cutting import LARGEST_PAUSE, session_starts
from streamjoin.joins.sessions.group_table import NONE, GroupTable
from streamjoin.joins.sessions.merging import GONE, Change, Table, groups_of, sweep, write
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Int, Keys, copy_into, kernel
from streamjoin.plans.limits import DEFAULT_LIMITS, Limits

ZONE_BITS = 6


def make_table(size: int) -> Table:
    """Make room for sessions."""
    return Table(*(np.full(size, GONE) for _ in Table._fields))


@kernel
def lower_bounds(ids: Keys, lasts: Keys, bounds: Keys) -> None:
    """Lower the bounds of zones to the last times of changed sessions."""
    for i in range(ids.size):
        zone = ids[i] >> ZONE_BITS
        bounds[zone] = min(bounds[zone], lasts[i])


@kernel
def look_at(table: Table, zone: Int, bounds: Keys) -> None:
    """Make the bound of a zone exact."""
    lasts, olders, least = table.lasts, table.olders, MAX_KEY
    for session in range(zone << ZONE_BITS, min((zone + 1) << ZONE_BITS, lasts.size)):
        if olders[session] != GONE:
            least = min(least, lasts[session])
    bounds[zone] = least


@kernel
def scan_ended(table: Table, bounds: Keys, before: Int) -> Keys:
    """Return the sessions whose last time is before another, in the order of their ids."""
    lasts, olders = table.lasts, table.olders
    found, count = np.empty(1 << ZONE_BITS, np.int64), 0
    for zone in range(bounds.size):
        if bounds[zone] >= before:
            continue
        look_at(table, zone, bounds)
        if found.size - count < 1 << ZONE_BITS:
            found = np.append(found, np.empty_like(found))
        for session in range(zone << ZONE_BITS, min((zone + 1) << ZONE_BITS, lasts.size)):
            if olders[session] != GONE and lasts[session] < before:
                found[count] = session
                count += 1
    return found[:count].copy()


@kernel
def mark_gone(table: Table, sessions: Keys, bounds: Keys) -> None:
    """Mark sessions that have ended; they are given in ascending order."""
    olders = table.olders
    for i in range(sessions.size):
        olders[sessions[i]] = GONE
    for i in range(sessions.size):
        zone = sessions[i] >> ZONE_BITS
        if i == 0 or sessions[i - 1] >> ZONE_BITS != zone:
            look_at(table, zone, bounds)


class OpenSessions:
    """See the module docstring; ``gap`` is the longest pause inside a session."""

    def __init__(self, gap: int, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.gap = np.uint64(min(gap, LARGEST_PAUSE))
        self.newest = GroupTable()  # by group; if none is open, one that is gone
        self.table, self.bounds = make_table(0), np.empty(0, np.int64)
        self.size, self.count = 0, 0  # ids in use, and sessions that are not gone

    def __len__(self) -> int:
        return self.count

    def newest_open(self, groups: Keys) -> Keys:
        """Return the newest session of each group that is open, or NONE."""
        found = self.newest.find(groups)
        known = np.flatnonzero(found != NONE)
        found[known[self.table.olders[found[known]] == GONE]] = NONE
        return found

    def plan(self, groups: Keys, times: Keys) -> Change:
        """Return what rows would change; valid until the next change."""
        found = session_starts(groups, times, int(self.gap))
        of_sessions = groups_of(found.of_rows, groups, found.firsts.size)
        change = sweep(
            self.table,
            self.size,
            self.newest.find(of_sessions),
            of_sessions,
            (found.firsts, found.lasts),
            self.gap,
        )
        return change._replace(of_rows=change.of_rows[found.of_rows])

    def apply(self, change: Change) -> None:
        """Carry out what `plan` has returned."""
        if not change.ids.size:
            return
        self.count += change.ids.size - change.met.size
        self._grow(max(self.size, int(change.ids.max()) + 1))
        write(change, self.table)
        lower_bounds(change.ids, change.table.lasts, self.bounds)
        heads = np.flatnonzero(np.append(True, change.groups[1:] != change.groups[:-1]))
        if not self.newest.has_room(heads.size):
            gone = self.table.olders[: self.size] == GONE
            self.newest.renew(np.where(gone, NONE, np.arange(self.size)), heads.size)
        self.newest.put(change.groups[heads], change.ids[heads])

    def find_ended(self, before: int) -> Keys:
        """Return the sessions whose last time is before another, in the order of their ids."""
        if before > MAX_KEY:
            return np.flatnonzero(self.table.olders[: self.size] != GONE)
        return scan_ended(self.table, self.bounds, max(before, MIN_KEY))

    def expire(self, sessions: Keys) -> None:
        """Forget sessions that have ended, all that `find_ended` gives."""
        mark_gone(self.table, sessions, self.bounds)
        self.count -= sessions.size

    def compact(self) -> Keys | None:
        """Renumber the sessions if most ids are gone.

        Returns the old ids of all sessions, in the order of the new ones, or None if nothing
        changed.
        """
        gone = self.size - self.count
        if 2 * gone <= self.size or (gone < self.limits.most_gone and self.count):
            return None
        kept = np.flatnonzero(self.table.olders[: self.size] != GONE)
        renumbered = np.full(self.size + 1, NONE)  # the last place is that of NONE
        renumbered[kept] = np.arange(kept.size)
        firsts, lasts, olders = (column[kept] for column in self.table)
        self.table = Table(firsts, lasts, renumbered[olders])
        self.newest.renew(renumbered)
        self.size = kept.size
        self.bounds = np.full(-(-self.size >> ZONE_BITS), MAX_KEY)
        lower_bounds(np.arange(self.size), lasts, self.bounds)
        return kept

    def _grow(self, size: int) -> None:
        """Make room for ``size`` ids."""
        if size > self.table.lasts.size:
            old, self.table = self.table, make_table(max(size, 2 * self.table.lasts.size))
            copy_into(old, self.table)
            zones = -(-self.table.lasts.size >> ZONE_BITS)
            self.bounds = np.append(self.bounds, np.full(zones - self.bounds.size, MAX_KEY))
        self.size = size

    @property
    def first_last(self) -> int:
        """A lower bound of the last times of all sessions."""
        return int(self.bounds.min()) if self.bounds.size else MAX_KEY

    @property
    def span(self) -> tuple[int, int] | None:
        """The least first time and the least last time, None if there are none; O(sessions)."""
        kept = self.table.olders[: self.size] != GONE
        if not self.count:
            return None
        firsts, lasts = (column[: self.size][kept] for column in self.table[:2])
        return int(firsts.min()), int(lasts.min())

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers and of the hash table."""
        columns = (*self.table, self.bounds)
        return self.newest.nbytes + sum(column.nbytes for column in columns)

    def check(self) -> None:
        """Raise unless all invariants hold."""
        self.newest.check()
        firsts, lasts, olders = (column[: self.size].tolist() for column in self.table)
        alive = {session for session in range(self.size) if olders[session] != GONE}
        listed = []
        for head in self.newest.numbers.tolist():
            session, later = head, None
            while session in alive:
                assert later is None or firsts[later] - lasts[session] > int(self.gap), "2"
                listed.append(session)
                later, session = session, olders[session]
        assert sorted(listed) == sorted(alive), "1"
        assert len(alive) == self.count, "1"
        for session in alive:
            assert firsts[session] <= lasts[session], "3"
            assert self.bounds[session >> ZONE_BITS] <= lasts[session], "4"
