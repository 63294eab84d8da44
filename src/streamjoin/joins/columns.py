"""What a subwindow keeps of its rows: the input's columns, keys to filter by, arrival numbers."""

import numpy as np
import pyarrow as pa

from streamjoin.batches import owned
from streamjoin.kernels import Keys, RowIds

MANY_PIECES = 64  # beyond that, small pieces are put together
SMALL_PIECE = 1 << 14  # rows


class Column:
    """An int64 array that grows at its end."""

    def __init__(self) -> None:
        self.size, self.slots = 0, np.empty(0, np.int64)

    def append(self, values: Keys) -> None:
        """Add values; O(1) each, amortised."""
        end = self.size + values.size
        if end > self.slots.size:
            grown = np.empty(max(end, self.slots.size + self.slots.size // 2), np.int64)
            grown[: self.size] = self.values
            self.slots = grown
        self.slots[self.size : end] = values
        self.size = end

    @property
    def values(self) -> Keys:
        """The values so far."""
        return self.slots[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes, slack included."""
        return self.slots.nbytes


class Ordinals:
    """Arrival numbers, ascending with row ids; only the first one while no row was left out."""

    def __init__(self) -> None:
        self.first, self.size = 0, 0
        self.column: Column | None = None

    def append(self, ordinals: Keys) -> None:
        """Add ascending numbers."""
        if not ordinals.size:
            return
        if not self.size:
            self.first = int(ordinals[0])
        follows = int(ordinals[-1]) == self.first + self.size + ordinals.size - 1
        if self.column is None and not follows:
            self.column = Column()
            self.column.append(np.arange(self.first, self.first + self.size))
        if self.column is not None:
            self.column.append(ordinals)
        self.size += ordinals.size

    @property
    def last(self) -> int:
        """The greatest number."""
        if self.column is None:
            return self.first + self.size - 1
        return int(self.column.values[-1])

    @property
    def values(self) -> Keys:
        """All numbers."""
        if self.column is None:
            return np.arange(self.first, self.first + self.size)
        return self.column.values

    def rows(self, lower: Keys, upper: Keys) -> tuple[Keys, Keys]:
        """Turn closed ranges of numbers into closed ranges of row ids."""
        if self.column is None:
            return lower - self.first, upper - self.first
        values = self.column.values
        return values.searchsorted(lower), values.searchsorted(upper, "right") - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers kept."""
        return 0 if self.column is None else self.column.nbytes


class Rows:
    """The input's columns, as copies of the batches they came in.

    Copies, because Arrow data made from NumPy or pandas share the caller's memory, which may
    change, and because a slice would keep the whole table it was cut from.
    """

    def __init__(self, copies: bool = True) -> None:
        self.copies = copies
        self.pieces: list[pa.RecordBatch] = []
        self.size = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch; small pieces are put together when there are many."""
        self.pieces.append(owned(batch) if self.copies else batch)
        self.size += batch.num_rows
        if len(self.pieces) > MANY_PIECES:
            self._combine()

    def _combine(self) -> None:
        """Put the small pieces at the end together."""
        count = 0
        for piece in reversed(self.pieces):
            if piece.num_rows > SMALL_PIECE:
                break
            count += 1
        if count > 1:
            self.pieces[-count:] = [pa.concat_batches(self.pieces[-count:])]

    def take(self, rows: RowIds, names: tuple[str, ...] | None = None) -> pa.RecordBatch:
        """Gather rows, of the named columns only if names are given."""
        pieces = self.pieces if names is None else [piece.select(names) for piece in self.pieces]
        indices = pa.array(rows)
        if len(pieces) == 1:
            return pieces[0].take(indices)
        return pa.Table.from_batches(pieces).take(indices).combine_chunks().to_batches()[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return sum(piece.nbytes for piece in self.pieces)
