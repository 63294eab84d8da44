"""What an expression evaluates to, and the rows it is evaluated on.

A `Value` is an Arrow array together with the type that *Spark* gives it. The two differ in one
case, integer arithmetic. ``tinyint + tinyint`` is a tinyint to Spark, which affects the precision
of a decimal it may meet later; the array holds int64, so no sum ever wraps::

    l.b + r.b     type int8     array int64 [254]

A `Scope` is the pair of batches; row i of both is a pair of tuples. Lazy operators (AND, CASE,
coalesce) narrow it with `where`, evaluate a branch on the rows that need it, and `scatter` the
answers back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from streamjoin.errors import EvaluationError, SchemaError

Numbers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class NoAnswerError(EvaluationError):
    """A value that cannot be computed; the evaluator adds the expression to the message."""


class TypeMismatchError(SchemaError):
    """Types that an operator does not take; the evaluator adds the expression to the message."""


@dataclass(frozen=True)
class Value:
    """One value per row: the array, and Spark's type of it.

    ``digits`` is set for integer literals only: next to a decimal, Spark gives ``3`` the type
    decimal(1,0), but an int column the type decimal(10,0). ``whole_days`` marks an INTERVAL DAY:
    a date plus such an interval is a date, plus any other interval a timestamp. A ``constant`` has
    the same value in all rows, so a cast computes it only once.
    """

    array: pa.Array
    type: pa.DataType
    digits: int | None = None
    whole_days: bool = False
    constant: bool = False


def typed(array: pa.Array) -> Value:
    """A value whose Spark type is that of its array."""
    return Value(array, array.type)


@dataclass(frozen=True)
class Scope:
    """The rows that an expression is evaluated on: all of the batches, or the ``chosen`` ones.

    Columns are gathered when they are read, so narrowing costs nothing for the others.
    """

    left: pa.RecordBatch | None
    right: pa.RecordBatch | None
    rows: int
    evaluator: Callable[[exp.Expression, "Scope"], Value] = field(repr=False)
    chosen: npt.NDArray[np.int64] | None = None

    def value(self, node: exp.Expression) -> Value:
        """The value of a part of the expression, on all rows of this scope."""
        return self.evaluator(node, self)

    def column(self, side: str, name: str) -> pa.Array | None:
        """A column on the rows of this scope; None if there is no such column."""
        batch = {"l": self.left, "r": self.right}.get(side)
        if batch is None or name not in batch.schema.names:
            return None
        column = batch.column(name)
        return column if self.chosen is None else column.take(pa.array(self.chosen))

    def where(self, mask: Mask) -> "Scope":
        """Only the rows of the mask; the same scope if that is all of them."""
        if mask.all():
            return self
        kept = np.flatnonzero(mask) if self.chosen is None else self.chosen[mask]
        return replace(self, rows=len(kept), chosen=kept)


def scatter(rows: int, parts: Sequence[tuple[Mask, pa.Array]], type: pa.DataType) -> pa.Array:
    """One array from the answers of disjoint sets of rows; NULL where no part has one."""
    for chosen, array in parts:
        if len(array) == rows and chosen.all():
            return array
    positions = np.zeros(rows, dtype=np.int64)
    missing = np.ones(rows, dtype=np.bool_)
    offset = 0
    for chosen, array in parts:
        positions[chosen] = np.arange(offset, offset + len(array))
        missing &= ~chosen
        offset += len(array)
    pieces = [array for _, array in parts]
    pool = pa.concat_arrays(pieces) if pieces else pa.nulls(0, type)
    return pool.take(pa.array(positions, mask=missing))


def nulls_of(*arrays: pa.Array) -> Mask:
    """The rows where at least one of the arrays is NULL."""
    missing = np.zeros(len(arrays[0]), dtype=np.bool_)
    for array in arrays:
        if array.null_count:
            missing |= array.is_null().to_numpy(zero_copy_only=False)
    return missing


def true_rows(array: pa.Array) -> Mask:
    """The rows where a boolean array is true: neither false nor NULL."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.bool_)
    rows: Mask = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return rows


def numbers(array: pa.Array) -> Numbers:
    """The values of an integer or floating-point array; NULL rows hold some number."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(1, array.type))
    values: Numbers = array.to_numpy(zero_copy_only=False)
    return values


def from_numbers(values: Numbers, missing: Mask, type: pa.DataType | None = None) -> pa.Array:
    """The inverse of `numbers`: NaN stays NaN, only ``missing`` rows become NULL."""
    mask = missing if missing.any() else None
    return pa.array(values, type=type, mask=mask, from_pandas=False)


def demand(array: pa.Array, inputs: Sequence[pa.Array], fault: Callable[[int], str]) -> pa.Array:
    """Return the array if it has an answer wherever all inputs are set; else raise.

    The error names the first row without an answer. Kernels give NULL there (overflow, a string
    that is not a number). That *is* the answer of ``try_add`` or ``try_cast``; the plain operators
    pass it through here.
    """
    if array.null_count:
        unanswered = nulls_of(array) & ~nulls_of(*inputs)
        if unanswered.any():
            raise NoAnswerError(fault(int(np.argmax(unanswered))))
    return array
