"""Finds the group of a row: rows are in one group if all their equality keys are equal.

A single key that fits into 64 bits is its own group. Otherwise (several keys, strings) a group is
named by a hash, and two groups with the same hash must not become one: the rows of one would bridge
a pause of the other, and checking pairs cannot repair that. So each row is compared with the first
row of its name, among new and stored rows; if they differ, it gets the next name of a chain, as in
a hash table with open addressing::

    name   4C07 taken by ("a", 1)     ("b", 9) has the same hash
           91E2 = mix(4C07 + 1)       so this is its name

A name that was passed over stays with its first owner, even when none of its rows is left:
otherwise other groups would change names while their sessions are open.

Cost: O(1) per row: a lookup in a hash table, and a comparison of keys. Names are passed over once
in 2^64 pairs of groups, and an attacker cannot find such keys, since hashes are secret
(`keys.hashing`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.joins.sessions.group_table import first_places
from streamjoin.joins.sessions.open_sessions import OpenSessions
from streamjoin.joins.sessions.rows import NONE, SessionRows
from streamjoin.kernels.compile import Flags, Int, Keys, Positions, kernel
from streamjoin.keys.bound_terms import EqualityPart, bytes_of, validity
from streamjoin.keys.hashing import mix
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import word_keys


@kernel
def next_names(names: Keys, rows: Positions) -> None:
    """Give some rows the next name of their chains."""
    for i in range(rows.size):
        after: Int = np.uint64(names[rows[i]]) + np.uint64(1)
        names[rows[i]] = mix(after)


@dataclass(frozen=True)
class Values:
    """The equality keys of some rows in comparable form: arrays of NumPy or Arrow."""

    columns: list[Any]

    @classmethod
    def of(cls, batch: Prepared) -> "Values":
        """Return the keys of a batch: sort keys where they are exact, otherwise values."""
        columns: list[Any] = []
        for part, keys in zip(batch.plan.equalities, batch.keys.equalities, strict=True):
            columns += values_of(part, keys, batch)
        return cls(columns)

    def __add__(self, other: "Values") -> "Values":
        pairs = zip(self.columns, other.columns, strict=True)
        return Values([concatenate(one, two) for one, two in pairs])

    def differ(self, rows: Positions, others: Positions) -> Flags:
        """Tell which of the rows differ from the other ones."""
        flags = np.zeros(rows.size, np.bool_)
        for column in self.columns:
            if isinstance(column, np.ndarray):
                flags |= column[rows] != column[others]
            else:
                same = pc.equal(column.take(pa.array(rows)), column.take(pa.array(others)))
                flags |= ~pc.fill_null(same, True).to_numpy(zero_copy_only=False)
        return flags


def values_of(part: EqualityPart, keys: Keys, batch: Prepared) -> list[Any]:
    """Return arrays that distinguish the values of one part, and NULL if it is a key."""
    if part.exact:
        return [keys]
    values = part.operands.values(batch.side, batch.rows)
    valid = validity(values)
    is_valid = np.ones(keys.size, np.bool_) if valid is None else valid
    return [is_valid, keys if part.operands.key_type is not None else bytes_of(values)]


def concatenate(one: Any, two: Any) -> Any:
    """Append one column to another."""
    if isinstance(one, np.ndarray):
        return np.concatenate([one, two])
    return pa.concat_arrays([one, two])


class SessionGroups:
    """Names the groups of new rows; the module docstring says how."""

    def __init__(self, plan: JoinPlan) -> None:
        self.plan = plan
        self.passed: dict[int, Values] = {}  # names that were passed over, and their owners' keys

    def of(
        self,
        batches: Mapping[Side, Prepared],
        open_sessions: OpenSessions | None = None,
        held: Mapping[Side, SessionRows] | None = None,
    ) -> Keys:
        """Return the group of each row of all batches, one after the other."""
        found = [word_keys(self.plan, batch.keys) for batch in batches.values()]
        names = np.concatenate([*(keys for keys, _ in found), np.empty(0, np.int64)])
        if all(is_exact for _, is_exact in found):
            return names
        values, rows = combined([Values.of(batch) for batch in batches.values()]), names.size
        while True:
            firsts = first_places(names)
            if open_sessions is not None and held is not None:
                values, firsts = with_held(values, names, firsts, open_sessions, held)
            values, firsts = self._with_passed(values, names, firsts)
            differing = np.flatnonzero(values.differ(np.arange(rows), firsts))
            if not differing.size:
                return names
            for row in differing.tolist():
                name = int(names[row])
                if name not in self.passed:
                    self.passed[name] = one_of(values, int(firsts[row]))
            next_names(names, differing)

    def _with_passed(
        self, values: Values, names: Keys, firsts: Positions
    ) -> tuple[Values, Positions]:
        """Compare rows with the owners of names that were passed over."""
        for name, owner in self.passed.items():
            if not (names == name).any():
                continue
            firsts = np.where(names == name, len(values.columns[0]), firsts)
            values = values + owner
        return values, firsts


def with_held(
    values: Values,
    names: Keys,
    firsts: Positions,
    open_sessions: OpenSessions,
    held: Mapping[Side, SessionRows],
) -> tuple[Values, Positions]:
    """Compare rows with a stored row of the same name, if there is one."""
    heads = np.flatnonzero(firsts == np.arange(names.size))  # one row of each name
    sessions = open_sessions.newest_open(names[heads])
    instead = np.arange(len(values.columns[0]))
    for side_rows in held.values():
        known = sessions != NONE
        entries = np.full(heads.size, NONE)
        entries[known] = side_rows.entries.values[sessions[known]]
        found = np.flatnonzero(entries != NONE)
        if found.size:
            rows, order = np.unique(entries[found], return_inverse=True)
            begin = len(values.columns[0])
            values = values + Values.of(side_rows.take(rows))
            instead[heads[found]] = begin + order
            sessions[found] = NONE  # one stored row is enough
    return values, instead[firsts]


def combined(parts: list[Values]) -> Values:
    """Concatenate the keys of some batches."""
    return reduce(Values.__add__, parts)


def one_of(values: Values, row: int) -> Values:
    """Return the keys of one row."""
    return Values([column[row : row + 1] for column in values.columns])
