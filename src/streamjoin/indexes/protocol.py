"""What every index promises.

An index holds the tuples of one subwindow as (int64 key, int32 row id). It knows nothing of rows,
types, windows or conditions, and it never deletes: a subwindow is dropped whole.

The contract, which ``tests/indexes/test_contract.py`` holds every structure to:
    1. ``probe`` is pure, and finds each stored tuple with lower <= key <= upper exactly once.
    2. Any cut of the input into ``insert`` calls gives the same matches.
    3. ``insert`` takes keys in ascending order (the engine sorts a batch once, for all its uses).
       ``probe`` is fastest with ascending lower bounds, and right with any.
    4. Matches stay valid until the next ``insert``.
    5. ``from_arrow(to_arrow())`` gives an equal index without sorting again.
"""

from collections.abc import Iterator
from typing import Protocol, Self

import pyarrow as pa

from streamjoin.indexes.matches import Candidates, Matches
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.keys.key_ranges import Range

Sorted = tuple[Keys, RowIds]  # keys ascending, and the rows they belong to


class Structure(Protocol):
    """The tuples of one subwindow, whatever they can be found by."""

    def __init__(self, capacity: int = ...) -> None:
        """Make an empty index for about so many tuples; it grows if more come."""

    def successor(self, capacity: int) -> Self:
        """Make the empty index of the next subwindow, with what this one has learnt of the keys."""
        ...

    def seal(self) -> None:
        """Note that no more inserts come; the structure may drop its slack."""
        ...

    def __len__(self) -> int:
        """Count the stored tuples."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that the structure holds."""
        ...

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot: the columns ``keys`` and ``row_ids``, by key where the structure sorts."""
        ...

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        """Load a snapshot."""
        ...

    def check(self) -> None:
        """Assert the structure's invariants; tests call this after every step."""
        ...


class Index(Structure, Protocol):
    """The tuples of one subwindow, findable by key range."""

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once."""
        ...

    def insert(self, keys: Keys, row_ids: RowIds) -> None:
        """Add a batch, keys ascending."""
        ...

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Find the tuples in each closed range [lower, upper]; empty if lower > upper."""
        ...


class CrossedIndex(Structure, Protocol):
    """The tuples of one subwindow, findable by the ranges of two keys at once."""

    @classmethod
    def from_sorted(cls, first: Sorted, second: Sorted) -> Self:
        """Load tuples at once, in the order of both keys."""
        ...

    def insert(self, first: Sorted, second: Sorted) -> None:
        """Add a batch, in the order of both keys."""
        ...

    def probe(self, first: Range, numbers: RowIds, second: Range) -> Iterator[Candidates]:
        """Find the tuples in both closed ranges of each probe.

        Probes are numbered in the order of ``second``; ``numbers`` tells which probe each range of
        ``first`` belongs to.
        """
        ...
