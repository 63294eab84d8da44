"""What becomes of matches: joined Arrow rows, a count, or nothing but the ranges.

Columns are fetched last, from pairs of row numbers, once everything is checked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamjoin.errors import StreamJoinError
from streamjoin.joins.ordering.punctuation import Stars, order_columns
from streamjoin.joins.pairs.candidates import (
    Found,
    Holder,
    Pairs,
    check_pairs,
    confirm_pairs,
    name_pairs,
)
from streamjoin.kernels.compile import RowIds
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.ordering import Ordering
from streamjoin.plans.batches import take_rows
from streamjoin.plans.prepared import Prepared


@dataclass(frozen=True)
class Delivery:
    """How many matches a probe gave, and their joined rows if they were asked for."""

    matches: int
    rows: list[pa.RecordBatch] = field(default_factory=list)
    stars: Stars | None = None  # ordered joins: which rows have found them
    pairs: tuple[Pairs, ...] = ()  # the rows of the matches, if these are to be told
    claims: "tuple[Claims, ...]" = ()  # the same, where it counts whether rows match


@dataclass(frozen=True)
class Claims:
    """Rows that match, of a batch that probed and of what it has probed."""

    batch: Prepared
    holder: Holder
    probes: RowIds
    rows: RowIds


@dataclass(frozen=True)
class LeftInPlace:
    """What was found and stays where it is, with the rows of its matches if these are told."""

    found: Found
    pairs: tuple[Pairs, ...] = ()
    claims: tuple[Claims, ...] = ()


@dataclass
class Delivered:
    """What some steps gave, and the error that the last one ended with, if a window has failed."""

    items: list[Any] = field(default_factory=list)
    failure: StreamJoinError | None = None

    @classmethod
    def collect(cls, items: Iterator[Any]) -> "Delivered":
        """Take all items; those before an error are kept."""
        delivered = cls()
        try:
            delivered.items.extend(items)  # one by one: those before an error stay
        except StreamJoinError as error:
            delivered.failure = error
        return delivered

    def then(self, step: "Callable[[], Delivered]") -> "Delivered":
        """Do another step, unless one has failed, and add what it gives."""
        if self.failure is not None:
            return self
        more = step()
        return Delivered(self.items + more.items, more.failure)

    def unwrap(self) -> list[Any]:
        """Return the items, or raise the error."""
        if self.failure is not None:
            raise self.failure
        return self.items


Names = dict[Side, tuple[str, ...]]  # columns of each side


def gather(
    found: Found, schema: pa.Schema, names: Names | None = None, ordering: Ordering | None = None
) -> Iterator[Delivery]:
    """Fetch the joined rows, a block at a time: their number has no bound.

    With ``names``, of these columns only; with an ``ordering``, what they are ordered by as well.
    ``schema`` is that of the result, order columns included.
    """
    side = found.batch.side
    source = found.batch.rows if names is None else found.batch.rows.select(names[side])
    for probes, rows in confirm_pairs(found):
        probing = take_rows(source, probes)
        stored = found.subwindow.rows.take(rows, None if names is None else names[OTHER[side]])
        left, right = (probing, stored) if side == "left" else (stored, probing)
        order = [] if ordering is None else order_columns(ordering, found, probes, rows)
        joined = [concat_columns(left, right, schema, order)]
        if found.mirrored:
            joined.append(concat_columns(right, left, schema))
        pairs = name_pairs(found, probes, rows)
        yield Delivery(len(joined) * probes.size, joined, pairs=pairs)


def concat_columns(
    left: pa.RecordBatch, right: pa.RecordBatch, schema: pa.Schema, order: Sequence[pa.Array] = ()
) -> pa.RecordBatch:
    """Put the columns of two batches side by side, and those that order them behind."""
    return pa.RecordBatch.from_arrays([*left.columns, *right.columns, *order], schema=schema)


def count(found: Found, schema: pa.Schema) -> Iterator[Delivery]:
    """Count the matches; where no check is left, without looking at a single pair."""
    if found.batch.plan.names_rows:
        named = name_all_pairs(found)
        yield Delivery(sum(pairs.probing.size for pairs in named), pairs=named)
        return
    if found.batch.plan.has_residuals:
        matches = sum(probes.size for probes, _ in confirm_pairs(found))
    elif found.checks:
        matches = sum(probes.size for probes, _ in check_pairs(found))
    else:
        matches = len(found.matches)
    yield Delivery(2 * matches if found.mirrored else matches)


def leave_in_place(found: Found) -> Iterator[Found]:
    """Leave what was found where it is."""
    yield found


def leave_and_name(found: Found) -> Iterator[LeftInPlace]:
    """Leave what was found where it is, but look which rows match if these are to be told."""
    plan = found.batch.plan
    claims: tuple[Claims, ...] = ()
    if plan.follows:
        pairs = confirm_pairs(found)
        claims = tuple(Claims(found.batch, found.subwindow, *each) for each in pairs)
    yield LeftInPlace(found, name_all_pairs(found) if plan.names_rows else (), claims)


def name_all_pairs(found: Found) -> tuple[Pairs, ...]:
    """Return all matches by the ordinals of their rows."""
    blocks = (name_pairs(found, probes, rows) for probes, rows in confirm_pairs(found))
    return tuple(pairs for block in blocks for pairs in block)
