"""Bands of floating-point numbers, laid out for the kernel that finds their exact ranges."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa

from streamjoin.conditions import Band, Bound
from streamjoin.errors import SchemaError
from streamjoin.kernels.compile import Keys
from streamjoin.keys import key_ranges
from streamjoin.keys.key_ranges import (
    DIFFERENCE,
    SHIFT_PROBE,
    SHIFT_STORED,
    WIDE_PROBE,
    WIDE_STORED,
    Range,
)
from streamjoin.keys.operands import Schemas, Side, type_of

FORMS = {
    "left": {"difference": DIFFERENCE, "shift_left": SHIFT_PROBE, "shift_right": SHIFT_STORED},
    "right": {"difference": DIFFERENCE, "shift_left": SHIFT_STORED, "shift_right": SHIFT_PROBE},
}


@dataclass(frozen=True)
class DoubleInterval:
    """An interval of doubles, its ends laid out for the kernel ``double_ranges``."""

    low: Keys
    high: Keys

    @property
    def nan_apart(self) -> bool:
        """Whether stored NaNs match in addition to the range of numbers."""
        ends = [end for end in (self.low, self.high) if end[0]]
        return all(end[2] == DIFFERENCE and end[5] for end in ends)


def bind_doubles(source: Band, schemas: Schemas) -> dict[Side, tuple[DoubleInterval, ...]]:
    """Lay out a band's intervals for the kernel, for each probing side, ranges ascending."""

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


def bind_coarse(source: Band, slack: float) -> dict[Side, tuple[DoubleInterval, ...]]:
    """Lay out a band's intervals, each end moved outwards by ``slack`` and the error of doubles."""

    def end(bound: Bound | None, side: Side, outwards: float) -> Keys:
        if bound is None:
            return np.zeros(6, np.int64)
        assert not isinstance(bound.value, timedelta)
        value = float(bound.value) + outwards
        bits = np.float64(value if side == "left" else -value).view(np.int64)
        is_probe = (bound.form == "shift_left") == (side == "left")
        form = WIDE_PROBE if is_probe else WIDE_STORED
        return np.array([1, bits, form, False, False, False], np.int64)

    left, right = [], []
    for part in source.intervals:
        left.append(DoubleInterval(end(part.lower, "left", -slack), end(part.upper, "left", slack)))
        right.append(
            DoubleInterval(end(part.upper, "right", slack), end(part.lower, "right", -slack))
        )
    return {"left": tuple(reversed(left)), "right": tuple(right)}


def is_single(source: Band, bound: Bound, schemas: Schemas) -> bool:
    """Tell whether Spark rounds the arithmetic of this bound to 32 bits."""
    shift = bound.value if isinstance(bound.value, Decimal) else repr(bound.value) + "D"
    text = {
        "difference": f"({source.left}) - ({source.right})",
        "shift_left": f"({source.left}) + {shift}",
        "shift_right": f"({source.right}) + {shift}",
    }[bound.form]
    return pa.types.is_float32(type_of(text, schemas["left"], schemas["right"]))


def find_double_ranges(intervals: tuple[DoubleInterval, ...], keys: Keys) -> list[Range]:
    """Return the stored keys that each probing key matches; ascending and disjoint."""
    ranges = []
    for interval in intervals:
        lower, upper = np.empty_like(keys), np.empty_like(keys)
        key_ranges.double_ranges(keys, interval.low, interval.high, lower, upper)
        ranges.append((lower, upper))
    if any(interval.nan_apart for interval in intervals):
        lower, upper = np.empty_like(keys), np.empty_like(keys)
        key_ranges.nan_ranges(keys, lower, upper)
        ranges.append((lower, upper))
    return key_ranges.make_disjoint(ranges) if len(ranges) > 1 else ranges
