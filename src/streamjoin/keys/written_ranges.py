"""Bands and inequalities bound to two schemas: computed as they are written, in Spark's types.

How a condition is recognised affects its speed, never its answer. Recognition knows no types, so a
`Band` may have ends that SQL computes in different types. With ``l.x`` a double, ``r.d`` a
decimal::

    l.x - r.d <= 0.2     r.d becomes a double, the difference is one          double
    l.x <= r.d + 0.2     the sum is a decimal, exact, and becomes a double    neither
    l.d - r.d <= 2e-1    the difference is a decimal, and becomes a double    exact
    l.d <= r.d + 2e-1    r.d becomes a double, so does l.d                    double

* **exact**: the end is a difference of integer keys. Where it is compared with something that
  rounds, the last key inside is found by search (`last_inside`), with the rounding as written.
* **double**: both operands become doubles, and `double_bands` computes as written.
* If all ends of a band are exact, or all are double, one part answers it. Otherwise every end is an
  inequality of its own, over operands evaluated as written, and a *coarse* part gives the index a
  range with two ends: it is computed in doubles and widened by more than their error, so it holds
  every match, and the inequalities decide.
* Strings, binary and long decimals have coarse keys only; the condition itself is the residual.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf
from typing import Literal, cast

import pyarrow as pa

from streamjoin.conditions import Band, Bound, Inequality, Interval, NotEqual, sqltext
from streamjoin.conditions.terms import Operator
from streamjoin.errors import SchemaError
from streamjoin.expressions import decimals
from streamjoin.expressions.coercion import common_type
from streamjoin.expressions.datatypes import as_decimal, is_numeric, kind
from streamjoin.keys.bound_terms import COMPARISONS, RangePart
from streamjoin.keys.double_bands import bind_coarse, bind_doubles
from streamjoin.keys.operands import Operands, Schemas, type_of
from streamjoin.keys.sort_keys import KeyType

Way = Literal["exact", "double"]

FARTHEST = 1 << 130  # no two decimals of 38 digits lie further apart, in units of their last digit
WIDEST_EXACT = 1 << 62  # ends beyond it could reach the keys at the edge of int64
EXACT_IN_DOUBLE = 1 << 52


@dataclass(frozen=True)
class BoundRanges:
    """The range parts for one part of a condition, and what remains to be checked on pairs."""

    parts: tuple[RangePart, ...]
    residual: str | None = None


def bind_ranges(source: Band | Inequality | NotEqual, schemas: Schemas) -> BoundRanges:
    """Bind a band, inequality or not-equal to two schemas; see the module docstring."""
    operands = Operands.bind(source.left, source.right, schemas)
    if isinstance(source, Band):
        return _bind_band(source, operands, schemas)
    operator = source.operator if isinstance(source, Inequality) else "<>"
    if operands.key_type is not None:
        floating, exact = operands.key_type.floating, COMPARISONS[operator]
        return BoundRanges((RangePart(source, operands.compared(), floating, exact=exact),))
    if isinstance(source, NotEqual):  # equal coarse keys may belong to different values
        return BoundRanges((), source.sql())
    if pa.types.is_decimal(operands.type):
        band = as_band(source)
        part = _bind_coarse(band, operands, _ends_of(band, operands, schemas))
        return BoundRanges((part,), source.sql())
    if kind(operands.type) in ("string", "binary"):
        exact = COMPARISONS[operator[0] + "="]
        return BoundRanges((RangePart(source, operands, False, exact, coarse=True),), source.sql())
    return BoundRanges((), source.sql())


def as_band(source: Inequality) -> Band:
    """Return an inequality as a band with one end."""
    end = Bound(Decimal(0), closed=len(source.operator) > 1, form="shift_right")
    ends = (None, end) if source.operator[0] == "<" else (end, None)
    return Band(source.left, source.right, (Interval(*ends),))


def _bind_band(source: Band, operands: Operands, schemas: Schemas) -> BoundRanges:
    ends = _ends_of(source, operands, schemas)
    ways = [end.ways for end in ends]
    if all("exact" in each for each in ways):
        part = _bind_exact(source, operands, ends)
        if part is not None:
            return BoundRanges((part,))
    elif all("double" in each for each in ways):
        doubles = bind_doubles(source, schemas)
        return BoundRanges((RangePart(source, operands.as_double(), True, doubles=doubles),))
    coarse: tuple[RangePart, ...] = ()
    # A NaN difference has no place in the order of keys.
    has_nan = any(end.is_difference and "double" in end.ways for end in ends)
    if not has_nan and all(is_numeric(each) for end in ends for each in (*end.plain, end.own)):
        coarse = (_bind_coarse(source, operands, ends),)
    if len(source.intervals) > 1 or ends[0].is_difference:
        return BoundRanges(coarse, source.sql())
    alone = [bind_ranges(inequality, schemas) for inequality in split(source)]
    residuals = [each.residual for each in alone if each.residual is not None]
    parts = (*coarse, *(part for each in alone for part in each.parts))
    return BoundRanges(parts, " AND ".join(residuals) or None)


def _ends_of(source: Band, operands: Operands, schemas: Schemas) -> "list[_End]":
    """Return all ends of a band."""
    plain = [_type_of(text, schemas) for text in (source.left, source.right)]
    bounds = [bound for interval in source.intervals for bound in interval.bounds()]
    return [_End(source, bound, operands, plain, schemas) for bound in bounds]


def split(source: Band) -> list[Inequality]:
    """Return the ends of an interval as inequalities, as they are written."""
    [interval] = source.intervals
    found = []
    for bound, sign in ((interval.lower, ">"), (interval.upper, "<")):
        if bound is not None:
            left, right = sqltext.shifted(source.left, source.right, bound)
            operator = cast(Operator, sign + "=" * bound.closed)
            found.append(Inequality(left, operator, right))
    return found


class _End:
    """One end of a band: the types in which SQL computes it, and the ways to compute it here."""

    def __init__(
        self,
        source: Band,
        bound: Bound,
        operands: Operands,
        plain: list[pa.DataType],
        schemas: Schemas,
    ) -> None:
        self.bound, self.key_type, self.common = bound, operands.key_type, operands.type
        self.is_difference = bound.form == "difference"
        if self.is_difference:
            texts = (sqltext.difference(source.left, source.right), sqltext.literal(bound.value))
        else:
            texts = sqltext.shifted(source.left, source.right, bound)
            texts = texts if bound.form == "shift_left" else (texts[1], texts[0])
        # The types of the operands, of what is computed from them, and of what it is compared with.
        self.plain = plain
        self.own, self.other = (_type_of(text, schemas) for text in texts)

    @property
    def ways(self) -> set[Way]:
        """The ways to compute this end that give the same answer as it is written."""
        value = self.bound.value
        if isinstance(value, timedelta) or not all(map(is_numeric, (*self.plain, self.own))):
            return self._ways_of_others()
        if kind(self.own) == "floating":
            return {"double"}
        if kind(self.other) == "floating" and not self.is_difference:
            # The exact sum becomes a double; the sum of doubles may differ from it.
            return {"double"} if not value or self._is_short(value) else set()
        ways: set[Way] = set()
        if self.key_type is not None and not self.key_type.floating and self.lost_scale is None:
            ways.add("exact")
        if self._is_short(value):
            ways.add("double")
        return ways

    def _ways_of_others(self) -> set[Way]:
        """Dates, times and durations are exact; text cast to a number is exact if the number is."""
        if self.key_type is None:
            return set()
        if self.key_type.floating:
            return {"double"} if kind(self.own) == "floating" else set()
        if is_numeric(self.common) and not is_numeric(self.own):
            raise misfit(self.bound, self.key_type)
        try:
            in_keys(self.bound, self.key_type)
        except SchemaError:
            if self.is_difference or pa.types.is_null(self.own):
                raise
            return set()  # a date plus a number of days, compared with a timestamp
        return {"exact"}

    def _is_short(self, value: Decimal | float) -> bool:
        """Whether doubles hold every result exactly: short integers and a whole constant."""
        exact = [each for each in self.plain if kind(each) != "floating"]
        short = all(kind(each) == "integer" and each.bit_width <= 32 for each in exact)
        return short and abs(Decimal(value)) <= EXACT_IN_DOUBLE and value == int(value)

    @property
    def lost_scale(self) -> int | None:
        """The smallest scale that operands and sums are rounded to, if that loses digits."""
        scales = [as_decimal(each).scale for each in self.plain if kind(each) != "floating"]
        types = [self.common]
        if not self.is_difference and self.bound.value:  # `_holds` rounds differences as written
            if isinstance(self.bound.value, Decimal):
                scales.append(as_literal(self.bound.value).scale)
            types = [self.own, common_type(self.own, self.other)]
        kept = [each.scale for each in types if pa.types.is_decimal(each)]
        return min(kept) if kept and min(kept) < max(scales, default=0) else None

    def last_key(self, is_lower: bool) -> float:
        """Return the last difference of keys inside this end."""
        assert self.key_type is not None
        bound, key_type = self.bound, self.key_type
        if not self.is_difference or not is_numeric(self.own):
            return whole_end(in_keys(bound, key_type), bound.closed, is_lower)
        return last_inside(lambda units: self._holds(units, is_lower), is_lower)

    def _holds(self, units: int, is_lower: bool) -> bool:
        """Whether a difference of ``units`` of the key lies inside this end, as written."""
        value, own = self.bound.value, as_decimal(self.own)
        scale = self.common.scale if pa.types.is_decimal(self.common) else 0
        computed = rescale(units, scale, own.scale)
        difference: Fraction | float
        against: Fraction | float
        if isinstance(value, float):
            difference, against = computed / 10**own.scale, value
        else:
            written = as_literal(cast(Decimal, value))
            met = decimals.wider(own, written)
            difference = Fraction(rescale(computed, own.scale, met.scale), 10**met.scale)
            constant = int(cast(Decimal, value).scaleb(written.scale))
            against = Fraction(rescale(constant, written.scale, met.scale), 10**met.scale)
        if difference == against:
            return self.bound.closed
        return (difference > against) == is_lower


def _type_of(text: str, schemas: Schemas) -> pa.DataType:
    """Return the type of an expression over both sides; null if SQL has no such operation."""
    try:
        return type_of(text, schemas["left"], schemas["right"])
    except SchemaError:
        return pa.null()


def as_literal(value: Decimal) -> pa.DataType:
    """Return the type of a decimal literal."""
    _, digits, exponent = value.as_tuple()
    scale = max(-cast(int, exponent), 0)
    return pa.decimal128(min(max(len(digits) + max(cast(int, exponent), 0), scale, 1), 38), scale)


def rescale(value: int, scale: int, new_scale: int) -> int:
    """Return an unscaled integer at another scale, rounded half up if digits are lost."""
    if new_scale >= scale:
        return value * 10 ** (new_scale - scale)
    unit = 10 ** (scale - new_scale)
    nearest = (2 * abs(value) + unit) // (2 * unit)
    return nearest if value >= 0 else -nearest


def last_inside(holds: Callable[[int], bool], is_lower: bool) -> float:
    """Return the last integer inside an end: the smallest for a lower end, else the largest.

    >>> last_inside(lambda number: number <= 5, is_lower=False)
    5
    """
    inside, outside = (FARTHEST, -FARTHEST) if is_lower else (-FARTHEST, FARTHEST)
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def whole_end(value: Fraction, closed: bool, is_lower: bool) -> float:
    """Return the last integer inside an end; a strict end may exclude one more."""
    if is_lower:
        return ceil(value) if closed else floor(value) + 1
    return floor(value) if closed else ceil(value) - 1


def in_keys(bound: Bound, key_type: KeyType) -> Fraction:
    """Return a bound's constant in units of the key."""
    if isinstance(bound.value, timedelta) and key_type.per_second is not None:
        return Fraction(bound.value // timedelta(microseconds=1), 1_000_000) * key_type.per_second
    if isinstance(bound.value, Decimal):
        if key_type.per_second is None:
            return Fraction(bound.value) * key_type.per_unit
        if pa.types.is_date(key_type.type) or not bound.value:
            return Fraction(bound.value)
    raise misfit(bound, key_type)


def misfit(bound: Bound, key_type: KeyType) -> SchemaError:
    """Return the error for a constant that cannot be added to a type."""
    return SchemaError(
        f"a difference of {bound.value!r} does not fit the type {key_type.type}: timestamps take "
        "an interval such as interval 5 seconds, numbers take a number"
    )


def _bind_exact(source: Band, operands: Operands, ends: list[_End]) -> RangePart | None:
    """Return the band over integer keys; None if it might involve keys at the edge of int64."""
    key_type = operands.key_type
    assert key_type is not None
    following = iter(ends)
    exact = tuple(
        (
            next(following).last_key(is_lower=True) if interval.lower else -inf,
            next(following).last_key(is_lower=False) if interval.upper else inf,
        )
        for interval in source.intervals
    )
    if pa.types.is_decimal(key_type.type) and any(
        WIDEST_EXACT < abs(end) < inf for ends in exact for end in ends
    ):
        return None  # keys at the edge of int64 may stand for larger values
    return RangePart(source, operands, False, exact=exact)


def _bind_coarse(source: Band, operands: Operands, ends: "list[_End]") -> RangePart:
    """Return a part whose ranges hold every match of a band of numbers, and a few more rows."""
    lost = [end.lost_scale for end in ends]
    # Each rounding moves a value by up to half a unit of the last digit kept.
    slack = max((2.0 * 10.0**-scale for scale in lost if scale is not None), default=0.0)
    doubles = bind_coarse(source, slack)
    return RangePart(source, operands, True, doubles=doubles, coarse=True)
