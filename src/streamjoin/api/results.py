"""Results other than a table: matches left in the windows, or an ordered stream.

A search gives ranges of rows: a few numbers per probe, however many rows match (PanJoin III-A, step
5). `Results` writes pairs and fetches columns only when rows are wanted; counting needs neither
where the index answers the whole condition. `Punctuated` rows are one piece of a stream of results,
with the stars of SplitJoin (section 5).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.api.guard import Guard, exclusive
from streamjoin.errors import StreamJoinError
from streamjoin.joins.ordering.punctuation import Stars
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivery, count
from streamjoin.kernels.interrupts import hold_signals
from streamjoin.kernels.threads import share


@dataclass(frozen=True)
class Punctuated:
    """Some joined rows of a stream of results and, if it is ordered, their punctuation.

    All matches of rows that arrived before ``upto``, counted over both streams, have been yielded.
    """

    rows: pa.Table
    upto: int | None = None
    arrivals: NDArray[np.int64] | None = None  # of the rows that found each match
    _stars: Stars | None = field(default=None, repr=False)

    @classmethod
    def of(cls, delivery: Delivery, schema: pa.Schema) -> "Punctuated":
        """Wrap what a join delivers, with or without an order."""
        rows, stars = pa.Table.from_batches(delivery.rows, schema), delivery.stars
        return cls(rows) if stars is None else cls(rows, stars.upto, stars.arrivals, stars)

    @property
    def stars(self) -> pa.Table:
        """A star for each row that looked for matches: its side, its arrival, where they end.

        A row's matches begin where those of the row before end. Rows that cannot match, because
        their key is NULL or they are late, have no star.
        """
        if self._stars is None:
            raise StreamJoinError(
                "these results have no order, so no punctuation; make the join with "
                "ordered='outer' or 'inner'"
            )
        return self._stars.table()


Item = Found | Delivery  # matches left in place, or rows that are given by themselves


class Results:
    """The matches of one search: count them, or fetch the joined rows a batch at a time.

    Those of a `StreamJoin` are valid until it is used again, those of tables for ever. They can be
    passed to anything that takes an Arrow stream: `pyarrow.dataset.write_dataset`, polars, DuckDB.
    """

    def __init__(
        self,
        found: list[Item],
        schema: pa.Schema,
        fetch: Callable[[Found], Iterator[Delivery]],
        threads: int = 1,
        guard: Guard | None = None,
    ) -> None:
        self._found: list[Item] | None = found
        self._rows_of = fetch
        self._guard = guard or Guard()  # the guard of the join whose windows these point into
        self.schema, self._threads = schema, threads

    def _alive(self) -> list[Item]:
        if self._found is None:
            raise StreamJoinError(
                "these results are gone: the join has been used since; read them before the next "
                "push, find, flush or snapshot"
            )
        return self._found

    @exclusive
    def count(self) -> int:
        """Count the rows of the result, without fetching matches."""

        def count_rows(found: Item) -> int:
            if isinstance(found, Delivery):
                return sum(rows.num_rows for rows in found.rows)
            return sum(delivery.matches for delivery in count(found, self.schema))

        with hold_signals():
            return sum(share(count_rows, self._alive(), self._threads))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Fetch joined rows, a batch at a time."""
        batches = self._batches()
        while (batch := self._fetch(batches)) is not None:
            yield batch

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for found in self._alive():
            given = [found] if isinstance(found, Delivery) else self._rows_of(found)
            for delivery in given:
                yield from delivery.rows

    @exclusive
    def _fetch(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        """Fetch the next batch, unless the join has been used since the one before."""
        self._alive()
        with hold_signals():  # only here, not while the caller works with the rows
            return next(batches, None)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader that fetches joined rows as it is read."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the joined rows as an Arrow stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Fetch all joined rows."""
        try:
            return pa.Table.from_batches(list(self), schema=self.schema)
        except MemoryError as error:
            raise StreamJoinError(
                f"the joined rows do not fit into memory ({error}); iterate over the results, "
                "which fetches them a batch at a time, or pass them on as a stream, to_reader()"
            ) from error

    def close(self) -> None:
        """Forget the matches."""
        self._found = None
