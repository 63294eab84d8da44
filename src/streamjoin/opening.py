"""What came before the schemas of both streams were known: rows and watermarks that wait.

Types and columns cannot be resolved before, so they are kept in their order and replayed then.
"""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamjoin.batches import check_unique, describe_change, owned
from streamjoin.errors import SchemaError
from streamjoin.joins.engine import Step
from streamjoin.joins.plan import SIDES
from streamjoin.joins.times import check_watermark, to_key
from streamjoin.keys.operands import Side
from streamjoin.stats import JoinStats


@dataclass
class Opening:
    """The schemas that are known, and the steps that wait."""

    schemas: dict[Side, pa.Schema] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def check(self, side: Side, schema: pa.Schema) -> None:
        """Refuse a batch that is not like the first one of its side."""
        known = self.schemas.get(side)
        if known is None:
            check_unique(schema, side)
        elif schema != known:
            raise SchemaError(
                f"the {side} batch's schema changed: {describe_change(known, schema)}; cast the "
                f"batch to the first one's schema, or make a new StreamJoin"
            )

    def hold(self, batches: dict[Side, pa.RecordBatch]) -> None:
        """Let rows wait."""
        self.schemas |= {side: batch.schema for side, batch in batches.items()}
        if batches:
            self.steps.append(Step({side: owned(batch) for side, batch in batches.items()}))

    def hold_watermark(self, watermark: Any, time: tuple[str, str] | None) -> None:
        """Let a watermark wait, if it fits the time columns that are known."""
        watermark = check_watermark(watermark)
        for side, schema in self.schemas.items():
            name = (time or ("", ""))[side == "right"]
            if name in schema.names:
                to_key(watermark, schema.field(name).type)
        self.steps.append(Step({}, watermark))

    def hold_end(self) -> None:
        """Note that no more rows are coming."""
        self.steps.append(Step({}, is_last=True))

    @property
    def has_rows(self) -> bool:
        """Whether rows wait."""
        return any(step.batches for step in self.steps)

    def stats(self) -> JoinStats:
        """Count what waits."""
        batches = [item for step in self.steps for item in step.batches.items()]
        rows = {side: sum(b.num_rows for at, b in batches if at == side) for side in SIDES}
        held = sum(batch.nbytes for _, batch in batches)
        return JoinStats(rows["left"], rows["right"], rows["left"], rows["right"], held)
