"""The parts of a condition, bound to two schemas: they turn rows into keys, and keys into ranges.

An `EqualityPart` gives each row a key. For most types, keys are equal exactly where the values are;
for strings and the like the key is a hash, and the values themselves must be compared afterwards. A
`RangePart` gives each row a sort key, and each probing key the ranges of keys to find on the other
side.
Either side can probe: left rows look for right keys and the other way round.
"""

from dataclasses import dataclass, field
from math import inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from streamjoin.conditions import Band, Equality, Inequality, NotEqual
from streamjoin.errors import SchemaError
from streamjoin.kernels.compile import Flags, Keys
from streamjoin.keys import hashing, key_ranges, sort_keys
from streamjoin.keys.double_bands import DoubleInterval, find_double_ranges
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import Operands, Schemas, Side


def validity(array: pa.Array) -> Flags | None:
    """Return which values are not NULL; None if all are."""
    if not array.null_count:
        return None
    return pc.is_valid(array).to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class EqualityPart:
    """An equality: equal values have equal keys and, if ``exact``, different values do not."""

    source: Equality
    operands: Operands
    exact: bool
    seed: int = field(default=hashing.FIXED, kw_only=True)  # of hashes

    @classmethod
    def bind(cls, source: Equality, schemas: Schemas) -> "EqualityPart":
        """Bind to the schemas; keys are exact for every type that fits an int64."""
        operands = Operands.bind(source.left, source.right, schemas).compared()
        kind = operands.type
        if operands.key_type is not None:
            return cls(source, operands, exact=not source.null_safe)
        way = "compare their fields instead"
        if pa.types.is_null(kind):
            way = "both columns hold nothing but NULL, so cast one to the type it should have"
        elif kind == pa.month_day_nano_interval():
            way = "a month has no fixed length, so cast them to durations"
        elif not pa.types.is_nested(kind):
            return cls(source, operands, exact=False)
        raise SchemaError(
            f"{source.left} = {source.right}: values of type {kind} cannot be keys of an "
            f"equality; {way}"
        )

    def keys(self, side: Side, batch: pa.RecordBatch) -> tuple[Keys, Flags | None]:
        """Return each row's key, and which rows have one."""
        values = self.operands.values(side, batch)
        is_ordered = self.operands.key_type is not None
        keys = sort_keys.encode(values) if is_ordered else hash_values(values, self.seed)
        valid = validity(values)
        if self.source.null_safe and valid is not None:
            return np.where(valid, keys, hashing.NULL_HASH), None
        return keys, valid

    @property
    def columns(self) -> tuple[str, str] | None:
        """The two columns, if comparing their bytes is all that is left to do for equal hashes."""
        sides = [self.operands.expressions[side] for side in ("left", "right")]
        is_plain = all(isinstance(side, exp.Column) for side in sides) and self.operands.same_type
        if self.exact or self.source.null_safe or not is_plain:
            return None
        return sides[0].name, sides[1].name

    @property
    def residual(self) -> exp.Expression | None:
        """What to compare where keys are equal; None if equal keys are enough."""
        if self.exact:
            return None
        operator = exp.NullSafeEQ if self.source.null_safe else exp.EQ
        left, right = (self.operands.expressions[side].copy() for side in ("left", "right"))
        return operator(this=exp.paren(left), expression=exp.paren(right))


def hash_values(values: pa.Array, seed: int) -> Keys:
    """Return hashes that are equal where the values are."""
    return hashing.hash_bytes(bytes_of(values), seed)


def bytes_of(values: pa.Array) -> pa.Array:
    """Return bytes that are equal where the values are."""
    text = values.cast(pa.string()) if pa.types.is_decimal(values.type) else values
    return text.cast(pa.large_binary())


@dataclass(frozen=True)
class RangePart:
    """A band, inequality or not-equal: a sort key per row, ranges of such keys per probe.

    The ranges of a ``coarse`` part hold every match and a few other rows, because its keys are
    rounded; other parts or a residual decide. `bind_ranges` in `written_ranges` makes range parts.
    """

    source: Band | Inequality | NotEqual
    operands: Operands
    floating: bool
    exact: tuple[tuple[float, float], ...] = ()  # intervals of left - right, in keys
    doubles: dict[Side, tuple[DoubleInterval, ...]] = field(default_factory=dict)
    coarse: bool = False

    def keys(self, side: Side, batch: pa.RecordBatch) -> tuple[Keys, Flags | None]:
        """Return each row's key, and which rows have one."""
        if self.coarse:
            values = self.operands.own_values(side, batch)
            return sort_keys.encode_coarse(values), validity(values)
        values = self.operands.values(side, batch)
        return sort_keys.encode(values), validity(values)

    def ranges(self, side: Side, keys: Keys) -> list[Range]:
        """Return the ranges of the other side's keys that match; disjoint, ascending."""
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


COMPARISONS: dict[str, tuple[tuple[float, float], ...]] = {
    "<": ((-inf, -1),),
    "<=": ((-inf, 0),),
    ">": ((1, inf),),
    ">=": ((0, inf),),
    "<>": ((-inf, -1), (1, inf)),
}
