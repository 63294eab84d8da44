"""Which text becomes which part: the rules as a table."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.conditions import Band, Bound, Equality, Inequality, Interval, NotEqual, Residual
from streamjoin.conditions.recognition import parse_condition
from streamjoin.errors import ConditionError

SR, SL, D = "shift_right", "shift_left", "difference"


def at(value: Any, form: str = D, nan: bool = False) -> Bound:
    return Bound(value, True, form, nan)  # type: ignore[arg-type]


def below(value: Any, form: str = D, nan: bool = False) -> Bound:
    return Bound(value, False, form, nan)  # type: ignore[arg-type]


def band(*ends: Bound | None, left: str = "l.x", right: str = "r.x") -> Band:
    """A band of intervals given as lower, upper, lower, upper..."""
    return Band(left, right, tuple(map(Interval, ends[::2], ends[1::2])))


RULES: list[tuple[str, list[Any]]] = [
    # separable comparisons; the left input goes to the left
    ("l.a = r.b", [Equality("l.a", "r.b")]),
    ("r.b = l.a", [Equality("l.a", "r.b")]),
    ("L.a == R.b", [Equality("l.a", "r.b")]),
    ("lower(l.a) = trim(r.b)", [Equality("LOWER(l.a)", "TRIM(r.b)")]),
    ("l.a <=> r.b", [Equality("l.a", "r.b", null_safe=True)]),
    ("r.b is not distinct from l.a", [Equality("l.a", "r.b", null_safe=True)]),
    ("l.a != r.b", [NotEqual("l.a", "r.b")]),
    ("l.a = r.b + 5", [Equality("l.a", "r.b + 5")]),
    ("l.a < r.b", [Inequality("l.a", "<", "r.b")]),
    ("r.b >= l.a", [Inequality("l.a", "<=", "r.b")]),
    ("l.a * 2 + l.c >= (r.b - 1)", [Inequality("l.a * 2 + l.c", ">=", "r.b - 1")]),
    ("l.s.f = r.`a b`", [Equality("l.s.f", "r.`a b`")]),
    # differences
    ("l.x - r.x <= 5", [band(None, at(5))]),
    ("l.x - r.x > 5", [band(below(5, nan=True), None)]),
    ("5 > l.x - r.x", [band(None, below(5))]),
    ("r.x - l.x <= 5", [band(at(-5), None)]),
    ("r.x - l.x >= 5", [band(None, at(-5, nan=True))]),
    ("l.x - r.x = 5", [band(at(5), at(5))]),
    ("r.x - l.x = 5", [band(at(-5), at(-5))]),
    ("l.x - r.x <> 5", [band(None, below(5, nan=True), below(5, nan=True), None)]),
    ("(l.x + l.y) - (r.x) < -(2 + 3) * 2", [band(None, below(-10), left="l.x + l.y")]),
    ("abs(l.x - r.x) <= 5", [band(at(-5), at(5))]),
    ("abs(r.x - l.x) < 5", [band(below(-5), below(5))]),
    ("5 >= abs(l.x - r.x)", [band(at(-5), at(5))]),
    ("abs(l.x - r.x) >= 5", [band(None, at(-5, nan=True), at(5, nan=True), None)]),
    ("abs(l.x - r.x) > 0", [band(None, below(0, nan=True), below(0, nan=True), None)]),
    ("abs(l.x - r.x) = 5", [band(at(-5), at(-5), at(5), at(5))]),
    ("abs(l.x - r.x) = 0", [band(at(0), at(0))]),
    (
        "abs(l.x - r.x) <> 5",
        [band(*[None, *[below(v, nan=True) for v in (-5, -5, 5, 5)], None])],
    ),
    ("abs(l.x - r.x) <= -1", [Residual("ABS(l.x - r.x) <= -1")]),
    ("abs(l.x - r.x) < 0", [Residual("ABS(l.x - r.x) < 0")]),
    ("abs(l.x - r.x) >= 0", [Residual("ABS(l.x - r.x) >= 0")]),
    ("abs(l.x - r.x) <> -1", [Residual("ABS(l.x - r.x) <> -1")]),
    # shifts: a lone one is an inequality as written, several over one pair are a band
    ("l.x <= r.x + 5", [Inequality("l.x", "<=", "r.x + 5")]),
    ("l.x between r.x - 5 and r.x + 7", [band(at(-5, SR), at(7, SR))]),
    ("r.x between l.x - 5 and 7 + l.x", [band(at(-7, SL), at(5, SL))]),
    ("l.x - 5 < r.x and l.x > r.x", [band(below(0, SR), below(5, SL))]),
    ("l.x <= r.x + 5 and L.x <= r.x + 3 and R.x <= l.x", [band(at(0, SR), at(3, SR))]),
    # l.x and l.X may be two columns
    ("l.x < r.x and l.X < r.x", [Inequality("l.x", "<", "r.x"), Inequality("l.X", "<", "r.x")]),
    ("l.x <= r.x + 5 and l.x <= r.x + 3", [Inequality("l.x", "<=", "r.x + 3")]),
    # a point, but not written as an equality: it cuts no sessions
    ("l.x >= r.x and l.x <= r.x", [band(at(0, SR), at(0, SR))]),
    ("l.x between r.x + 2 and r.x + 2", [band(at(2, SR), at(2, SR))]),
    # adding a zero may change the type
    ("l.x < r.x + 0", [Inequality("l.x", "<", "r.x + 0")]),
    (
        "l.x <= r.x and l.x < r.x + interval '0' second",
        [Inequality("l.x", "<=", "r.x"), Inequality("l.x", "<", "r.x + INTERVAL '0' SECOND")],
    ),
    # in floating point <= r.x + 3 does not imply < r.x + 5
    (
        "l.x < r.x + 5 and l.x <= r.x + 3",
        [Inequality("l.x", "<", "r.x + 5"), Inequality("l.x", "<=", "r.x + 3")],
    ),
    ("l.x + 1 <= r.x + 2", [Inequality("l.x + 1", "<=", "r.x + 2")]),
    (
        "l.x < r.x and l.x > r.x + 5",
        [Inequality("l.x", "<", "r.x"), Inequality("l.x", ">", "r.x + 5")],
    ),
    # a difference and a shift stay apart
    (
        "l.x < r.x and l.x - r.x > -5",
        [band(below(-5, nan=True), None), Inequality("l.x", "<", "r.x")],
    ),
    ("abs(l.x - r.x) <= 5 and l.x - r.x >= 0", [band(at(0), at(5))]),
    ("abs(l.x - r.x) <= 5 and l.x - r.x <> 0", [band(at(-5), below(0), below(0), at(5))]),
    # NOT moves inwards
    ("not (l.a < r.b or l.c = r.c)", [Inequality("l.a", ">=", "r.b"), NotEqual("l.c", "r.c")]),
    ("not not l.a = r.b", [Equality("l.a", "r.b")]),
    ("not (l.x < r.x - 5 or l.x > r.x)", [band(at(-5, SR), at(0, SR))]),
    ("not l.a is distinct from r.a", [Equality("l.a", "r.a", null_safe=True)]),
    ("not (l.a <=> r.a)", [Residual("NOT l.a IS NOT DISTINCT FROM r.a")]),
    ("not l.x - r.x <= 5", [band(below(5, nan=True), None)]),
    ("l.x not between r.x - 5 and r.x + 5", [band(None, below(-5, SR), below(5, SR), None)]),
    # OR over one pair
    (
        "l.x between r.x + 5 and r.x + 7 or l.x = r.x",
        [band(at(0, SR), at(0, SR), at(5, SR), at(7, SR))],
    ),
    ("l.x < r.x or l.x > r.x", [NotEqual("l.x", "r.x")]),
    ("l.x - 2 < r.x or l.x - 2 > r.x", [NotEqual("l.x - 2", "r.x")]),
    ("l.x < r.x or l.x = r.x - 3", [Residual("l.x < r.x OR l.x = r.x - 3")]),  # NaN
    (
        "r.x between l.x - 0 and l.x + 1",
        [Inequality("l.x - 0", "<=", "r.x"), Inequality("l.x + 1", ">=", "r.x")],
    ),
    (
        "l.x - r.x < 1 or (l.x - r.x > 3 and l.x - r.x <= 5)",
        [band(None, below(1), below(3, nan=True), at(5))],
    ),
    ("l.x <= r.x or l.x > r.x", [Residual("l.x <= r.x OR l.x > r.x")]),
    ("l.x = r.x or l.y = r.y", [Residual("l.x = r.x OR l.y = r.y")]),
    (
        "abs(l.x - r.x) <= 5 or l.x between r.x and r.x + 8",
        [Residual("ABS(l.x - r.x) <= 5 OR l.x >= r.x AND l.x <= r.x + 8")],
    ),
    # durations
    ("l.x - r.x <= interval '90' second", [band(None, at(timedelta(seconds=90)))]),
    (
        "l.x between r.x - interval 1 day 2 hours and r.x",
        [band(at(timedelta(hours=-26), SR), at(0, SR))],
    ),
    (
        "l.x - interval '1 hour 30 minutes' <= r.x "
        "and l.x + interval 2 weeks + interval 5 microseconds >= r.x",
        [band(at(-timedelta(weeks=2, microseconds=5), SL), at(timedelta(minutes=90), SL))],
    ),
    # days are added by the calendar, so these are not 40 hours wherever clocks change
    (
        "l.x <= r.x + interval 20 hours + interval 20 hours and l.x >= r.x",
        [
            Inequality("l.x", "<=", "r.x + INTERVAL '20' HOURS + INTERVAL '20' HOURS"),
            Inequality("l.x", ">=", "r.x"),
        ],
    ),
    (
        "abs(l.x - r.x) <= 2 * interval 1.5 seconds",
        [band(at(timedelta(seconds=-3)), at(timedelta(seconds=3)))],
    ),
    (
        "l.t >= r.t - interval 1 day 2 hours",
        [Inequality("l.t", ">=", "r.t - (INTERVAL '1' DAY + INTERVAL '2' HOURS)")],
    ),
    ("l.t - r.t <= interval 1 month", [Residual("l.t - r.t <= INTERVAL '1' MONTH")]),
    # the rest
    ("l.qty > 10", [Residual("l.qty > 10")]),
    ("price < 3 and x = r.x", [Residual("price < 3"), Residual("x = r.x")]),
    ("l.name like r.pattern", [Residual("l.name LIKE r.pattern")]),
    ("l.a + r.a < 3", [Residual("l.a + r.a < 3")]),
    ("l.a in (r.a, r.b)", [Residual("l.a IN (r.a, r.b)")]),
    ("l.a + rand() < r.a", [Residual("l.a + RAND() < r.a")]),
    ("l.d - r.d <= 1F", [Residual("l.d - r.d <= CAST(1 AS FLOAT)")]),
    ("datediff(l.d, r.d) <= 3", [Residual("DATEDIFF(l.d, r.d) <= 3")]),
    ("l.flag", [Residual("l.flag")]),
    ("true", [Residual("TRUE")]),
    ("l.a = r.a -- the key", [Equality("l.a", "r.a")]),
]


NUMBERS = pa.schema({"x": pa.int64()})
OF_NUMBERS: list[tuple[str, list[Any]]] = [
    ("l.x < r.x or l.x < r.x - 3", [Inequality("l.x", "<", "r.x")]),
    ("l.x < r.x and l.x < r.x + 3", [Inequality("l.x", "<", "r.x")]),
    ("not (l.x < r.x or l.x < r.x + 1)", [Inequality("l.x", ">=", "r.x + 1")]),
    (
        "l.x between r.x and r.x + 5 or l.x between r.x + 3 and r.x + 8",
        [band(at(0, SR), at(8, SR))],
    ),
]


@pytest.mark.parametrize(("text", "parts"), OF_NUMBERS)
def test_what_is_text_without_arithmetic_and_a_number_with_it(text: str, parts: list[Any]) -> None:
    # Once: '9' < '10' + 5 was left out where '9' < '10' stood, which compares them as text.
    assert list(parse_condition(text, NUMBERS, NUMBERS)) == parts
    unknown = parse_condition(text)
    assert list(parse_condition(unknown.sql(), NUMBERS, NUMBERS)) == parts
    values = ["9", "10", "5", "11", "-3", "6", "14"]
    digits = pa.table({"x": values})

    def pairs(on: Any) -> list[Any]:
        found = sj.join_tables(digits, digits, on=on, algorithm="scan").to_pydict()
        return sorted(zip(*found.values(), strict=True))

    for on in (text, unknown, parse_condition(text, digits.schema, digits.schema)):
        assert pairs(on) == pairs(f"({text}) or false")
    numbers = pa.table({"x": [int(value) for value in values]})
    assert sj.join_tables(numbers, numbers, on=unknown).num_rows  # which has a key after all


@pytest.mark.parametrize(("text", "parts"), RULES)
def test_rules(text: str, parts: list[Any]) -> None:
    condition = parse_condition(text)
    assert list(condition) == parts
    assert parse_condition(condition.sql()) == condition
    assert parse_condition(condition) is condition


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", Decimal("5")),
        ("5.0", Decimal("5.0")),
        ("0.1 + 0.2", Decimal("0.3")),
        ("5L", Decimal("5")),
        ("1.50BD", Decimal("1.50")),
        ("7.5 / 2.5", Decimal("3.000000")),
        ("99999999999999999999999999999999999999", Decimal("9" * 38)),
        ("5D", 5.0),
        ("1e3", 1000.0),
        ("1 / 2", 0.5),
        ("-(1e0 + 0.5)", -1.5),
        ("interval 5 milliseconds", timedelta(milliseconds=5)),
        ("-interval '1' minute", timedelta(minutes=-1)),
    ],
)
def test_constants_keep_their_kind(text: str, value: Any) -> None:
    (part,) = parse_condition(f"l.x - r.x <= {text}").bands
    (again,) = parse_condition(part.sql()).bands
    for each in (part, again):
        bound = each.intervals[0].upper
        assert bound is not None
        assert (type(bound.value), bound.value) == (type(value), value)


@pytest.mark.parametrize(
    "text", ["1 / 0", "1.0 / 3", "1e999", "interval 1.5 hours", "l.x", "'5'", "null"]
)
def test_what_is_no_constant_stays_in_the_text(text: str) -> None:
    assert not parse_condition(f"l.x - r.x <= {text}").bands


def test_schemas_resolve_columns_without_an_alias() -> None:
    left, right = pa.schema({"Price": pa.int64()}), pa.schema({"bid": pa.int64()})
    assert list(parse_condition("price <= bid + 1 and bid <= price", left, right)) == [
        Band("l.Price", "r.bid", (Interval(at(0, SR), at(1, SR)),))
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("l.x + 1", "is a value, not a condition"),
        ("l.a = r.a and 5", "is a value, not a condition"),
        ("a.x = r.x", "use l for the left and r for the right"),
        ("l.x = (select max(x) from t)", "holds a query"),
        ("exists (select 1)", "holds a query"),
        ("sum(l.x) < r.x", "holds an aggregate"),
        ("rank() over (order by l.x) < r.x", "holds a window function"),
        ("l.x <", "cannot read"),
        ("l.x = 'a", "cannot read"),
        ("l.x = r.x; drop table t", "not a scalar expression"),
        ("l.x = r.x as same", "leave the name out"),
        (7, "it is SQL text"),
    ],
)
def test_errors_name_the_way_out(text: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        parse_condition(text)
