"""RaP-Table (range partition table): a bucket for each range of keys, tuples inside unsorted.

The *partition table* holds the splitters: partition p has the keys above ``splitters[p - 1]`` and
up to ``splitters[p]``. The tuples lie in an `LLAT`, and three histograms hold, for each partition,
the number of tuples, the least key and the greatest key::

    splitters       10          20          30
    partitions   0           1           2           3
    LLAT       [ 7 1 3 ]   [ 12 20 11 ] [ 25 ]      [ 99 31 ]
    counts       3           3            1           2
    least        1           11           25          31
    greatest     7           20           25          99

A sorted batch finds its partitions with a *rebounding binary search* that starts at the partition
of the tuple before. A probe looks at every tuple in the partitions of its lower and its upper
bound, and copies all of those in between.

`successor` makes the table of the next subwindow: the histograms give it splitters that would have
spread the same tuples evenly (Algorithm 1, `keys.splitters.adjust`). Keys that keep rising defeat
this: they fall beyond the last splitter. The first table has nothing to learn from; it takes its
splitters from the first batch. A table that outgrows its capacity is rebuilt with adjusted
splitters and twice the room.

Invariants, asserted by ``check``:
    1. Splitters ascend, and each tuple lies in the partition of its key.
    2. The histograms are those of the tuples.
    3. Those of `LLAT`.
Costs for n tuples in p partitions: ``insert`` O(log p) per tuple, less in a batch; ``probe``
O(log p + n / p + matches) per range, as long as keys resemble those of the subwindow before.

Source: Pan and Jacobsen, "PanJoin" (arXiv:1811.05065), III-B, III-E, III-F.
"""

from collections.abc import Iterator
from typing import Self

import numpy as np
import pyarrow as pa

from streamjoin.indexes.hits import hand_over, scan_chain
from streamjoin.indexes.matches import Matches
from streamjoin.indexes.runs.sorted_run import rebound
from streamjoin.indexes.saved_tuples import is_ascending, refuse_unless
from streamjoin.indexes.tables.llat import LLAT, SLACK, Entries, append
from streamjoin.kernels.compile import MAX_KEY, Int, Keys, Positions, RowIds, kernel
from streamjoin.keys.splitters import Histogram, adjust, count_keys, from_sample

PARTITION_TUPLES = 64  # that a partition should hold
SPLITTERS = b"splitters"  # in the metadata of a snapshot


@kernel
def find_partitions(splitters: Keys, bounds: Keys) -> Positions:
    """Return the partition of each bound; fastest if they ascend."""
    partitions = np.empty(bounds.size, np.int64)
    at = 0
    for i in range(bounds.size):
        bound = bounds[i]
        if at > 0 and splitters[at - 1] >= bound:
            at = 0  # not ascending here: start over
        if at < splitters.size and splitters[at] < bound:
            at = rebound(splitters, splitters.size, at, bound)
        partitions[i] = at
    return partitions


@kernel
def insert_batch(
    table: Entries,
    splitters: Keys,
    keys: Keys,
    row_ids: RowIds,
    counts: Keys,
    least: Keys,
    greatest: Keys,
) -> None:
    """Put an ascending batch into its partitions, and count it."""
    at = first = 0
    while first < keys.size:
        if at < splitters.size and splitters[at] < keys[first]:
            at = rebound(splitters, splitters.size, at, keys[first])
        last = first
        end = splitters[at] if at < splitters.size else MAX_KEY
        while last < keys.size and keys[last] <= end:
            append(table, at, keys[last], row_ids[last])
            last += 1
        counts[at] += last - first
        least[at] = min(least[at], keys[first])
        greatest[at] = max(greatest[at], keys[last - 1])
        first = last


@kernel
def scan_partitions(
    table: Entries,
    counts: Keys,
    lower: Keys,
    upper: Keys,
    low: Positions,
    high: Positions,
    first: int,
    found: RowIds,
    starts: Positions,
    ends: Positions,
) -> tuple[int, int]:
    """Scan for the probes from ``first`` on, until ``found`` may overflow.

    Returns the probe to go on with and, if that is ``first``, the room that it needs.
    """
    count = np.int64(0)
    for probe in range(first, lower.size):
        starts[probe] = count
        if lower[probe] <= upper[probe]:
            needed: Int = np.int64(1)  # one too many is written
            for partition in range(low[probe], high[probe] + 1):
                needed += counts[partition]
            if count + needed > found.size:
                return probe, needed
            for partition in range(low[probe], high[probe] + 1):
                inner = low[probe] < partition < high[probe]
                count = scan_chain(
                    table, partition, lower[probe], upper[probe], inner, found, count
                )
        ends[probe] = count
    return lower.size, 0


@kernel
def insert_tuples(table: Entries, owners: Positions, keys: Keys, row_ids: RowIds) -> None:
    """Put tuples into known partitions."""
    for i in range(keys.size):
        append(table, owners[i], keys[i], row_ids[i])


class RaPTable:
    """The index of one subwindow; the module docstring gives its layout and invariants."""

    def __init__(
        self,
        capacity: int = PARTITION_TUPLES,
        partitions: int | None = None,
        splitters: Keys | None = None,
        slack: float = SLACK,
    ) -> None:
        self.slack = slack
        if splitters is None and partitions is None:
            capacity = PARTITION_TUPLES  # it grows, and learns splitters each time it does
        count = partitions or max(capacity // PARTITION_TUPLES, 1)
        self.storage = LLAT(max(capacity, PARTITION_TUPLES), count, slack)
        self.histogram = Histogram.empty(count)
        self.splitters = splitters
        self.size = 0

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once. O(n)."""
        index = cls(keys.size, max(keys.size // PARTITION_TUPLES, 1))
        index.insert(keys, row_ids)
        return index

    def successor(self, capacity: int) -> Self:
        """Make the table of the next subwindow, its splitters adjusted to the keys of this one."""
        return self.make_adjusted(capacity, max(capacity // PARTITION_TUPLES, 1))

    def make_adjusted(self, capacity: int, partitions: int) -> Self:
        """Make an empty table of ``partitions``, its splitters adjusted to this one's keys."""
        splitters = adjust(self.histogram, partitions) if self.size else None
        return type(self)(capacity, partitions, splitters, self.slack)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.storage.partitions

    def insert(self, keys: Keys, row_ids: RowIds) -> None:
        """Add an ascending batch. O(log p) per tuple, less if many fall into one partition."""
        if not keys.size:
            return
        if self.size + keys.size > self.storage.capacity:
            self._grow(self.size + keys.size)
        if self.splitters is None:
            self.splitters = from_sample(keys, self.partitions)
        insert_batch(self.storage.entries, self.splitters, keys, row_ids, *self._histograms)
        self.size += keys.size

    def _grow(self, size: int) -> None:
        """Move the tuples into a table with room for more, under adjusted splitters. O(n log p)."""
        grown = self.successor(max(size, 2 * self.storage.capacity))
        if self.size:
            keys, row_ids, _ = self.storage.copy()
            grown._load(keys, row_ids)
        self.__dict__ = grown.__dict__

    def _load(self, keys: Keys, row_ids: RowIds) -> None:
        """Add tuples in any order."""
        assert self.splitters is not None
        owners = find_partitions(self.splitters, keys)
        insert_tuples(self.storage.entries, owners, keys, row_ids)
        count_keys(keys, owners, *self._histograms)
        self.size += keys.size

    @property
    def _histograms(self) -> tuple[Keys, Keys, Keys]:
        return self.histogram.counts, self.histogram.least, self.histogram.greatest

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        if not self.size:
            return
        assert self.splitters is not None
        low, high = (find_partitions(self.splitters, bounds) for bounds in (lower, upper))
        table, counts = self.storage.entries, self.histogram.counts
        yield from hand_over(
            lower.size,
            lambda *place: scan_partitions(table, counts, lower, upper, low, high, *place),
        )

    def seal(self) -> None:
        """Nothing to do: unused entries were never touched, so they take no memory."""

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """Bytes of the entries that are in use, the histograms and the splitters."""
        histogram = self.histogram
        arrays = [histogram.counts, histogram.least, histogram.greatest, self.splitters]
        return self.storage.nbytes + sum(each.nbytes for each in arrays if each is not None)

    def to_arrow(self) -> pa.RecordBatch:
        """Snapshot by partition; the splitters go into the metadata."""
        keys, row_ids, _ = self.storage.copy()
        batch = pa.record_batch({"keys": keys, "row_ids": row_ids})
        if self.splitters is None:
            return batch
        return batch.replace_schema_metadata({SPLITTERS: self.splitters.tobytes()})

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Self:
        """Load a snapshot. O(n log p), nothing is sorted."""
        saved = (batch.schema.metadata or {}).get(SPLITTERS)
        if saved is None:
            return cls()
        splitters = np.frombuffer(saved, np.int64).copy()
        refuse_unless(is_ascending(splitters), "the splitters of a RaP-Table do not ascend")
        index = cls(batch.num_rows, splitters.size + 1, splitters)
        index._load(batch["keys"].to_numpy(), batch["row_ids"].to_numpy())
        return index

    def check(self) -> None:
        self.storage.check()
        keys, row_ids, ends = self.storage.copy()
        assert keys.size == self.size == np.unique(row_ids).size
        if self.splitters is not None:
            assert self.splitters.size == self.partitions - 1
            assert np.all(self.splitters[:-1] <= self.splitters[1:])
            owners = np.repeat(np.arange(self.partitions), np.diff(ends, prepend=0))
            assert np.array_equal(np.searchsorted(self.splitters, keys), owners)
            there = Histogram.of_cells(keys, owners.astype(np.int32), self.partitions)
            assert np.array_equal(self.histogram.counts, there.counts)
            assert np.array_equal(self.histogram.least, there.least)
            assert np.array_equal(self.histogram.greatest, there.greatest)
