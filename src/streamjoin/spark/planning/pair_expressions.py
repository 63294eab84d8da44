"""Expressions over pairs for the cores: conditions that Spark cannot check later, and distances.

After an inner join, Spark may drop pairs by whatever no key answers. A row without a match must
know of each pair whether it counts, so there the cores check. What concerns one side alone is still
Spark's, computed before the join, as keys are; only what brings both together is evaluated here, be
it a condition, a distance (``nearest``) or what an aggregate is taken of::

    abs(ln(l.a) - sqrt(r.b)) * 2 > r.c      abs(l.`key 0` - r.`key 0`) * 2 > r.c
    l.ts - r.ts > interval 1 day            l.`key 1` - r.`key 1` > interval 1 day   by local time
    l.a = 0 or 10 / l.a < r.b               l.`key 2` or l.`key 3` < r.b
                                            key 3: case when not coalesce(l.a = 0, false) then ...

A value that Spark would compute for some pairs only is computed where the conditions before it on
the same row let it be. Those on the other row do not count: where Spark raises an error for a value
that no pair needs, it does so here too, but not in Spark's own join.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlglot import exp

from streamjoin.conditions.atoms import NO_OPERAND
from streamjoin.conditions.sqltext import canonical
from streamjoin.errors import ConditionError, SchemaError, UnsupportedExpressionError
from streamjoin.expressions.datatypes import kind
from streamjoin.expressions.parsing import read_expression, sides
from streamjoin.keys.operands import Side, type_of
from streamjoin.spark.planning.computed_keys import ALIASES, ComputedKeys
from streamjoin.spark.planning.schemas import is_collated
from streamjoin.spark.session import ANSI

Guards = Mapping[Side, tuple[str, ...]]  # conditions on a row, without which nothing is computed
NO_GUARDS: Guards = {"left": (), "right": ()}

_SIDE_OF: dict[str, Side] = {"l": "left", "r": "right"}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
# What passes values on, or compares them: a time zone does not matter if all have one type.
_PASSING = (
    *_COMPARISONS,
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Case, exp.If, exp.Coalesce),
    *(exp.Nullif, exp.In, exp.Between, exp.Is, exp.Least, exp.Greatest),
)
_RAISING = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.Abs)
_CASTS = (exp.Cast, exp.TryCast)
WAYS = (
    "write it over columns of one side each, which Spark computes before the join, or join with "
    "how='inner' and without keep or aggregate, where Spark checks the pairs"
)


class PairExpressions:
    """Turns expressions over pairs into what the cores evaluate; see the module docstring."""

    def __init__(self, keys: ComputedKeys, spark: SparkSession) -> None:
        self.keys, self.written = keys, ""  # what is looked at
        self.raises = str(spark.conf.get(ANSI)).lower() == "true"  # otherwise errors are NULL

    def bind(self, tree: exp.Expression, role: str) -> str:
        """Return a qualified expression over columns that the cores have, with Spark's answers.

        ``role`` says what it is, for messages.
        """
        self.written = written = f"{role} {canonical(tree)!r}"
        odd = tree.find(*NO_OPERAND)
        if odd is not None:
            raise refuse(canonical(odd), written)
        bound = canonical(self._split(tree.copy(), NO_GUARDS))
        schemas = self.keys.schemas
        try:
            type_of(bound, schemas["left"], schemas["right"])
        except UnsupportedExpressionError as error:
            raise refuse(str(error).split(" is not evaluated in process")[0], written) from None
        except SchemaError as error:
            raise refuse(str(error), written) from None
        found: Iterator[Any] = read_expression(bound, schemas["left"], schemas["right"]).walk()
        for node in found:
            self._check_types(node)
        return bound

    def _split(self, node: exp.Expression, guards: Guards) -> exp.Expression:
        """Replace all that concerns one side by columns."""
        used = sides(node)
        if len(used) == 1:
            return self._leaf(node, _SIDE_OF[next(iter(used))], guards)
        if not used:
            return node
        if isinstance(node, (exp.Sub, *_COMPARISONS)):
            self._settle_times(node)
        for child, own in list(guard_children(node, guards)):
            child.replace(self._split(child.copy(), own))
        return node

    def _leaf(self, node: exp.Expression, side: Side, guards: Guards) -> exp.Expression:
        """Return a column of one side for what is computed from it."""
        text = canonical(node)
        if is_collated(self.keys.kind(side, text)):
            raise refuse(f"text that is compared by a collation ({text})", self.written)
        if isinstance(node.unnest(), exp.Column):
            return node
        if guards[side]:
            text = f"CASE WHEN {' AND '.join(guards[side])} THEN {text} END"
        return exp.column(self.keys.add_column(side, text), table=ALIASES[side])

    def _settle_times(self, node: exp.Expression) -> None:
        """Have Spark convert what the session's time zone decides, where two sides meet."""
        operands = {
            _SIDE_OF[next(iter(used))]: operand
            for operand in (node.this, node.expression)
            if len(used := sides(operand)) == 1
        }
        if len(operands) < 2:
            return
        texts = {side: canonical(operand) for side, operand in operands.items()}
        kinds = {side: self.keys.kind(side, text) for side, text in texts.items()}
        if isinstance(node, exp.Sub):
            if self.keys.goes_by_local_time(kinds):
                texts = {side: f"CAST({text} AS timestamp_ntz)" for side, text in texts.items()}
        else:
            texts = self.keys.as_one_type(texts, kinds)
        for side, operand in operands.items():
            schemas = self.keys.schemas
            operand.replace(read_expression(texts[side], schemas["left"], schemas["right"]).copy())

    def _check_types(self, node: exp.Expression) -> None:
        """Refuse what would not have Spark's answer: by another time zone, or without ANSI mode."""
        if isinstance(node, exp.Column) or not sides(node):
            return
        types = [self._type(child) for child in values_of(node)]
        zoned = [each for each in types if is_zoned(each) and not self.keys.is_utc]
        others = [each for each in types if kind(each) in ("date", "string", "timestamp")]
        mixed = zoned and len({str(each) for each in others}) > 1
        is_shift = isinstance(node, exp.Sub | exp.Add) and not self.keys.clocks_change
        if mixed or (zoned and not isinstance(node, _PASSING) and not is_shift):
            raise refuse(f"what the session's time zone decides ({canonical(node)})", self.written)
        if isinstance(node, _CASTS) and is_zoned(self._type(node)) and not self.keys.is_utc:
            raise refuse(f"what the session's time zone decides ({canonical(node)})", self.written)
        exact = not all(pa.types.is_floating(each) for each in types)
        is_division = isinstance(node, exp.Div | exp.Mod | exp.IntDiv)
        is_mixed = isinstance(node, _COMPARISONS) and len({kind(each) for each in types}) > 1
        is_text = is_mixed and any(kind(each) == "string" for each in types)
        if not self.raises and (
            isinstance(node, _CASTS)
            or is_division
            or is_text
            or (isinstance(node, _RAISING) and exact)
        ):
            raise refuse(f"what is NULL without ANSI mode ({canonical(node)})", self.written)

    def _type(self, node: exp.Expression) -> pa.DataType:
        schemas = self.keys.schemas
        return type_of(canonical(node), schemas["left"], schemas["right"])


def is_zoned(kind: pa.DataType) -> bool:
    """Whether values are instants, which a time zone turns into local times."""
    return pa.types.is_timestamp(kind) and kind.tz is not None


def refuse(what: str, written: str) -> ConditionError:
    """Return the error for a condition that the cores cannot evaluate."""
    return ConditionError(
        f"the {written} is about both rows of a pair, and what it says has to be known inside the "
        f"join, which does not evaluate {what}; {WAYS}"
    )


def guard_children(node: exp.Expression, guards: Guards) -> Iterator[tuple[exp.Expression, Guards]]:
    """Yield the values that a node is computed from, each with the conditions for that."""
    if isinstance(node, exp.And | exp.Or):
        stop = "FALSE" if isinstance(node, exp.And) else "TRUE"
        yield node.this, guards
        yield node.expression, guard(guards, node.this, f"({{}}) IS NOT {stop}")
    elif isinstance(node, exp.If):
        yield node.this, guards
        yield node.args["true"], guard(guards, node.this, "({}) IS TRUE")
        if node.args.get("false") is not None:
            yield node.args["false"], guard(guards, node.this, "({}) IS NOT TRUE")
    elif isinstance(node, exp.Case):
        subject = node.args.get("this")
        if subject is not None:
            yield subject, guards
        for branch in node.args["ifs"]:
            yield branch.this, guards
            if subject is None:
                yield branch.args["true"], guard(guards, branch.this, "({}) IS TRUE")
                guards = guard(guards, branch.this, "({}) IS NOT TRUE")
            else:
                yield branch.args["true"], guards
        if node.args.get("default") is not None:
            yield node.args["default"], guards
    elif isinstance(node, exp.Coalesce):
        for child in values_of(node):
            yield child, guards
            guards = guard(guards, child, "({}) IS NULL")
    else:
        for child in values_of(node):
            yield child, guards


def guard(guards: Guards, node: exp.Expression, form: str) -> Guards:
    """Add a condition, if it is about one row alone."""
    used = sides(node)
    if len(used) != 1:
        return guards
    side = _SIDE_OF[next(iter(used))]
    return {**guards, side: (*guards[side], form.format(canonical(node)))}


def values_of(node: exp.Expression) -> Iterator[exp.Expression]:
    """Yield what a node computes its value from: no types, units or branches."""
    for child in node.iter_expressions():
        if isinstance(node, exp.Case) and isinstance(child, exp.If):
            yield from values_of(child)
        elif not isinstance(child, exp.DataType | exp.Var | exp.Identifier | exp.Interval):
            yield child
