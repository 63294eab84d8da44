"""Atoms: comparisons of an expression over ``l`` with one over ``r``, or of their difference.

::

    written                    pair         intervals of left - right     form
    l.x <= r.x + 5             l.x, r.x     (-inf, 5]                     shift_right
    r.x < l.x + 5              l.x, r.x     (-5, inf)                     shift_left
    r.x - l.x >= 5             l.x, r.x     (-inf, -5]   NaN passes       difference
    abs(l.x - r.x) > 5         l.x, r.x     (-inf, -5) (5, inf)   NaN     difference
    l.x + 1 <= r.x + 2         both whole   (-inf, 0]                     shift_right

An OR whose atoms all concern one pair is an atom too, and so is an AND below such an OR.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, cast

from sqlglot import exp

from streamjoin.conditions import sqltext
from streamjoin.conditions.constants import constant
from streamjoin.conditions.intervals import (
    Bound,
    Constant,
    Form,
    Interval,
    Intervals,
    intersect,
    negate,
    number,
    unite,
)
from streamjoin.conditions.sqltext import FLIPPED
from streamjoin.conditions.terms import Band, Equality, Inequality, NotEqual, Operator, Part

if TYPE_CHECKING:
    from streamjoin.conditions.sqltext import Node

_OPERATORS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# Evaluated again for every pair, or compared with several values: not a value of one side.
NO_OPERAND = (exp.Rand, exp.Randn, exp.Uuid, exp.Any, exp.All, exp.Tuple)
_L, _R = frozenset("l"), frozenset("r")
WHOLE = "whole"  # marks a sum that must not be split into operand and shift: it makes text a number


def _intervals(
    operator: str, value: Constant, form: Form = "difference", nan_passes: bool = False
) -> Intervals:
    """The differences d with ``d operator value``."""
    closed = operator in ("=", "<=", ">=")
    bound = Bound(value, closed, form, nan_passes)
    if operator == "=":
        return (Interval(bound, bound),)
    if operator == "<>":
        return Interval(None, bound), Interval(bound, None)
    return (Interval(None, bound) if operator in ("<", "<=") else Interval(bound, None),)


class Pair(NamedTuple):
    """The two expressions whose difference an atom bounds."""

    left: "Node"
    right: "Node"

    @property
    def key(self) -> tuple[str, str]:
        """Equal for equal pairs. Case counts: ``l.d`` and ``l.D`` may be two columns."""
        return sqltext.canonical(self.left), sqltext.canonical(self.right)

    def part(self, intervals: Intervals) -> Part:
        """What the set of intervals is as a part of the condition."""
        left, right = sqltext.canonical(self.left), sqltext.canonical(self.right)
        bounds = {bound for each in intervals for bound in each.bounds()}
        bound = bounds.pop()
        if bounds or bound.form == "difference":
            return Band(left, right, intervals)
        if len(intervals) == 1 and len(intervals[0].bounds()) == 2:
            return Band(left, right, intervals)  # a point, but not written as an equality
        # All ends are one shifted bound: all but a point, or one side of it.
        left, right = sqltext.shifted(left, right, bound)
        if len(intervals) == 2:
            return NotEqual(left, right)
        operator = ("<" if intervals[0].upper else ">") + "=" * bound.closed
        return Inequality(left, cast(Operator, operator), right)


@dataclass(frozen=True)
class Atom:
    """A set of intervals of one pair's difference, and the part it becomes on its own."""

    pair: Pair
    intervals: Intervals
    part: Part


def _sides(node: "Node") -> frozenset[str]:
    return frozenset(sqltext.alias(column) for column in node.find_all(exp.Column))


def _atom(node: "Node") -> Atom | None:
    operator = _OPERATORS.get(type(node))
    if not isinstance(node, exp.Binary) or operator is None or node.find(*NO_OPERAND):
        return None
    left, right = node.left.unnest(), node.right.unnest()
    if _sides(left) == _R or not _sides(left):
        left, operator, right = right, FLIPPED[operator], left
    if _sides(left) == _L and _sides(right) == _R:
        return _shifted(left, operator, right)
    limit = constant(right)
    return None if limit is None else _difference(left, operator, limit)


def _shifted(left: "Node", operator: str, right: "Node") -> Atom:
    """``left operator right``, where one of them may be a core expression and a constant."""
    texts = sqltext.canonical(left), sqltext.canonical(right)
    (left_core, left_shift), (right_core, right_shift) = _split(left), _split(right)
    value: Constant = Decimal(0)
    form: Form = "shift_right"
    if left_shift is None and right_shift is not None:
        right, value = right_core, right_shift
    elif left_shift is not None and right_shift is None:
        left, value, form = left_core, negate(left_shift), "shift_left"
    part: Part
    if operator == "=":
        part = Equality(*texts)
    elif operator == "<>":
        part = NotEqual(*texts)
    else:
        part = Inequality(texts[0], cast(Operator, operator), texts[1])
    return Atom(Pair(left, right), _intervals(operator, value, form), part)


def _split(node: "Node") -> tuple["Node", Constant | None]:
    """An operand as core + constant; the core is never a constant, as it holds a column."""
    if not isinstance(node, exp.Add | exp.Sub) or node.meta.get(WHOLE):
        return node, None
    core, shift = node.left.unnest(), constant(node.right)
    if shift is None and isinstance(node, exp.Add):
        core, shift = node.right.unnest(), constant(node.left)
    if not shift:  # adding zero may still change the type, say from a string to a number
        return node, None
    if isinstance(node, exp.Sub):
        shift = negate(shift)
    if isinstance(shift, timedelta):
        inner, more = _split(core)
        if isinstance(more, timedelta) and _add_up(more, shift):
            return inner, shift + more
    return core, shift


def _add_up(first: timedelta, second: timedelta) -> bool:
    """Whether adding one, then the other, equals adding the sum, by the clocks of any time zone.

    Spark adds whole days by the calendar and the rest by the clock: r.t + 1 day + 2 hours is
    r.t + 26 hours, but r.t + 20 hours + 20 hours is not r.t + 40 hours.
    """
    day = timedelta(days=1)
    if (first < timedelta(0)) != (second < timedelta(0)):
        return False
    return abs(first + second) < day or (not first % day and abs(second) < day)


def _difference(node: "Node", operator: str, limit: Constant) -> Atom | None:
    """``left - right operator limit``, in either order, or its absolute value."""
    absolute = isinstance(node, exp.Abs)
    if absolute:
        node = node.this.unnest()
    if not isinstance(node, exp.Sub):
        return None
    pair = Pair(node.left.unnest(), node.right.unnest())
    # NaN is larger than the limit.
    passes = operator in (">", ">=", "<>")
    values = _absolute if absolute else _intervals
    intervals = values(operator, limit, nan_passes=passes)
    if intervals is None:
        return None
    if (_sides(pair.left), _sides(pair.right)) == (_R, _L):
        pair = Pair(pair.right, pair.left)
        intervals = tuple(interval.flip() for interval in reversed(intervals))
    if (_sides(pair.left), _sides(pair.right)) != (_L, _R):
        return None
    return Atom(pair, intervals, pair.part(intervals))


def _absolute(operator: str, limit: Constant, nan_passes: bool) -> Intervals | None:
    """The differences d with ``abs(d) operator limit``; None if no d satisfies it, or every d."""
    size = number(limit)
    if size < 0 or (size == 0 and operator in ("<", ">=")):
        return None
    if size == 0 and operator in ("=", "<>"):
        return _intervals(operator, limit, nan_passes=nan_passes)
    closed = operator in ("=", "<=", ">=")
    low = Bound(negate(limit), closed, "difference", nan_passes)
    high = Bound(limit, closed, "difference", nan_passes)
    inside, outside = (Interval(low, high),), (Interval(None, low), Interval(high, None))
    if operator == "=":
        return Interval(low, low), Interval(high, high)
    if operator == "<>":
        return outside[0], *inside, outside[1]
    return inside if operator in ("<", "<=") else outside


def region(node: "Node", may_be_text: bool = False) -> Atom | None:
    """An AND or OR of atoms that all concern one pair, as one atom."""
    node = node.unnest()
    if not isinstance(node, exp.And | exp.Or):
        return _atom(node)
    left, right = region(node.left, may_be_text), region(node.right, may_be_text)
    if left is None or right is None or left.pair.key != right.pair.key:
        return None
    if isinstance(node, exp.And):
        intervals = intersect(left.intervals, right.intervals)
    else:
        intervals = unite(left.intervals + right.intervals)
    if intervals is None:
        return None
    if may_be_text and loses_text(left.intervals + right.intervals, intervals):
        return None
    return Atom(left.pair, intervals, left.pair.part(intervals))


def loses_text(before: Intervals, after: Intervals) -> bool:
    """Whether a comparison was dropped that the others do not imply if the operands are text.

    Text is compared as text in ``l.s < r.s``, and as a number in ``l.s < r.s + 1``: neither
    implies the other.
    """
    left = {_without_nan(bound) for each in after for bound in each.bounds()}
    met = [bound for each in before for bound in each.bounds() if bound.form != "difference"]
    is_mixed = len({bool(bound.value) for bound in met}) > 1
    return is_mixed and not {_without_nan(bound) for bound in met} <= left


def _without_nan(bound: Bound) -> Bound:
    return replace(bound, nan_passes=False)


def null_safe(node: exp.NullSafeEQ) -> Equality | None:
    """``l.x <=> r.x``, in either order."""
    left, right = node.left.unnest(), node.right.unnest()
    if (_sides(left), _sides(right)) == (_R, _L):
        left, right = right, left
    if (_sides(left), _sides(right)) != (_L, _R) or node.find(*NO_OPERAND):
        return None
    return Equality(sqltext.canonical(left), sqltext.canonical(right), null_safe=True)
