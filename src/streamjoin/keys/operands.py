"""The two sides of a comparison: expressions with their columns resolved, and the common type."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from streamjoin.errors import EvaluationError, SchemaError
from streamjoin.expressions.coercion import cast_to, clamp_to_nanoseconds, common_type, is_coarser
from streamjoin.expressions.datatypes import is_numeric
from streamjoin.expressions.evaluation import evaluate
from streamjoin.expressions.parsing import read_expression
from streamjoin.keys.sort_keys import MAX_DECIMAL_DIGITS, KeyType, digits, key_type

Side = Literal["left", "right"]
Schemas = Mapping[Side, pa.Schema]

OTHER: dict[Side, Side] = {"left": "right", "right": "left"}


def quoted(alias: str, column: str) -> str:
    """Return a column as SQL text, whatever its name.

    >>> quoted("l", "a`b")
    'l.`a``b`'
    """
    return f"{alias}.`{column.replace('`', '``')}`"


def evaluate_side(expression: exp.Expression, side: Side, batch: pa.RecordBatch) -> pa.Array:
    """Evaluate an expression over one side's columns."""
    return evaluate(expression, **{side: batch})


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of no rows: evaluating over it gives an expression's type."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


@lru_cache(maxsize=256)
def type_of(text: str, left: pa.Schema, right: pa.Schema) -> pa.DataType:
    """Return the type of an expression over both sides."""
    tree = read_expression(text, left, right)
    return evaluate(tree, left=empty_batch(left), right=empty_batch(right)).type


def has_narrow_side(common: pa.DataType, types: Iterable[pa.DataType]) -> bool:
    """Tell whether values of one side have at most 18 digits in the common decimal type."""
    if not pa.types.is_decimal(common):
        return False
    widths = [digits(type, common.scale) for type in types]
    return any(width is not None and width <= MAX_DECIMAL_DIGITS for width in widths)


@dataclass(frozen=True)
class Operands:
    """The two one-sided expressions of a part, and the type that Spark compares them in."""

    expressions: dict[Side, exp.Expression]
    type: pa.DataType
    key_type: KeyType | None  # how values become sort keys; None if they do not
    same_type: bool = False  # whether both sides have the same Arrow type to begin with
    mixes_units: bool = False  # whether one side has nanoseconds, the other times too far for them
    is_compared: bool = False  # whether values are only compared, so that such times have keys too

    @classmethod
    def bind(cls, left: str, right: str, schemas: Schemas) -> "Operands":
        """Resolve the columns and find the common type."""
        expressions: dict[Side, exp.Expression] = {}
        types: dict[Side, pa.DataType] = {}
        sides: tuple[tuple[Side, str], ...] = (("left", left), ("right", right))
        for side, text in sides:
            tree = read_expression(text, schemas["left"], schemas["right"])
            expressions[side] = tree
            types[side] = evaluate_side(tree, side, empty_batch(schemas[side])).type
        common = common_type(types["left"], types["right"])
        if common is None:
            raise SchemaError(
                f"{left} is {types['left']} and {right} is {types['right']}: these types do not "
                f"compare; cast one of them, as in cast({left} as ...)"
            )
        narrow = has_narrow_side(common, types.values())
        same_type = types["left"] == types["right"]
        mixes_units = any(is_coarser(type, common) for type in types.values())
        return cls(expressions, common, key_type(common, narrow), same_type, mixes_units)

    def as_double(self) -> "Operands":
        """Return the same, compared as doubles."""
        return Operands(self.expressions, pa.float64(), key_type(pa.float64()))

    def compared(self) -> "Operands":
        """Return the same, for a part that compares values without computing anything."""
        return replace(self, is_compared=self.mixes_units)

    def own_values(self, side: Side, batch: pa.RecordBatch) -> pa.Array:
        """Evaluate one side's expression; numbers keep their own type."""
        values = evaluate_side(self.expressions[side], side, batch)
        return values if is_numeric(values.type) else self.values(side, batch)

    def values(self, side: Side, batch: pa.RecordBatch) -> pa.Array:
        """Evaluate one side's expression, in the common type."""
        expression = self.expressions[side]
        values = evaluate_side(expression, side, batch)
        try:
            if self.is_compared:
                return clamp_to_nanoseconds(values, self.type)
            return cast_to(values, self.type)
        except EvaluationError as error:
            raise EvaluationError(f"in {expression.sql('spark')}: {error}") from None
