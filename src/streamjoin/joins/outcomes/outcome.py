"""From pairs, and from rows that nothing matches, to the rows of the result.

An inner join gives pairs, and forgets them. Everything else asks of rows whether they match, so the
two rows of each pair are *settled* (`plans.marks`): those that probed in their batch, those that
were stored where they are held. What is given then::

    pair                how gives pairs: the pair      semi join: a row that was not settled before
    row that is due     outer and anti joins: the row, if it is not settled

With ``unmatched="early"``, rows are given before they are due, once their patience has run out. A
row that is settled by a match after that is taken back first: it comes once more, with ``-``.

All pairs pass through `Outcome.settle`, in one thread, after several may have gathered them. A step
that fails, or is interrupted, is taken back to a mark (`Engine.attempt`): what it has settled is
noted until then, each row once.

A row that is alone has NULL in the columns of the other side. More columns tell what a row is, if
they are asked for: ``_match`` (``both``, ``left_only``, ``right_only``), ``_late``, and ``_op``
(``+`` or, for what is taken back, ``-``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.errors import SchemaError
from streamjoin.joins.outcomes.neighbours.beside import OneEach, fetch_beside
from streamjoin.joins.pairs.candidates import Found, Holder, confirm_pairs, name_pairs
from streamjoin.joins.pairs.deliver import (
    Claims,
    Delivery,
    Names,
    concat_columns,
    gather,
    name_all_pairs,
)
from streamjoin.kernels.compile import Flags, Keys, Positions, RowIds
from streamjoin.keys.operands import OTHER, Schemas, Side
from streamjoin.keys.sort_keys import numpy_of
from streamjoin.options.how import How
from streamjoin.options.values import OP
from streamjoin.plans.batches import joined_schema, take_rows
from streamjoin.plans.marks import Marks, SomeMarks
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared

if TYPE_CHECKING:
    from streamjoin.joins.outcomes.aggregates.aggregation import Aggregation

MATCH, LATE = "_match", "_late"
GIVEN, TAKEN_BACK = "+", "-"
BOTH = "both"
ONLY: dict[Side, str] = {"left": "left_only", "right": "right_only"}


class Settled(NamedTuple):
    """Rows that were settled, or whose patience has run out, and whose marks say so."""

    marks: SomeMarks
    rows: Positions | RowIds | None  # None: all


@dataclass(frozen=True)
class Alone:
    """Rows of one side that match nothing, or came too late for that."""

    side: Side
    rows: pa.RecordBatch
    settled: Settled | None = None  # if they were not settled before
    ordinals: Keys | None = None  # of these, if they are told
    are_late: bool = False


@dataclass
class Outcome:
    """What a join of two schemas gives; see the module docstring."""

    how: How
    schemas: Schemas
    indicator: bool = False
    keeps_late: bool = False
    retracts: bool = False  # whether rows may be given, and taken back
    aggregation: "Aggregation | None" = None  # then rows are those of left, with aggregates
    names: Names | None = None  # the columns of each side that are given; all if None
    home: str | None = None  # a column of left rows that tells whether their pairs are given here
    settled: list[Settled] = field(default_factory=list)  # since the last `keep`
    # The ordinals of rows that were settled, for whoever keeps marks elsewhere, and takes them.
    told: dict[Side, list[Keys]] | None = None

    def __post_init__(self) -> None:
        given = self.schemas
        if self.names is not None:  # others may stand behind them
            names = self.names
            given = {side: select_fields(each, names[side]) for side, each in given.items()}
        self.given: Schemas = given
        columns = joined_schema(
            *map(optional, (given["left"], given["right"]), SIDES, [self.how] * 2)
        )
        if self.one_side is not None:
            columns = given[self.one_side]
        if self.aggregation is not None:
            columns = pa.schema([*columns, *self.aggregation.fields])
        extra = [pa.field(MATCH, pa.string())] if self.indicator else []
        extra += [pa.field(LATE, pa.bool_())] if self.keeps_late else []
        extra += [pa.field(OP, pa.string())] if self.retracts else []
        options = {MATCH: "indicator=True", LATE: "late='keep'", OP: "unmatched='early'"}
        for each in extra:
            if each.name in columns.names:
                raise SchemaError(
                    f"{options[each.name]} adds a column {each.name!r}, and there is one already; "
                    "rename it"
                )
        self.schema = pa.schema([*columns, *extra])

    @property
    def one_side(self) -> Side | None:
        """The side whose columns are the result, aggregates aside, if the other has none in it."""
        return self.how.one_side if self.aggregation is None else "left"

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides whose columns are in the result."""
        return self.how.sides if self.aggregation is None else ("left",)

    @property
    def is_inner(self) -> bool:
        """Whether nothing but pairs is given, with no columns beside theirs."""
        has_more = self.indicator or self.keeps_late or self.aggregation is not None
        return not (self.how.follows or has_more)

    def joined(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
        """Return pairs, given by their two halves."""
        extra = self._extra(left.num_rows, BOTH)
        return concat_columns(
            self.select("left", left), self.select("right", right), self.schema, extra
        )

    def select(self, side: Side, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of a side that are given."""
        return rows if self.names is None else rows.select(self.names[side])

    def aggregated(self, left: pa.RecordBatch, aggregates: list[pa.Array]) -> pa.RecordBatch:
        """Return left rows with their aggregates."""
        columns = self.select("left", left).columns
        arrays = [*columns, *aggregates, *self._extra(left.num_rows, BOTH)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def alone(
        self, side: Side, rows: pa.RecordBatch, are_late: bool = False, op: str = GIVEN
    ) -> pa.RecordBatch:
        """Return rows of one side, with NULL for the other."""
        columns = {side: self.select(side, rows).columns}
        if self.aggregation is not None:
            columns["right"] = self.aggregation.of_nothing(rows.num_rows)
        elif self.one_side is None:
            kinds = self.given[OTHER[side]].types
            missing = {kind: pa.nulls(rows.num_rows, kind) for kind in set(kinds)}
            columns[OTHER[side]] = [missing[kind] for kind in kinds]
        arrays = [array for each in SIDES for array in columns.get(each, ())]
        arrays += self._extra(rows.num_rows, ONLY[side], are_late, op)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _extra(
        self, count: int, match: str, are_late: bool = False, op: str = GIVEN
    ) -> list[pa.Array]:
        """Return the columns that tell what rows are."""
        extra: list[pa.Array] = [pa.repeat(match, count)] if self.indicator else []
        extra += [pa.repeat(are_late, count)] if self.keeps_late else []
        return extra + ([pa.repeat(op, count)] if self.retracts else [])

    def fetch(self, found: Found) -> Iterator[Delivery]:
        """Fetch the joined rows of what was found."""
        return gather(found, self.schema, self.names) if self.is_inner else self.gather(found)

    def fetch_whole(self, found: Found) -> Iterator[Delivery]:
        """Do the same; left rows that have kept nothing come with those that have (`beside`)."""
        kept, how = found.matches, self.how
        if not isinstance(kept, OneEach) or not how.gives_pairs or "right" in how.follows:
            yield from self.fetch(found)
            return
        gives_all = "left" in how.alone
        rows = [self._beside(*each) for each in fetch_beside(found, kept, gives_all, self.names)]
        if gives_all:
            self.settle_all(found.batch)
        named = name_all_pairs(found) if found.batch.plan.names_rows else ()
        yield Delivery(len(kept), rows, pairs=named)

    def _beside(self, left: pa.RecordBatch, right: list[pa.Array], kept: RowIds) -> pa.RecordBatch:
        """Return left rows with what they have kept."""
        extra = self._extra(left.num_rows, BOTH)
        if self.indicator:
            extra[0] = pc.if_else(pa.array(kept >= 0), BOTH, ONLY["left"])
        return pa.RecordBatch.from_arrays([*left.columns, *right, *extra], schema=self.schema)

    def gather(self, found: Found) -> Iterator[Delivery]:
        """Fetch the joined rows, if pairs are given, and tell which rows to settle."""
        side = found.batch.side
        for probes, rows in confirm_pairs(found):
            claims = (Claims(found.batch, found.subwindow, probes, rows),)
            if self.home is not None:
                here = self._find_given_here(self.home, found, probes, rows)
                probes, rows = probes[here], rows[here]
            joined = []
            if self.how.gives_pairs and probes.size:
                names = None if self.names is None else self.names[OTHER[side]]
                halves = {
                    side: take_rows(self.select(side, found.batch.rows), probes),
                    OTHER[side]: found.subwindow.rows.take(rows, names),
                }
                joined = [self.joined(halves["left"], halves["right"])]
                if found.mirrored:
                    joined.append(self.joined(halves["right"], halves["left"]))
            matches = probes.size * (2 if found.mirrored else 1)
            pairs = name_pairs(found, probes, rows)
            yield Delivery(matches, joined, pairs=pairs, claims=claims)

    def _find_given_here(self, home: str, found: Found, probes: RowIds, rows: RowIds) -> Flags:
        """Return which pairs are given by this core, of several that may find them."""
        if found.batch.side == "left":
            told = take_rows(found.batch.rows.select([home]), probes)
        else:
            told = found.subwindow.rows.take(rows, (home,))
        return numpy_of(told.column(0), False)

    def claim(self, found: Found) -> Iterator[Delivery]:
        """Only tell which rows to settle: the pairs are given elsewhere."""
        for pairs in confirm_pairs(found):
            yield Delivery(0, claims=(Claims(found.batch, found.subwindow, *pairs),))

    def settle(self, every: Sequence[Claims]) -> list[pa.RecordBatch]:
        """Settle the rows of pairs; return those that a semi join gives, or that are taken back."""
        given = []
        for claims in every:
            batch, holder = claims.batch, claims.holder
            for side, marks, rows, fetch, ordinals_of in (
                (
                    batch.side,
                    batch.marks,
                    claims.probes,
                    fetcher_of_batch(batch),
                    batch.ordinals_of,
                ),
                (
                    OTHER[batch.side],
                    holder.marks,
                    claims.rows,
                    fetcher_of_holder(holder),
                    holder.ordinals_of,
                ),
            ):
                if side not in self.how.follows:
                    continue
                assert marks is not None
                fresh = rows[marks.settle(rows)]
                if fresh.size:
                    self.settled.append(Settled(marks, fresh))
                    if self.told is not None:
                        self.told[side].append(ordinals_of(fresh))
                    if side == self.how.met:
                        given.append(self.alone(side, fetch(np.sort(fresh))))
                    elif self.retracts:
                        back = np.sort(fresh[marks.read_early(fresh)])
                        if back.size:
                            given.append(self.alone(side, fetch(back), op=TAKEN_BACK))
        return given

    def settle_left(self, left: Prepared, rows: Positions) -> None:
        """Settle left rows that are in rows of the result other than pairs (`reduction`)."""
        if "left" in self.how.follows:
            assert left.marks is not None
            fresh = rows[left.marks.settle(rows)]
            self.settled.append(Settled(left.marks, fresh))

    def settle_all(self, left: Prepared) -> None:
        """Settle all rows of a closed set, none of which is settled yet."""
        if isinstance(left.marks, Marks):
            left.marks.settle_all()
            self.settled.append(Settled(left.marks, None))
        else:
            self.settle_left(left, np.arange(len(left)))

    def give(self, alone: Alone) -> list[pa.RecordBatch]:
        """Return rows that match nothing, if the join gives them."""
        if alone.settled is not None:
            self.settled.append(alone.settled)
        if self.told is not None and alone.ordinals is not None:
            self.told[alone.side].append(alone.ordinals)
        if not alone.rows.num_rows or alone.side not in self.sides:
            return []
        if self.keeps_late if alone.are_late else alone.side in self.how.alone:
            return [self.alone(alone.side, alone.rows, alone.are_late)]
        return []

    def mark(self) -> Callable[[], None]:
        """Return what takes all back that is settled from here on."""
        count = len(self.settled)

        def undo() -> None:
            while len(self.settled) > count:
                marks, rows = self.settled.pop()
                marks.unsettle(np.arange(len(marks)) if rows is None else rows)

        return undo

    def keep(self) -> None:
        """Note that what was settled is not taken back."""
        self.settled = []


def select_fields(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return some fields of a schema."""
    return pa.schema([schema.field(name) for name in names])


def optional(schema: pa.Schema, side: Side, how: How) -> pa.Schema:
    """Return a schema whose columns may be NULL, if rows of the other side may be alone."""
    if OTHER[side] not in how.alone:
        return schema
    return pa.schema([each.with_nullable(True) for each in schema])


def fetcher_of_batch(batch: Prepared) -> Callable[[Any], pa.RecordBatch]:
    """Return what fetches rows of a batch."""
    return lambda rows: take_rows(batch.rows, rows)


def fetcher_of_holder(holder: Holder) -> Callable[[Any], pa.RecordBatch]:
    """Return what fetches rows of a holder, given in ascending order."""
    return lambda rows: holder.rows.take(rows)


def leftovers(sides: dict[Side, Prepared]) -> Iterator[Alone]:
    """Give the rows of windows that close, or of tables, that are not settled.

    Those that cannot match at all, and only make a session longer, were given when they came.
    """
    for side, batch in sides.items():
        if batch.marks is not None:
            rows = batch.marks.list_open()
            if batch.roles.can_match is not None:
                rows = rows[batch.roles.can_match[rows]]
            if rows.size:
                yield Alone(side, take_rows(batch.rows, rows))


def give_early(side: Side, rows: pa.RecordBatch, marks: Marks, noted: Positions) -> Alone:
    """Give the rows that are not settled, of those whose patience has run out."""
    assert marks.early is not None
    return Alone(side, rows, Settled(marks.early, noted))
