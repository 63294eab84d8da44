"""Recognition never changes the answer: random conditions against two oracles.

DuckDB evaluates the text over small integers and NULL. Python evaluates it over doubles in Spark's
order, where NaN equals itself and is the largest value: there it matters that a part is computed in
the form in which it was written, and that no merging of bounds forgets what rounding does.
"""

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, total_ordering
from itertools import product
from math import inf, isnan, nan
from types import CodeType, SimpleNamespace
from typing import Any

import duckdb
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamjoin.conditions import Band, Bound, Equality, Inequality, NotEqual, Part, Residual
from streamjoin.conditions.recognition import parse_condition

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATORS = st.sampled_from([*COMPARE, "=", "<>"])
COMPARISONS = [
    "{p} {op} {q}",
    "{p} {op} {q} + {c}",
    "{p} {op} {c} + {q}",
    "{p} - {c} {op} {q}",
    "{p} + {c} {op} {q} + {d}",
    "{p} - {q} {op} {c}",
    "{c} {op} {p} - {q}",
    "abs({p} - {q}) {op} {c}",
]
SQL_ONLY = [
    "{p} between {q} - {c} and {q} + {d}",
    "{p} not between {q} + {c} and {q} + {d}",
    "{p} <=> {q}",
    "{p} in ({q}, {c})",
    "{p} {op} {c}",
]


@st.composite
def atoms(
    draw: st.DrawFn, lefts: list[str], rights: list[str], constants: list[str], shapes: list[str]
) -> str:
    p, q = draw(st.sampled_from(lefts)), draw(st.sampled_from(rights))
    if draw(st.booleans()):
        p, q = q, p
    c, d = draw(st.sampled_from(constants)), draw(st.sampled_from(constants))
    return draw(st.sampled_from(shapes)).format(p=p, q=q, c=c, d=d, op=draw(OPERATORS))


def conditions(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(" and ".join),
            st.tuples(inner, inner).map(lambda pair: f"({pair[0]} or {pair[1]})"),
            inner.map("not ({})".format),
        ),
        max_leaves=6,
    )


# Integers and NULL, against DuckDB.

INTEGER_CONDITIONS = conditions(
    atoms(
        ["l.a", "l.a", "l.a", "l.b", "l.a * 2", "(l.a + l.b)"],
        ["r.a", "r.a", "R.A", "r.b", "-r.a"],
        ["0", "1", "2", "-1", "(1 + 1)", "-(2 - 3)", "2 * 2"],
        COMPARISONS + SQL_ONLY,
    )
)
DATABASE = duckdb.connect()
for _side in "lr":
    _values = "(values (-2), (-1), (0), (1), (2), (null))"
    DATABASE.execute(
        f"create table {_side} as select row_number() over () as id, a, b "
        f"from {_values} as one(a), {_values} as other(b)"
    )


def duckdb_pairs(text: str) -> set[tuple[int, int]]:
    text = text.replace("<=>", "is not distinct from")
    return set(DATABASE.execute(f"select l.id, r.id from l, r where {text}").fetchall())


def part_pairs(part: Part) -> set[tuple[int, int]]:
    if isinstance(part, Residual):
        return duckdb_pairs(part.expression)
    lefts = DATABASE.execute(f"select id, {part.left} from l").fetchall()
    rights = DATABASE.execute(f"select id, {part.right} from r").fetchall()
    return {(i, j) for (i, x), (j, y) in product(lefts, rights) if integers_match(part, x, y)}


def integers_match(part: Part, x: int | None, y: int | None) -> bool:
    if x is None or y is None:
        return isinstance(part, Equality) and part.null_safe and x is y
    match part:
        case Equality():
            return x == y
        case NotEqual():
            return x != y
        case Inequality():
            return COMPARE[part.operator](x, y)
        case Band():
            return in_intervals(part, lambda bound: (x - y, bound.value))
    raise AssertionError(part)


def in_intervals(part: Band, operands: Callable[[Bound], tuple[Any, Any]]) -> bool:
    """Whether one interval holds; ``operands`` gives what a bound compares."""

    def satisfied(bound: Bound | None, strict: str) -> bool:
        return bound is None or COMPARE[strict + "=" * bound.closed](*operands(bound))

    return any(satisfied(each.lower, ">") and satisfied(each.upper, "<") for each in part.intervals)


@settings(max_examples=100, deadline=None)
@given(INTEGER_CONDITIONS)
def test_integers_and_nulls_match_as_duckdb_says(text: str) -> None:
    condition = parse_condition(text)
    found = set.intersection(*(part_pairs(part) for part in condition))
    assert found == duckdb_pairs(text)
    assert found == duckdb_pairs(condition.sql())


# Doubles, against Python with Spark's order.


@total_ordering
class Double:
    """A double in Spark's order: NaN equals itself and is larger than all else."""

    def __init__(self, value: float) -> None:
        self.value = float(value)
        self.rank = (1, 0.0) if isnan(self.value) else (0, self.value)

    def __eq__(self, other: object) -> bool:
        return self.rank == double(other).rank

    def __lt__(self, other: object) -> bool:
        return self.rank < double(other).rank

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: object) -> "Double":
        return Double(self.value + double(other).value)

    def __sub__(self, other: object) -> "Double":
        return Double(self.value - double(other).value)

    def __neg__(self) -> "Double":
        return Double(-self.value)

    def __abs__(self) -> "Double":
        return Double(abs(self.value))

    __radd__ = __add__


def double(value: Any) -> Double:
    return value if isinstance(value, Double) else Double(value)


DOUBLES = [Double(v) for v in (
    nan, inf, -inf, 0.0, -0.0, 0.1, 0.2, 0.3, -0.1, 0.30000000000000004, 3.0, 5.0, 8.0, -3.0,
    5e-324, 1e17, 1e17 + 16, -1e17, 2.0**53, 2.0**53 + 2, 1e308, -1e308,
)]  # fmt: skip
DOUBLE_CONDITIONS = conditions(
    atoms(
        ["l.x"],
        ["r.x"],
        ["0", "3", "5", "-3", "0.1", "0.2", "3e0", "0.30000000000000000001", "0.3", "8"],
        COMPARISONS,
    )
)


@lru_cache
def compiled(text: str) -> CodeType:
    """SQL as Python: the operators are named differently, the arithmetic is that of `Double`."""
    text = re.sub(r"(?<![<>])=", "==", text).replace("<>", "!=")
    text = re.sub(r"\b(AND|OR|NOT|ABS)\b", lambda word: word[0].lower(), text)
    return compile(re.sub(r"(?<![\w.])(\d[\w.]*)", r"double(\1)", text), text, "eval")


def evaluate(text: str, left: Double, right: Double) -> Any:
    row = {"l": SimpleNamespace(x=left), "r": SimpleNamespace(x=right)}
    return eval(compiled(text), {"double": double}, row)


def doubles_match(part: Part, left: Double, right: Double) -> bool:
    if isinstance(part, Residual):
        return evaluate(part.expression, left, right)
    x, y = evaluate(part.left, left, right), evaluate(part.right, left, right)
    match part:
        case Equality():
            return x == y
        case NotEqual():
            return x != y
        case Inequality():
            return COMPARE[part.operator](x, y)
        case Band():
            return band_matches(part, x, y)
    raise AssertionError(part)


def band_matches(part: Band, x: Double, y: Double) -> bool:
    """As the documentation of the forms has it."""

    def satisfied(bound: Bound | None, strict: str) -> bool:
        if bound is None:
            return True
        value = Double(bound.value)  # type: ignore[arg-type]
        operands = {
            "difference": (x - y, value),
            "shift_right": (x, y + value),
            "shift_left": (x - value, y),
        }[bound.form]
        if bound.form == "difference" and isnan(operands[0].value):
            return bound.nan_passes
        return COMPARE[strict + "=" * bound.closed](*operands)

    return any(satisfied(each.lower, ">") and satisfied(each.upper, "<") for each in part.intervals)


def all_pairs() -> Iterable[tuple[Double, Double]]:
    return product(DOUBLES, DOUBLES)


@settings(max_examples=100, deadline=None)
@given(DOUBLE_CONDITIONS)
@example("l.x <= r.x + 3 and l.x < r.x + 5")
@example("l.x <= r.x + 3 and l.x >= r.x + 5")
@example("(l.x < r.x + 5 or l.x > r.x + 3)")
@example("(l.x <= r.x + 3 or l.x >= r.x + 8) and l.x >= r.x + 5 and l.x <= r.x + 8")
@example("l.x - r.x <= 0.3 and l.x - r.x < 0.30000000000000000001")
@example("l.x - r.x >= 5 and r.x - l.x >= -3")
@example("(l.x - r.x <= 3 or l.x - r.x > 3)")
@example("(abs(l.x - r.x) <= 3 or l.x - r.x >= 3)")
def test_doubles_match_as_written(text: str) -> None:
    condition = parse_condition(text)
    flipped = condition.flip()
    for left, right in all_pairs():
        wanted = evaluate(text, left, right)
        assert all(doubles_match(part, left, right) for part in condition) == wanted
        assert all(doubles_match(part, left, right) for part in flipped) == wanted
    assert condition.flip().flip() == condition


@settings(max_examples=50, deadline=None)
@given(DOUBLE_CONDITIONS)
def test_text_of_a_condition_means_the_same(text: str) -> None:
    condition = parse_condition(text)
    again = parse_condition(condition.sql())
    for left, right in all_pairs():
        wanted = all(doubles_match(part, left, right) for part in condition)
        assert all(doubles_match(part, left, right) for part in again) == wanted
