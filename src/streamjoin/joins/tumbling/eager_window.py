"""One open window whose matches are found as its rows arrive, by an eager algorithm.

Each side's rows are numbered through the window from 0. A push can be undone until it is settled:
the algorithm starts again, and replays the settled pushes. A window is restored the same way, from
its rows and, if it matters, from how they were cut into pushes. The algorithms are those of Zhang
et al., "Parallelizing Intra-Window Join on Multicores: An Experimental Study" (SIGMOD 2021).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from streamjoin.errors import SnapshotError
from streamjoin.joins.equality.algorithms import make_eager
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.protocol import Eager
from streamjoin.joins.equality.words import NO_WORDS, Words, make_words
from streamjoin.joins.outcomes.outcome import Alone, give_early
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.rows import Column, Rows
from streamjoin.joins.tumbling.closed import ClosedSide, found_of, with_plan
from streamjoin.kernels.compile import Keys, Positions
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.marks import NO_KEYS, Marks, MarksOf
from streamjoin.plans.plan import SIDES, JoinPlan, KeyColumns
from streamjoin.plans.prepared import Prepared, append_marks
from streamjoin.plans.window_keys import word_keys


@dataclass(frozen=True)
class Recipe:
    """An eager algorithm, and the arguments to make it with."""

    name: str
    threads: int
    tuning: tuple[tuple[str, int], ...] = ()

    def make(self) -> Eager:
        """Return it, for a new window."""
        return make_eager(self.name, self.threads, **dict(self.tuning))

    @property
    def has_runs(self) -> bool:
        """Whether the matches found so far depend on how rows were pushed."""
        return self.name.startswith("pmj")


@dataclass
class WindowSide:
    """The rows of one side, and their keys."""

    rows: Rows = field(default_factory=Rows)
    equalities: list[Column] = field(default_factory=list)
    ranges: list[Column] = field(default_factory=list)
    ordinals: Column | None = None  # if rows are observed; see `joins.lives`
    marks: Marks | None = None  # if it counts whether rows match

    @classmethod
    def of(cls, plan: JoinPlan, side: Side) -> "WindowSide":
        """Make an empty one."""
        return cls(
            Rows(limits=plan.limits),
            [Column(plan.limits) for _ in plan.equalities],
            [Column(plan.limits) for _ in plan.ranges],
            Column(plan.limits) if plan.names_rows else None,
            plan.make_marks(side),
        )

    def append(self, batch: Prepared) -> None:
        """Add rows."""
        self.rows.append(batch.rows)
        for column, keys in zip(self.equalities, batch.keys.equalities, strict=True):
            column.append(keys)
        for column, keys in zip(self.ranges, batch.keys.ranges, strict=True):
            column.append(keys)
        if self.ordinals is not None:
            assert batch.ordinals is not None
            self.ordinals.append(batch.ordinals)
        if self.marks is not None:
            # They are due when the window closes; only their patience goes by their times.
            append_marks(self.marks, batch, NO_KEYS if batch.times is None else batch.times)

    def keep_first(self, count: int) -> None:
        """Forget all rows but the first ones."""
        self.rows.keep_first(count)
        for column in self._columns:
            column.size = min(column.size, count)
        if self.marks is not None:
            self.marks.keep_first(count)

    @property
    def _columns(self) -> list[Column]:
        ordinals = [] if self.ordinals is None else [self.ordinals]
        return [*self.equalities, *self.ranges, *ordinals]

    def ordinals_from(self, first: int) -> Keys | None:
        """Return the ordinals of the rows from ``first`` on, if rows are observed."""
        return None if self.ordinals is None else self.ordinals.values[first:]

    def marks_of(self, rows: Positions | slice) -> MarksOf | None:
        """Return the marks of rows, if it counts whether they match."""
        return None if self.marks is None else MarksOf.select(self.marks, rows)

    def take_early(self, plan: JoinPlan, side: Side, bound: int) -> Iterator[Alone]:
        """Give the rows before a time that are not settled, each once."""
        if self.marks is not None:
            assert plan.time_part is not None
            times = self.ranges[plan.time_part].values
            rows, are_open = self.marks.take_early(bound, times)
            if rows.size:
                batch = self.rows.take(are_open.astype(np.int32))
                yield give_early(side, batch, self.marks, rows)

    def keys(self, first: int = 0) -> KeyColumns:
        """Return the keys of the rows from ``first`` on."""
        return KeyColumns(
            tuple(column.values[first:] for column in self.equalities),
            tuple(column.values[first:] for column in self.ranges),
            self.rows.size - first,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of rows and keys."""
        marks = 0 if self.marks is None else self.marks.nbytes
        return self.rows.nbytes + sum(column.nbytes for column in self._columns) + marks


class EagerWindow:
    """See the module docstring; ``plan`` is the plan for rows of one window."""

    def __init__(self, plan: JoinPlan, recipe: Recipe) -> None:
        self.plan, self.recipe = plan, recipe
        self.eager = recipe.make()
        self.sides: dict[Side, WindowSide] = {side: WindowSide.of(plan, side) for side in SIDES}
        # Rows after each push that is settled.
        self.steps = {side: Column(plan.limits) for side in SIDES}
        self.is_settled = True
        self.counts = dict.fromkeys(SIDES, 0)  # rows before the last push
        self.exact = True  # so far, equal codes mean equal keys

    def count(self, side: Side) -> int:
        """Return how many rows a side has."""
        return self.sides[side].rows.size

    @property
    def nbytes(self) -> int:
        """Bytes of all rows and of what finds them."""
        return self.eager.nbytes + sum(side.nbytes for side in self.sides.values())

    def push(self, batches: Mapping[Side, Prepared]) -> list[Found]:
        """Take in rows, and return their matches; until `settle`, `undo` removes them again."""
        self.is_settled = False
        self.counts = {side: self.count(side) for side in SIDES}
        words: dict[Side, Words] = {}
        for side, batch in batches.items():
            batch = with_plan(batch, self.plan)
            words[side] = self._words(batch.keys, self.count(side))
            self.sides[side].append(batch)
        return self._found(
            self.eager.push(words.get("left", NO_WORDS), words.get("right", NO_WORDS))
        )

    def close(self) -> list[Found]:
        """Return the matches found only at the end; nothing may be pushed after this."""
        return self._found(self.eager.close())

    def settle(self) -> None:
        """Keep what was pushed."""
        if not self.is_settled:
            for side in SIDES:
                if not self.recipe.has_runs:
                    self.steps[side].drop_first(self.steps[side].size)
                self.steps[side].append(np.array([self.count(side)]))
            self.is_settled = True

    @property
    def saved(self) -> dict[str, Any]:
        """What `restore` needs beside the rows."""
        steps = {side: self.steps[side].values.tolist() for side in SIDES}
        return {"recipe": asdict(self.recipe), "steps": steps}

    @classmethod
    def restore(
        cls, plan: JoinPlan, saved: dict[str, Any], batches: Mapping[Side, Prepared]
    ) -> "EagerWindow":
        """Return a window that continues a saved one, once it `is_whole`."""
        fields = saved["recipe"]
        tuning = tuple((name, value) for name, value in fields["tuning"])
        window = cls(plan, Recipe(fields["name"], fields["threads"], tuning))
        for side in SIDES:
            steps = np.array(saved["steps"][side], np.int64)
            if (np.diff(steps, prepend=0) < 0).any():
                raise SnapshotError(f"rows cannot have been pushed as {steps.tolist()}")
            window.steps[side].append(steps)
        window.take_back(batches)
        return window

    def take_back(self, batches: Mapping[Side, Prepared]) -> None:
        """Load rows that were stored before; with the last of them, the window is whole."""
        for side, batch in batches.items():
            self.sides[side].append(with_plan(batch, self.plan))
            if self.count(side) > self._pushed(side):
                raise SnapshotError(
                    f"{self.count(side)} rows were stored of {self._pushed(side)} that were pushed"
                )
        if self.is_whole:
            self.replay()

    def _pushed(self, side: Side) -> int:
        return int(sum(self.steps[side].values[-1:]))

    @property
    def is_whole(self) -> bool:
        """Whether all rows that were ever pushed are present."""
        return all(self.count(side) == self._pushed(side) for side in SIDES)

    def undo(self) -> None:
        """Remove the last push, if it is not settled."""
        if self.is_settled:
            return
        for side in SIDES:
            settled = self.steps[side].values
            self.sides[side].keep_first(int(settled[-1]) if settled.size else 0)
        self.is_settled = True
        self.replay()

    def undo_settled(self) -> None:
        """Remove the last push, which is settled."""
        for side, count in self.counts.items():
            self.sides[side].keep_first(count)
            steps = self.steps[side]
            steps.size -= 1
            if not self.recipe.has_runs and any(self.counts.values()):
                steps.append(np.array([count]))
        self.replay()

    def replay(self) -> None:
        """Run the algorithm through all pushes again; it may have begun to close."""
        self.eager = self.recipe.make()
        steps = {side: [0, *self.steps[side].values.tolist()] for side in SIDES}
        words = {side: self._words(self.sides[side].keys(), 0) for side in SIDES}
        spans = zip(*(pairwise(steps[side]) for side in SIDES), strict=True)
        for left, right in spans:
            self.eager.push(words["left"][slice(*left)], words["right"][slice(*right)])

    def rows_of(self, side: Side) -> list[Prepared]:
        """Return the rows of a side, as they were pushed."""
        return [self._prepared(side, 0)] if self.count(side) else []

    def _words(self, keys: KeyColumns, first: int) -> Words:
        one, exact = word_keys(self.plan, keys)
        words, whole = make_words(one, first=first)
        self.exact &= exact and whole
        return words

    def _prepared(self, side: Side, first: int) -> Prepared:
        """Return the rows of a side from ``first`` on, as one batch."""
        held = self.sides[side]
        rows, ordinals = held.rows.stretch(first), held.ordinals_from(first)
        marks = held.marks_of(slice(first, held.rows.size))
        return Prepared(self.plan, side, rows, held.keys(first), ordinals, marks=marks)

    @property
    def all_rows(self) -> dict[Side, Prepared]:
        """All rows of the sides that have any."""
        return {side: self._prepared(side, 0) for side in SIDES if self.count(side)}

    def _found(self, pieces: list[Piece]) -> list[Found]:
        """Turn pieces into `Found`s; those of one side share its rows."""
        found = []
        for side in SIDES:
            of_side = [piece for piece in pieces if piece.probing == side and len(piece)]
            if not of_side:
                continue
            first = min(int(piece.probes.min()) for piece in of_side)
            probing, other = self._prepared(side, first), self.sides[OTHER[side]]
            stored = ClosedSide(
                other.rows.glimpse(), other.keys(), other.ordinals_from(0), other.marks
            )
            found += [found_of(piece, probing, first, stored, self.exact) for piece in of_side]
        return found
