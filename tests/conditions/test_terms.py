"""The parts of a condition built by hand: checks, flip, text, symmetry."""

from dataclasses import FrozenInstanceError
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from streamjoin.conditions import (
    Band,
    Bound,
    Condition,
    Equality,
    Inequality,
    Interval,
    NotEqual,
    Residual,
    describe,
    is_symmetric,
    swap_aliases,
)
from streamjoin.conditions.recognition import parse_condition
from streamjoin.errors import ConditionError


def test_between_takes_numbers_and_durations() -> None:
    assert Band.between("l.x", "r.x", -5, 7) == Band(
        "l.x", "r.x", (Interval(Bound(Decimal(-5)), Bound(Decimal(7))),)
    )
    for end in (5, Decimal("0.05"), 2.5, timedelta(minutes=5)):
        band = Band.between("l.x", "r.x", -end, end)
        (again,) = parse_condition(band.sql())
        assert again == band
    assert isinstance(Band.between("l.x", "r.x", 1, 2).intervals[0].bounds()[0].value, Decimal)


SHIFTED = Bound(5, form="shift_right")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Band.between("r.x", "l.x", -5, 5), "exchange the sides"),
        (lambda: Equality("l.x", "l.y"), "right input only, written r.column"),
        (lambda: NotEqual("l.x + r.x", "r.y"), "left input only"),
        (lambda: Inequality("l.x", "<", "3"), "right side '3'"),
        (lambda: Equality("x", "r.x"), "written l.column"),
        (lambda: Equality("l.x +", "r.x"), "cannot read"),
        (lambda: Inequality("l.x", "=", "r.x"), "use Equality for ="),
        (lambda: Band("l.x", "r.x", ()), "at least one"),
        (lambda: Band("l.x", "r.x", (Interval(),)), "bounds nothing"),
        (lambda: Band.between("l.x", "r.x", 5, -5), "it is empty"),
        (lambda: Band.between("l.x", "r.x", timedelta(1), 5), "both durations"),
        (lambda: Band("l.x", "r.x", (Interval(Bound(1), SHIFTED),)), "both shifted"),
        (lambda: Band("l.x", "r.x", (Interval(Bound(5)), Interval(None, Bound(1)))), "ascending"),
        (lambda: Bound(float("nan")), "finite"),
        (lambda: Bound(Decimal("inf")), "finite"),
        (lambda: Bound("5"), "finite int, Decimal, float or timedelta"),
        (lambda: Bound(True), "finite int"),
        (lambda: Bound(5, form="sideways"), "difference, shift_left, shift_right"),
        (lambda: Residual(" "), "SQL text"),
    ],
)
def test_errors_name_the_way_out(build: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        build()


def test_parts_are_values() -> None:
    band = Band.between("l.x", "r.x", -5, 5)
    assert hash(band) == hash(Band.between("l.x", "r.x", -5, 5))
    with pytest.raises(FrozenInstanceError):
        band.left = "l.y"  # type: ignore[misc]


def test_flip_exchanges_the_roles_and_keeps_the_texts() -> None:
    """In differences, [-5 .. 7) of left - right is (-7 .. 5] of right - left."""
    lower = Bound(-5, form="shift_right")
    upper = Bound(7, closed=False, form="shift_left")
    band = Band("l.x", "r.y", (Interval(lower, upper),))
    flipped = band.flip()
    assert (flipped.left, flipped.right) == ("r.y", "l.x")
    assert flipped.intervals == (
        Interval(Bound(-7, closed=False, form="shift_right"), Bound(5, form="shift_left")),
    )
    assert flipped.flip() == band
    assert Bound(3, nan_passes=True).flip() == Bound(-3, nan_passes=True)
    inequality = Inequality("l.x", "<=", "r.y").flip()
    assert (inequality.left, inequality.operator, inequality.right) == ("r.y", ">=", "l.x")


def test_flip_reverses_the_order_of_intervals() -> None:
    band = Band("l.x", "r.x", (Interval(None, Bound(1)), Interval(Bound(3), Bound(4))))
    assert band.flip().intervals == (
        Interval(Bound(-4), Bound(-3)),
        Interval(Bound(-1), None),
    )


@pytest.mark.parametrize(
    "text",
    [
        "l.a = r.a",
        "l.a <=> r.a",
        "l.a < r.b AND l.c <> r.c",
        "ABS(l.x - r.x) <= 0.05",
        "(l.x = r.x) OR (l.x >= r.x + 5 AND l.x <= r.x + 7)",
        "l.a = r.a AND ((l.x - r.x < 1) OR (l.x - r.x > 3)) AND (l.p OR r.q)",
        "l.a - l.b - (r.a - r.b) <= 3",
        "(l.a AND l.b) = r.c",
        "l.t >= r.t - INTERVAL '26' HOUR AND l.t < r.t + INTERVAL '1.5' SECOND",
        "l.x - r.x <= 1E-7 AND l.y - r.y <= 2.5E0",
    ],
)
def test_text_is_stable(text: str) -> None:
    condition = parse_condition(text)
    assert condition.sql().lower().replace("e-07", "e-7") == text.lower()
    assert str(condition) == condition.sql()
    assert parse_condition(condition.sql()) == condition


def test_a_condition_without_parts_is_true() -> None:
    assert Condition().sql() == "TRUE"
    assert list(Condition()) == []


def test_describe() -> None:
    condition = parse_condition(
        "l.symbol = r.symbol and abs(l.price - r.price) <= 0.05 and l.power < r.power "
        "and l.a <> r.a and l.qty > 10 and l.t between r.t - interval 5 minutes and r.t "
        "and (l.x - r.x = 1 or l.x - r.x > 3)"
    )
    assert describe(condition) == [
        "equality   l.symbol = r.symbol",
        "band       -0.05 <= l.price - r.price <= 0.05",
        "band       -0:05:00 <= l.t - r.t <= 0",
        "band       l.x - r.x = 1 or l.x - r.x > 3",
        "inequality l.power < r.power",
        "not equal  l.a <> r.a",
        "residual   l.qty > 10",
    ]


def test_swap_aliases() -> None:
    assert swap_aliases("l.r + r.l < l.s.f and 'l.x' = r.`l.x`") == (
        "r.r + l.l < r.s.f AND 'l.x' = l.`l.x`"
    )


@pytest.mark.parametrize(
    ("text", "symmetric"),
    [
        ("l.a = r.a and abs(l.x - r.x) <= 5 and l.b <> r.b", True),
        ("l.a <=> r.a", True),
        ("abs(l.x - r.x) > 5", True),
        ("abs(l.x - r.x) <> 5", True),
        ("l.x - r.x >= -5 and l.x - r.x <= 5", True),
        ("l.q > 10 and r.q > 10", True),
        ("l.a = r.b", False),
        ("l.x - r.x <= 5", False),
        ("abs(l.x - r.y) <= 5", False),
        ("l.x between r.x - 5 and r.x + 5", False),  # the mirror rounds on the other side
        ("l.a < r.a", False),
        ("l.q > 10", False),
    ],
)
def test_symmetry(text: str, symmetric: bool) -> None:
    assert is_symmetric(parse_condition(text)) is symmetric
