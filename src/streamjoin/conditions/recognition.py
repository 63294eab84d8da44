"""Reads SQL text and finds the parts of it that a join can use.

::

    l.s = r.s and not (l.t < r.t - 5 or l.t > r.t) and l.q > r.q
      1. negation inwards    l.s = r.s  |  l.t >= r.t - 5  |  l.t <= r.t  |  l.q > r.q
      2. atoms               equality      d >= -5            d <= 0         d > 0
      3. by pair             l.s, r.s      ------- l.t, r.t -------          l.q, r.q
      4. parts               Equality      Band [-5, 0]                      Inequality

1. NOT moves inwards (a comparison turns into its opposite: Spark's order is total, with NaN the
   largest, and NULL stays NULL), BETWEEN becomes two comparisons, AND is flattened.
2. An atom compares an expression over ``l`` with one over ``r``, or their difference with a
   constant. Constants at the outside of one operand are shifts: ``l.t >= r.t - 5`` belongs to the
   pair (l.t, r.t). If both operands have one, neither is split off.
3. Atoms over the same pair become one set of intervals, as far as `intervals` can do that exactly;
   an OR whose branches all concern one pair is a set of intervals too.
4. A lone shifted atom is an `Inequality`, with its operands as written.

Whatever is not recognised is a `Residual`, so recognition decides speed, never the answer.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from streamjoin.conditions import sqltext
from streamjoin.conditions.atoms import NO_OPERAND, WHOLE, Atom, loses_text, null_safe, region
from streamjoin.conditions.intervals import intersect
from streamjoin.conditions.terms import (
    Band,
    Condition,
    Equality,
    Inequality,
    NotEqual,
    Part,
    Residual,
)
from streamjoin.errors import ConditionError
from streamjoin.expressions.depth import retry_deep

if TYPE_CHECKING:
    import pyarrow as pa

    from streamjoin.conditions.sqltext import Node

_OPPOSITES: dict[type, type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
    exp.NullSafeNEQ: exp.NullSafeEQ,
}
_NOT_BOOLEAN = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.IntDiv,
    exp.Neg,
    exp.Literal,
    exp.Interval,
    exp.Star,
)


def parse_condition(
    on: str | Condition, left: "pa.Schema | None" = None, right: "pa.Schema | None" = None
) -> Condition:
    """The canonical form of a condition given as SQL text over the aliases ``l`` and ``r``.

    With both schemas, columns without an alias are resolved first. Otherwise the parts that hold
    them go to the residual, and nothing is dropped that would matter if columns were text.

    >>> print(parse_condition("abs(l.x - r.x) <= 5 and l.s = r.s").sql())
    l.s = r.s AND ABS(l.x - r.x) <= 5
    """
    if isinstance(on, Condition):
        return on
    return recognise(on, left, right, may_be_text=left is None or right is None)


@lru_cache(maxsize=256)
@retry_deep
def recognise(
    on: str,
    left: "pa.Schema | None" = None,
    right: "pa.Schema | None" = None,
    *,
    may_be_text: bool = False,
) -> Condition:
    """Read a condition; unless operands ``may_be_text``, assume they are numbers or times."""
    expression = sqltext.parse(on)
    _refuse_queries(on, expression)
    if left is not None and right is not None:
        from streamjoin.expressions.parsing import qualify

        expression = qualify(expression, left, right)
        _mark_text(expression, left, right)
    _settle_aliases(on, expression)
    collected = _Collector(may_be_text)
    for conjunct in _conjuncts(_negations_inwards(expression, negate=False)):
        if isinstance(conjunct, _NOT_BOOLEAN):
            raise ConditionError(
                f"{sqltext.canonical(conjunct)!r} in condition {on!r} is a value, not a condition; "
                "compare it with something, such as l.x + 1 < r.x"
            )
        collected.add(conjunct)
    return collected.condition()


def _mark_text(expression: "Node", left: "pa.Schema", right: "pa.Schema") -> None:
    """Mark sums over text columns: ``r.s + 1`` compares as a number, ``r.s`` as text."""
    import pyarrow as pa

    def is_text(type: pa.DataType) -> bool:
        return is_text(type.value_type) if pa.types.is_dictionary(type) else type in texts

    texts = {pa.string(), pa.large_string(), pa.string_view()}
    columns = {
        (alias, field.name)
        for alias, schema in (("l", left), ("r", right))
        for field in schema
        if is_text(field.type)
    }
    for node in expression.find_all(exp.Add, exp.Sub) if columns else ():
        if any((each.table, each.name) in columns for each in node.find_all(exp.Column)):
            node.meta[WHOLE] = True


def _refuse_queries(on: str, expression: "Node") -> None:
    rules = (
        (exp.Query, "a query", "join with the query's result instead"),
        (exp.Window, "a window function", "compute it before the join"),
        (exp.AggFunc, "an aggregate", "aggregate before or after the join"),
        (exp.Placeholder, "a placeholder", "write the value itself"),
    )
    for kind, what, way_out in rules:
        found = expression.find(kind)
        if found is not None:
            raise ConditionError(
                f"condition {on!r} holds {what}, {sqltext.canonical(found)!r}; a condition is "
                f"about one row of each side: {way_out}"
            )


def _settle_aliases(on: str, expression: "Node") -> None:
    """Write every alias as plain l or r."""
    for column in expression.find_all(exp.Column):
        alias = sqltext.alias(column)
        if alias in ("l", "r"):
            column.parts[0].replace(exp.to_identifier(alias))
        elif alias:
            raise ConditionError(
                f"alias {column.parts[0].name!r} in condition {on!r}: "
                "use l for the left and r for the right input"
            )


def _negations_inwards(node: "Node", *, negate: bool) -> "Node":
    """The condition, or its opposite, with NOT only at the leaves and BETWEEN taken apart."""
    node = node.unnest()
    while isinstance(node, exp.Not):
        node, negate = node.this.unnest(), not negate
    if isinstance(node, exp.And | exp.Or):
        sides = [_negations_inwards(side, negate=negate) for side in (node.left, node.right)]
        return _join(isinstance(node, exp.And) is not negate, *sides)
    if node.find(*NO_OPERAND):
        return exp.not_(node) if negate else node
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        value, low, high = node.this, node.args["low"], node.args["high"]
        if negate:
            return _join(False, _compare(exp.LT, value, low), _compare(exp.GT, value, high))
        return _join(True, _compare(exp.GTE, value, low), _compare(exp.LTE, value, high))
    if not negate:
        return node
    opposite = _OPPOSITES.get(type(node))
    if opposite is None or not isinstance(node, exp.Binary):
        return exp.not_(node)
    return _compare(opposite, node.left, node.right)


def _join(both: bool, one: "Node", other: "Node") -> "Node":
    if both:
        return exp.And(this=one, expression=other)
    sides = [side.unnest() if isinstance(side.unnest(), exp.Or) else side for side in (one, other)]
    return exp.Paren(this=exp.Or(this=sides[0], expression=sides[1]))


def _compare(kind: type[exp.Binary], left: "Node", right: "Node") -> "Node":
    return kind(this=left.copy(), expression=right.copy())


def _conjuncts(node: "Node") -> list["Node"]:
    node = node.unnest()
    if not isinstance(node, exp.And):
        return [node]
    return [*_conjuncts(node.left), *_conjuncts(node.right)]


class _Collector:
    """Sorts conjuncts into parts, and combines atoms over the same pair."""

    def __init__(self, may_be_text: bool) -> None:
        self.may_be_text = may_be_text
        self.parts: list[Part] = []
        self.groups: dict[tuple[str, str], list[Atom]] = {}

    def add(self, node: "Node") -> None:
        part = null_safe(node) if isinstance(node, exp.NullSafeEQ) else None
        atom = region(node, self.may_be_text)
        if atom is None:
            self.parts.append(part or Residual(sqltext.canonical(node)))
        elif isinstance(atom.part, Equality | NotEqual):
            self.parts.append(atom.part)
        else:
            self._meet(atom)

    def _meet(self, atom: Atom) -> None:
        group = self.groups.setdefault(atom.pair.key, [])
        for position, other in enumerate(group):
            intervals = intersect(other.intervals, atom.intervals)
            if intervals is None:
                continue
            if self.may_be_text and loses_text(other.intervals + atom.intervals, intervals):
                continue
            group[position] = Atom(other.pair, intervals, other.pair.part(intervals))
            return
        group.append(atom)

    def condition(self) -> Condition:
        """All parts, each kind in the order of the text."""
        parts = [*self.parts, *(atom.part for group in self.groups.values() for atom in group)]
        return Condition(
            tuple(part for part in parts if isinstance(part, Equality)),
            tuple(part for part in parts if isinstance(part, Band)),
            tuple(part for part in parts if isinstance(part, Inequality)),
            tuple(part for part in parts if isinstance(part, NotEqual)),
            tuple(part for part in parts if isinstance(part, Residual)),
        )
