"""The plan: what a join knows before it sees a value, and the layouts an index may have.

Which parts give keys, which are left for the candidates, and which combinations (`Layout`) an index
can be sorted by. The time window is one more range part, over the time columns; where nothing is
more selective, the index is sorted by time. `binding` makes a plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from streamjoin.conditions import swap_aliases
from streamjoin.expressions.parsing import columns
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.keys.bound_terms import EqualityPart, RangePart
from streamjoin.keys.composite import compose, compose_range
from streamjoin.keys.hashing import FIXED, hash_columns
from streamjoin.keys.key_ranges import Range, make_disjoint
from streamjoin.keys.operands import Schemas, Side
from streamjoin.keys.window_part import WindowPart
from streamjoin.plans.limits import DEFAULT_LIMITS, Limits

SIDES: tuple[Side, Side] = ("left", "right")
SUBWINDOWS_PER_WINDOW = 2  # or one a core if there are more cores
SAMPLE = 256  # rows of a batch that the choice of a layout looks at


@dataclass(frozen=True)
class Layout:
    """What an index is sorted by: the equalities, a range part, or both.

    With a ``crossed`` part, the same rows are sorted by that as well.
    """

    equalities: bool
    range_part: int | None
    crossed: int | None = None

    @cached_property
    def orders(self) -> "tuple[Layout, ...]":
        """The orders that rows are sorted into, each a layout of its own; probes take the last."""
        if self.crossed is None:
            return (self,)
        parts = (self.range_part, self.crossed)
        return tuple(Layout(self.equalities, part) for part in parts)

    @property
    def parts(self) -> set[int]:
        """The range parts that rows are sorted by."""
        return {part for part in (self.range_part, self.crossed) if part is not None}


@dataclass(frozen=True)
class KeyColumns:
    """The keys of a batch's rows, one array a part; all arrays have the same length."""

    equalities: tuple[Keys, ...]
    ranges: tuple[Keys, ...]
    rows: int

    @classmethod
    def concatenate(cls, parts: "Sequence[KeyColumns]") -> "KeyColumns":
        """Put the keys of some batches one after the other."""
        columns = zip(*(part.equalities for part in parts), strict=True)
        ranges = zip(*(part.ranges for part in parts), strict=True)
        return cls(
            tuple(np.concatenate(each) for each in columns),
            tuple(np.concatenate(each) for each in ranges),
            sum(part.rows for part in parts),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all keys."""
        return sum(keys.nbytes for keys in (*self.equalities, *self.ranges))

    def sample(self) -> "KeyColumns":
        """Select some rows, spread evenly."""
        return self.take(np.linspace(0, self.rows - 1, min(self.rows, SAMPLE)).astype(np.int64))

    def take(self, rows: NDArray[Any] | slice) -> "KeyColumns":
        """Select rows."""
        taken = rows.size if isinstance(rows, np.ndarray) else len(range(*rows.indices(self.rows)))
        return KeyColumns(
            tuple(keys[rows] for keys in self.equalities),
            tuple(keys[rows] for keys in self.ranges),
            taken,
        )


@dataclass(frozen=True)
class JoinPlan:
    """A condition and window, bound: see the module docstring."""

    schemas: Schemas
    equalities: tuple[EqualityPart, ...]
    ranges: tuple[RangePart, ...]
    time_part: int | None  # the place of the time window among ``ranges``
    filters: dict[Side, exp.Expression | None]  # conditions on one side's rows alone
    residuals: tuple[exp.Expression, ...]  # conditions on pairs that no key can tell
    compared: tuple[tuple[str, str], ...] = ()  # columns whose hashes are equal: are the values?
    residual_columns: dict[Side, tuple[str, ...]] = field(default_factory=dict)
    counted: dict[Side, int] | None = None  # the rows of a count window
    implied: frozenset[int] = frozenset()  # range parts that hold wherever the equalities do
    longest_pause: int | None = None  # session windows: in keys of the time part
    closes: bool = False  # `Window.closes`
    seed: int = FIXED  # of hashes
    follows: frozenset[Side] = frozenset()  # sides for whose rows it counts whether they match
    ranked: frozenset[int] = frozenset()  # range parts whose keys rank pairs: rows keep them
    defers: bool = False  # sliding windows: left rows wait until no pair can come any more
    names_rows: bool = False  # whether the rows of each match are told; see `joins.lives`
    names_settled: bool = False  # whether rows that are settled are told, by their ordinals
    limits: Limits = DEFAULT_LIMITS

    def seeded(self, seed: int) -> "JoinPlan":
        """Return the same plan with other hashes."""
        equalities = tuple(replace(part, seed=seed) for part in self.equalities)
        return replace(self, equalities=equalities, seed=seed)

    @property
    def same_keys(self) -> bool:
        """Whether a row has the same keys as a left and as a right row, as in most self-joins."""

        def mirrored(left: exp.Expression, right: exp.Expression) -> bool:
            return swap_aliases(left.sql("spark")) == right.sql("spark")

        parts: list[EqualityPart | RangePart] = [*self.equalities, *self.ranges]
        trees = [part.operands.expressions for part in parts]
        return (
            self.schemas["left"] == self.schemas["right"]
            and all(mirrored(tree["left"], tree["right"]) for tree in trees)
            and self.filters == {"left": None, "right": None}
        )

    def key_columns(self, side: Side) -> list[str]:
        """Return the columns of a side that keys are computed from, and that tell what matches."""
        parts: list[EqualityPart | RangePart] = [*self.equalities, *self.ranges]
        trees = [part.operands.expressions[side] for part in parts]
        condition = self.filters[side]
        found = [pair for tree in trees for pair in columns(tree)]
        found += [] if condition is None else columns(condition)
        return sorted({name for _, name in found})

    def needed_from(self, watermark: int) -> dict[Side, int]:
        """Return the least time on each side that rows from ``watermark`` on can still meet."""
        assert self.time_part is not None
        [(low, high)] = self.ranges[self.time_part].exact
        left = watermark + int(low)
        # A left row that waits looks for its matches when it is no longer needed itself.
        return {"left": left, "right": (left if self.defers else watermark) - int(high)}

    @property
    def marked(self) -> "frozenset[Side]":
        """The sides whose rows have marks: of left rows that wait, these tell which were given."""
        return self.follows | {"left"} if self.defers else self.follows

    @property
    def window_part(self) -> WindowPart | None:
        """The number of the window, the last of the equalities, if windows are tumbling."""
        last = self.equalities[-1] if self.equalities else None
        return last if isinstance(last, WindowPart) else None

    @property
    def own_equalities(self) -> tuple[EqualityPart, ...]:
        """The equalities of the condition."""
        return self.equalities if self.window_part is None else self.equalities[:-1]

    @cached_property
    def groups(self) -> "JoinPlan | None":
        """Session windows: the same without what takes no part in sessions; None if all does."""
        no_filters: dict[Side, exp.Expression | None] = {"left": None, "right": None}
        if self.longest_pause is None or (not self.open_ranges and self.filters == no_filters):
            return None
        assert self.time_part is not None
        time = (self.ranges[self.time_part],)
        implied = frozenset([0])
        return replace(self, ranges=time, time_part=0, implied=implied, filters=no_filters)

    @property
    def open_ranges(self) -> list[int]:
        """The range parts of the condition."""
        return [part for part in range(len(self.ranges)) if part not in self.implied]

    @property
    def has_residuals(self) -> bool:
        """Whether pairs need a look at their columns."""
        return bool(self.residuals or self.compared)

    @property
    def has_key(self) -> bool:
        """Whether there is anything that an index can be sorted by."""
        return bool(self.equalities or self.ranges)

    def layouts(self) -> list[Layout]:
        """Return the ways to sort an index, the one that is usually best first."""
        prefix = bool(self.equalities)
        return [Layout(prefix, part) for part in self._order()] or [Layout(prefix, None)]

    def crossings(self) -> list[Layout]:
        """Return the ways to sort an index by two range parts."""
        prefix = bool(self.equalities)
        return [Layout(prefix, b, a) for a, b in combinations(self._order(), 2)]

    def _order(self) -> list[int]:
        """Return the range parts that an index can be sorted by, the most selective first."""
        return sorted(set(range(len(self.ranges))) - self.implied, key=self._rank)

    def _rank(self, part: int) -> tuple[bool, int, bool]:
        # Bands before inequalities before not-equals; the window last among bands, since a
        # stored window holds little else than rows inside it.
        bound = self.ranges[part]
        return (not bound.bounded, len(bound.exact), part == self.time_part)

    def is_exact(self, layout: Layout) -> bool:
        """Whether the index answers its parts without false candidates."""
        if layout.equalities:
            return (
                layout.range_part is None and len(self.equalities) == 1 and self.equalities[0].exact
            )
        return True

    def answered(self, layout: Layout) -> set[int]:
        """Return the range parts that the index answers without false candidates."""
        return (layout.parts if self.is_exact(layout) else set()) | self.implied

    def index_keys(self, layout: Layout, keys: KeyColumns) -> Keys:
        """Return the keys that an index of this layout is sorted by."""
        if layout.range_part is None:
            if not layout.equalities:
                return np.zeros(keys.rows, np.int64)  # nothing to sort by: all rows are candidates
            return keys.equalities[0] if self.is_exact(layout) else self.hash_equalities(keys)
        range_keys = keys.ranges[layout.range_part]
        if not layout.equalities:
            return range_keys
        hashes = self.hash_equalities(keys)
        return compose(hashes, range_keys, self.ranges[layout.range_part].floating)

    def index_ranges(
        self, layout: Layout, side: Side, index_keys: Keys, keys: KeyColumns, order: RowIds | None
    ) -> list[Range]:
        """Return the ranges to probe the other side's indexes of this layout with.

        ``index_keys`` are those of ``keys``, and both are in ``order`` already if that is None;
        the other key columns are put in order only where the index keys do not tell all.
        """
        if layout.range_part is None:
            return [(index_keys, index_keys)]
        part = self.ranges[layout.range_part]
        if not layout.equalities:
            return part.ranges(side, index_keys)
        if order is not None:
            keys = keys.take(order)
        hashes = self.hash_equalities(keys)
        ranges = part.ranges(side, keys.ranges[layout.range_part])
        composed = [compose_range(hashes, lower, upper, part.floating) for lower, upper in ranges]
        # Rounded, two ranges can share a key, and what lies there would be found twice.
        return make_disjoint(composed) if len(composed) > 1 else composed

    def hash_equalities(self, keys: KeyColumns) -> Keys:
        """Return one hash of all equality keys of a row."""
        return hash_columns(keys.equalities, self.seed)
