"""Routing: which core stores a row, and which cores it probes.

The key space is cut into cells, and each cell belongs to a core; a cell that is too heavy for one
belongs to all of them. A row is stored by one core of its cell and probes the cores of every cell
that its range touches::

    splitters        10      20      30                   band of 3: key 18 is stored by core 0
    cells       0     |   1   |   2   |   3               and probes keys 15 to 21, in cells 1
    owners      0         0       1       1               and 2, so cores 0 and 1

The three routings of a join differ in their keys alone:

* ``hash``: the hash of the equalities, and a range of one key;
* ``range``: the key of a band, and the band's ranges;
* ``split``: no key; one cell that belongs to all cores (SplitJoin: store once, probe everywhere).

A stream may bring keys unlike any before: sequence numbers, or prices that drift. So the cells
below the least key seen and above the greatest one belong to all cores too.

When the load gets uneven, or many keys are new, a new *epoch* begins with other splitters, found by
PanJoin's adjustment. Rows are stored under the newest epoch, and probe under every epoch that still
has rows, so that no stored row ever moves. An epoch ends when the watermark has passed the last row
stored under it.

Everything here depends on its arguments alone: cores that see the same histograms make the same
tables, and need not talk to each other. A row's core depends on the table and on the row, not on
the rows around it (`lots`): whatever the order of rows, all cores agree on where each one goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Flags, Keys, RowIds, kernel
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.splitters import Cells, Histogram, adjust, from_sample, locate, weights
from streamjoin.spark.routing.lots import deal, draw_lots

ALL = -1  # the owner of a cell that belongs to every core
CORE_CELLS = 16  # per core
HEAVY_SHARE = 0.5  # of a core's fair share: a cell of one key with more rows belongs to all cores
UNEVEN_LOAD = 1.25  # times the fair share: a core that gets more is reason for a new epoch
NEW_SHARE = 0.1  # of the rows: more beyond the keys seen before are reason for one too
HISTOGRAM_ROWS = 10_000  # that a histogram needs to be believed
LEARNT_ROWS = 1000  # that a table which stays is learnt from, at least
MOST_EPOCHS = 3  # alive together: each makes probes go to more cores

Cores = NDArray[np.int32]


@dataclass(frozen=True)
class Epoch:
    """Splitters, the owner of each cell, and the latest time of a row stored under them."""

    splitters: Keys
    owners: Cores
    newest: int = MIN_KEY

    @classmethod
    def make(cls, splitters: Keys, cores: int, seen: tuple[int, int] | None = None) -> "Epoch":
        """Give each core neighbouring cells of equal weight, and the heavy ones to all.

        Given the least and the greatest key ``seen``, all cores share the keys beyond them.
        """
        shares = weights(splitters)
        heavy = (shares >= HEAVY_SHARE * shares.sum() / cores) & (shares > 1) & (cores > 1)
        light = np.where(heavy, 0, shares)
        middles = np.cumsum(light) - light / 2
        owners = np.minimum(middles * cores / max(light.sum(), 1), cores - 1).astype(np.int32)
        owners = np.where(heavy, np.int32(ALL), owners)
        if seen is not None:
            least, greatest = seen
            splitters = np.array([least, *splitters, min(greatest, MAX_KEY - 1) + 1], np.int64)
            owners = np.array([ALL, *owners, ALL], np.int32)
        return cls(splitters, owners)

    def load(self, histogram: Histogram, cores: int) -> NDArray[np.float64]:
        """Return how many of the rows each core would store."""
        shared = histogram.counts[self.owners == ALL].sum() / cores
        owned = self.owners != ALL
        alone = np.bincount(self.owners[owned], histogram.counts[owned], minlength=cores)
        return alone + shared


@dataclass(frozen=True)
class RoutingTable:
    """The epochs that have rows, the current one last."""

    cores: int
    epochs: tuple[Epoch, ...]

    @classmethod
    def split(cls, cores: int) -> "RoutingTable":
        """Return the table of SplitJoin: one cell that belongs to all cores."""
        return cls(cores, (Epoch(np.empty(0, np.int64), np.array([ALL], np.int32)),))

    @classmethod
    def even(cls, cores: int) -> "RoutingTable":
        """Return a table that gives each core an even part of all keys, such as hashes."""
        splitters = [MIN_KEY + (number << 64) // cores for number in range(1, cores)]
        owners = np.arange(cores, dtype=np.int32)
        return cls(cores, (Epoch(np.array(splitters, np.int64), owners),))

    @classmethod
    def spread(cls, cores: int) -> "RoutingTable":
        """Return a table for hashes before anything is known of them: `even`, in smaller cells."""
        splitters = from_sample(np.empty(0, np.int64), CORE_CELLS * cores)
        return cls(cores, (Epoch.make(splitters, cores, (MIN_KEY, MAX_KEY)),))

    @classmethod
    def from_sample(cls, sample: Keys, cores: int, more_comes: bool = False) -> "RoutingTable":
        """Return a table whose cores would store equal parts of a sample.

        If more rows come than the sample was taken from, keys beyond it are for all cores.
        """
        seen = (int(sample.min()), int(sample.max())) if more_comes and sample.size else None
        return cls(cores, (Epoch.make(from_sample(sample, CORE_CELLS * cores), cores, seen),))

    @classmethod
    def learn(
        cls, table: "RoutingTable | None", sample: Keys, rows: int, cores: int
    ) -> "RoutingTable":
        """Return a table that stays, made from the keys of so many rows; `split` if these are few.

        Rows that came under `split` have met all cores, or are met by all of them, until its epoch
        ends: so all matches of a row are found at its home, whenever it comes.
        """
        if rows < LEARNT_ROWS:
            return cls.split(cores) if table is None else table
        [learnt] = cls.from_sample(sample, cores, more_comes=True).epochs
        return cls(cores, (*([] if table is None else table.epochs), learnt))

    @property
    def is_learnt(self) -> bool:
        """Whether its cells follow from keys."""
        return bool(self.splitters.size)

    @property
    def is_spread(self) -> bool:
        """Whether this is still the table of `spread`: nothing was learnt since."""
        first = RoutingTable.spread(self.cores)
        return len(self.epochs) == 1 and np.array_equal(self.splitters, first.splitters)

    @property
    def splitters(self) -> Keys:
        """The splitters that rows are stored under."""
        return self.epochs[-1].splitters

    def cells(self, keys: Keys) -> Cells:
        """Return the cell that each row is stored in."""
        return locate(keys, self.splitters)

    def owners(self, cells: Cells, rows: pa.RecordBatch) -> Cores:
        """Return the core that stores each row; rows of a shared cell are dealt by their lots."""
        owners = self.epochs[-1].owners[cells]
        shared = np.flatnonzero(owners == ALL)
        if shared.size:
            owners[shared] = deal(draw_lots(rows, shared), self.cores)
        return owners

    def share_stored(self, owners: Cores) -> "Shares":
        """Return the rows that each core stores."""
        return Shares(*group_by_core(owners, self.cores))

    def share_probing(self, ranges: Sequence[Range], cells: Cells, owners: Cores) -> "Shares":
        """Return the rows that each core gets only to probe, besides those that it stores."""
        flags = np.zeros((self.cores, owners.size), np.bool_)
        for epoch in self.epochs:
            for lower, upper in ranges:
                mark(lower, upper, cells, epoch.splitters, epoch.owners, flags)
        return Shares(*collect_marked(flags, owners))

    def advance(
        self, histogram: Histogram, newest: int, expired: int | None, sample: Keys | None = None
    ) -> tuple["RoutingTable", bool]:
        """Return the table for the next rows, and whether a new epoch begins with it.

        ``newest`` is the latest time among the rows just stored; epochs whose rows all have times
        before ``expired`` end. A ``sample`` of the keys, if there is one, shows a hot key at once,
        where the adjustment would have to narrow it down from epoch to epoch.
        """
        aged = self.age(newest, expired)
        *alive, current = aged.epochs
        if len(alive) + 1 < MOST_EPOCHS and self._is_uneven(current, histogram):
            seen = int(histogram.least.min()), int(histogram.greatest.max())
            cells = CORE_CELLS * self.cores
            splitters = adjust(histogram, cells) if sample is None else from_sample(sample, cells)
            following = Epoch.make(splitters, self.cores, seen)
            if not np.array_equal(following.splitters, current.splitters):
                return RoutingTable(self.cores, (*alive, current, following)), True
        return aged, False

    def age(self, newest: int, expired: int | None) -> "RoutingTable":
        """Return the table for the next rows, if their homes stay; see `advance`."""
        *older, current = self.epochs
        current = replace(current, newest=max(current.newest, newest))
        alive = [each for each in older if expired is None or each.newest >= expired]
        return RoutingTable(self.cores, (*alive, current))

    def _is_uneven(self, current: Epoch, histogram: Histogram) -> bool:
        if self.cores == 1 or not current.splitters.size or histogram.total < HISTOGRAM_ROWS:
            return False
        rows, new = histogram.total, histogram.counts[0] + histogram.counts[-1]
        most = current.load(histogram, self.cores).max()
        return bool(most * self.cores > UNEVEN_LOAD * rows or new > NEW_SHARE * rows)

    def to_json(self) -> dict[str, Any]:
        """Return the table in a form that JSON can hold."""
        return {
            "cores": self.cores,
            "epochs": [
                [each.splitters.tolist(), each.owners.tolist(), each.newest] for each in self.epochs
            ],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "RoutingTable":
        """Read what `to_json` returned."""
        return cls(
            saved["cores"],
            tuple(
                Epoch(np.array(splitters, np.int64), np.array(owners, np.int32), newest)
                for splitters, owners, newest in saved["epochs"]
            ),
        )


@dataclass(frozen=True)
class Shares:
    """Row numbers by core: those of core c stand from ``starts[c]`` to ``starts[c + 1]``.

    One gather by ``rows`` brings a batch into this order, and a core's share is then a slice.
    """

    rows: RowIds
    starts: Keys

    def of(self, core: int) -> RowIds:
        """Return the rows of one core."""
        return self.rows[self.starts[core] : self.starts[core + 1]]


@kernel
def group_by_core(owners: Cores, cores: int) -> tuple[RowIds, Keys]:
    """Sort row numbers by core, by counting; return them, and where each core's begin."""
    starts = np.zeros(cores + 1, np.int64)
    for owner in owners:
        starts[owner + 1] += 1
    starts = np.cumsum(starts)
    slots, rows = starts[:-1].copy(), np.empty(owners.size, np.int32)
    for row in range(owners.size):
        rows[slots[owners[row]]] = row
        slots[owners[row]] += 1
    return rows, starts


@kernel
def collect_marked(flags: Flags, owners: Cores) -> tuple[RowIds, Keys]:
    """Return the marked rows of each core, without those that it owns."""
    starts = np.zeros(flags.shape[0] + 1, np.int64)
    rows = np.empty(flags.sum(), np.int32)
    found = 0
    for core in range(flags.shape[0]):
        for row in range(owners.size):
            if flags[core, row] and owners[row] != core:
                rows[found] = row
                found += 1
        starts[core + 1] = found
    return rows[:found], starts


@kernel
def holds(splitters: Keys, cell: np.int64, key: np.int64) -> bool:
    """Whether there is a cell of this number and it holds the key."""
    if cell > splitters.size:
        return False
    above = cell == 0 or splitters[cell - 1] <= key
    return bool(above and (cell == splitters.size or key < splitters[cell]))


@kernel
def mark(
    lower: Keys, upper: Keys, cells: Cells, splitters: Keys, owners: Cores, flags: Flags
) -> None:
    """Mark the cores of the cells that each range touches: often just the cell of its row."""
    for i in range(lower.size):
        if lower[i] > upper[i]:
            continue
        first = last = np.int64(cells[i])
        if not holds(splitters, first, lower[i]):
            first = np.searchsorted(splitters, lower[i], side="right")
        if not holds(splitters, last, upper[i]):
            last = np.searchsorted(splitters, upper[i], side="right")
        for cell in range(first, last + 1):
            owner = owners[cell]
            if owner < 0:
                flags[:, i] = True
                break
            flags[owner, i] = True
