"""A join condition in canonical form: a conjunction of parts that a join knows how to use.

``parse_condition("l.symbol = r.symbol and abs(l.price - r.price) <= 0.05")`` gives a `Condition`
with one `Equality` and one `Band`. The classes are plain frozen dataclasses whose fields hold SQL
text over the aliases ``l`` and ``r``, so a condition can be built by hand too.

A `Band` is a set of intervals of the difference ``left - right``. In exact types (integers,
decimals, dates, timestamps) the difference says all. In floating point
``abs(l.x - r.x) <= c`` and ``l.x <= r.x + c`` round differently, so each `Bound` also remembers
how it was written::

    form          as written          computed in floating point
    difference    l.x - r.x <= v      fl(l.x - r.x)  against  v
    shift_right   l.x <= r.x + v      l.x            against  fl(r.x + v)
    shift_left    l.x - v <= r.x      fl(l.x - v)    against  r.x
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Literal

Form = Literal["difference", "shift_left", "shift_right"]
Operator = Literal["<", "<=", ">", ">="]
Constant = Decimal | float | timedelta  # exact number, double literal (1e3, 5D), interval


@dataclass(frozen=True)
class Bound:
    """One end of an interval of ``left - right``.

    ``nan_passes`` tells whether a difference that is NaN satisfies the bound: Spark orders NaN
    above all numbers, so ``l.x - r.x >= 5`` holds for it and ``l.x - r.x <= 5`` does not. It
    matters for the form ``difference`` only.
    """

    value: Constant
    closed: bool = True
    form: Form = "difference"
    nan_passes: bool = False


@dataclass(frozen=True)
class Interval:
    """The differences from ``lower`` to ``upper``; a missing end is unbounded."""

    lower: Bound | None = None
    upper: Bound | None = None


@dataclass(frozen=True)
class Equality:
    """``left = right``; with ``null_safe``, ``left <=> right``."""

    left: str
    right: str
    null_safe: bool = False


@dataclass(frozen=True)
class Band:
    """``left - right`` lies in one of the ``intervals`` (disjoint, ascending, at least one)."""

    left: str
    right: str
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class Inequality:
    """``left operator right``, e.g. ``l.power < r.power``."""

    left: str
    operator: Operator
    right: str


@dataclass(frozen=True)
class NotEqual:
    """``left <> right``."""

    left: str
    right: str


@dataclass(frozen=True)
class Residual:
    """Anything else: evaluated over the candidate pairs that the other parts leave."""

    expression: str


Part = Equality | Band | Inequality | NotEqual | Residual


@dataclass(frozen=True)
class Condition:
    """A conjunction of parts; it iterates over all of them."""

    equalities: tuple[Equality, ...] = ()
    bands: tuple[Band, ...] = ()
    inequalities: tuple[Inequality, ...] = ()
    not_equals: tuple[NotEqual, ...] = ()
    residuals: tuple[Residual, ...] = ()

    def __iter__(self) -> Iterator[Part]:
        yield from self.equalities
        yield from self.bands
        yield from self.inequalities
        yield from self.not_equals
        yield from self.residuals
