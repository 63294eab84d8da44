"""The option ``ordered``: which matches come first.

``outer`` promises that the matches of an earlier row come before those of a later one. ``inner``
promises in addition that the matches of one row come oldest first, by the other row's place in its
stream. A precision p promises less: places are grouped by p, and only the groups are in order.
`joins.ordering` describes what keeps the promise.
"""

from dataclasses import dataclass

import pyarrow as pa

from streamjoin.options.values import Ordered, read_ordered

ARRIVAL, MATCHED = "_arrival", "_matched"


@dataclass(frozen=True)
class Ordering:
    """What joined rows are ordered by: ``precision`` is None unless the inner order counts too."""

    precision: int | None = None

    @classmethod
    def parse(cls, ordered: Ordered) -> "Ordering | None":
        """Read what users write; None if there is no order."""
        if read_ordered("ordered", ordered) == "none":
            return None
        return cls({"outer": None, "inner": 1}[ordered] if isinstance(ordered, str) else ordered)

    def __str__(self) -> str:
        return {None: "outer", 1: "inner"}.get(self.precision, str(self.precision))

    @property
    def names(self) -> list[str]:
        """The columns that joined rows are sorted by."""
        return [ARRIVAL] if self.precision is None else [ARRIVAL, MATCHED]

    def fields(self) -> list[pa.Field]:
        return [pa.field(name, pa.int64()) for name in self.names]
