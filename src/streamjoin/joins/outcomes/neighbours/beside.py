"""Left rows with the one right row that each has kept, or none.

Left's columns are used as they are, without a copy; right's are fetched, NULL where there is none::

    left    kept        right             result
    a        1          0  x              a  y
    b       -1          1  y              b  --
    c        1                            c  y

A right column that is equal to one of left wherever rows match needs no fetching: it is left's. Of
the others, those whose values have a fixed width are fetched by a kernel into memory from Arrow's
pool, the rest by Arrow; threads share the work. Bits for what is NULL are written once for all
columns that have no NULL of their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from streamjoin.indexes.matches import Matches
from streamjoin.joins.outcomes.neighbours.unequal_values import is_text, offset_width
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.closed_side import ClosedSide
from streamjoin.joins.pairs.deliver import Names
from streamjoin.kernels.compile import Flags, Int, Positions, RowIds, kernel
from streamjoin.kernels.threads import share, threads_for
from streamjoin.plans.batches import in_one_piece, take_rows
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared, without_residuals

WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}  # by bits
Slot = tuple[pa.RecordBatch, list[pa.Array], RowIds]  # left rows, right columns, kept rows


@dataclass(frozen=True)
class OneEach:
    """The matches of left rows of which each has one, or none: -1."""

    kept: RowIds
    threads: int  # that fetch the rows

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return int(np.count_nonzero(self.kept >= 0))

    @property
    def lengths(self) -> Positions:
        """How many pairs each left row has."""
        return (self.kept >= 0).astype(np.int64)

    def of(self, flags: Flags) -> "OneEach":
        """Return the pairs of some left rows only."""
        return replace(self, kept=np.where(flags, self.kept, np.int32(-1)))

    def blocks(self, size: int, names: RowIds | None = None) -> Iterator[tuple[RowIds, RowIds]]:
        """Yield all pairs in blocks of at most ``size``: the left row, the right row.

        Left rows have no other names.
        """
        for first in range(0, self.kept.size, size):
            kept = self.kept[first : first + size]
            lefts = np.flatnonzero(kept >= 0)
            if lefts.size:
                yield (lefts + first).astype(np.int32), kept[lefts]


def find_beside(left: Prepared, right: Prepared, kept: RowIds, threads: int) -> Found:
    """Return what left rows have kept of right, as what is found by a search."""
    stored, names = ClosedSide.of(right), np.empty(0, np.int32)
    return Found(without_residuals(left), stored, OneEach(kept, threads), names, [])


def find_several(left: Prepared, right: Prepared, kept: RowIds, threads: int) -> Found:
    """Return the same where left rows may have kept several, each as a row of an array."""
    starts = kept.shape[1] * np.arange(len(kept))
    matches = Matches(starts, starts + np.count_nonzero(kept >= 0, axis=1), kept.ravel())
    names = np.arange(len(kept), dtype=np.int32)
    return Found(without_residuals(left), ClosedSide.of(right), matches, names, [])


def fetch_beside(
    found: Found, matches: OneEach, gives_all: bool, names: Names | None = None
) -> list[Slot]:
    """Fetch the columns of right, in batches, beside the left rows that have kept one, or all.

    With ``names``, of these columns only.
    """
    right = in_one_piece(found.subwindow.rows.pieces, found.subwindow.rows.pieces[0].schema)
    right = right if names is None else right.select(names["right"])
    size, shared = found.batch.plan.limits.block_pairs, shared_columns(found.batch.plan)

    def fetch(first: int) -> Slot:
        kept = matches.kept[first : first + size]
        left = found.batch.rows.slice(first, size)
        bits = write_validity(kept)
        if bits is not None and not gives_all:
            lefts = np.flatnonzero(kept >= 0)
            left, kept, bits = take_rows(left, lefts), kept[lefts], None
        known = {name: left[other] for name, other in shared.items()}
        left = left if names is None else left.select(names["left"])
        return left, fetch_columns(right, kept, bits, known), kept

    threads = threads_for(len(found.batch), matches.threads)
    return share(fetch, range(0, len(found.batch), size), threads)


@kernel
def fetch_values(values: NDArray[Any], rows: RowIds, out: NDArray[Any]) -> None:
    """Copy the values of rows; anything where there is no row."""
    for i in range(rows.size):
        out[i] = values[max(rows[i], 0)]


@kernel
def pack_validity(rows: RowIds, bits: NDArray[np.uint8]) -> Int:
    """Write a bit for each row that is there; return how many are not."""
    missing = np.int64(0)
    for byte in range(bits.size):
        packed = np.int64(0)
        for bit in range(min(8, rows.size - 8 * byte)):
            is_there = np.int64(rows[8 * byte + bit] >= 0)
            packed |= is_there << bit
            missing += 1 - is_there
        bits[byte] = packed
    return missing


def write_validity(rows: RowIds) -> tuple[pa.Buffer, int] | None:
    """Return bits that tell which rows are there, and how many are not; None if all are."""
    if not rows.size or rows.min() >= 0:
        return None
    bits = pa.allocate_buffer(-(-rows.size // 8))
    missing = pack_validity(rows, np.frombuffer(bits, np.uint8))
    return bits, missing


def fetch_columns(
    batch: pa.RecordBatch,
    rows: RowIds,
    validity: tuple[pa.Buffer, int] | None,
    known: Mapping[str, pa.Array],
) -> list[pa.Array]:
    """Fetch the columns of some rows; ``validity`` tells which of them are there.

    Of some columns, the values of all rows that are there are ``known``.
    """
    indices: pa.Array | None = None
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in known:
            arrays.append(known[name] if validity is None else hide(known[name], *validity))
            continue
        values = fixed_values(column)
        if values is None:
            if indices is None:
                indices = pa.array(rows, mask=None if validity is None else rows < 0)
            arrays.append(pc.take(column, indices, boundscheck=False))
            continue
        buffer = pa.allocate_buffer(values.itemsize * rows.size)
        fetch_values(values, rows, np.frombuffer(buffer, values.dtype))
        bits, missing = validity or (None, 0)
        arrays.append(pa.Array.from_buffers(column.type, rows.size, [bits, buffer], missing))
    return arrays


def shared_columns(plan: JoinPlan) -> dict[str, str]:
    """Return the right columns that are the same as a left one wherever rows match.

    It is the types of the columns that count: an equality sees text where they are dictionaries.
    """
    shared = {}
    for part in plan.own_equalities:
        trees = part.operands.expressions
        is_plain = all(isinstance(tree, exp.Column) for tree in trees.values())
        if not is_plain:
            continue
        kinds = {plan.schemas[side].field(trees[side].name).type for side in SIDES}
        if len(kinds) == 1 and is_shareable(*kinds):
            shared[trees["right"].name] = trees["left"].name
    return shared


def is_shareable(kind: pa.DataType) -> bool:
    """Tell whether equal values are the same to the bit, in buffers that can be cut."""
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return kind.bit_width in WIDTHS
    return is_text(kind)


def hide(values: pa.Array, bits: pa.Buffer, missing: int) -> pa.Array:
    """Return values of which none is NULL with some of them NULL."""
    _, first, *others = values.buffers()
    width = offset_width(values.type) if is_text(values.type) else values.type.bit_width // 8
    first = first.slice(width * values.offset)
    return pa.Array.from_buffers(values.type, len(values), [bits, first, *others], missing)


def fixed_values(column: pa.Array) -> NDArray[Any] | None:
    """Return the values of a column as numbers of their width; None if it has NULLs, or none."""
    kind = column.type
    if column.null_count or not len(column) or not pa.types.is_primitive(kind):
        return None
    if kind.bit_width not in WIDTHS:
        return None
    last = column.offset + len(column)
    return np.frombuffer(column.buffers()[1], WIDTHS[kind.bit_width], last)[column.offset :]
