"""From candidates to matches: the checks that an index did not answer, over blocks of pairs.

An index gives ranges of candidates. What is left to check is, for each pair, whether the stored
row's key lies in the probe's range for each other part, window included; then the residual
conditions, evaluated over the columns they need. Blocks bound the memory: it does not follow the
number of candidates.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.expressions.datatypes import without_extension
from streamjoin.expressions.evaluation import evaluate
from streamjoin.indexes.matches import Candidates
from streamjoin.joins.pairs.rows import Rows
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import Flags, Keys, RowIds, kernel
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import OTHER, Side
from streamjoin.keys.sort_keys import numpy_of
from streamjoin.plans.batches import take_rows
from streamjoin.plans.marks import SomeMarks
from streamjoin.plans.prepared import Prepared

RowPairs = tuple[RowIds, RowIds]  # rows of the probing batch, row ids of the subwindow


@dataclass(frozen=True)
class Check:
    """A stored key, or where there is none the row id, must lie in one of the probe's ranges."""

    stored: Keys | None
    ranges: list[Range]


@dataclass(frozen=True)
class Pairs:
    """Matches by the ordinals of their rows, the one that probed and the one that was stored."""

    side: Side  # of the rows that probed
    probing: Keys
    stored: Keys

    @property
    def left(self) -> Keys:
        """The ordinals of the left rows."""
        return self.probing if self.side == "left" else self.stored

    @property
    def right(self) -> Keys:
        """The ordinals of the right rows."""
        return self.stored if self.side == "left" else self.probing


class Holder(Protocol):
    """What holds the rows that are found: a subwindow, or a window that is closed."""

    @property
    def rows(self) -> Rows:
        """The rows, by their row ids."""
        ...

    @property
    def marks(self) -> SomeMarks | None:
        """The marks of the rows, if it counts whether they match."""
        ...

    def ordinals_of(self, rows: RowIds) -> Keys:
        """Return the ordinals of rows, if these are numbered."""
        ...

    def keys_of(self, part: int, rows: RowIds) -> Keys:
        """Return the keys of rows for a range part, if these are kept; see `JoinPlan.ranked`."""
        ...


@dataclass(frozen=True)
class Found:
    """What some rows of a batch found in one part of one subwindow, not yet as pairs."""

    batch: Prepared
    subwindow: Holder
    matches: Candidates
    order: RowIds  # probe number -> row of the batch
    checks: list[Check]  # what is left to check; if nothing, every candidate matches
    mirrored: bool = False  # self-joins: each match (a, b) stands for (b, a) too


@kernel
def keep_inside(probes: RowIds, rows: RowIds, stored: Keys, lower: Keys, upper: Keys) -> int:
    """Move the pairs whose stored key lies in the probe's range to the front; return how many."""
    kept = 0
    for i in range(probes.size):
        key = stored[rows[i]]
        inside = (key >= lower[probes[i]]) & (key <= upper[probes[i]])
        probes[kept], rows[kept] = probes[i], rows[i]
        kept += inside
    return kept


@kernel
def keep_rows(probes: RowIds, rows: RowIds, lower: Keys, upper: Keys) -> int:
    """Move the pairs whose row id lies in the probe's range to the front; return how many."""
    kept = 0
    for i in range(probes.size):
        inside = (rows[i] >= lower[probes[i]]) & (rows[i] <= upper[probes[i]])
        probes[kept], rows[kept] = probes[i], rows[i]
        kept += inside
    return kept


@kernel
def mark_inside(
    probes: RowIds, rows: RowIds, stored: Keys, lower: Keys, upper: Keys, keep: Flags
) -> None:
    """Mark the pairs whose stored key lies in the probe's range, beside those marked already."""
    for i in range(probes.size):
        key = stored[rows[i]]
        keep[i] |= (key >= lower[probes[i]]) & (key <= upper[probes[i]])


def checks_of(batch: Prepared, subwindow: Subwindow) -> list[Check]:
    """Return what the index of this subwindow leaves to check for this batch."""
    plan = batch.plan
    checks = [
        Check(column.values, [(keys, keys)])
        for column, keys in zip(subwindow.equality_keys, batch.keys.equalities, strict=False)
    ]
    answered = plan.answered(subwindow.layout)
    for part, column in subwindow.range_keys.items():
        if part in answered:
            continue
        if part == plan.time_part and not is_cut_by_window(batch, subwindow):
            continue
        checks.append(Check(column.values, batch.part_ranges(part)))
    if subwindow.ordinals is not None and batch.arrival is not None:
        ordinals, (lower, upper) = subwindow.ordinals, batch.arrival.visible
        if lower.max() > ordinals.first or upper.min() < ordinals.last:
            checks.append(Check(None, [ordinals.rows(lower, upper)]))
    return checks


def is_cut_by_window(batch: Prepared, subwindow: Subwindow) -> bool:
    """Whether the time window's edge falls inside the subwindow for any row of the batch."""
    first, last = batch.common_reach
    return first > subwindow.oldest or last < subwindow.newest


def check_pairs(found: Found) -> Iterator[RowPairs]:
    """Yield the candidate pairs whose keys pass every check, a block at a time."""
    for pairs in found.matches.blocks(found.batch.plan.limits.block_pairs, found.order):
        checkpoint()
        for check in found.checks:
            pairs = apply_check(check, *pairs)
        if pairs[0].size:
            yield pairs


def confirm_pairs(found: Found) -> Iterator[RowPairs]:
    """Yield the matching pairs, residual conditions checked too, grouped for ``Rows.take``.

    Every match of every kind of window comes from here, unless it is only counted.
    """
    for probes, rows in check_pairs(found):
        pairs = found.subwindow.rows.group(probes, rows)
        if found.batch.plan.has_residuals:
            pairs = apply_residuals(found.batch, found.subwindow, *pairs)
        if pairs[0].size:
            yield pairs


def name_pairs(found: Found, probes: RowIds, rows: RowIds) -> tuple[Pairs, ...]:
    """Return pairs by the ordinals of their rows, if these are to be told."""
    if not found.batch.plan.names_rows:
        return ()
    assert found.batch.ordinals is not None
    side, probing = found.batch.side, found.batch.ordinals[probes]
    stored = found.subwindow.ordinals_of(rows)
    pairs = Pairs(side, probing, stored)
    return (pairs, Pairs(OTHER[side], probing, stored)) if found.mirrored else (pairs,)


def keys_of_pairs(found: Found, probes: RowIds, rows: RowIds, side: Side, part: int) -> Keys:
    """Return the keys of one row of each pair, for a range part."""
    if side == found.batch.side:
        return found.batch.keys.ranges[part][probes]
    return found.subwindow.keys_of(part, rows)


def rows_of_pairs(
    found: Found, probes: RowIds, rows: RowIds, side: Side, names: tuple[str, ...] | None = None
) -> pa.RecordBatch:
    """Fetch the rows of one side, in the order of the pairs, whatever it is."""
    if side == found.batch.side:
        batch = found.batch.rows
        return take_rows(batch if names is None else batch.select(names), probes)
    held = found.subwindow.rows
    if len(held.pieces) == 1:
        return held.take(rows, names)
    order = np.argsort(rows, kind="stable")
    return take_rows(held.take(rows[order], names), np.argsort(order))


def columns_of_pairs(
    found: Found, probes: RowIds, rows: RowIds, names: Mapping[Side, tuple[str, ...]]
) -> dict[Side, pa.RecordBatch]:
    """Fetch some columns of pairs, of the sides that are named."""
    return {side: rows_of_pairs(found, probes, rows, side, names[side]) for side in names}


def apply_check(check: Check, probes: RowIds, rows: RowIds) -> RowPairs:
    """Keep the pairs that pass one check."""
    if len(check.ranges) == 1:
        lower, upper = check.ranges[0]
        if check.stored is None:
            kept = keep_rows(probes, rows, lower, upper)
        else:
            kept = keep_inside(probes, rows, check.stored, lower, upper)
        return probes[:kept], rows[:kept]
    assert check.stored is not None
    keep = np.zeros(probes.size, np.bool_)
    for lower, upper in check.ranges:
        mark_inside(probes, rows, check.stored, lower, upper, keep)
    return probes[keep], rows[keep]


def apply_residuals(batch: Prepared, subwindow: Holder, probes: RowIds, rows: RowIds) -> RowPairs:
    """Keep the pairs for which every residual condition is true.

    One after the other, each over what the ones before it left: ``and`` guards what follows it.
    """
    plan, side = batch.plan, batch.side
    other = OTHER[side]
    probing = take_rows(batch.rows.select(plan.residual_columns[side]), probes)
    stored = subwindow.rows.take(rows, plan.residual_columns[other])
    sides = {side: probing, other: stored}

    def narrow(passed: pa.Array) -> None:
        nonlocal probes, rows
        keep = numpy_of(passed.cast(pa.bool_()), False)
        if not keep.all():
            probes, rows = probes[keep], rows[keep]
            mask = pa.array(keep)
            sides.update({each: columns.filter(mask) for each, columns in sides.items()})

    for left, right in plan.compared:
        pair = sides["left"][left], sides["right"][right]
        narrow(pc.equal(*map(without_extension, pair)))
    for residual in plan.residuals:
        narrow(evaluate(residual, left=sides["left"], right=sides["right"]))
    return probes, rows
