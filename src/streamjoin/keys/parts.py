"""The parts of a condition, bound to the two schemas: rows to keys, and probing keys to ranges.

An `EqualityPart` gives each row a key that is equal where the values are (exact), or a hash of
strings and the like, after which the values themselves must be compared. A `RangePart` gives each
row a sort key, and for a batch of probing keys the ranges of keys to find on the other side.
Either side can probe: left rows look for right keys and the other way round.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from streamjoin.errors import SchemaError
from streamjoin.kernels import Flags, Keys
from streamjoin.keys import hashing, key_ranges, sort_keys
from streamjoin.keys.double_bands import DoubleInterval, bind_doubles, find_double_ranges
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import Operands, Schemas, Side
from streamjoin.predicates import Band, Bound, Equality, Inequality, NotEqual


def validity(array: pa.Array) -> Flags | None:
    """Return which values are not NULL; None if all are."""
    if not array.null_count:
        return None
    return pc.is_valid(array).to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class EqualityPart:
    """An equality: equal values have equal keys, and if ``exact``, only they."""

    source: Equality
    operands: Operands
    exact: bool

    @classmethod
    def bind(cls, source: Equality, schemas: Schemas) -> "EqualityPart":
        """Bind to the schemas; keys are exact for every type that fits an int64."""
        operands = Operands.bind(source.left, source.right, schemas)
        kind = operands.type
        if operands.key_type is not None:
            return cls(source, operands, exact=not source.null_safe)
        if not (pa.types.is_nested(kind) or pa.types.is_null(kind)):
            return cls(source, operands, exact=False)
        raise SchemaError(
            f"{source.left} = {source.right}: values of type {kind} cannot be keys of an "
            "equality; compare their fields instead"
        )

    def keys(self, side: Side, batch: pa.RecordBatch) -> tuple[Keys, Flags | None]:
        """Return each row's key, and which rows have one."""
        values = self.operands.values(side, batch)
        is_ordered = self.operands.key_type is not None
        keys = sort_keys.encode(values) if is_ordered else hash_values(values)
        valid = validity(values)
        if self.source.null_safe and valid is not None:
            return np.where(valid, keys, hashing.NULL_HASH), None
        return keys, valid

    @property
    def columns(self) -> tuple[str, str] | None:
        """The two columns, if comparing them byte by byte is all that equal hashes leave to do."""
        sides = [self.operands.expressions[side] for side in ("left", "right")]
        is_plain = all(isinstance(side, exp.Column) for side in sides) and self.operands.same_type
        if self.exact or self.source.null_safe or not is_plain:
            return None
        return sides[0].name, sides[1].name

    @property
    def residual(self) -> exp.Expression | None:
        """What to compare when the keys are equal; None if that is enough."""
        if self.exact:
            return None
        operator = exp.NullSafeEQ if self.source.null_safe else exp.EQ
        left, right = (self.operands.expressions[side].copy() for side in ("left", "right"))
        return operator(this=exp.paren(left), expression=exp.paren(right))


def hash_values(values: pa.Array) -> Keys:
    """Return hashes that are equal where the values are."""
    return hashing.hash_bytes(bytes_of(values))


def bytes_of(values: pa.Array) -> pa.Array:
    """Return bytes that are equal where the values are."""
    text = values.cast(pa.string()) if pa.types.is_decimal(values.type) else values
    return text.cast(pa.large_binary())


@dataclass(frozen=True)
class RangePart:
    """A band, inequality or not-equal: a sort key per row, ranges of them per probe."""

    source: Band | Inequality | NotEqual
    operands: Operands
    floating: bool
    exact: tuple[tuple[float, float], ...] = ()  # intervals of left - right, in keys
    doubles: dict[Side, tuple[DoubleInterval, ...]] = field(default_factory=dict)

    @classmethod
    def bind(cls, source: Band | Inequality | NotEqual, schemas: Schemas) -> "RangePart | None":
        """Bind to the schemas; None if the type has no order that an int64 can hold."""
        operands = Operands.bind(source.left, source.right, schemas)
        if isinstance(source, Band) and uses_double(source, operands.type):
            operands = operands.as_double()
        kind = operands.key_type
        if kind is None:
            return None
        if not isinstance(source, Band):
            return cls(source, operands, kind.floating, exact=COMPARISONS[operator_of(source)])
        if kind.floating:
            doubles = bind_doubles(source, schemas)
            return cls(source, operands, True, doubles=doubles)
        exact = tuple(
            (exact_end(interval.lower, kind, True), exact_end(interval.upper, kind, False))
            for interval in source.intervals
        )
        if pa.types.is_decimal(kind.type) and any(
            FAR < abs(end) < inf for ends in exact for end in ends
        ):
            return None  # keys at the edge of int64 may stand for larger values
        return cls(source, operands, False, exact=exact)

    def keys(self, side: Side, batch: pa.RecordBatch) -> tuple[Keys, Flags | None]:
        """Return each row's key, and which rows have one."""
        values = self.operands.values(side, batch)
        return sort_keys.encode(values), validity(values)

    def ranges(self, side: Side, keys: Keys) -> list[Range]:
        """Return the ranges of the other side's keys that rows match; disjoint, ascending."""
        if self.doubles:
            return find_double_ranges(self.doubles[side], keys)
        if side == "left":
            return [key_ranges.exact_range(keys, low, high) for low, high in reversed(self.exact)]
        return [key_ranges.exact_range(keys, -high, -low) for low, high in self.exact]

    @property
    def bounded(self) -> bool:
        """Whether every range has two ends: such a part is usually the most selective."""
        if isinstance(self.source, Band):
            return all(part.lower and part.upper for part in self.source.intervals)
        return False


FAR = 1 << 62

COMPARISONS: dict[str, tuple[tuple[float, float], ...]] = {
    "<": ((-inf, -1),),
    "<=": ((-inf, 0),),
    ">": ((1, inf),),
    ">=": ((0, inf),),
    "<>": ((-inf, -1), (1, inf)),
}


def operator_of(source: Inequality | NotEqual) -> str:
    """Return the comparison's sign."""
    return source.operator if isinstance(source, Inequality) else "<>"


def uses_double(source: Band, type: pa.DataType) -> bool:
    """Tell whether the band's arithmetic is in floating point."""
    bounds = [end for part in source.intervals for end in (part.lower, part.upper) if end]
    return pa.types.is_floating(type) or any(isinstance(end.value, float) for end in bounds)


def exact_end(bound: Bound | None, kind: sort_keys.KeyType, is_lower: bool) -> float:
    """Return the last difference of keys inside a bound: a strict one ends a key earlier."""
    if bound is None:
        return -inf if is_lower else inf
    value = in_keys(bound, kind)
    if is_lower:
        return ceil(value) if bound.closed else floor(value) + 1
    return floor(value) if bound.closed else ceil(value) - 1


def in_keys(bound: Bound, kind: sort_keys.KeyType) -> Fraction:
    """Return a bound's constant in units of the key."""
    if isinstance(bound.value, timedelta) and kind.per_second is not None:
        return Fraction(bound.value // timedelta(microseconds=1), 1_000_000) * kind.per_second
    if isinstance(bound.value, Decimal):
        if kind.per_second is None:
            return Fraction(bound.value) * kind.per_unit
        if pa.types.is_date(kind.type) or not bound.value:
            return Fraction(bound.value)
    raise SchemaError(
        f"a difference of {bound.value!r} does not fit the type {kind.type}: timestamps take an "
        "interval such as interval 5 seconds, numbers take a number"
    )
