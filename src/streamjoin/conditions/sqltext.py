"""The SQL text of conditions: which side a text refers to, and how a part is written out.

Texts are put together as syntax trees, so parentheses appear where precedence needs them and
nowhere else. A bound is written so that reading it gives the same bound, NaN included: the upper
bound ``v`` of ``left - right`` is ``left - right <= v`` if NaN fails it (NaN is the largest value)
and ``right - left >= -v`` if NaN passes.
"""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from streamjoin.conditions.intervals import Bound, Constant, Interval, negate
from streamjoin.errors import ConditionError

if TYPE_CHECKING:
    from sqlglot import exp

    Node = exp.Expr

FLIPPED: dict[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}

_UNITS = (
    ("DAY", timedelta(days=1)),
    ("HOUR", timedelta(hours=1)),
    ("MINUTE", timedelta(minutes=1)),
)


def parse(text: str) -> "exp.Expression":
    """The syntax tree of one SQL expression, the caller's to change."""
    from streamjoin.expressions.parsing import parse_expression

    if not isinstance(text, str):
        raise ConditionError(
            f"condition {text!r}: it is SQL text over the aliases l and r, "
            'such as "l.symbol = r.symbol and abs(l.price - r.price) <= 5"'
        )
    return _bracket_intervals(parse_expression(text))


def _bracket_intervals(expression: "exp.Expression") -> "exp.Expression":
    """Put brackets around ``INTERVAL 1 DAY 2 HOURS``.

    sqlglot reads it as a sum and writes the sum without them, which after a minus sign is another
    value: ``- INTERVAL '1' DAY + INTERVAL '2' HOURS``.
    """
    from sqlglot import exp

    for node in expression.find_all(exp.Add):
        parent = node.parent
        after = isinstance(parent, exp.Add | exp.Sub) and parent.expression is node
        if after or isinstance(parent, exp.Mul | exp.Div | exp.Neg):
            node.replace(exp.Paren(this=node.copy()))
    return expression


def canonical(expression: "Node") -> str:
    """The text that parts hold."""
    return expression.sql(dialect="spark", comments=False)


def alias(column: "exp.Column") -> str:
    """The alias that a column is written with, in lower case; empty for none."""
    parts = column.parts
    return parts[0].name.lower() if len(parts) > 1 else ""


@lru_cache(maxsize=1024)
def aliases(text: str) -> frozenset[str]:
    """The aliases of the columns in a text; the empty string stands for a column without one."""
    from sqlglot import exp

    return frozenset(alias(column) for column in parse(text).find_all(exp.Column))


def swap_aliases(text: str) -> str:
    """The text with ``l`` and ``r`` exchanged.

    >>> swap_aliases("l.x + 1 < r.l")
    'r.x + 1 < l.l'
    """
    from sqlglot import exp

    expression = parse(text)
    for column in expression.find_all(exp.Column):
        other = {"l": "r", "r": "l"}.get(alias(column))
        if other:
            column.parts[0].set("this", other)
    return canonical(expression)


def compare(left: str, operator: str, right: str) -> str:
    """``left operator right``."""
    return f"{_operand(left, 'comparison')} {operator} {_operand(right, 'comparison')}"


def difference(left: str, right: str) -> str:
    """``left - right``."""
    return f"{_operand(left, 'sum')} - {_operand(right, 'term')}"


def interval(left: str, right: str, interval: Interval, alone: bool) -> str:
    """The condition that ``left - right`` lies in the interval, ``alone`` or one of several."""
    lower, upper = interval.lower, interval.upper
    if lower and upper and lower.form == upper.form and lower.closed and upper.closed:
        nan_fails = not (lower.nan_passes or upper.nan_passes)
        # Alone, a shifted point would be read back as an equality, which cuts sessions.
        if lower.value == upper.value and nan_fails and not (alone and lower.form != "difference"):
            return _bound(left, "=", right, upper)
        if lower.form == "difference" and lower.value == negate(upper.value) and nan_fails:
            return f"ABS({difference(left, right)}) <= {literal(upper.value)}"
    ends = []
    if lower:
        ends.append(_bound(left, ">=" if lower.closed else ">", right, lower))
    if upper:
        ends.append(_bound(left, "<=" if upper.closed else "<", right, upper))
    return " AND ".join(ends)


def shifted(left: str, right: str, bound: Bound) -> tuple[str, str]:
    """The two operands that a bound of a shifted form compares."""
    if bound.form == "shift_right":
        return left, _shifted(right, bound.value)
    return _shifted(left, negate(bound.value)), right


def conjunction(texts: Sequence[str]) -> str:
    """All of the texts; TRUE for none."""
    from sqlglot import exp

    if len(texts) < 2:
        return "".join(texts) or "TRUE"
    wrapped = [f"({text})" if isinstance(parse(text), exp.Or) else text for text in texts]
    return " AND ".join(wrapped)


def literal(value: Constant) -> str:
    """The constant as a Spark literal that reads back as the same kind of constant."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value) if "e" in repr(value) else f"{value!r}E0"
    for unit, length in _UNITS:
        if value % length == timedelta(0):
            return f"INTERVAL '{value // length}' {unit}"
    seconds = Decimal(value // timedelta(microseconds=1)) / 1_000_000
    return f"INTERVAL '{seconds.normalize():f}' SECOND"


def show(interval: Interval, difference: str) -> str:
    """The interval for people, such as ``-5 <= d < 7``."""
    lower, upper = interval.lower, interval.upper
    if lower and upper:
        if lower.value == upper.value:
            return f"{difference} = {_show(lower.value)}"
        start = f"{_show(lower.value)} {'<=' if lower.closed else '<'}"
        return f"{start} {difference} {'<=' if upper.closed else '<'} {_show(upper.value)}"
    if lower:
        return f"{difference} {'>=' if lower.closed else '>'} {_show(lower.value)}"
    if upper:
        return f"{difference} {'<=' if upper.closed else '<'} {_show(upper.value)}"
    return f"{difference} is not null"


def _show(value: Constant) -> str:
    if isinstance(value, timedelta):
        return f"-{-value}" if value < timedelta(0) else str(value)
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def _bound(left: str, operator: str, right: str, bound: Bound) -> str:
    """``left - right operator bound`` in the bound's own form."""
    if bound.form != "difference":
        left, right = shifted(left, right, bound)
        return compare(left, operator, right)
    if bound.nan_passes == (operator in (">", ">=")):
        return f"{difference(left, right)} {operator} {literal(bound.value)}"
    return f"{difference(right, left)} {FLIPPED[operator]} {literal(negate(bound.value))}"


def _shifted(text: str, value: Constant) -> str:
    """``text + value``; a shift by the number zero is none."""
    if isinstance(value, Decimal) and not value:
        return text
    sign, size = ("-", negate(value)) if _is_negative(value) else ("+", value)
    return f"{_operand(text, 'sum')} {sign} {literal(size)}"


def _is_negative(value: Constant) -> bool:
    return value < timedelta(0) if isinstance(value, timedelta) else value < 0


def _operand(text: str, place: Literal["comparison", "sum", "term"]) -> str:
    """The text, in brackets if its neighbour would bind more tightly."""
    from sqlglot import exp

    node = parse(text)
    sum_like = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg)
    loose = isinstance(node, exp.Binary | exp.Unary | exp.Predicate | exp.Interval)
    if place != "term" and isinstance(node, (*sum_like, exp.Dot)):
        loose = False
    if isinstance(node, exp.Paren | exp.Dot):
        loose = False
    return f"({text})" if loose else text
