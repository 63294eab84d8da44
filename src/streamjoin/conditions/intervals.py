"""Sets of intervals of ``left - right``: intersection for AND, union for OR.

::

    l.x between r.x - 5 and r.x + 7        [-5 ........ 7]
    l.x <> r.x  (as intervals)        ....... 0) (0 ..........
    both                                   [-5..0) (0.. 7]

A set is a tuple of intervals. It matches when one of them does; an interval matches when all its
bounds do. Both operations are exact, or return None: the caller then keeps the parts apart, which
is never wrong. The reason to return None is floating point. Two bounds of one form at the same end
become one only if the first implies the second even after rounding. ``r.x + 3`` and ``r.x + 5`` are
the same double when ``r.x`` is 1e300, infinite or NaN, so::

    l.x <  r.x + 3   implies   l.x < r.x + 5     (rounding is monotone)
    l.x <= r.x + 3   does not imply   l.x < r.x + 5,   nor is it impossible with   l.x >= r.x + 5

In the form ``difference``, one rounded number is compared with constants, so only the constants'
own rounding matters, and NaN, which each bound handles by itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Context, Decimal
from math import inf
from typing import Any, Literal

from streamjoin.errors import ConditionError

Form = Literal["difference", "shift_left", "shift_right"]
Constant = Decimal | float | timedelta  # exact number, double literal (1e3, 5D), interval

_FLIPPED_FORM: dict[Form, Form] = {
    "difference": "difference",
    "shift_left": "shift_right",
    "shift_right": "shift_left",
}
_CONTEXT = Context(prec=100)  # wide enough that negating a 38-digit decimal never rounds

# Integers up to here are exact in every floating type, so they compare alike in all of them.
_EXACT_INTEGER = 2**24


@dataclass(frozen=True)
class Bound:
    """One end of an interval of ``left - right``.

    ``nan_passes`` says whether a NaN difference satisfies the bound: Spark orders NaN above all
    numbers, so ``l.x - r.x >= 5`` holds for it and ``l.x - r.x <= 5`` does not. It matters only for
    the form ``difference``. An int counts as the exact number.
    """

    value: Constant
    closed: bool = True
    form: Form = "difference"
    nan_passes: bool = False

    def __post_init__(self) -> None:
        value: Any = self.value
        if isinstance(value, int) and not isinstance(value, bool):
            object.__setattr__(self, "value", Decimal(value))
        elif not isinstance(value, Constant) or (
            not isinstance(value, timedelta) and not Decimal(value).is_finite()
        ):
            raise ConditionError(
                f"bound {value!r}: a bound is a finite int, Decimal, float or timedelta; "
                "leave the end of the Interval out (None) if it is unbounded"
            )
        if self.form not in _FLIPPED_FORM:
            raise ConditionError(
                f"form {self.form!r}: a bound is written as one of {', '.join(_FLIPPED_FORM)}"
            )

    def flip(self) -> "Bound":
        """The same bound of ``right - left``; it is then an end of the other kind."""
        return replace(self, value=negate(self.value), form=_FLIPPED_FORM[self.form])


@dataclass(frozen=True)
class Interval:
    """The differences from ``lower`` to ``upper``; a missing end is unbounded."""

    lower: Bound | None = None
    upper: Bound | None = None

    def bounds(self) -> tuple[Bound, ...]:
        """The ends that are not missing."""
        return tuple(bound for bound in (self.lower, self.upper) if bound is not None)

    def flip(self) -> "Interval":
        """The same interval of ``right - left``."""
        return Interval(self.upper and self.upper.flip(), self.lower and self.lower.flip())


Intervals = tuple[Interval, ...]
_Implies = Callable[[Bound, Bound], bool]


def negate(value: Constant) -> Constant:
    """``-value``, exactly."""
    return _CONTEXT.minus(value) if isinstance(value, Decimal) else -value


def intersect(first: Intervals, second: Intervals) -> Intervals | None:
    """The differences in both sets; None if there are none, or no set is exactly that."""
    result = []
    for one in first:
        for other in second:
            try:
                joint = Interval(
                    _tighter(one.lower, other.lower, _lower_implies),
                    _tighter(one.upper, other.upper, _upper_implies),
                )
            except _InexactError:
                return None
            if not _fits(joint):
                return None
            if not _is_empty(joint):
                result.append(joint)
            elif not _matches_nothing(joint):
                return None
    return tuple(result) or None


def unite(intervals: Iterable[Interval]) -> Intervals | None:
    """The same set, disjoint and ascending; None if it is everything or no set is exactly that."""
    ordered = sorted(intervals, key=_start)
    if not same_measure(bound for interval in ordered for bound in interval.bounds()):
        return None
    result = ordered[:1]
    for following in ordered[1:]:
        last = result[-1]
        gap = _gap(last, following)
        if gap == "open":
            result.append(following)
            continue
        try:
            result[-1] = _merge(last, following)
        except _InexactError:
            if gap != "touching":
                return None
            result.append(following)
    return None if Interval() in result else tuple(result)


def same_measure(bounds: Iterable[Bound]) -> bool:
    """Whether the bounds are all numbers or all durations; zero is both."""
    return len({isinstance(bound.value, timedelta) for bound in bounds if bound.value}) < 2


def number(value: Constant) -> Decimal:
    """The exact value as one comparable type; a duration in microseconds."""
    if isinstance(value, timedelta):
        return Decimal(value // timedelta(microseconds=1))
    return Decimal(value)


def check_interval(interval: Interval) -> None:
    """Refuse an interval that no condition means."""
    text = f"interval from {interval.lower} to {interval.upper}"
    if not interval.bounds():
        raise ConditionError(f"{text}: it bounds nothing; leave the band out")
    if not _fits(interval):
        raise ConditionError(
            f"{text}: both ends are numbers or both durations, and both of the form 'difference' "
            "or both shifted; use two bands over the same pair"
        )
    if _is_empty(interval):
        raise ConditionError(f"{text}: it is empty, so nothing would match; exchange its ends")


class _InexactError(Exception):
    """Two bounds that no single bound replaces."""


def _start(interval: Interval) -> tuple[float | Decimal, bool]:
    if interval.lower is None:
        return -inf, False
    return number(interval.lower.value), not interval.lower.closed


def _fits(interval: Interval) -> bool:
    """Whether the two ends may sit on one interval: one measure, and no difference with a shift."""
    forms = {bound.form == "difference" for bound in interval.bounds()}
    return len(forms) == 1 and same_measure(interval.bounds())


def _is_empty(interval: Interval) -> bool:
    """Whether nothing lies between the ends in exact arithmetic."""
    lower, upper = interval.lower, interval.upper
    if lower is None or upper is None:
        return False
    low, high = number(lower.value), number(upper.value)
    return low > high or (low == high and not (lower.closed and upper.closed))


def _matches_nothing(interval: Interval) -> bool:
    """Whether an empty interval stays empty after rounding, and for NaN."""
    lower, upper = interval.lower, interval.upper
    if lower is None or upper is None or lower.form != upper.form or _passes_nan(interval):
        return False
    if not _comparable(lower, upper):
        return False
    return _stays_apart(lower, upper) or not (lower.closed and upper.closed)


def _passes_nan(interval: Interval) -> bool:
    return all(bound.nan_passes for bound in interval.bounds())


def _kind(value: Constant) -> str:
    if isinstance(value, Decimal):
        return "fraction" if int(value.as_tuple().exponent) < 0 else "integer"
    return "duration" if isinstance(value, timedelta) else "double"


def _comparable(one: Bound, other: Bound) -> bool:
    """Whether Spark compares with both constants in the same type, or in types that agree."""
    kinds = {_kind(one.value), _kind(other.value)}
    if len(kinds) == 1:
        return True
    if "double" in kinds:
        return False
    if not one.value or not other.value:
        return True
    # A float column plus an integer rounds to float, plus a fraction to double: shifts differ.
    integer = one.value if _kind(one.value) == "integer" else other.value
    return one.form == "difference" and abs(number(integer)) <= _EXACT_INTEGER


def _stays_apart(one: Bound, other: Bound) -> bool:
    """Whether different constants give different limits after rounding."""
    if isinstance(one.value, timedelta) or isinstance(other.value, timedelta):
        return number(one.value) != number(other.value)  # zero is zero, as a duration or a number
    return one.form == "difference" and float(one.value) != float(other.value)


def _upper_implies(inner: Bound, outer: Bound) -> bool:
    """Whether whatever satisfies the upper bound ``inner`` satisfies ``outer``, NaN aside."""
    if inner.form != outer.form or not _comparable(inner, outer):
        return False
    if number(inner.value) > number(outer.value):
        return False
    return _stays_apart(inner, outer) or outer.closed or not inner.closed


def _lower_implies(inner: Bound, outer: Bound) -> bool:
    return _upper_implies(inner.flip(), outer.flip())


def _tighter(one: Bound | None, other: Bound | None, implies: _Implies) -> Bound | None:
    if one is None or other is None:
        return one or other
    nan_passes = one.nan_passes and other.nan_passes
    if implies(one, other):
        return replace(one, nan_passes=nan_passes)
    if implies(other, one):
        return replace(other, nan_passes=nan_passes)
    raise _InexactError


def _looser(one: Bound | None, other: Bound | None, implies: _Implies) -> Bound | None:
    if one is None or other is None:
        return None
    if implies(one, other):
        return other
    if implies(other, one):
        return one
    raise _InexactError


def _gap(last: Interval, following: Interval) -> str:
    """What lies between two intervals, the second of which does not start before the first."""
    upper, lower = last.upper, following.lower
    if upper is None or lower is None or number(upper.value) > number(lower.value):
        return "none"
    if number(upper.value) < number(lower.value) or not (upper.closed or lower.closed):
        return "open"
    return "none" if upper.closed and lower.closed else "touching"


def _merge(last: Interval, following: Interval) -> Interval:
    """One interval for two without a gap, if rounding opens none either."""
    if len({bound.form for bound in (*last.bounds(), *following.bounds())}) > 1:
        raise _InexactError
    upper, lower = last.upper, following.lower
    if upper and lower:
        closes = upper.closed or lower.closed or _stays_apart(upper, lower)
        if not (closes and _comparable(upper, lower)):
            raise _InexactError
    nan_passes = _passes_nan(last) or _passes_nan(following)
    ends = (
        _looser(last.lower, following.lower, _lower_implies),
        _looser(last.upper, following.upper, _upper_implies),
    )
    return Interval(*(end and replace(end, nan_passes=nan_passes) for end in ends))
