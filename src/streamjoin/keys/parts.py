"""The parts of a condition, bound to the two schemas: rows to keys, and probing keys to ranges.

An `EqualityPart` gives each row a key that is equal where the values are (exact), or a hash of
strings and the like, after which the values themselves must be compared. A `RangePart` gives each
row a sort key, and for a batch of probing keys the ranges of keys to find on the other side.
Either side can probe: left rows look for right keys and the other way round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from streamjoin.errors import SchemaError
from streamjoin.expressions.coercion import cast_to, common_type
from streamjoin.expressions.evaluation import evaluate
from streamjoin.expressions.parsing import parse_expression, qualify
from streamjoin.kernels import Keys
from streamjoin.keys import hashing, key_ranges, sort_keys
from streamjoin.keys.key_ranges import Range
from streamjoin.predicates import Band, Bound, Equality, Inequality, NotEqual

Side = Literal["left", "right"]
Schemas = Mapping[Side, pa.Schema]
Valid = NDArray[np.bool_]

ALIAS = {"left": "l", "right": "r"}
OTHER: dict[Side, Side] = {"left": "right", "right": "left"}


def evaluate_side(expression: exp.Expression, side: Side, batch: pa.RecordBatch) -> pa.Array:
    """Evaluate an expression over one side's columns."""
    return evaluate(expression, **{side: batch})


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of no rows: evaluating over it gives an expression's type."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


@dataclass(frozen=True)
class Operands:
    """The two one-sided expressions of a part, and the type that Spark compares them in."""

    expressions: dict[Side, exp.Expression]
    type: pa.DataType

    @classmethod
    def bind(cls, left: str, right: str, schemas: Schemas) -> "Operands":
        """Resolve the columns and find the common type."""
        expressions: dict[Side, exp.Expression] = {}
        types: dict[Side, pa.DataType] = {}
        sides: tuple[tuple[Side, str], ...] = (("left", left), ("right", right))
        for side, text in sides:
            tree = qualify(parse_expression(text), schemas["left"], schemas["right"])
            expressions[side] = tree
            types[side] = evaluate_side(tree, side, empty_batch(schemas[side])).type
        common = common_type(types["left"], types["right"])
        if common is None:
            raise SchemaError(
                f"{left} is {types['left']} and {right} is {types['right']}: these types do not "
                f"compare; cast one of them, as in cast({left} as ...)"
            )
        return cls(expressions, common)

    def values(self, side: Side, batch: pa.RecordBatch) -> pa.Array:
        """Evaluate one side's expression, in the common type."""
        return cast_to(evaluate_side(self.expressions[side], side, batch), self.type)


def validity(array: pa.Array) -> Valid | None:
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
        if sort_keys.key_type(kind) is not None:
            return cls(source, operands, exact=not source.null_safe)
        if not (pa.types.is_nested(kind) or pa.types.is_null(kind)):
            return cls(source, operands, exact=False)
        raise SchemaError(
            f"{source.left} = {source.right}: values of type {kind} cannot be keys of an "
            "equality; compare their fields instead"
        )

    def keys(self, side: Side, batch: pa.RecordBatch) -> tuple[Keys, Valid | None]:
        """Return each row's key, and which rows have one."""
        values = self.operands.values(side, batch)
        keys = equality_keys(values)
        valid = validity(values)
        if self.source.null_safe and valid is not None:
            return np.where(valid, keys, hashing.NULL_HASH), None
        return keys, valid

    @property
    def residual(self) -> exp.Expression | None:
        """What to compare when the keys are equal; None if that is enough."""
        if self.exact:
            return None
        operator = exp.NullSafeEQ if self.source.null_safe else exp.EQ
        left, right = (self.operands.expressions[side].copy() for side in ("left", "right"))
        return operator(this=exp.paren(left), expression=exp.paren(right))


def equality_keys(values: pa.Array) -> Keys:
    """Return int64 keys that are equal where the values are."""
    if sort_keys.key_type(values.type) is not None:
        return sort_keys.encode(values)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    return hashing.hash_bytes(values)


@dataclass(frozen=True)
class DoubleInterval:
    """An interval of doubles, its ends laid out for the kernel ``double_ranges``."""

    low: Keys
    high: Keys

    @property
    def nan_apart(self) -> bool:
        """Whether a NaN on the stored side matches beside the range of numbers."""
        ends = [end for end in (self.low, self.high) if end[0]]
        return all(end[2] == key_ranges.DIFFERENCE and end[5] for end in ends)


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
            operands = Operands(operands.expressions, pa.float64())
        kind = sort_keys.key_type(operands.type)
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
        return cls(source, operands, False, exact=exact)

    def keys(self, side: Side, batch: pa.RecordBatch) -> tuple[Keys, Valid | None]:
        """Return each row's key, and which rows have one."""
        values = self.operands.values(side, batch)
        return sort_keys.encode(values), validity(values)

    def ranges(self, side: Side, keys: Keys) -> list[Range]:
        """Return the ranges of the other side's keys that rows of ``side`` match; disjoint, ascending."""
        if self.doubles:
            return self._double_ranges(side, keys)
        if side == "left":
            return [key_ranges.exact_range(keys, low, high) for low, high in reversed(self.exact)]
        return [key_ranges.exact_range(keys, -high, -low) for low, high in self.exact]

    def _double_ranges(self, side: Side, keys: Keys) -> list[Range]:
        ranges = []
        for interval in self.doubles[side]:
            lower, upper = np.empty_like(keys), np.empty_like(keys)
            key_ranges.double_ranges(keys, interval.low, interval.high, lower, upper)
            ranges.append((lower, upper))
        if any(interval.nan_apart for interval in self.doubles[side]):
            lower, upper = np.empty_like(keys), np.empty_like(keys)
            key_ranges.nan_ranges(keys, lower, upper)
            ranges.append((lower, upper))
        return key_ranges.make_disjoint(ranges) if len(ranges) > 1 else ranges

    @property
    def bounded(self) -> bool:
        """Whether every range has two ends: such a part is usually the most selective."""
        if isinstance(self.source, Band):
            return all(part.lower and part.upper for part in self.source.intervals)
        return False


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


FORMS = {
    "left": {"difference": 0, "shift_left": 1, "shift_right": 2},
    "right": {"difference": 0, "shift_left": 2, "shift_right": 1},
}


def bind_doubles(source: Band, schemas: Schemas) -> dict[Side, tuple[DoubleInterval, ...]]:
    """Lay out a band's intervals for the kernel, for either probing side, ranges ascending."""

    def end(bound: Bound | None, side: Side) -> Keys:
        if bound is None:
            return np.zeros(6, np.int64)
        if isinstance(bound.value, timedelta):
            raise SchemaError(
                f"{source.left} - {source.right} is a floating-point number and cannot be "
                f"compared with the interval {bound.value}; compare it with a number"
            )
        value = float(bound.value)
        bits = np.float64(value if side == "left" else -value).view(np.int64)
        single = is_single(source, bound, schemas)
        form = FORMS[side][bound.form]
        return np.array([1, bits, form, single, not bound.closed, bound.nan_passes], np.int64)

    left = [
        DoubleInterval(end(part.lower, "left"), end(part.upper, "left"))
        for part in source.intervals
    ]
    # Seen from the right, the difference changes its sign, and its ends their places.
    right = [
        DoubleInterval(end(part.upper, "right"), end(part.lower, "right"))
        for part in source.intervals
    ]
    return {"left": tuple(reversed(left)), "right": tuple(right)}


def is_single(source: Band, bound: Bound, schemas: Schemas) -> bool:
    """Tell whether Spark rounds the arithmetic of this bound to 32 bits."""
    shift = bound.value if isinstance(bound.value, Decimal) else repr(bound.value) + "D"
    text = {
        "difference": f"({source.left}) - ({source.right})",
        "shift_left": f"({source.left}) + {shift}",
        "shift_right": f"({source.right}) + {shift}",
    }[bound.form]
    tree = qualify(parse_expression(text), schemas["left"], schemas["right"])
    empty = {side: empty_batch(schema) for side, schema in schemas.items()}
    return pa.types.is_float32(evaluate(tree, left=empty["left"], right=empty["right"]).type)
