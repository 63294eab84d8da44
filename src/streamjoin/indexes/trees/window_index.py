"""What the indexes of a whole window have in common: they forget their oldest tuples one by one.

A subwindow's index never deletes; it is dropped as a whole. An index of this kind holds all tuples
of a window for as long as the stream runs. It keeps the contract of `protocol.Index` and two more
promises, which ``tests/indexes/trees/test_window_contract.py`` checks:

    1. Row ids count from the oldest live tuple. After ``expire`` of n tuples, those that were n,
       n + 1, ... are 0, 1, ...
    2. An expired tuple is never found again, even if it still takes memory; expired tuples take at
       most about as much memory as live ones.

Inside, rows keep the number they were inserted with, modulo 2^32; ``base`` is that of row id 0.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self

import numpy as np
import pyarrow as pa

from streamjoin.indexes.matches import Matches
from streamjoin.kernels.compile import Keys, Positions, RowIds

LEAST_TUPLES = 1 << 10  # below this, an index need not free memory


def wrap(rows: Positions) -> RowIds:
    """Return numbers of rows modulo 2^32, as int32."""
    return rows.astype(np.uint32).view(np.int32)


class WindowIndex(ABC):
    """The tuples of a whole window, findable by key range."""

    def __init__(self, capacity: int = LEAST_TUPLES) -> None:
        self.capacity = capacity
        self.base, self.size = 0, 0
        self.is_sealed = False

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once."""
        index = cls(max(keys.size, 1))
        index.insert(keys, row_ids)
        return index

    def successor(self, capacity: int) -> Self:
        """Make an empty index of the same kind."""
        return type(self)(capacity)

    def insert(self, keys: Keys, row_ids: RowIds) -> None:
        """Add a batch, keys ascending."""
        self.size += keys.size
        self._insert(keys, wrap(row_ids + np.int64(self.base)))

    def expire(self, keys: Keys) -> None:
        """Forget the oldest tuples; ``keys`` are theirs, in the order of row ids."""
        rows = wrap(np.arange(self.base, self.base + keys.size))
        self.base = (self.base + keys.size) % (1 << 32)
        self.size -= keys.size
        self._expire(keys, rows)

    @abstractmethod
    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Yield what the probes find, some at a time."""

    def seal(self) -> None:
        """Note that no more inserts come; tuples expire all the same."""
        self.is_sealed = True

    @abstractmethod
    def _insert(self, keys: Keys, rows: RowIds) -> None:
        """Add tuples whose rows have their permanent numbers."""

    @abstractmethod
    def _expire(self, keys: Keys, rows: RowIds) -> None:
        """Forget the tuples that are now before ``base``."""

    @abstractmethod
    def _live(self) -> tuple[Keys, RowIds]:
        """Return keys, ascending, and row ids of all live tuples."""

    def __len__(self) -> int:
        return self.size

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that the structure holds."""

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot, ascending; expired tuples are left out."""
        keys, row_ids = self._live()
        return pa.record_batch({"keys": keys, "row_ids": row_ids})

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        """Load a snapshot. Nothing is sorted."""
        return cls.from_sorted(batch["keys"].to_numpy(), batch["row_ids"].to_numpy())

    def check(self) -> None:
        """Assert what holds for all; subclasses add the invariants of their structure."""
        keys, row_ids = self._live()
        assert keys.size == self.size
        assert np.all(keys[:-1] <= keys[1:])
        assert np.array_equal(np.sort(row_ids), np.arange(self.size))
