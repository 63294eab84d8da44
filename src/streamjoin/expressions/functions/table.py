"""The table of what can be evaluated in process: one entry per operator and function.

A handler takes a node and a scope and returns a `Value`. Most functions evaluate all their
arguments first: they are written as functions of values and listed through `strict`. The lazy ones
(CASE, AND, ...) are handlers themselves. Functions without a class in sqlglot are found by name in
`NAMED`. Tests in ``tests/expressions`` compare everything listed here with Spark;
docs/guide/conditions.md has the same list in prose.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from streamjoin.errors import ConditionError, UnsupportedExpressionError
from streamjoin.expressions.casts import cast
from streamjoin.expressions.coercion import compare_values
from streamjoin.expressions.datatypes import as_spark, is_numeric, kind, name
from streamjoin.expressions.functions import (
    arithmetic,
    conditionals,
    literals,
    mathematics,
    strings,
    temporal,
)
from streamjoin.expressions.values import Scope, TypeMismatchError, Value, typed

Handler = Callable[[exp.Expression, Scope], Value]


def strict(function: Callable[..., Value], *arguments: str) -> Handler:
    """A handler that evaluates the named arguments of a node and calls the function with them."""
    wanted = arguments or ("this", "expression")

    def handle(node: exp.Expression, scope: Scope) -> Value:
        nodes = [node.args.get(argument) for argument in wanted]
        return function(*(scope.value(each) for each in nodes if each is not None))

    return handle


def unary(function: Callable[[Value], Value]) -> Handler:
    """A handler for a function of one argument; further arguments are refused."""

    def handle(node: exp.Expression, scope: Scope) -> Value:
        extra = {key for key, value in node.args.items() if key != "this" and value}
        if extra - {"safe", "position"}:
            raise UnsupportedExpressionError(
                f"{node.sql(dialect='spark')}: only the form with one argument is evaluated "
                "in process"
            )
        return function(scope.value(node.this))

    return handle


def variadic(function: Callable[..., Value]) -> Handler:
    """A handler that calls the function with every argument of the node."""

    def handle(node: exp.Expression, scope: Scope) -> Value:
        first = [node.this] if isinstance(node.this, exp.Expression) else []
        return function(*(scope.value(each) for each in (*first, *node.expressions)))

    return handle


def comparison(op: str) -> Handler:
    """A handler of ``= <> < <= > >= <=>``."""
    return strict(lambda a, b: typed(compare_values(op, a, b)))


def distinct(node: exp.Expression, scope: Scope) -> Value:
    """``a IS DISTINCT FROM b``."""
    same = compare_values("<=>", scope.value(node.this), scope.value(node.expression))
    return typed(pc.invert(same))


def paren(node: exp.Expression, scope: Scope) -> Value:
    """``(a)``."""
    return scope.value(node.this)


def field(node: exp.Expression, scope: Scope) -> Value:
    """``l.a.b``: a field of a struct; like Spark, ignores the case of names."""
    value = scope.value(node.this)
    wanted = node.expression.name
    if not pa.types.is_struct(value.type):
        raise TypeMismatchError(
            f"{name(value.type)} has no field {wanted!r}; only structs have fields"
        )
    names = [value.type.field(index).name for index in range(value.type.num_fields)]
    found = [each for each in names if each == wanted]
    found = found or [each for each in names if each.lower() == wanted.lower()]
    if len(found) != 1:
        raise TypeMismatchError(
            f"the struct has no single field {wanted!r}; its fields: {', '.join(names)}"
        )
    return typed(as_spark(pc.struct_field(value.array, names.index(found[0]))))


def negation(node: exp.Expression, scope: Scope) -> Value:
    """``-a``; before a number the sign is part of the literal."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return literals.literal(node.this, scope, negative=True)
    return arithmetic.negative(scope.value(node.this))


def casting(node: exp.Expression, scope: Scope) -> Value:
    """``CAST(a AS type)``; sqlglot marks the real TRY_CAST as safe."""
    value, type = scope.value(node.this), literals.data_type(node.args["to"])
    _check_cast(value.type, type)
    array = cast(value.array, type, safe=bool(node.args.get("safe")))
    if kind(type) == "integer" and isinstance(node.this, exp.Literal):
        # This is how 7L arrives: still a literal, as narrow as its digits next to a decimal.
        return Value(array, type, digits=value.digits)
    return typed(array)


def _check_cast(source: pa.DataType, target: pa.DataType) -> None:
    if kind(source) == "timestamp" and source.tz is None and is_numeric(target):
        raise TypeMismatchError(
            f"timestamp_ntz does not cast to {name(target)}; cast it to timestamp first"
        )


def rounding(node: exp.Expression, scope: Scope) -> Value:
    """``round(a, places)`` with constant places."""
    places = node.args.get("decimals")
    return mathematics.round_places(
        scope.value(node.this), 0 if places is None else _integer(places)
    )


def _integer(node: exp.Expression) -> int:
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal) or not literal.is_int:
        raise ConditionError(f"round takes a constant integer, not {node.sql(dialect='spark')}")
    return sign * int(literal.name)


def like(node: exp.Expression, scope: Scope) -> Value:
    """``a LIKE b``; a pattern that is a literal is read once."""
    pattern, words = node.expression, scope.value(node.this)
    if isinstance(pattern, exp.Literal) and pattern.is_string:
        matched = strings.like(words, pattern.name)
    else:
        matched = strings.compare_rows(strings.is_like)(words, scope.value(pattern))
    return conditionals.negation(matched) if node.args.get("negate") else matched


def search(by_row: Callable[[str, str], bool], by_arrow: Callable[..., pa.Array]) -> Handler:
    """startswith, endswith, contains; a literal to look for is left to Arrow."""

    def handle(node: exp.Expression, scope: Scope) -> Value:
        words, part = scope.value(node.this), node.expression
        if isinstance(part, exp.Literal):
            return typed(by_arrow(strings.as_string(words), pattern=part.name))
        return strings.compare_rows(by_row)(words, scope.value(part))

    return handle


def trimming(node: exp.Expression, scope: Scope) -> Value:
    """``trim(a)``, ``ltrim(a)``, ``rtrim(a)``: spaces, and nothing else."""
    if node.args.get("expression") is not None:
        raise UnsupportedExpressionError("trim of given characters is not evaluated in process")
    ways: dict[str, Callable[[str], str]] = {
        "LEADING": lambda word: word.lstrip(" "),
        "TRAILING": lambda word: word.rstrip(" "),
        "BOTH": lambda word: word.strip(" "),
    }
    way = ways[str(node.args.get("position") or "BOTH").upper()]
    return strings.map_distinct(way)(scope.value(node.this))


def anonymous(node: exp.Expression, scope: Scope) -> Value:
    """A function that sqlglot has no class for."""
    handler = NAMED.get(node.name.lower())
    if handler is None:
        raise unsupported(node)
    return handler(node, scope)


def unsupported(node: exp.Expression) -> UnsupportedExpressionError:
    """The error for a function that is not in the table."""
    written = node.sql(dialect="spark")
    if isinstance(node, exp.Anonymous):
        subject = f"the function {node.name}"
    elif isinstance(node, exp.Func):
        subject = f"the function {node.sql_name().lower()}"
    else:
        subject = f"the operator {node.key}"
    return UnsupportedExpressionError(
        f"{subject} (in {written}) is not evaluated in process; Spark evaluates it as a filter. "
        "It evaluates those listed in docs/guide/conditions.md"
    )


def to_date(a: Value) -> Value:
    """``to_date(a)``."""
    return typed(temporal.to_date(a))


HANDLERS: dict[type[exp.Expression], Handler] = {
    exp.Literal: literals.literal,
    exp.Boolean: literals.boolean,
    exp.Null: literals.null,
    exp.Interval: literals.interval,
    exp.Paren: paren,
    exp.Dot: field,
    exp.Anonymous: anonymous,
    # Three-valued logic and branches
    exp.And: conditionals.conjunction,
    exp.Or: conditionals.disjunction,
    exp.Not: unary(conditionals.negation),
    exp.Case: conditionals.case,
    exp.If: conditionals.if_else,
    exp.Coalesce: conditionals.coalesce,
    exp.Nullif: strict(conditionals.null_if),
    exp.In: conditionals.among,
    exp.Between: conditionals.between,
    exp.Is: conditionals.is_test,
    exp.Least: variadic(conditionals.extreme("<")),
    exp.Greatest: variadic(conditionals.extreme(">")),
    # Comparisons
    exp.EQ: comparison("="),
    exp.NEQ: comparison("<>"),
    exp.LT: comparison("<"),
    exp.LTE: comparison("<="),
    exp.GT: comparison(">"),
    exp.GTE: comparison(">="),
    exp.NullSafeEQ: comparison("<=>"),
    exp.NullSafeNEQ: distinct,
    # Arithmetic
    exp.Add: strict(arithmetic.binary("+")),
    exp.Sub: strict(arithmetic.binary("-")),
    exp.Mul: strict(arithmetic.binary("*")),
    exp.Div: strict(arithmetic.binary("/")),
    exp.Mod: strict(arithmetic.binary("%")),
    exp.SafeAdd: strict(arithmetic.binary("+", safe=True)),
    exp.SafeSubtract: strict(arithmetic.binary("-", safe=True)),
    exp.SafeMultiply: strict(arithmetic.binary("*", safe=True)),
    exp.SafeDivide: strict(arithmetic.binary("/", safe=True)),
    exp.IntDiv: strict(arithmetic.integral_division),
    exp.Neg: negation,
    exp.Negative: unary(arithmetic.negative),
    exp.Abs: unary(arithmetic.absolute),
    exp.BitwiseAnd: strict(arithmetic.bits(np.bitwise_and)),
    exp.BitwiseOr: strict(arithmetic.bits(np.bitwise_or)),
    exp.BitwiseXor: strict(arithmetic.bits(np.bitwise_xor)),
    # Mathematics
    exp.Ceil: unary(mathematics.whole(up=True)),
    exp.Floor: unary(mathematics.whole(up=False)),
    exp.Round: rounding,
    exp.Sqrt: unary(mathematics.function(np.sqrt)),
    exp.Exp: unary(mathematics.function(np.exp)),
    exp.Ln: unary(mathematics.logarithm),
    exp.Pow: strict(mathematics.function(mathematics.power)),
    exp.Sign: unary(mathematics.function(mathematics.sign)),
    exp.Radians: unary(mathematics.function(np.radians)),
    exp.Sin: unary(mathematics.function(np.sin)),
    exp.Cos: unary(mathematics.function(np.cos)),
    exp.Tan: unary(mathematics.function(np.tan)),
    exp.Asin: unary(mathematics.function(np.arcsin)),
    exp.Acos: unary(mathematics.function(np.arccos)),
    exp.Atan: unary(mathematics.function(np.arctan)),
    exp.Atan2: strict(mathematics.function(mathematics.angle)),
    exp.IsNan: unary(mathematics.is_nan),
    # Casts, dates and timestamps
    exp.Cast: casting,
    exp.TryCast: casting,
    exp.TsOrDsToDate: unary(to_date),
    exp.TsOrDsAdd: strict(temporal.add_days),
    exp.DateDiff: strict(temporal.days_between),
    exp.Year: unary(temporal.date_part(pc.year)),
    exp.Month: unary(temporal.date_part(pc.month)),
    exp.Day: unary(temporal.date_part(pc.day)),
    exp.DayOfMonth: unary(temporal.date_part(pc.day)),
    exp.Hour: unary(temporal.clock_part(pc.hour)),
    exp.Minute: unary(temporal.clock_part(pc.minute)),
    exp.Second: unary(temporal.clock_part(pc.second)),
    exp.StrToUnix: strict(temporal.unix_seconds, "this"),
    # Strings
    exp.Upper: unary(strings.map_distinct(str.upper)),
    exp.Lower: unary(strings.map_distinct(str.lower)),
    exp.Length: strict(strings.length, "this"),
    exp.Trim: trimming,
    exp.Concat: variadic(strings.concat),
    exp.DPipe: strict(strings.concat),
    exp.Substring: strict(strings.substring, "this", "start", "length"),
    exp.StartsWith: search(str.startswith, pc.starts_with),
    exp.EndsWith: search(str.endswith, pc.ends_with),
    exp.Contains: search(str.__contains__, pc.match_substring),
    exp.Like: like,
}

NAMED: dict[str, Handler] = {
    "hypot": variadic(mathematics.function(np.hypot)),
    "isnull": variadic(conditionals.is_null),
    "isnotnull": variadic(conditionals.is_not_null),
    "positive": variadic(arithmetic.positive),
    "try_mod": variadic(arithmetic.binary("%", safe=True)),
}
