"""What every index promises.

An index holds the tuples of one subwindow as (int64 key, int32 row id). It knows nothing about
rows, types, windows or conditions, and it never deletes: a subwindow is dropped as a whole.

The contract, which ``tests/indexes/test_contract.py`` checks for every structure:
    1. ``probe`` is pure, and finds each stored tuple with lower <= key <= upper exactly once.
    2. Any cut of the input into ``insert`` calls gives the same matches.
    3. ``insert`` takes keys in ascending order (the engine sorts a batch once, for all its uses).
       ``probe`` is fastest with ascending lower bounds, but correct with any.
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
    """The tuples of one subwindow, whether they are found by one key or by two."""

    def __init__(self, capacity: int = ...) -> None:
        """Make an empty index for about ``capacity`` tuples; it grows if there are more."""

    def successor(self, capacity: int) -> Self:
        """Make the empty index of the next subwindow, using what this one learnt about the keys."""
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

        Probes are numbered in the order of ``second``; ``numbers`` gives the probe that each range
        of ``first`` belongs to.
        """
        ...
