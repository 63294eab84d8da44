"""Join conditions: SQL text in, a conjunction of parts that a join can use out."""

from streamjoin.predicates.intervals import Bound, Interval
from streamjoin.predicates.parts import (
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
from streamjoin.predicates.recognition import parse_condition, recognise
from streamjoin.predicates.sqltext import aliases, swap_aliases

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
