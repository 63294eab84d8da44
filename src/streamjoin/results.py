"""Results that stay where they are until they are asked for (PanJoin III-A, step 5).

A search gives ranges of rows, a few numbers a probe, however many rows match. Pairs are written and
columns fetched only when rows are wanted; to count them, neither is needed where the index answers
the whole condition.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from streamjoin.errors import StreamJoinError
from streamjoin.joins import gather
from streamjoin.joins.candidates import Found


class Results:
    """The matches of one search, good until the join they come from is used again."""

    def __init__(
        self, found: list[Found], schema: pa.Schema, fetched: Sequence[pa.RecordBatch] = ()
    ) -> None:
        self._found: list[Found] | None = found
        self.schema, self._fetched = schema, fetched

    def _alive(self) -> list[Found]:
        if self._found is None:
            raise StreamJoinError(
                "these results are gone: the join has been used since; read them before the next "
                "push, find, flush or snapshot"
            )
        return self._found

    def count(self) -> int:
        """Count the matches, without fetching any."""
        every = (gather.count(found, self.schema) for found in self._alive())
        left = sum(delivery.matches for deliveries in every for delivery in deliveries)
        return left + sum(batch.num_rows for batch in self._fetched)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Fetch joined rows, a batch at a time."""
        yield from self._fetched
        for found in self._alive():
            for delivery in gather.gather(found, self.schema):
                yield from delivery.rows

    def to_table(self) -> pa.Table:
        """Fetch all joined rows."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def close(self) -> None:
        """Forget the matches."""
        self._found, self._fetched = None, ()
