"""Aggregates over the matches of each left row: drawn, and computed by DuckDB and by Python.

DuckDB counts, compares and adds what it adds exactly. Sums of doubles are Python's `fsum`, which
rounds once; streamjoin's may be off by what twice the precision of a double leaves (`Near`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import fsum, isfinite, isnan
from random import Random
from typing import Any

import pyarrow as pa

from .conjuncts import Term, column, draw_distance
from .rows import EXACT, FACTORS, Column

NUMBERS = ("integer", "decimal", "double", "float")
SAFE_DIGITS = 23  # before the point, of decimals that DuckDB adds without an overflow
HUGE = 1e300  # where sums of doubles may overflow on the way


@dataclass(frozen=True)
class Aggregate:
    """A function of a term, or of whole pairs."""

    function: str
    term: Term | None = None

    @property
    def text(self) -> str:
        """As streamjoin reads it."""
        return f"{self.function}({'*' if self.term is None else self.term.read})"

    def columns(self, by_time: str) -> list[str]:
        """What DuckDB is asked for."""
        if self.term is None:
            return ["count(*)"]
        value = f"({self.term.duck})"
        if self.function in ("first", "last"):
            return [f"first({value} order by {by_time})"]
        if self.function not in ("sum", "avg"):
            return [f"{self.function}({value})"]
        if self.term.kind in ("double", "float"):
            return [f"list({value}::double) filter (where {value} is not null)"]
        return [f"sum({value})", f"count({value})"]

    def value(self, given: Sequence[Any]) -> Any:
        """The aggregate, from what DuckDB has said."""
        if self.function not in ("sum", "avg"):
            return canonical(given[0])
        assert self.term is not None
        if self.term.kind in ("double", "float"):
            return add_doubles(given[0] or [], self.function == "avg")
        total, count = given
        if not count or self.function == "sum":
            return None if not count else total
        if self.term.kind == "integer":
            return Near(float(Fraction(total, count)), 0.0)
        unit = Decimal(1).scaleb(-self.term.digits[1] - 4)
        return EXACT.divide(total, count).quantize(unit, ROUND_HALF_UP, EXACT)


@dataclass(frozen=True, eq=False)
class Near:
    """A double that need not be met exactly; equal to itself alone."""

    value: float
    slack: float

    def __repr__(self) -> str:
        return f"{self.value!r}"

    def is_met(self, found: Any) -> bool:
        """Whether a value is as good."""
        if found == "NaN" or isnan(self.value):
            return (found == "NaN" and isnan(self.value)) or self.slack > HUGE
        if not isinstance(found, float):
            return False
        if found == self.value or self.slack > HUGE:
            return True
        return abs(found - self.value) <= 1e-14 * abs(self.value) + 1e-28 * self.slack


def add_doubles(values: Sequence[float], is_mean: bool) -> Any:
    """The sum, or the mean."""
    if not values:
        return None
    size = sum(abs(each) for each in values if isfinite(each))
    special = [each for each in values if not isfinite(each)]
    total = sum(special) if special else fsum(values) if size < HUGE else 0.0
    return Near(total / len(values) if is_mean else total, size)


def canonical(value: Any) -> Any:
    """A value that equals what SQL says it equals."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0
    return value


def plain_values(array: pa.ChunkedArray) -> list[Any]:
    """The values of an aggregate as DuckDB has them: times in nanoseconds."""
    type = array.type
    if pa.types.is_temporal(type):
        factor = 86_400 * 10**9 if pa.types.is_date(type) else FACTORS[type.unit]
        if pa.types.is_date(type):
            array = array.cast(pa.date32())
        wide = pa.int32() if array.type.bit_width == 32 else pa.int64()
        whole = array.cast(wide).to_pylist()
        return [None if each is None else each * factor for each in whole]
    return [canonical(each) for each in array.to_pylist()]


def align(row: tuple[Any, ...], expected: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """A row with what is expected in place of doubles that are as good."""
    if expected is None or len(expected) != len(row):
        return row
    pairs = zip(row, expected, strict=True)
    return tuple(want if isinstance(want, Near) and want.is_met(got) else got
                 for got, want in pairs)  # fmt: skip


def draw_aggregates(
    dice: Random, columns: dict[str, list[Column]], has_time: bool
) -> tuple[Aggregate, ...]:
    """Draw one to four."""
    drawn = []
    for _ in range(dice.choice([1, 2, 2, 3, 4])):
        if dice.random() < 0.15:
            drawn.append(Aggregate("count"))
            continue
        side = dice.choice("rrrrrl")
        term = column(each := dice.choice(columns[side]))
        is_wide = each.type == pa.uint64()  # a decimal to sums, as in Spark
        if dice.random() < 0.2:
            both = draw_distance(dice, dice.choice(columns["l"]), dice.choice(columns["r"]))
            if both is not None and both.kind in NUMBERS:
                term, is_wide = both, both.kind == "integer"
        functions = ["count", "min", "max", *(["first", "last"] * has_time)]
        if (
            term.kind in NUMBERS
            and not is_wide
            and (term.kind != "decimal" or term.digits[0] - term.digits[1] <= SAFE_DIGITS)
        ):
            functions += ["sum", "avg"] * 2
        if term.duck is not None:
            drawn.append(Aggregate(dice.choice(functions), term))
    return tuple(drawn) or (Aggregate("count"),)
