"""Rows of one side that are all there, as those of the other find them."""

from dataclasses import dataclass

from streamjoin.joins.pairs.rows import Rows
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.plans.marks import SomeMarks
from streamjoin.plans.plan import KeyColumns
from streamjoin.plans.prepared import Prepared


@dataclass(frozen=True)
class ClosedSide:
    """Rows of one side that others find, and their keys."""

    rows: Rows
    keys: KeyColumns
    ordinals: Keys | None = None
    marks: SomeMarks | None = None

    @classmethod
    def of(cls, batch: Prepared) -> "ClosedSide":
        """Hold the rows of a batch."""
        rows = Rows(copies=False)
        rows.append(batch.rows)
        return cls(rows, batch.keys, batch.ordinals, batch.marks)

    def ordinals_of(self, rows: RowIds) -> Keys:
        """Return the ordinals of rows, if these are numbered."""
        assert self.ordinals is not None
        return self.ordinals[rows]

    def keys_of(self, part: int, rows: RowIds) -> Keys:
        """Return the keys of rows for a range part."""
        return self.keys.ranges[part][rows]
