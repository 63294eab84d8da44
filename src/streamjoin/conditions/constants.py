"""Constants in a condition: literal arithmetic and INTERVAL literals, with Spark's types.

    5   2 * 1.5   -(3 + 4)        Decimal      exact; 5.0 keeps its scale, as in Spark
    1e3   5D   1 / 2   0.5 + 1e0  float        Spark's double
    INTERVAL '90' SECOND          timedelta    fixed lengths only, weeks to microseconds

Not constants here (None), so they stay in the text for the evaluator: months and years, whose
length varies; 32-bit floats (1F), which round differently from doubles; decimal quotients that
Spark rounds.
"""

from datetime import timedelta
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, localcontext
from math import isfinite
from typing import TYPE_CHECKING

from sqlglot import exp

from streamjoin.conditions.intervals import Constant, negate

if TYPE_CHECKING:
    from streamjoin.conditions.sqltext import Node

_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation, DivisionByZero])
# Spark keeps at least this many digits after the point of a quotient; more may be rounded away.
_QUOTIENT = Decimal("0.000001")
_UNITS = {
    "WEEK": timedelta(weeks=1),
    "DAY": timedelta(days=1),
    "HOUR": timedelta(hours=1),
    "MINUTE": timedelta(minutes=1),
    "SECOND": timedelta(seconds=1),
    "MILLISECOND": timedelta(milliseconds=1),
    "MICROSECOND": timedelta(microseconds=1),
}
_EXACT_TYPES = {"TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL"}


def constant(node: "Node") -> Constant | None:
    """The value of a constant expression, or None if it is not one."""
    try:
        with localcontext(_EXACT):
            value = _value(node.unnest())
    except (ArithmeticError, ValueError):
        return None
    return None if isinstance(value, float) and not isfinite(value) else value


def _value(node: "Node") -> Constant | None:
    if isinstance(node, exp.Literal) and not node.is_string:
        text = node.name
        return float(text) if "e" in text.lower() else Decimal(text)
    if isinstance(node, exp.Neg):
        inner = constant(node.this)
        return None if inner is None else negate(inner)
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.Interval):
        return _interval(node)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        left, right = constant(node.left), constant(node.right)
        if left is not None and right is not None:
            return _arithmetic(node, left, right)
    return None


def _cast(node: exp.Cast) -> Constant | None:
    """A suffixed literal (5D, 5L, 5BD) or one cast to a type that holds it unchanged."""
    if not isinstance(node.this, exp.Literal):
        return None
    kind = node.to.this.name
    value = Decimal(node.this.name)
    if kind == "DOUBLE":
        return float(node.this.name)
    if kind not in _EXACT_TYPES:
        return None
    if kind == "DECIMAL":
        digits = [int(size.name) for size in node.to.expressions] or [10, 0]
        scale = digits[1] if len(digits) > 1 else 0
        fits = value.adjusted() < digits[0] - scale
        return value.quantize(Decimal(1).scaleb(-scale)) if fits else None
    return value if value == value.to_integral_value() and not node.this.is_string else None


def _interval(node: exp.Interval) -> timedelta | None:
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal) or not isinstance(unit, exp.Var | None):
        return None
    words = [*node.this.name.split(), *([unit.name] if unit else [])]
    if not words or len(words) % 2:
        return None
    total = timedelta(0)
    for amount, name in zip(words[::2], words[1::2], strict=True):
        length = _duration(Decimal(amount), name.upper().removesuffix("S"))
        if length is None:
            return None
        total += length
    return total


def _duration(amount: Decimal, unit: str) -> timedelta | None:
    """``amount`` units; Spark takes fractions only of seconds."""
    if unit not in _UNITS or (amount % 1 and unit != "SECOND"):
        return None
    microseconds = amount * (_UNITS[unit] // timedelta(microseconds=1))
    return None if microseconds % 1 else timedelta(microseconds=int(microseconds))


def _arithmetic(node: "Node", left: Constant, right: Constant) -> Constant | None:
    if isinstance(left, timedelta) and isinstance(right, timedelta):
        if isinstance(node, exp.Add | exp.Sub):
            return left + right if isinstance(node, exp.Add) else left - right
        return None
    if isinstance(left, timedelta) or isinstance(right, timedelta):
        return _multiple(left, right) if isinstance(node, exp.Mul) else None
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _exact(node, left, right)
    first, second = float(left), float(right)
    if isinstance(node, exp.Add):
        return first + second
    if isinstance(node, exp.Sub):
        return first - second
    return first * second if isinstance(node, exp.Mul) else first / second


def _multiple(left: Constant, right: Constant) -> timedelta | None:
    if isinstance(right, timedelta):
        left, right = right, left
    if not isinstance(left, timedelta) or not isinstance(right, Decimal) or right % 1:
        return None
    return left * int(right)


def _exact(node: "Node", left: Decimal, right: Decimal) -> Constant | None:
    if isinstance(node, exp.Add):
        return left + right
    if isinstance(node, exp.Sub):
        return left - right
    if isinstance(node, exp.Mul):
        return left * right
    if _is_integer(left) and _is_integer(right):
        return float(left) / float(right)  # Spark divides integers as doubles
    return (left / right).quantize(_QUOTIENT)  # raises if the result is not exact


def _is_integer(value: Decimal) -> bool:
    return int(value.as_tuple().exponent) >= 0
