"""Matches as ranges: right rows in an order in which each left row's matches lie side by side.

That is so where the condition is any number of equalities and one band or inequality at most, the
window of time counted. Right rows are sorted by the number of their group, which has the rows of
equal keys, and in it by the key of the range part::

    l.symbol = r.symbol and abs(l.price - r.price) <= 1

    group         0 = "A"              1 = "B"
    right price   3   5   5   8        1   2   9
    place         0   1   2   3        4   5   6
    left A, 5.5   in group 0, keys from 4.5 to 6.5: places 1 to 2

Unlike the index of a join, which takes hashes and rounded keys, and whose candidates are checked,
this is exact: equal values get one number, through a dictionary. So nothing is left to check, and
no pair need be looked at.

Cost: two radix sorts of the right rows' keys at most, two binary searches per left row.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.kernels.compile import Keys, Positions, RowIds, kernel
from streamjoin.kernels.threads import share, threads_for
from streamjoin.keys.bound_terms import EqualityPart, bytes_of, validity
from streamjoin.keys.operands import Side
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared

SLICES_PER_THREAD = 4
FEW_LEFTS = 4096  # rows whose order does not matter
Sides = dict[Side, Prepared]


@dataclass(frozen=True)
class Ranges:
    """For each left row, the places of its matches in an order of right rows."""

    order: RowIds  # place -> right row
    lefts: RowIds  # left rows in an order in which neighbours look at neighbouring places
    starts: list[Positions]  # one range of each left row after the other, disjoint
    ends: list[Positions]

    @property
    def lengths(self) -> Positions:
        """How many matches each left row has."""
        lengths = [ends - starts for starts, ends in zip(self.starts, self.ends, strict=True)]
        return np.sum(lengths, axis=0)


@kernel
def sort_by_group(groups: Positions, rows: RowIds, count: int) -> tuple[RowIds, Positions]:
    """Sort rows stably by their groups; return them, and where each group begins and ends."""
    firsts = np.zeros(count + 1, np.int64)
    for group in groups:
        firsts[group + 1] += 1
    for group in range(count):
        firsts[group + 1] += firsts[group]
    slots = firsts[:-1].copy()
    ordered = np.empty_like(rows)
    for row in rows:
        group = groups[row]
        ordered[slots[group]] = row
        slots[group] += 1
    return ordered, firsts


@kernel
def search_groups(
    rows: RowIds,
    groups: Positions,
    firsts: Positions,
    keys: Keys,
    lower: Keys,
    upper: Keys,
    starts: Positions,
    ends: Positions,
) -> None:
    """Find the places in each group whose keys lie in a closed range; none in group -1."""
    for i in rows:
        group = groups[i]
        if group < 0:
            starts[i] = ends[i] = 0
            continue
        first, last = firsts[group], firsts[group + 1]
        low, high = first, last
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < lower[i]:
                low = middle + 1
            else:
                high = middle
        starts[i] = low
        high = last
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] <= upper[i]:
                low = middle + 1
            else:
                high = middle
        ends[i] = low


def gives_ranges(plan: JoinPlan) -> bool:
    """Whether the matches of a left row are ranges of right rows in some order."""
    of_equalities = [
        part for part in plan.equalities if part.columns is None and part.residual is not None
    ]
    return len(plan.residuals) == len(of_equalities) and len(plan.open_ranges) <= 1


def find_ranges(sides: Sides, threads: int) -> Ranges:
    """Return the matches of left rows, as ranges; see `gives_ranges`."""
    left, right = sides["left"], sides["right"]
    plan = left.plan
    groups, count = number_groups(sides, plan)
    rows = np.arange(len(right), dtype=np.int32)
    if not plan.open_ranges:
        order, firsts = sort_by_group(groups["right"], rows, count)
        own = groups["left"]
        known = np.maximum(own, 0)
        first, last = firsts[known], firsts[known + 1]
        lefts = sort_lefts(own, count, None)
        return Ranges(order, lefts, [first], [np.where(own < 0, first, last)])
    [part] = plan.open_ranges
    keys, order = sort_with_rows(right.keys.ranges[part])
    firsts = np.array([0, len(right)])
    if plan.equalities:
        order, firsts = sort_by_group(groups["right"], order, count)
        keys = right.keys.ranges[part][order]
    wanted = left.part_ranges(part)
    lefts = sort_lefts(groups["left"], count if plan.equalities else 0, wanted[0][0])
    slices = cut(lefts, threads)
    starts, ends = ([np.empty(lefts.size, np.int64) for _ in wanted] for _ in range(2))

    def search(rows: RowIds) -> None:
        for (lower, upper), first, last in zip(wanted, starts, ends, strict=True):
            search_groups(rows, groups["left"], firsts, keys, lower, upper, first, last)

    share(search, slices, threads)
    return Ranges(order, lefts, starts, ends)


def sort_lefts(groups: Positions, count: int, keys: Keys | None) -> RowIds:
    """Return left rows in the order of the places they look at; few rows in any order.

    A search, or a walk through a tree, then finds most of what it reads in the caches.
    """
    rows = np.arange(groups.size, dtype=np.int32)
    if groups.size < FEW_LEFTS:
        return rows
    if keys is not None:
        _, rows = sort_with_rows(keys)
    if count:
        rows, _ = sort_by_group(groups + 1, rows, count + 1)
    return rows


def cut(rows: RowIds, threads: int) -> list[RowIds]:
    """Cut rows into slices for threads."""
    threads = threads_for(rows.size, threads)
    parts = 1 if threads == 1 else SLICES_PER_THREAD * threads
    ends = np.linspace(0, rows.size, parts + 1).astype(np.int64)
    return [rows[first:last] for first, last in pairwise(ends)]


def number_groups(sides: Sides, plan: JoinPlan) -> tuple[dict[Side, Positions], int]:
    """Number the values of all equalities: equal ones alike, -1 for left rows that meet none.

    Returns how many numbers right rows have, too.
    """
    groups: dict[Side, Positions] = {
        side: np.zeros(len(batch), np.int64) for side, batch in sides.items()
    }
    count = 1
    for number, part in enumerate(plan.equalities):
        values = {side: comparable_values(part, number, batch) for side, batch in sides.items()}
        if number > 0:
            codes, most = encode_alike(values)
            values = {side: pa.array(groups[side] * most + codes[side]) for side in groups}
            absent = (groups["left"] < 0) | (codes["left"] < 0)
            values["left"] = pc.if_else(pa.array(absent), pa.scalar(-1, pa.int64()), values["left"])
        groups, count = encode_alike(values)
    return groups, count


def encode_alike(values: dict[Side, pa.Array]) -> tuple[dict[Side, Positions], int]:
    """Return numbers that are equal where values are; -1 for left ones that right has not."""
    encoded = values["right"].dictionary_encode(null_encoding="encode")
    found = pc.index_in(values["left"], value_set=encoded.dictionary)
    return {
        "left": pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64),
        "right": encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
    }, len(encoded.dictionary)


def comparable_values(part: EqualityPart, number: int, batch: Prepared) -> pa.Array:
    """Return values of an equality that are the same bytes where they are equal."""
    if part.exact:
        return pa.array(batch.keys.equalities[number])
    values = part.operands.values(batch.side, batch.rows)
    if part.operands.key_type is None:
        return bytes_of(values)
    keys, valid = batch.keys.equalities[number], validity(values)  # NULL is a value, too
    return pa.array(keys, mask=None if valid is None else ~valid)
