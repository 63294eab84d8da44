"""Aggregates: the function of ``avg(r.bid)``, what it is taken of, and the type it gives.

``first`` and ``last`` go by the time of right rows, and take NULL values like others, as Spark's
do. The types are Spark's::

    count                  bigint
    sum, integers          bigint                    avg, integers          double
    sum, decimal(p,s)      decimal(p+10,s)           avg, decimal(p,s)      decimal(p+4,s+4)
    sum, float or double   double                    avg, float or double   double
    sum, interval          interval                  avg, interval          interval
    min, max, first, last  the type itself

Decimals have 38 digits at most. Text is summed up as doubles, which is what Spark makes of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from streamjoin.errors import ConditionError, SchemaError
from streamjoin.expressions.datatypes import DOUBLE, INT64, MAX_PRECISION, kind, name
from streamjoin.expressions.parsing import parse_expression

FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.First: "first",
    exp.Last: "last",
    exp.FirstValue: "first",
    exp.LastValue: "last",
}
LISTED = ", ".join(dict.fromkeys(FUNCTIONS.values()))


@dataclass(frozen=True)
class Aggregate:
    """A function, and what it is taken of; None for ``count(*)``, which counts pairs."""

    name: str  # of its column in the result
    function: str
    argument: exp.Expression | None
    text: str


def parse_aggregates(pairs: Iterable[tuple[str, str]]) -> tuple[Aggregate, ...]:
    """Read aggregates by the names of their columns.

    >>> [(each.function, each.text) for each in parse_aggregates([("best", "max(r.bid)")])]
    [('max', 'max(r.bid)')]
    """
    return tuple(parse_aggregate(*pair) for pair in pairs)


def parse_aggregate(column: str, text: str) -> Aggregate:
    """Read an aggregate, or say what it should be."""
    place = f"aggregate {column!r}: {text!r}"
    try:
        tree = parse_expression(text)
    except ConditionError as error:
        raise type(error)(f"aggregate {column!r}: {error}") from error
    check_form(tree, place)
    if isinstance(tree, exp.Anonymous) and tree.name.lower() == "mean":
        arguments = tree.expressions
        function = "avg"
    else:
        arguments = [tree.this, *tree.expressions] if tree.args.get("this") is not None else []
        function = FUNCTIONS.get(type(tree), "")
    if not function:
        raise ConditionError(
            f"{place}: {function_name(tree)} is not computed here; there are {LISTED}. "
            "Leave aggregate out, and compute it from the pairs"
        )
    if len(arguments) != 1:
        raise ConditionError(
            f"{place} has {len(arguments)} arguments, and {function} takes one, such as "
            f"{function}(r.bid){' or count(*)' if function == 'count' else ''}"
        )
    [argument] = arguments
    if isinstance(argument, exp.Star):
        if function != "count":
            raise ConditionError(f"{place}: * stands for no single value; name the column")
        return Aggregate(column, function, None, text)
    return Aggregate(column, function, argument, text)


def check_form(tree: exp.Expression, place: str) -> None:
    """Refuse what is more, or less, than one function over rows."""
    if isinstance(tree, exp.Filter):
        raise ConditionError(
            f"{place}: FILTER is not supported; put the condition into the argument, as in "
            "sum(case when r.bid > 5 then r.bid end): NULL does not count"
        )
    if tree.find(exp.Distinct) is not None:
        raise ConditionError(
            f"{place}: DISTINCT is not supported; leave aggregate out, and compute it from the "
            "pairs, or make the values of the right side distinct before the join"
        )
    if tree.find(exp.IgnoreNulls, exp.RespectNulls) is not None:
        raise ConditionError(
            f"{place}: NULL is a value like others to first and last; leave such rows out by the "
            "condition (and r.bid is not null)"
        )
    if tree.find(exp.Window) is not None:
        raise ConditionError(f"{place}: OVER has no use: the matches of a left row are the window")
    aggregate: Any = exp.AggFunc
    inner = [each for each in tree.find_all(aggregate) if each is not tree]
    if is_aggregate(tree):
        if any(is_aggregate(each) for each in inner):
            raise ConditionError(
                f"{place} is an aggregate of an aggregate; give the inner one a column of its own"
            )
    elif inner:
        raise ConditionError(
            f"{place} computes something from an aggregate; give the aggregate a column, and "
            f"compute it from that: {inner[0].sql('spark')}"
        )
    elif not isinstance(tree, exp.Func):
        raise ConditionError(f"{place} is no aggregate; there are {LISTED}, such as max(r.bid)")


def is_aggregate(tree: exp.Expression) -> bool:
    """Whether it is a function over rows, known here or not."""
    is_mean = isinstance(tree, exp.Anonymous) and tree.name.lower() == "mean"
    return is_mean or isinstance(tree, exp.AggFunc)


def function_name(tree: exp.Expression) -> str:
    """Return the name of a function as it is written."""
    if isinstance(tree, exp.Anonymous):
        return tree.name
    return tree.sql("spark").split("(")[0].lower()


def argument_type(function: str, given: pa.DataType) -> pa.DataType:
    """Return the type that a function takes its argument in.

    >>> argument_type("sum", pa.float32()), argument_type("max", pa.float32())
    (DataType(double), DataType(float))
    """
    if function in ("sum", "avg") and kind(given) in ("floating", "string", "null"):
        return DOUBLE
    if function in ("sum", "avg") and kind(given) == "integer":
        return INT64
    return given


def result_type(function: str, given: pa.DataType) -> pa.DataType:
    """Return the type of an aggregate over values of a type.

    >>> result_type("sum", pa.int8()), result_type("avg", pa.decimal128(5, 2))
    (DataType(int64), Decimal128Type(decimal128(9, 6)))
    """
    if function == "count":
        return INT64
    if function in ("min", "max"):
        if kind(given) == "other":
            raise SchemaError(
                f"{function} of {name(given)}: such values have no order here; take one of their "
                "parts"
            )
        return given
    if function in ("first", "last"):
        return given
    taken = argument_type(function, given)
    if kind(taken) == "decimal":
        digits, scale = (10, 0) if function == "sum" else (4, 4)
        return pa.decimal128(
            min(taken.precision + digits, MAX_PRECISION), min(taken.scale + scale, MAX_PRECISION)
        )
    if kind(taken) == "integer":
        return INT64 if function == "sum" else DOUBLE
    if kind(taken) in ("floating", "interval"):
        return taken
    raise SchemaError(
        f"{function} of {name(given)} is not defined; it takes numbers and intervals: cast it"
    )
