"""Preparing a batch: its keys are evaluated, and rows that can never match are left behind.

Preparing is where a batch can fail (a type that changed, an overflow), so a push prepares all its
batches before it touches any state. What is left behind: rows with a NULL in a key, on which a
condition on the row alone is false, whose time is NULL or before the watermark. Only session
windows keep some of them: those with a time and the keys of a session can make it longer.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.kernels.compile import Flags
from streamjoin.keys.bound_terms import EqualityPart, RangePart
from streamjoin.keys.operands import Side, evaluate_side
from streamjoin.keys.sort_keys import numpy_of
from streamjoin.plans.batches import take_rows
from streamjoin.plans.plan import JoinPlan, KeyColumns
from streamjoin.plans.prepared import NO_ROWS, Intake, Prepared, Roles


@dataclass
class Selection:
    """Some rows of a batch, and where they stood in it."""

    batch: pa.RecordBatch
    positions: NDArray[np.int64] | None = None  # None: all rows

    def keep(self, flags: Flags) -> None:
        """Leave the other rows out."""
        if not flags.all():
            chosen = np.flatnonzero(flags)
            self.batch = take_rows(self.batch, chosen)
            self.positions = chosen if self.positions is None else self.positions[chosen]


def prepare(
    plan: JoinPlan,
    side: Side,
    batch: pa.RecordBatch,
    watermark: int | None = None,
    is_over: bool = False,
) -> Prepared:
    """Evaluate a batch's keys and drop the rows that cannot match, nor make a session longer.

    Once a stream ``is_over``, all rows are late; where there are times, the watermark says so.
    """
    if is_over and plan.time_part is None:
        none, late = prepare(plan, side, batch.slice(0, 0)), np.arange(batch.num_rows)
        return replace(none, intake=Intake(NO_ROWS, late))
    groups = plan.groups
    if groups is None:
        return prepare_matching(plan, side, batch, watermark)
    everything = prepare_matching(groups, side, batch, watermark)
    able = prepare_matching(plan, side, everything.rows)
    keys, can_match = able.keys, None
    if able.intake.positions is not None:
        can_match = np.zeros(len(everything), np.bool_)
        can_match[able.places] = True
        ranges = [np.zeros(len(everything), np.int64) for _ in plan.ranges]
        for column, known in zip(ranges, able.keys.ranges, strict=True):
            column[able.places] = known
        ranges[plan.time_part or 0] = everything.keys.ranges[0]
        keys = KeyColumns(everything.keys.equalities, tuple(ranges), len(everything))
    return replace(everything, plan=plan, keys=keys, roles=Roles(can_match=can_match))


def prepare_matching(
    plan: JoinPlan, side: Side, batch: pa.RecordBatch, watermark: int | None = None
) -> Prepared:
    """Evaluate a batch's keys and drop the rows that cannot match.

    Late rows go first and conditions on the row next, so that keys are computed only where these
    hold: ``l.a <> 0 and 10 / l.a < r.b`` does not divide by zero.
    """
    chosen, late, null_times, newest = Selection(batch), NO_ROWS, 0, None
    if plan.time_part is not None:
        times, has_time = plan.ranges[plan.time_part].keys(side, batch)
        if has_time is None:
            has_time = np.ones(times.size, np.bool_)
        on_time = has_time if watermark is None else has_time & (times >= watermark)
        null_times = int(times.size - has_time.sum())
        late = np.flatnonzero(has_time & ~on_time)
        newest = int(times[has_time].max()) if has_time.any() else None
        chosen.keep(on_time)
    condition = plan.filters[side]
    if condition is not None:
        passed = evaluate_side(condition, side, chosen.batch)
        chosen.keep(numpy_of(passed.cast(pa.bool_()), False))
    parts: list[EqualityPart | RangePart] = [*plan.equalities, *plan.ranges]
    keys = [part.keys(side, chosen.batch) for part in parts]
    columns = KeyColumns(
        tuple(each for each, _ in keys[: len(plan.equalities)]),
        tuple(each for each, _ in keys[len(plan.equalities) :]),
        chosen.batch.num_rows,
    )
    missing = [has_key for _, has_key in keys if has_key is not None]
    if missing:
        has_keys = np.logical_and.reduce(missing)
        chosen.keep(has_keys)
        columns = columns.take(np.flatnonzero(has_keys))
    intake = Intake(chosen.positions, late, null_times, newest)
    return Prepared(plan, side, chosen.batch, columns, intake=intake)
