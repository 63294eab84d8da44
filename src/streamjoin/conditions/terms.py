"""A join condition in canonical form: a conjunction of parts that a join knows how to use.

``parse_condition("l.symbol = r.symbol and abs(l.price - r.price) <= 0.05")`` in `recognition`
gives a `Condition` with one `Equality` and one `Band`. The classes are plain frozen dataclasses
whose fields hold SQL text over the aliases ``l`` and ``r``, so a condition can be built by hand
too; ``sql()`` gives the text back.

A `Band` is a set of intervals of the difference ``left - right``. In exact types (integers,
decimals, dates, timestamps) the difference is all that matters. In floating point,
``abs(l.x - r.x) <= c`` and ``l.x <= r.x + c`` round differently, so each `Bound` also remembers
how it was written::

    form          as written          computed in floating point
    difference    l.x - r.x <= v      fl(l.x - r.x)  against  v
    shift_right   l.x <= r.x + v      l.x            against  fl(r.x + v)
    shift_left    l.x - v <= r.x      fl(l.x - v)    against  r.x

``flip()`` exchanges the roles of the two sides, so that code for one side serves both: the
difference changes sign, lower becomes upper, shift_left becomes shift_right. The texts keep their
aliases, so a flipped part has ``r`` on its left. It serves a probe from the other side; only
`flip` may make such a part, the checks below refuse one written by hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Literal, Self, TypeVar

from streamjoin.conditions import sqltext
from streamjoin.conditions.intervals import Bound, Constant, Form, Interval, check_interval, number
from streamjoin.conditions.sqltext import FLIPPED, swap_aliases
from streamjoin.errors import ConditionError

__all__ = [
    "Band",
    "Bound",
    "Condition",
    "Constant",
    "Equality",
    "Form",
    "Inequality",
    "Interval",
    "NotEqual",
    "Operator",
    "Part",
    "Residual",
    "describe",
    "equate_points",
    "is_symmetric",
    "swap_aliases",
]

Operator = Literal["<", "<=", ">", ">="]

_P = TypeVar("_P")


def _unchecked(part: _P, **fields: object) -> _P:
    """A copy with other fields, without the checks for parts written by the caller."""
    copy = object.__new__(type(part))
    for name, value in {**vars(part), **fields}.items():
        object.__setattr__(copy, name, value)
    return copy


def _check_sides(part: "_Sided | Inequality") -> None:
    for alias, side, text in (("l", "left", part.left), ("r", "right", part.right)):
        if sqltext.aliases(text) != {alias}:
            raise ConditionError(
                f"{type(part).__name__} with {side} side {text!r}: it must be an expression over "
                f"columns of the {side} input only, written {alias}.column; exchange the sides if "
                "they are the wrong way round, or use Residual for anything else"
            )


@dataclass(frozen=True)
class _Sided:
    """A part that compares an expression over ``l`` with one over ``r``."""

    left: str
    right: str

    def __post_init__(self) -> None:
        _check_sides(self)

    def flip(self) -> Self:
        """The same part with the roles of left and right exchanged; the texts keep aliases."""
        return _unchecked(self, left=self.right, right=self.left)


@dataclass(frozen=True)
class Equality(_Sided):
    """``left = right``; with ``null_safe``, ``left <=> right``."""

    null_safe: bool = False

    def sql(self) -> str:
        return sqltext.compare(self.left, "<=>" if self.null_safe else "=", self.right)


@dataclass(frozen=True)
class Band(_Sided):
    """``left - right`` lies in one of the ``intervals`` (disjoint, ascending, at least one).

    They are disjoint as exact numbers. Shifted bounds of huge floating values can round together,
    so that one pair lies in two intervals: a probe takes the union of its ranges.
    """

    intervals: tuple[Interval, ...]

    @classmethod
    def between(cls, left: str, right: str, lower: Constant | int, upper: Constant | int) -> "Band":
        """``lower <= left - right <= upper``.

        >>> print(Band.between("l.x", "r.x", -5, 7).sql())
        r.x - l.x <= 5 AND l.x - r.x <= 7
        """
        return cls(left, right, (Interval(Bound(lower), Bound(upper)),))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.intervals:
            raise ConditionError(
                f"Band {self.left!r}, {self.right!r} without intervals: it needs at least one; "
                "Band.between(left, right, lower, upper) makes the usual one"
            )
        for interval in self.intervals:
            check_interval(interval)
        for one, other in pairwise(self.intervals):
            upper, lower = one.upper, other.lower
            if upper is None or lower is None or number(upper.value) > number(lower.value):
                raise ConditionError(
                    f"intervals {sqltext.show(one, 'd')} and "
                    f"{sqltext.show(other, 'd')}: the intervals of a Band are disjoint "
                    "and ascending; merge or sort them"
                )

    def flip(self) -> Self:
        """The band of ``right - left``."""
        flipped = tuple(interval.flip() for interval in reversed(self.intervals))
        return _unchecked(self, left=self.right, right=self.left, intervals=flipped)

    def sql(self) -> str:
        """The part as Spark SQL, each bound in the form in which it was written."""
        alone = len(self.intervals) == 1
        choices = [sqltext.interval(self.left, self.right, each, alone) for each in self.intervals]
        return choices[0] if len(choices) == 1 else " OR ".join(f"({each})" for each in choices)


@dataclass(frozen=True)
class Inequality:
    """``left operator right``, e.g. ``l.power < r.power``."""

    left: str
    operator: Operator
    right: str

    def __post_init__(self) -> None:
        if self.operator not in ("<", "<=", ">", ">="):
            raise ConditionError(
                f"operator {self.operator!r}: an Inequality takes < <= > >=; "
                "use Equality for = and NotEqual for <>"
            )
        _check_sides(self)

    def flip(self) -> "Inequality":
        """``right operator' left``; the texts keep their aliases."""
        operator = FLIPPED[self.operator]
        return _unchecked(self, left=self.right, operator=operator, right=self.left)

    def sql(self) -> str:
        return sqltext.compare(self.left, self.operator, self.right)


@dataclass(frozen=True)
class NotEqual(_Sided):
    """``left <> right``."""

    def sql(self) -> str:
        return sqltext.compare(self.left, "<>", self.right)


@dataclass(frozen=True)
class Residual:
    """Anything else: evaluated on the candidate pairs that pass the other parts."""

    expression: str

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str) or not self.expression.strip():
            raise ConditionError(
                f'residual {self.expression!r}: it is SQL text, such as "l.name LIKE r.pattern"'
            )

    def flip(self) -> "Residual":
        """Itself: its text names both sides explicitly."""
        return self

    def sql(self) -> str:
        return self.expression


Part = Equality | Band | Inequality | NotEqual | Residual


@dataclass(frozen=True)
class Condition:
    """A conjunction of parts; it iterates over all of them."""

    equalities: tuple[Equality, ...] = ()
    bands: tuple[Band, ...] = ()
    inequalities: tuple[Inequality, ...] = ()
    not_equals: tuple[NotEqual, ...] = ()
    residuals: tuple[Residual, ...] = ()

    def __post_init__(self) -> None:
        kinds = (Equality, Band, Inequality, NotEqual, Residual)
        for field, kind in zip(fields(self), kinds, strict=True):
            parts = getattr(self, field.name)
            if not isinstance(parts, tuple) or not all(isinstance(each, kind) for each in parts):
                raise ConditionError(
                    f"Condition({field.name}={parts!r}): give a tuple of {kind.__name__} objects; "
                    'to read SQL, write parse_condition("l.x = r.x")'
                )

    def __iter__(self) -> Iterator[Part]:
        yield from self.equalities
        yield from self.bands
        yield from self.inequalities
        yield from self.not_equals
        yield from self.residuals

    def ranges(self) -> list[Band | Inequality | NotEqual]:
        """The parts that rows can be sorted by, the usually most selective ones first."""
        return [*self.bands, *self.inequalities, *self.not_equals]

    def __str__(self) -> str:
        return self.sql()

    def flip(self) -> "Condition":
        """The condition with the roles of left and right exchanged; texts keep their aliases."""
        return Condition(
            tuple(part.flip() for part in self.equalities),
            tuple(part.flip() for part in self.bands),
            tuple(part.flip() for part in self.inequalities),
            tuple(part.flip() for part in self.not_equals),
            self.residuals,
        )

    def sql(self) -> str:
        """Equivalent Spark SQL; reading it gives the condition back."""
        return sqltext.conjunction([part.sql() for part in self])


def equate_points(condition: Condition) -> Condition:
    """The condition with ``l.x >= r.x + 1 and l.x <= r.x + 1`` turned into an equality.

    Not for sessions, which are cut only by what is written as an equality.

    >>> print(equate_points(Condition(bands=(Band("l.x", "r.x", (point(1),)),))))
    l.x = r.x + 1
    """
    equalities, bands = list(condition.equalities), []
    for band in condition.bands:
        lower, upper = band.intervals[0].lower, band.intervals[0].upper
        is_point = len(band.intervals) == 1 and lower == upper
        if is_point and upper is not None and upper.closed and upper.form != "difference":
            equalities.append(Equality(*sqltext.shifted(band.left, band.right, upper)))
        else:
            bands.append(band)
    return replace(condition, equalities=tuple(equalities), bands=tuple(bands))


def point(value: Constant | int) -> Interval:
    """The interval that holds one value, written as a shift of the right side."""
    bound = Bound(value, form="shift_right")
    return Interval(bound, bound)


def describe(condition: Condition) -> list[str]:
    """One line per part, for people.

    >>> describe(Condition(bands=(Band.between("l.price", "r.price", -5, 5),)))
    ['band       -5 <= l.price - r.price <= 5']
    """
    names = {"NotEqual": "not equal"}
    lines = []
    for part in condition:
        name = names.get(type(part).__name__, type(part).__name__.lower())
        text = part.sql()
        if isinstance(part, Band):
            difference = sqltext.difference(part.left, part.right)
            text = " or ".join(sqltext.show(each, difference) for each in part.intervals)
        lines.append(f"{name:<10} {text}")
    return lines


def is_symmetric(condition: Condition) -> bool:
    """Whether the condition surely holds for (a, b) when it holds for (b, a), as in a self-join.

    A shifted band such as ``l.x between r.x - 5 and r.x + 5`` is not: in floating point the
    mirrored bounds round on the other side.
    """
    residuals = {part.expression for part in condition.residuals}
    pairs = (*condition.equalities, *condition.bands, *condition.not_equals)
    return (
        not condition.inequalities
        and all(part.left == swap_aliases(part.right) for part in pairs)
        and all(_settled(part) == _settled(part.flip()) for part in condition.bands)
        and residuals == {swap_aliases(text) for text in residuals}
    )


def _settled(band: Band) -> list[Interval]:
    """The intervals with NaN passing both ends or neither: to match, it must pass both."""
    return [
        Interval(
            *(
                bound and replace(bound, nan_passes=all(each.nan_passes for each in ends.bounds()))
                for bound in (ends.lower, ends.upper)
            )
        )
        for ends in band.intervals
    ]
