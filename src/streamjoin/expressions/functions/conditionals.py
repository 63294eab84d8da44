"""Operators that evaluate operands only on some rows: AND, OR, CASE, IF, coalesce, nullif, IN.

Spark evaluates these lazily, and conditions rely on it: ``a <> 0 and b / a > 1`` never divides by
zero. Here each branch is evaluated on the rows that reach it and its answers are scattered back::

    a            0      2      NULL
    a <> 0       false  true   NULL      all rows
    b / a > 1    .      5      3         rows where the left side is not false
    and          false  true   NULL      three-valued

A branch that no row reaches is evaluated on zero rows, which still finds its type.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from streamjoin.errors import UnsupportedExpressionError
from streamjoin.expressions.coercion import (
    coerce,
    common_type,
    compare_same,
    compare_values,
)
from streamjoin.expressions.datatypes import BOOLEAN, INT64, kind, name
from streamjoin.expressions.values import (
    Mask,
    Scope,
    TypeMismatchError,
    Value,
    nulls_of,
    scatter,
    true_rows,
    typed,
)


def condition(value: Value) -> pa.BooleanArray:
    """The value as a boolean: a boolean, or NULL."""
    if kind(value.type) == "null":
        return pa.nulls(len(value.array), BOOLEAN)
    if value.type != BOOLEAN:
        raise TypeMismatchError(
            f"a condition is boolean, not {name(value.type)}; compare it with something"
        )
    return value.array


def conjunction(node: exp.Expression, scope: Scope) -> Value:
    """``a AND b``: b is evaluated where a is not false."""
    return _connect(node, scope, pc.and_kleene, decided=pc.invert)


def disjunction(node: exp.Expression, scope: Scope) -> Value:
    """``a OR b``: b is evaluated where a is not true."""
    return _connect(node, scope, pc.or_kleene, decided=lambda array: array)


def _connect(
    node: exp.Expression,
    scope: Scope,
    combine: Callable[[pa.Array, pa.Array], pa.Array],
    decided: Callable[[pa.Array], pa.Array],
) -> Value:
    left = condition(scope.value(node.this))
    undecided = ~true_rows(decided(left))
    right = condition(scope.where(undecided).value(node.expression))
    return typed(combine(left, scatter(scope.rows, [(undecided, right)], BOOLEAN)))


def negation(a: Value) -> Value:
    """``NOT a``."""
    return typed(pc.invert(condition(a)))


def merge_branches(rows: int, parts: Sequence[tuple[Mask, Value]]) -> Value:
    """The answers of several branches in their common type."""
    type = merged_type([value for _, value in parts])
    arrays = [(chosen, coerce(value, type)) for chosen, value in parts]
    if len({array.type for _, array in arrays}) > 1:
        # Sums of narrow integers are held in int64, so all branches must be.
        arrays = [(chosen, pc.cast(array, INT64)) for chosen, array in arrays]
    whole_days = all(value.whole_days for _, value in parts)
    return Value(scatter(rows, arrays, type), type, whole_days=whole_days)


def case(node: exp.Expression, scope: Scope) -> Value:
    """``CASE WHEN ...`` and ``CASE x WHEN ...``."""
    subject = scope.value(node.this) if node.this is not None else None
    open_rows = np.ones(scope.rows, dtype=np.bool_)
    parts = []
    for branch in node.args["ifs"]:
        here = scope.where(open_rows)
        if subject is None:
            tested = condition(here.value(branch.this))
        else:
            tested = compare_values("=", _rows_of(subject, open_rows), here.value(branch.this))
        hit = np.zeros(scope.rows, dtype=np.bool_)
        hit[open_rows] = true_rows(tested)
        parts.append((hit, scope.where(hit).value(branch.args["true"])))
        open_rows = open_rows & ~hit
    default = node.args.get("default")
    if default is not None:
        parts.append((open_rows, scope.where(open_rows).value(default)))
    return merge_branches(scope.rows, parts)


def _rows_of(value: Value, chosen: Mask) -> Value:
    if chosen.all():
        return value
    return Value(value.array.filter(pa.array(chosen)), value.type, value.digits, value.whole_days)


def if_else(node: exp.Expression, scope: Scope) -> Value:
    """``if(condition, a, b)``."""
    hit = true_rows(condition(scope.value(node.this)))
    parts = [(hit, scope.where(hit).value(node.args["true"]))]
    otherwise = node.args.get("false")
    if otherwise is not None:
        parts.append((~hit, scope.where(~hit).value(otherwise)))
    return merge_branches(scope.rows, parts)


def coalesce(node: exp.Expression, scope: Scope) -> Value:
    """``coalesce(a, b, ...)``, ``ifnull``, ``nvl``: the first that is not NULL."""
    open_rows = np.ones(scope.rows, dtype=np.bool_)
    parts = []
    for each in (node.this, *node.expressions):
        value = scope.where(open_rows).value(each)
        found = ~nulls_of(value.array)
        hit = np.zeros(scope.rows, dtype=np.bool_)
        hit[open_rows] = found
        parts.append((hit, _rows_of(value, found)))
        open_rows = open_rows & ~hit
    return merge_branches(scope.rows, parts)


def null_if(a: Value, b: Value) -> Value:
    """``nullif(a, b)``: NULL where both are equal, else a."""
    equal = true_rows(compare_values("=", a, b))
    array = pc.if_else(pa.array(equal), pa.scalar(None, a.array.type), a.array)
    return Value(array, a.type, whole_days=a.whole_days)


def among(node: exp.Expression, scope: Scope) -> Value:
    """``a IN (b, c)``: true if one is equal; NULL if none is equal and something is NULL."""
    if not node.expressions:
        raise UnsupportedExpressionError(
            f"{node.sql(dialect='spark')}: IN takes a list of values here, not a subquery"
        )
    subject = scope.value(node.this)
    candidates = [scope.value(each) for each in node.expressions]
    # Spark converts all values to one type, not each pair to its own.
    type = merged_type([subject, *candidates])
    subject = Value(coerce(subject, type), type)
    result = pa.repeat(pa.scalar(False), scope.rows)
    for candidate in candidates:
        equal = compare_values("=", subject, Value(coerce(candidate, type), type))
        result = pc.or_kleene(result, equal)
    return typed(result)


def merged_type(values: Sequence[Value]) -> pa.DataType:
    """The common type of several values."""
    type = values[0].type
    for value in values[1:]:
        wider = common_type(type, value.type)
        if wider is None:
            raise TypeMismatchError(
                f"{name(type)} and {name(value.type)} have no common type; cast one of them"
            )
        type = wider
    return type


def between(node: exp.Expression, scope: Scope) -> Value:
    """``a BETWEEN low AND high``."""
    if node.args.get("symmetric"):
        raise UnsupportedExpressionError("BETWEEN SYMMETRIC is not evaluated in process")
    subject = scope.value(node.this)
    low, high = scope.value(node.args["low"]), scope.value(node.args["high"])
    above = compare_values(">=", subject, low)
    return typed(pc.and_kleene(above, compare_values("<=", subject, high)))


def is_test(node: exp.Expression, scope: Scope) -> Value:
    """``a IS NULL``, ``a IS TRUE``, ``a IS FALSE``."""
    value = scope.value(node.this)
    if isinstance(node.expression, exp.Null):
        return typed(pa.array(nulls_of(value.array)))
    if isinstance(node.expression, exp.Boolean):
        tested = condition(value)
        wanted = tested if node.expression.this else pc.invert(tested)
        return typed(pa.array(true_rows(wanted)))
    raise UnsupportedExpressionError(f"{node.sql(dialect='spark')} is not evaluated in process")


def is_null(a: Value) -> Value:
    """``isnull(a)``."""
    return typed(pa.array(nulls_of(a.array)))


def is_not_null(a: Value) -> Value:
    """``isnotnull(a)``."""
    return typed(pa.array(~nulls_of(a.array)))


def extreme(op: str) -> Callable[..., Value]:
    """``least`` and ``greatest``: NULL is ignored; of equal values the first is kept."""

    def operate(*values: Value) -> Value:
        families = {kind(value.type) for value in values} - {"null"}
        if "string" in families and len(families) > 1:
            raise TypeMismatchError("least and greatest do not mix strings with other types; cast")
        type = merged_type(values)
        arrays = [coerce(value, type) for value in values]
        if len({array.type for array in arrays}) > 1:
            arrays = [pc.cast(array, INT64) for array in arrays]
        best = arrays[0]
        for array in arrays[1:]:
            better = true_rows(compare_same(op, array, best)) | (nulls_of(best) & ~nulls_of(array))
            best = pc.if_else(pa.array(better), array, best)
        return Value(best, type)

    return operate
