"""A window as a chain of subwindows (PanJoin III-A): insert at one end, drop at the other.

Only the newest subwindow takes inserts, the middle ones never change, and the oldest is dropped
whole once all its rows have left the window; until then, probes skip its expired rows::

    time    ... ----------------------------------------------------> now
    chain   [ oldest: some expired ] [ sealed ] [ sealed ] [ newest: takes inserts ]
                                                    ^ late rows go to the late index of theirs

Rows arrive out of order within the watermark. A subwindow is responsible for the times from its
``start`` to the next one's; a row older than the newest's start goes into the late index of the
subwindow that is responsible for it (III-G2), which keeps the time ranges of subwindows apart, so
that expiry stays whole and probes can skip subwindows. A late index stays small, at most a quarter
of its subwindow: beyond that, rows go into the newest like any other. Which subwindow holds a row
never changes the result.

With an index that drops row by row, the newest subwindow is the whole window
(`WholeWindowSubwindow`): it is never full, unless another kind of structure is to come. What has
come since the structure was chosen is counted, so that the choice can be looked at again.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from streamjoin.choice.calibration_file import load_calibration
from streamjoin.choice.structure import (
    Choice,
    Samples,
    Stored,
    choose,
    choose_again,
    choose_order,
)
from streamjoin.indexes.catalogue import TWO_KEYS, WHOLE_WINDOWS, make_index
from streamjoin.indexes.protocol import Structure
from streamjoin.indexes.trees.window_index import WindowIndex
from streamjoin.joins.sliding.sizes import Sizes, sizes_of
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.joins.sliding.two_key_subwindow import TwoKeySubwindow
from streamjoin.joins.sliding.whole_window import WholeWindowSubwindow
from streamjoin.kernels.compile import MIN_KEY, Keys, Positions
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan, Layout
from streamjoin.plans.prepared import Prepared
from streamjoin.windows import Window

MakeIndex = Callable[[str, int], Structure]  # takes a structure's name, and the capacity expected


class Chain:
    """The stored rows of one stream, oldest subwindow first."""

    def __init__(
        self,
        plan: JoinPlan,
        sizes: Sizes,
        structure: str,
        make_index: MakeIndex,
        numbered: bool,
        follows: bool = False,
    ) -> None:
        self.plan, self.sizes, self.make_index = plan, sizes, make_index
        self.numbered = numbered  # whether rows have ordinals
        self.follows = follows  # whether it counts which rows match
        layouts = plan.crossings() if structure in TWO_KEYS else plan.layouts()
        self.layout: Layout = layouts[0]  # of the next subwindow, and so is its structure
        self.structure = structure
        self.greatest: int | None = None  # key in a sample from when the newest subwindow began
        self.pushes, self.arrived = 0, 0  # and rows, since the structure was chosen
        self.subwindows: list[Subwindow] = []

    def __iter__(self) -> Iterator[Subwindow]:
        return iter(self.subwindows)

    def __len__(self) -> int:
        """Count the rows held, expired ones included."""
        return sum(len(subwindow) for subwindow in self.subwindows)

    @property
    def nbytes(self) -> int:
        """Bytes that all subwindows hold."""
        return sum(subwindow.nbytes for subwindow in self.subwindows)

    @property
    def choices(self) -> tuple[Layout, str, int | None, int, int]:
        """What has been learnt of the rows for the next subwindow."""
        return self.layout, self.structure, self.greatest, self.pushes, self.arrived

    @choices.setter
    def choices(self, choices: tuple[Layout, str, int | None, int, int]) -> None:
        self.layout, self.structure, self.greatest, self.pushes, self.arrived = choices

    def know(self, side: Side, rows: int = 0) -> Stored:
        """Return what a choice goes by; ``rows`` of the window, where the chain does not know."""
        last = Choice(self.layout, self.structure, self.greatest)
        held = max(rows, self.sizes.rows, len(self))
        return Stored(side, last, held, self.expected, self.sizes.rows)

    def choose(self, side: Side, samples: Samples, batch: int, rows: int = 0) -> None:
        """Choose layout and structure of the next subwindow."""
        stored = self.know(side, rows)
        self.adopt(choose(self.plan, stored, samples, batch, load_calibration()))

    def choose_again(self, side: Side, samples: Samples, batch: int) -> None:
        """Choose the structure of the next subwindow, beside one that is not full."""
        stored = self.know(side)
        self.adopt(choose_again(self.plan, stored, samples, batch, load_calibration()))

    def choose_order(self, side: Side, samples: Samples) -> None:
        """Choose the layout of the next subwindow; the structure was asked for."""
        self.adopt(choose_order(self.plan, self.know(side), samples))

    def adopt(self, choice: Choice) -> None:
        """Make the next subwindow like that."""
        self.layout, self.structure = choice.layout, choice.structure
        self.greatest = choice.greatest

    @property
    def expected(self) -> int:
        """How many rows the next subwindow is going to have, as far as the ones before tell."""
        return len(self.subwindows[-1]) if self.subwindows else 0

    def room(self, coming: int) -> int:
        """Return how many of so many rows fit into the newest subwindow."""
        newest = self.subwindows[-1]
        if newest.is_sealed:
            return 0
        if isinstance(newest, WholeWindowSubwindow):
            return self.sizes.at_once if self.structure in WHOLE_WINDOWS else 0
        sizes = self.sizes if newest.layout.crossed is None else self.sizes.finer
        return sizes.room(len(newest), newest.newest - newest.oldest, coming)

    def begins_another(self, coming: int) -> bool:
        """Whether so many rows need a new subwindow, at once or when the newest is full."""
        return not self.subwindows or self.room(coming) < coming

    def is_full(self, coming: int) -> bool:
        """Whether an insert of so many rows begins a new subwindow."""
        return not self.subwindows or self.room(coming) <= 0

    def note(self, coming: int) -> None:
        """Note that a push brings rows."""
        self.pushes, self.arrived = self.pushes + 1, self.arrived + coming

    @property
    def may_switch(self) -> bool:
        """Whether all rows of a whole window, which is never full, came after the last choice."""
        newest = self.subwindows[-1] if self.subwindows else None
        enough = max(len(self), self.plan.limits.least_rows_per_choice)
        return isinstance(newest, WholeWindowSubwindow) and self.arrived >= enough

    def typical_batch(self, coming: int) -> int:
        """Return the rows of a push, on average since the last choice; count anew."""
        pushes, arrived = self.pushes, self.arrived
        self.pushes = self.arrived = 0
        return arrived // pushes if pushes else coming

    def insert(self, batch: Prepared) -> Counter[str]:
        """Store a batch: late rows in the subwindows of their time, the others in the newest.

        Returns how many subwindows it took to create, and how many inserts.
        """
        done: Counter[str] = Counter()
        if batch.times is not None and self.subwindows and len(batch):
            batch, done["insert"] = self._insert_late(batch, batch.times)
        first = 0
        while first < len(batch):
            rest = batch.take(slice(first, None)) if first else batch
            if self.is_full(len(rest)):
                self._create_for(rest)
                done["create"] += 1
            room = self.room(len(rest))
            last = first + min(room, self.sizes.at_once, len(rest))
            whole = rest if last == len(batch) else batch.take(slice(first, last))
            self.subwindows[-1].insert(whole)
            done["insert"] += 1
            first = last
        return done

    def create(self, capacity: int, start: int = MIN_KEY) -> None:
        """Seal the newest subwindow and put an empty one behind it."""
        if self.subwindows:
            self.subwindows[-1].seal()
        self.subwindows.append(self._make_subwindow(capacity, start))

    def _make_subwindow(self, capacity: int, start: int) -> Subwindow:
        """Make an empty subwindow, whose index knows what the one before has learnt."""
        before = self.subwindows[-1] if self.subwindows else None
        if before is not None and before.kind == (self.layout, self.structure):
            index = before.index.successor(capacity)
        else:
            index = self.make_index(self.structure, capacity)
        return self.enclose(index, self.layout, self.structure, start)

    def enclose(
        self,
        index: Structure,
        layout: Layout,
        structure: str,
        start: int = MIN_KEY,
        copies: bool = True,
    ) -> Subwindow:
        """Return a subwindow around an index, without rows so far."""
        kind: type[Subwindow] = Subwindow
        if isinstance(index, WindowIndex):
            kind = WholeWindowSubwindow
        elif layout.crossed is not None:
            kind = TwoKeySubwindow
        follows = self.follows and copies
        return kind.create(
            self.plan, layout, structure, index, self.numbered, start, copies, follows
        )

    def standalone_subwindow(self, batch: Prepared) -> Subwindow:
        """Return a subwindow of one batch, outside the chain and for as long as the batch lives."""
        structure = "bi_sort" if self.structure in WHOLE_WINDOWS else self.structure
        index = self.make_index(structure, len(batch))
        subwindow = self.enclose(index, self.layout, structure, copies=False)
        subwindow.insert(batch)
        subwindow.marks = batch.marks
        return subwindow

    def _create_for(self, coming: Prepared) -> None:
        """Begin the next subwindow, which takes rows that come."""
        start = MIN_KEY
        if self.subwindows and coming.times is not None:
            start = self._next_start(coming.times)
        # The first one may stay small; where one was filled, the next will be.
        fills = self.sizes.ticks is None and bool(self.subwindows)
        capacity = self.sizes.most if fills else min(len(coming), self.sizes.most)
        if self.structure in WHOLE_WINDOWS:
            capacity = self.sizes.rows or capacity
        self.create(capacity, start)

    def _next_start(self, times: Keys) -> int:
        """Return where the next subwindow starts: at the end of the newest.

        But not after half of what is coming: a single time far ahead would make all that follows
        late.
        """
        newest, middle = self.subwindows[-1], times.size // 2
        median = int(np.partition(times, middle)[middle])
        return max(newest.start, min(newest.newest, median))

    def _insert_late(self, batch: Prepared, times: Keys) -> tuple[Prepared, int]:
        """Put late rows into the late indexes; return the other rows, and how many inserts."""
        inserts = 0
        is_full = self.is_full(len(batch))
        newest_start = self._next_start(times) if is_full else self.subwindows[-1].start
        starts = np.array([subwindow.start for subwindow in self.subwindows])
        owners = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
        stays = times >= newest_start
        for owner in np.unique(owners[~stays]):
            subwindow = self.subwindows[owner]
            rows = np.flatnonzero(~stays & (owners == owner))
            late, stays[rows[subwindow.late_room :]] = rows[: subwindow.late_room], True
            if late.size:
                subwindow.insert_late(
                    batch.take(late), partial(self.make_index, subwindow.structure, 0)
                )
                inserts += 1
        return (batch if stays.all() else batch.take(np.flatnonzero(stays))), inserts

    def expire(self, before: int) -> int:
        """Drop what is before a time, or an ordinal; return how many subwindows had any of it."""
        expired = 0
        for subwindow in list(self.subwindows):
            if subwindow.last < before:
                self.subwindows = [each for each in self.subwindows if each is not subwindow]
                expired += 1
            elif isinstance(subwindow, WholeWindowSubwindow) and subwindow.first < before:
                subwindow.expire(before)
                expired += 1
        return expired

    def take_due(self, bound: int) -> Iterator[tuple[Subwindow, Positions]]:
        """Settle the rows that are not, whose time or ordinal is before a bound, and yield them."""
        for subwindow in self.subwindows:
            rows = subwindow.take_due(bound)
            if rows.size:
                yield subwindow, rows

    def take_early(self, bound: int) -> Iterator[tuple[Subwindow, Positions, Positions]]:
        """Yield the rows whose time is before a bound, once each, and those not settled."""
        for subwindow in self.subwindows:
            rows, are_open = subwindow.take_early(bound)
            if rows.size:
                yield subwindow, rows, are_open

    def clear(self) -> None:
        """Forget all rows."""
        self.subwindows = []

    def drop_empty(self) -> None:
        """Let a subwindow that has lost all its rows leave the chain."""
        self.subwindows = [subwindow for subwindow in self.subwindows if len(subwindow)]

    def check(self) -> None:
        """Assert every subwindow's invariants, and that the starts ascend."""
        for subwindow in self.subwindows:
            subwindow.check()
            assert len(subwindow)
        starts = [subwindow.start for subwindow in self.subwindows]
        assert starts == sorted(starts)


def make_chains(
    plan: JoinPlan,
    window: Window | None,
    structure: str,
    numbered: bool,
    threads: int,
    cores: int = 1,
) -> dict[Side, Chain]:
    """Return an empty chain for each side; each of ``cores`` should get a subwindow of it."""
    first: dict[Side, str] = dict.fromkeys(SIDES, "bi_sort" if structure == "auto" else structure)
    if plan.defers and plan.counted is None:
        first["left"] = "scan"  # nothing looks for left rows

    def new_index(structure: str, capacity: int) -> Structure:
        return make_index(structure, capacity, threads)

    return {
        side: Chain(
            plan,
            sizes_of(window, plan, side, cores),
            first[side],
            new_index,
            numbered,
            side in plan.follows or (plan.defers and side == "left"),
        )
        for side in SIDES
    }
