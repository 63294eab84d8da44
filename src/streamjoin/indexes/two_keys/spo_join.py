"""SPO-Join: an index by two keys, a small mutable part before a list of permutation arrays.

Tuples that arrive a few at a time go into the mutable part (`mutable_part`), where inserts are
cheap. When it has ``merge_rows`` tuples, it becomes permutation arrays (`permutation`), where
searches are cheap, at the end of a list. A large batch becomes permutation arrays directly. The
list is kept short: neighbours are merged unless the older one is much larger::

    mutable   [ few ]         merge_rows reached:  -> [ 4096 ]
    list      [ 262144 ] [ 40960 ] [ 4096 ]           the last two are merged, then maybe all three

Probing goes on while arrays are merged: they never change, so another thread can merge them, and
the result replaces its parts once it is ready. No probe waits for it, and no tuple is ever in both
or in neither (the paper lets tuples wait in a queue).

Invariants, asserted by ``check``:
    1. Mutable part and list hold each row once.
    2. Every part of the list is more than `RATIO` times as large as the next; with several
       threads, merges may lag behind.
Costs for n tuples: ``insert`` O(log n) amortised; ``probe`` see `crossing`.

Source: Aslam, Beedkar and Simonini, "SPO-Join" (EDBT 2025), 3.1 to 3.4. Departures: sorted runs
instead of B+-trees in the mutable part; the parts of the list are merged; a batch of probes shares
its bitmap.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from functools import reduce
from itertools import pairwise
from threading import Lock
from typing import Self

import numpy as np
import pyarrow as pa

from streamjoin.indexes.protocol import Sorted
from streamjoin.indexes.runs.sorted_run import SortedRun
from streamjoin.indexes.two_keys.crossing import Crossing
from streamjoin.indexes.two_keys.mutable_part import Intersection, MutablePart
from streamjoin.indexes.two_keys.permutation import Permutation
from streamjoin.kernels.compile import RowIds
from streamjoin.kernels.forks import is_here
from streamjoin.kernels.threads import helpers
from streamjoin.keys.key_ranges import Range

MERGE_ROWS = 4096
FEW_ROWS = 64  # smaller batches go into the mutable part
FEW_PROBES = 16  # larger batches of probes are worth freezing the mutable part for
RATIO = 4
THREAD_TUPLES = 1 << 16  # a merge of this many is worth a thread


class SPOJoin:
    """The index of one subwindow by two keys; the module docstring gives its design."""

    def __init__(
        self, capacity: int = MERGE_ROWS, threads: int = 1, merge_rows: int = MERGE_ROWS
    ) -> None:
        self.threads, self.merge_rows = threads, merge_rows
        self.mutable = MutablePart()
        self.parts: list[Permutation] = []
        self.merging: tuple[list[Permutation], Future[Permutation]] | None = None
        self._process = os.getpid()  # the process that began it
        self._lock = Lock()  # the first thread to probe takes over what has been merged
        self._frozen: Permutation | None = None  # the mutable part, for large batches of probes

    @classmethod
    def from_sorted(cls, first: Sorted, second: Sorted) -> Self:
        """Load tuples at once, in the order of both keys. O(n)."""
        index = cls()
        if first[0].size:
            index.parts.append(Permutation.from_sorted(first, second))
        return index

    def successor(self, capacity: int) -> Self:
        """Make the index of the next subwindow: there is nothing to learn from this one."""
        return type(self)(capacity, self.threads, self.merge_rows)

    def insert(self, first: Sorted, second: Sorted) -> None:
        """Add tuples, in the order of both keys."""
        self._frozen = None
        if first[0].size < FEW_ROWS:
            self.mutable.insert(first, second)
            if len(self.mutable) >= self.merge_rows:
                self._freeze()
        else:
            self._freeze()
            self.parts.append(Permutation.from_sorted(first, second))
        self._merge()

    def _freeze(self) -> None:
        """Turn the mutable part into permutation arrays."""
        if len(self.mutable):
            self.parts.append(self.mutable.freeze())
            self.mutable = MutablePart()

    def _merge(self) -> None:
        """Merge neighbours where due; large ones in another thread."""
        self._take_merged()
        while self.merging is None and (due := self._due()):
            self._begin(due)
            self._take_merged()

    def _due(self) -> list[Permutation]:
        """Return the neighbours to merge: the last ones, as many as the invariant takes."""
        count, size = 1, len(self.parts[-1]) if self.parts else 0
        while count < len(self.parts) and len(self.parts[-count - 1]) <= RATIO * size:
            size += len(self.parts[-count - 1])
            count += 1
        return self.parts[-count:] if count > 1 else []

    def _begin(self, due: list[Permutation]) -> None:
        """Merge neighbours, or let another thread do it."""
        if self.threads > 1 and sum(map(len, due)) >= THREAD_TUPLES:
            self._process = os.getpid()
            self.merging = due, helpers().submit(merge_all, due)
            return
        merged: Future[Permutation] = Future()
        merged.set_result(merge_all(due))
        self.merging, self._process = (due, merged), os.getpid()

    def _take_merged(self, wait: bool = False) -> None:
        """Replace parts by their merged arrays, if these are ready."""
        with self._lock:
            if self.merging is not None and not is_here(self._process):
                self.merging = None  # no thread in this process does it; the parts are still there
            if self.merging is None or not (wait or self.merging[1].done()):
                return
            (due, merged), self.merging = self.merging, None
            # If it has not begun, cancel it: all threads may be waiting like this one.
            if merged.cancel():
                return
            at = self.parts.index(due[0])
            # A new list, since a probe may still be iterating over the old one.
            self.parts = [*self.parts[:at], merged.result(), *self.parts[at + len(due) :]]

    def probe(
        self, first: Range, numbers: RowIds, second: Range
    ) -> Iterator[Crossing | Intersection]:
        """Find the tuples that lie in both ranges of each probe; see `Permutation.probe`."""
        self._take_merged()
        for part in self.parts:
            yield part.probe(first, numbers, second)
        if not len(self.mutable):
            return
        if numbers.size < FEW_PROBES:
            yield self.mutable.probe(first, numbers, second)
            return
        if self._frozen is None:
            self._frozen = self.mutable.freeze()
        yield self._frozen.probe(first, numbers, second)

    def seal(self) -> None:
        """Merge all parts into one; large ones in another thread."""
        self._take_merged(wait=True)
        self._freeze()
        self._frozen = None
        if len(self.parts) > 1:
            self._begin(list(self.parts))
            self._take_merged()

    def __len__(self) -> int:
        return len(self.mutable) + sum(map(len, self.parts))

    @property
    def nbytes(self) -> int:
        return self.mutable.nbytes + sum(part.nbytes for part in self.parts)

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot: all parts as one."""
        parts = [*self.parts, self.mutable.freeze()] if len(self.mutable) else self.parts
        whole = merge_all(parts or [self.mutable.freeze()])
        return pa.record_batch(
            {
                "keys": whole.first_keys.copy(),
                "row_ids": whole.rows.copy(),
                "second_keys": whole.second_keys.copy(),
                "places": whole.places.copy(),
            }
        )

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        """Load a snapshot. O(n), nothing is sorted."""
        index = cls()
        if batch.num_rows:
            runs = [
                SortedRun.from_sorted(batch[keys].to_numpy(), batch[rows].to_numpy())
                for keys, rows in (("keys", "row_ids"), ("second_keys", "places"))
            ]
            index.parts.append(Permutation(*runs))
        return index

    def check(self) -> None:
        self.mutable.check()
        for part in self.parts:
            part.check()
        rows = np.concatenate([self.mutable.rows, *(part.rows for part in self.parts)])
        assert np.unique(rows).size == rows.size == len(self)
        if self.threads == 1:
            sizes = [len(part) for part in self.parts]
            assert all(a > RATIO * b for a, b in pairwise(sizes))


def merge_all(parts: list[Permutation]) -> Permutation:
    """Merge neighbours, the newest first: they are the smallest."""
    return reduce(lambda newer, older: older.merge(newer), reversed(parts))
