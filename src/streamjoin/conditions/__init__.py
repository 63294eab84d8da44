"""Join conditions: turns SQL text into a conjunction of parts that a join can use."""

from streamjoin.conditions.intervals import Bound, Interval
from streamjoin.conditions.recognition import parse_condition, recognise
from streamjoin.conditions.sqltext import aliases, swap_aliases
from streamjoin.conditions.terms import (
    Band,
    Condition,
    Equality,
    Inequality,
    NotEqual,
    Part,
    Residual,
    describe,
    equate_points,
    is_symmetric,
)

__all__ = [
    "Band",
    "Bound",
    "Condition",
    "Equality",
    "Inequality",
    "Interval",
    "NotEqual",
    "Part",
    "Residual",
    "aliases",
    "describe",
    "equate_points",
    "is_symmetric",
    "parse_condition",
    "recognise",
    "swap_aliases",
]
