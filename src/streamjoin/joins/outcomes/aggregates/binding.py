"""An aggregate, bound to two schemas: its type, its state, and its values in the end."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from streamjoin.errors import ConditionError, EvaluationError, SchemaError
from streamjoin.expressions import decimals
from streamjoin.expressions.aggregates import Aggregate, argument_type, result_type
from streamjoin.expressions.casts import cast
from streamjoin.expressions.datatypes import kind, name
from streamjoin.expressions.evaluation import evaluate
from streamjoin.expressions.parsing import columns, qualify
from streamjoin.expressions.values import from_numbers
from streamjoin.joins.outcomes.aggregates.extremes import Extremes, RankedExtremes, has_keys
from streamjoin.joins.outcomes.aggregates.states import Counts, State
from streamjoin.joins.outcomes.aggregates.sums import DoubleSums, WholeSums
from streamjoin.kernels.compile import Flags, Keys
from streamjoin.keys.operands import Schemas, empty_batch

EDGES = ("first", "last")  # functions that look for one right row per left row


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate over columns that are known."""

    name: str
    function: str
    argument: exp.Expression | None
    given: pa.DataType  # of the argument
    text: str

    @classmethod
    def bind(cls, source: Aggregate, schemas: Schemas) -> "BoundAggregate":
        """Resolve the columns, and find the types."""
        if source.argument is None:
            return cls(source.name, source.function, None, pa.null(), source.text)
        try:
            tree = qualify(source.argument, schemas["left"], schemas["right"])
            empty = {side: empty_batch(schema) for side, schema in schemas.items()}
            given = evaluate(tree, **empty).type
            result_type(source.function, given)
        except (ConditionError, SchemaError) as error:
            raise type(error)(f"aggregate {source.name!r}: {source.text!r}: {error}") from None
        return cls(source.name, source.function, tree, given, source.text)

    @property
    def field(self) -> pa.Field:
        """Its column in the result."""
        return pa.field(self.name, result_type(self.function, self.given), self.function != "count")

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns that it is taken of, with their sides."""
        return [] if self.argument is None else columns(self.argument)

    @property
    def taken(self) -> pa.DataType:
        """The type that the argument is taken in."""
        return argument_type(self.function, self.given)

    @property
    def state(self) -> tuple[str, ...]:
        """What its state is; aggregates for which that is the same share one."""
        kind_of_state = {"avg": "sum"}.get(self.function, self.function)
        if self.function in EDGES:
            return (kind_of_state,)
        text = "*" if self.argument is None else self.argument.sql("spark")
        return (kind_of_state, text)

    def make_state(self, size: int) -> State:
        """Make a state for so many left rows."""
        taken = self.taken
        if self.function == "count":
            return Counts(size)
        if self.function in ("sum", "avg"):
            return DoubleSums(size) if kind(taken) == "floating" else WholeSums(size, taken)
        made = Extremes if has_keys(taken) else RankedExtremes
        return made(size, taken, is_least=self.function == "min")

    def values(self, **batches: pa.RecordBatch) -> pa.Array | None:
        """Evaluate the argument."""
        if self.argument is None:
            return None
        values = evaluate(self.argument, **batches)
        return cast(values, self.taken)

    def finish(self, state: Any) -> pa.Array:
        """Return the aggregate of each left row."""
        kind_of_result = self.field.type
        if isinstance(state, Counts):
            return pa.array(state.counts)
        if isinstance(state, Extremes | RankedExtremes):
            return state.values()
        counts, missing = state.counts, state.counts == 0
        totals = state.totals
        if self.function == "sum":
            if kind(kind_of_result) == "decimal":
                return self._check(decimals.from_unscaled(totals, missing, kind_of_result), missing)
            if totals.dtype == object:
                self._overflow(kind_of_result)
            return pa.array(totals, mask=missing, from_pandas=False).cast(kind_of_result)
        counts = np.maximum(counts, 1)
        if kind(kind_of_result) == "floating":
            return from_numbers(totals.astype(np.float64) / counts, missing)
        if kind(kind_of_result) == "decimal":
            shift = kind_of_result.scale - self.taken.scale
            raised = decimals.rescale(totals, 0, shift)
            quotients = divide_half_up(raised, counts)
            return self._check(decimals.from_unscaled(quotients, missing, kind_of_result), missing)
        whole = divide_half_up(totals, counts).astype(np.int64)
        return from_numbers(whole, missing).cast(kind_of_result)

    def _check(self, values: pa.Array, missing: Flags) -> pa.Array:
        """Refuse results that their type cannot hold."""
        if values.null_count > int(np.count_nonzero(missing)):
            self._overflow(values.type)
        return values

    def _overflow(self, kind_of_result: pa.DataType) -> None:
        assert self.argument is not None
        raise EvaluationError(
            f"aggregate {self.name!r}: {self.text} does not fit {name(kind_of_result)}, as Spark "
            "would say too; take it of doubles, such as "
            f"{self.function}(cast({self.argument.sql('spark')} as double))"
        )


def divide_half_up(totals: NDArray[Any], counts: Keys) -> NDArray[Any]:
    """Divide, rounded to the nearest integer, ties away from zero."""
    if totals.dtype != object and totals.size and np.abs(totals).max() > 1 << 61:
        totals = totals.astype(object)
    size = np.abs(totals)
    nearest = (2 * size + counts) // (2 * counts)
    return np.where(totals < 0, -nearest, nearest)
