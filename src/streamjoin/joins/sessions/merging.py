"""Merges new rows into open sessions: which sessions grow, become one, or are new.

New rows are first cut into sessions among themselves. Those of a group ascend in time; the open
sessions of the group are a list that descends. Both are swept from the newest on, and sessions
within reach of each other become one::

    gap = 10, newest first
    come              80-85         61-62
    open      97-98         70-75           45-52     20-31
    then      97-98  |        45-85 (four)          | 20-31

Here 97-98 is met and stays as it is, and 20-31 is not looked at: the sweep of a group ends when no
new session is left and the next open session is out of reach. Nothing changes here: a `Change`
describes what would.

Cost: O(new rows), O(1) per group, and O(1) for each open session of these groups that the sweep
meets: those that grow, and those that are newer than a new row.
"""

from typing import NamedTuple

import numpy as np

from streamjoin.joins.sessions.group_table import NONE
from streamjoin.kernels.compile import Int, Keys, Positions, inlined, kernel
from streamjoin.kernels.prefetch import AHEAD, prefetch

GONE = -2  # in place of the next older session: this one has ended, or is part of another


class Table(NamedTuple):
    """Sessions by their ids: the first time, the last, and the next older session of the group.

    Arrays may be longer than what is used of them.
    """

    firsts: Keys
    lasts: Keys
    olders: Keys


class Change(NamedTuple):
    """What new rows change: each session that was met or is new, as it will be.

    Sessions of one group are neighbours, newest first; the session after the last of them was not
    met. An id that is not in use yet stands for a new session.
    """

    of_rows: Positions  # the place of each row's session below
    ids: Keys
    groups: Keys
    table: Table  # the sessions as they will be, in the order of ``ids``
    met: Keys  # the ids of sessions that were met
    into: Positions  # the place of the session that each of these becomes, or becomes part of


@inlined
def is_apart(first: Int, last: Int, gap: Int) -> bool:
    """Whether the pause from the ``last`` time of one to the ``first`` of another is too long."""
    # As uint64, the difference is exact over the range of int64.
    return first > last and np.uint64(first) - np.uint64(last) > gap


@inlined
def open_or_none(olders: Keys, session: Int) -> Int:
    """Return a session, or NONE if it has ended: so have all older ones of its group."""
    return NONE if session == NONE or olders[session] == GONE else session


@kernel
def groups_of(of_rows: Keys, groups: Keys, sessions: Int) -> Keys:
    """Return the group of each session."""
    found = np.empty(sessions, np.int64)
    for i in range(of_rows.size):
        found[of_rows[i]] = groups[i]
    return found


@kernel
def count_met(table: Table, newest: Keys, groups: Keys, firsts: Keys, gap: Int) -> Int:
    """Count the sessions that a sweep meets."""
    lasts, olders, count = table.lasts, table.olders, 0
    for at in range(groups.size):
        ahead = newest[min(at + AHEAD, groups.size - 1)]
        if ahead != NONE:
            prefetch(lasts, ahead)
            prefetch(olders, ahead)
        if at > 0 and groups[at] == groups[at - 1]:
            continue  # the first one of a group reaches furthest
        session = open_or_none(olders, newest[at])
        while session != NONE and not is_apart(firsts[at], lasts[session], gap):
            count += 1
            session = open_or_none(olders, olders[session])
    return count


@kernel
def sweep(
    table: Table, size: Int, newest: Keys, groups: Keys, coming: tuple[Keys, Keys], gap: Int
) -> Change:
    """Merge new sessions, given by their first and last times, into the open ones.

    ``newest`` are the newest sessions of the groups, and ``size`` is the first unused id.
    """
    firsts, lasts = coming
    old_firsts, old_lasts, olders = table
    most = count_met(table, newest, groups, firsts, gap)
    met, into = np.empty(most, np.int64), np.empty(most, np.int64)
    most += groups.size
    of_coming = np.empty(groups.size, np.int64)
    ids, group_of = np.empty(most, np.int64), np.empty(most, np.int64)
    then_first, then_last = np.empty(most, np.int64), np.empty(most, np.int64)
    then_older = np.empty(most, np.int64)
    at, count, count_of_met = groups.size - 1, 0, 0
    while at >= 0:
        group, session, begin = groups[at], open_or_none(olders, newest[at]), count
        while True:
            is_coming = at >= 0 and groups[at] == group
            if not is_coming and (
                session == NONE or is_apart(then_first[count - 1], old_lasts[session], gap)
            ):
                break
            is_coming = is_coming and (session == NONE or lasts[at] >= old_lasts[session])
            first = firsts[at] if is_coming else old_firsts[session]
            last = lasts[at] if is_coming else old_lasts[session]
            # Last times descend, so whatever is out of reach now stays out of reach.
            if count == begin or is_apart(then_first[count - 1], last, gap):
                then_first[count], then_last[count] = first, last
                ids[count], group_of[count] = NONE, group
                count += 1
            then_first[count - 1] = min(then_first[count - 1], first)
            if is_coming:
                of_coming[at] = count - 1
                at -= 1
            else:
                met[count_of_met], into[count_of_met] = session, count - 1
                count_of_met += 1
                if ids[count - 1] == NONE:
                    ids[count - 1] = session
                session = open_or_none(olders, olders[session])
        for i in range(count - 1, begin - 1, -1):
            if ids[i] == NONE:
                ids[i] = size
                size += 1
            then_older[i] = session
            session = ids[i]
    then = Table(then_first[:count], then_last[:count], then_older[:count])
    return Change(of_coming, ids[:count], group_of[:count], then, met, into)


@kernel
def write(change: Change, table: Table) -> None:
    """Write the sessions of a change into the table."""
    (firsts, lasts, olders), ids = table, change.ids
    met, into = change.met, change.into
    for i in range(met.size):
        if ids[into[i]] != met[i]:
            olders[met[i]] = GONE
    then_first, then_last, then_older = change.table
    for i in range(ids.size):
        session = ids[i]
        firsts[session], lasts[session] = then_first[i], then_last[i]
        olders[session] = then_older[i]
