"""Evaluates a qualified SQL expression over Arrow columns, with Spark's answers (ANSI mode).

``evaluate(expression, left, right)`` takes two batches of equal length, row i of one paired with
row i of the other, and gives one value per row. It walks the tree and looks each node up in the
table of ``functions/table.py``.

Types. There is no separate type checker: the type of an expression is that of its value on zero
rows, and wrong types (a date compared with an int) raise a SchemaError there too, before the first
row arrives.

NULL. Operators are strict (NULL in, NULL out); AND, OR and NOT follow three-valued logic.

Errors. Overflow and division by zero raise an EvaluationError, as Spark does, but only on rows
that are really computed: not for NULL, nor in a branch of CASE, coalesce, AND or OR that the row
does not reach (``conditionals.py``).

Constants. A part without columns is computed once, on one row, and repeated.

Result types are Spark's, with one exception: integer arithmetic gives int64, whatever the width of
its operands, since we keep the exact result where Spark would raise for the narrow type.
"""

import pyarrow as pa
from sqlglot import exp

from streamjoin.errors import EvaluationError, SchemaError
from streamjoin.expressions.datatypes import as_spark
from streamjoin.expressions.depth import retry_deep
from streamjoin.expressions.functions import table
from streamjoin.expressions.values import NoAnswerError, Scope, TypeMismatchError, Value, typed


@retry_deep
def evaluate(
    expression: exp.Expression,
    left: pa.RecordBatch | None = None,
    right: pa.RecordBatch | None = None,
) -> pa.Array:
    """The value of the expression for every pair of rows."""
    lengths = [batch.num_rows for batch in (left, right) if batch is not None]
    if len(set(lengths)) > 1:
        raise SchemaError(
            f"the batches have {lengths[0]} and {lengths[1]} rows; pairs need the same number"
        )
    rows = lengths[0] if lengths else 1
    return _value(expression, Scope(left, right, rows, _value)).array


def _value(node: exp.Expression, scope: Scope) -> Value:
    if isinstance(node, exp.Column):
        return _column(node, scope)
    if scope.rows > 1 and node.find(exp.Column) is None:
        return _constant(node, scope)
    handler = table.HANDLERS.get(type(node))
    if handler is None:
        raise table.unsupported(node)
    try:
        return handler(node, scope)
    except NoAnswerError as fault:
        raise EvaluationError(f"{node.sql(dialect='spark')}: {fault}") from None
    except TypeMismatchError as mismatch:
        raise SchemaError(f"{node.sql(dialect='spark')}: {mismatch}") from None


def _column(node: exp.Column, scope: Scope) -> Value:
    column = scope.column(node.table, node.name)
    if column is None:
        raise SchemaError(
            f"the column {node.sql(dialect='spark')} is not at hand; qualify the expression with "
            "the schemas of both inputs first"
        )
    return typed(as_spark(column))


def _constant(node: exp.Expression, scope: Scope) -> Value:
    once = _value(node, Scope(None, None, 1, scope.evaluator))
    array = pa.repeat(once.array[0], scope.rows)
    return Value(array, once.type, once.digits, once.whole_days, constant=True)
