"""Holds rows and watermarks until the schemas of both streams are known.

Types and columns cannot be resolved earlier, so these steps are kept in order and replayed later.

A column that has held only NULL has no type yet. Until the schemas are bound, it takes the type of
the first batch that has one. A side whose batches had no rows at all waits for that; nothing is
lost, since nothing can match, unless rows without a match are to be given: then it is an error to
finish before.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamjoin.api.conforming import adopt_types, conform_batch, has_unknown_types
from streamjoin.api.stats import JoinStats
from streamjoin.errors import StreamJoinError
from streamjoin.joins.engine import Push
from streamjoin.keys.operands import Side
from streamjoin.plans.batches import check_unique, copy_batch
from streamjoin.plans.plan import SIDES
from streamjoin.plans.times import check_watermark, to_key


@dataclass
class Opening:
    """The schemas known so far, and the steps that wait."""

    schemas: dict[Side, pa.Schema] = field(default_factory=dict)
    steps: list[Push] = field(default_factory=list)

    def conform(self, side: Side, batch: pa.RecordBatch, bound: bool) -> pa.RecordBatch:
        """Cast the batch to the schema of the earlier ones; refuse one that does not fit it.

        Until the schemas are ``bound``, columns that have held only NULL may get their types.
        """
        known = self.schemas.get(side)
        if known is None:
            check_unique(batch.schema, side)
            return batch
        if not bound and batch.schema != known:
            known = adopt_types(known, batch.schema)
        return conform_batch(batch, known, side)

    def is_seen(self, side: Side, batches: dict[Side, pa.RecordBatch]) -> bool:
        """Whether this side's columns are known once these batches are in."""
        coming = [batches[side]] if side in batches else []
        if not coming and side not in self.schemas:
            return False
        schema = coming[0].schema if coming else self.schemas[side]
        held = [step.batches[side] for step in self.steps if side in step.batches]
        return not has_unknown_types(schema) or any(each.num_rows for each in held + coming)

    def hold(self, batches: dict[Side, pa.RecordBatch]) -> None:
        self.schemas |= {side: batch.schema for side, batch in batches.items()}
        kept = {side: copy_batch(batch) for side, batch in batches.items() if batch.num_rows}
        if kept:
            self.steps.append(Push(kept))

    def hold_watermark(self, watermark: Any, time: tuple[str, str] | None) -> None:
        """Keep a watermark, if it fits the time columns known so far."""
        watermark = check_watermark(watermark)
        for side, schema in self.schemas.items():
            name = (time or ("", ""))[side == "right"]
            if name in schema.names:
                to_key(watermark, schema.field(name).type)
        self.steps.append(Push({}, watermark))

    def hold_end(self, gives: Collection[Side] = ()) -> None:
        """Note that no more rows are coming; of sides that the join ``gives``, none may wait."""
        rows = self.stats()
        for side, count in (("left", rows.rows_left), ("right", rows.rows_right)):
            if count and side in gives:
                other = "right" if side == "left" else "left"
                raise StreamJoinError(
                    f"the rows of {side} ({count:,}) cannot be given yet: nothing has come of "
                    f"{other} that tells its columns and their types; push a table of {other} "
                    f"without rows, push({other}=schema.empty_table()), and finish then"
                )
        self.steps.append(Push({}, is_last=True))

    @property
    def has_rows(self) -> bool:
        return any(step.batches for step in self.steps)

    def stats(self) -> JoinStats:
        batches = [item for step in self.steps for item in step.batches.items()]
        rows = {side: sum(b.num_rows for at, b in batches if at == side) for side in SIDES}
        held = sum(batch.nbytes for _, batch in batches)
        return JoinStats(rows["left"], rows["right"], rows["left"], rows["right"], held)
