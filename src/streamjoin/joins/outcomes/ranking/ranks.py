"""The rank of a pair among those of its left row, as int64 keys: the least is the best.

::

    keep       keys of a pair
    nearest    distance, then the time of the right row
    first      the time of the right row; in count windows its arrival
    last       the same, the latest first

What is still level is ordered by the right rows' columns (`selection`). A distance is computed from
the keys that rows have anyway, if it is that of a band, an inequality or the window; keys are
exact, and their difference is one of 64 bits, which cannot overflow. Doubles differ as doubles.
Only an expression (``nearest=``), and decimals that no key holds, are computed for each pair.

Numbers come before NaN, NaN before NULL. A time can be NULL only where no window looks at it, and
then the row comes last.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from sqlglot import exp

from streamjoin.conditions import Condition
from streamjoin.errors import ConditionError, SchemaError, StreamJoinError
from streamjoin.expressions.evaluation import evaluate
from streamjoin.expressions.parsing import columns, read_expression
from streamjoin.joins.outcomes.ranking.selection import Ranks
from streamjoin.joins.pairs.candidates import Found, columns_of_pairs, keys_of_pairs
from streamjoin.kernels.compile import MAX_KEY, Keys, RowIds, kernel
from streamjoin.keys.bound_terms import validity
from streamjoin.keys.key_ranges import decode_double, encode_double
from streamjoin.keys.operands import Operands, Schemas, Side, empty_batch, quoted
from streamjoin.keys.sort_keys import MAX_DECIMAL_DIGITS, encode, words_of
from streamjoin.options.checked import JoinOptions
from streamjoin.options.rules import find_distance
from streamjoin.plans.binding import time_kind
from streamjoin.plans.plan import SIDES, JoinPlan

FLIP = np.int64(-(2**63))  # unsigned order as signed order
Columns = list[Keys]
Names = dict[Side, tuple[str, ...]]


class Measure(Protocol):
    """Something that pairs are ordered by."""

    @property
    def width(self) -> int:
        """How many keys it has."""
        ...

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return its keys for some pairs."""
        ...


@kernel
def subtract_keys(left: Keys, right: Keys) -> Keys:
    """Return by how much keys differ, in an order of int64."""
    keys = np.empty(left.size, np.int64)
    for i in range(left.size):
        low, high = min(left[i], right[i]), max(left[i], right[i])
        keys[i] = np.int64(np.uint64(high) - np.uint64(low)) ^ FLIP
    return keys


@kernel
def subtract_doubles(left: Keys, right: Keys) -> Keys:
    """Return the keys of the distances of doubles, which are given by their keys."""
    keys = np.empty(left.size, np.int64)
    for i in range(left.size):
        keys[i] = encode_double(abs(decode_double(left[i]) - decode_double(right[i])))
    return keys


@kernel
def subtract_words(
    left_low: Keys, left_high: Keys, right_low: Keys, right_high: Keys
) -> tuple[Keys, Keys]:
    """Return the upper and lower words of the distances of integers of 128 bits, in order."""
    upper, lower = np.empty(left_low.size, np.int64), np.empty(left_low.size, np.int64)
    for i in range(left_low.size):
        low, other_low = np.uint64(left_low[i]), np.uint64(right_low[i])
        high, other_high = left_high[i], right_high[i]
        if high < other_high or (high == other_high and low < other_low):
            low, other_low = other_low, low
            high, other_high = other_high, high
        lower[i] = np.int64(low - other_low) ^ FLIP
        upper[i] = (high - other_high - np.int64(low < other_low)) ^ FLIP
    return upper, lower


def order_values(values: pa.Array) -> Columns:
    """Return keys in the order of values, NULL last."""
    kind = values.type
    known = validity(values)
    if pa.types.is_floating(kind):
        keys = encode(values)
        return [keys if known is None else np.where(known, keys, MAX_KEY)]
    if pa.types.is_decimal(kind):
        low, high = words_of(values)
        columns = [high, low ^ FLIP]
    else:
        columns = [encode(values)]
    if known is None:
        return [np.zeros(len(values), np.int64), *columns]
    return [(~known).astype(np.int64), *(np.where(known, each, 0) for each in columns)]


@dataclass(frozen=True)
class KeyDistance:
    """The distance of the two sides of a range part, whose keys rows have."""

    part: int
    floating: bool
    width = 1

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return the distances."""
        left, right = (keys_of_pairs(found, probes, rows, side, self.part) for side in SIDES)
        return [subtract_doubles(left, right) if self.floating else subtract_keys(left, right)]


@dataclass(frozen=True)
class OperandDistance:
    """The distance of two expressions, one of each side, that no key holds exactly."""

    operands: Operands
    names: Names

    @property
    def width(self) -> int:
        """How many keys it has."""
        return 2 if pa.types.is_decimal(self.operands.type) else 1

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return the distances; the operands of pairs are never NULL."""
        sides = columns_of_pairs(found, probes, rows, self.names)
        left, right = (self.operands.values(side, sides[side]) for side in SIDES)
        if pa.types.is_decimal(left.type):
            return list(subtract_words(*words_of(left), *words_of(right)))
        distance = subtract_doubles if pa.types.is_floating(left.type) else subtract_keys
        return [distance(encode(left), encode(right))]


@dataclass(frozen=True)
class WrittenDistance:
    """The distance that ``nearest=`` gives."""

    tree: exp.Expression
    type: pa.DataType
    names: Names

    @property
    def width(self) -> int:
        """How many keys it has."""
        return len(order_values(pa.array([], self.type)))

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return the distances."""
        sides = columns_of_pairs(found, probes, rows, self.names)
        return order_values(evaluate(self.tree, left=sides["left"], right=sides["right"]))


@dataclass(frozen=True)
class RightTime:
    """The time of the right row, which the window has as a key."""

    part: int
    is_last: bool = False
    width = 1

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return the times."""
        times = keys_of_pairs(found, probes, rows, "right", self.part)
        return [~times if self.is_last else times]


@dataclass(frozen=True)
class TableTime:
    """The time of the right row, in tables that no window looks at."""

    operands: Operands
    names: Names
    is_last: bool = False
    width = 2

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return the times."""
        right = columns_of_pairs(found, probes, rows, {"right": self.names["right"]})["right"]
        is_null, times = order_values(self.operands.values("right", right))
        return [is_null, np.where(is_null, 0, ~times) if self.is_last else times]


@dataclass(frozen=True)
class TimeDistance:
    """The distance in time, in tables that no window looks at; NULL if either time is."""

    operands: Operands
    names: Names
    width = 2

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return the distances."""
        sides = columns_of_pairs(found, probes, rows, self.names)
        (no_left, left), (no_right, right) = (
            order_values(self.operands.values(side, sides[side])) for side in SIDES
        )
        is_null = no_left | no_right
        return [is_null, np.where(is_null, 0, subtract_keys(left, right))]


@dataclass(frozen=True)
class RightArrival:
    """The arrival of the right row, in count windows."""

    is_last: bool
    width = 1

    def keys(self, found: Found, probes: RowIds, rows: RowIds) -> Columns:
        """Return the ordinals of right rows."""
        ordinals = found.batch.ordinals
        assert ordinals is not None
        is_probing = found.batch.side == "right"
        arrivals = ordinals[probes] if is_probing else found.subwindow.ordinals_of(rows)
        return [~arrivals if self.is_last else arrivals]


@dataclass(frozen=True)
class Ranking:
    """All that pairs are ordered by, the most important first."""

    measures: tuple[Measure, ...]

    @property
    def parts(self) -> frozenset[int]:
        """The range parts whose keys all holders must keep."""
        return frozenset(each.part for each in self.measures if isinstance(each, KeyDistance))

    @property
    def width(self) -> int:
        """How many keys a rank has."""
        return sum(each.width for each in self.measures)

    def of(self, found: Found, probes: RowIds, rows: RowIds) -> Ranks:
        """Return the ranks of some pairs."""
        keys = [key for each in self.measures for key in each.keys(found, probes, rows)]
        return np.stack(keys, axis=1)


def bind_ranking(config: JoinOptions, condition: Condition, plan: JoinPlan) -> Ranking:
    """Bind what ``keep`` goes by to two schemas; refuse a distance that is none."""
    is_last = config.keep == "last"
    if config.keep != "nearest":
        return Ranking((bind_time(config, plan, is_last),))
    measures = [bind_distance(config, condition, plan)]
    if config.time is not None:
        measures.append(bind_time(config, plan, is_last))
    return Ranking(tuple(measures))


def bind_time(config: JoinOptions, plan: JoinPlan, is_last: bool) -> Measure:
    """Return the time of right rows, or their arrival."""
    if plan.time_part is not None:
        return RightTime(plan.time_part, is_last)
    if plan.counted is not None:
        return RightArrival(is_last)
    return TableTime(*bind_times(config, plan.schemas), is_last)


def bind_times(config: JoinOptions, schemas: Schemas) -> tuple[Operands, Names]:
    """Return the time columns of tables that are joined without a window."""
    assert config.time is not None
    kinds = [
        time_kind(schemas[side], name, side) for side, name in zip(SIDES, config.time, strict=True)
    ]
    if kinds[0] != kinds[1]:
        raise SchemaError(
            f"the time columns are {kinds[0]} ({config.time[0]!r}, left) and {kinds[1]} "
            f"({config.time[1]!r}, right); make both timestamps or dates, or both integers"
        )
    left, right = (quoted(alias, name) for alias, name in zip("lr", config.time, strict=True))
    names: Names = {side: (name,) for side, name in zip(SIDES, config.time, strict=True)}
    return Operands.bind(left, right, schemas), names


def bind_distance(config: JoinOptions, condition: Condition, plan: JoinPlan) -> Measure:
    """Return the distance that is asked for, or the one that suggests itself."""
    if config.nearest is not None:
        return bind_written(config.nearest, plan.schemas)
    source = find_distance(condition, config.time is not None, not config.is_counted)
    if source is None:
        if plan.time_part is not None:
            return KeyDistance(plan.time_part, False)
        return TimeDistance(*bind_times(config, plan.schemas))
    operands = Operands.bind(source.left, source.right, plan.schemas)
    kind = operands.type
    is_long = pa.types.is_decimal(kind) and kind.precision > MAX_DECIMAL_DIGITS
    if operands.key_type is None and not pa.types.is_decimal(kind):
        raise ConditionError(
            f"keep='nearest': {source.left} and {source.right} are {kind}, which has no distance; "
            "say what it is, a number or an interval, as in nearest='abs(l.x - r.x)'"
        )
    for number, part in enumerate(plan.ranges):
        if part.source == source and not part.coarse and not is_long:
            return KeyDistance(number, part.floating)
    return OperandDistance(operands, names_of(*operands.expressions.values()))


def bind_written(text: str, schemas: Schemas) -> WrittenDistance:
    """Read a distance; refuse what is neither a number nor an interval."""
    left, right = (schemas[side] for side in SIDES)
    try:
        tree = read_expression(text, left, right)
        kind = evaluate(tree, left=empty_batch(left), right=empty_batch(right)).type
    except StreamJoinError as error:
        raise type(error)(f"nearest={text!r}: {error}") from error
    check_type(text, kind)
    return WrittenDistance(tree, kind, names_of(tree))


def check_type(text: str, kind: pa.DataType) -> None:
    """Refuse a distance that is neither a number nor an interval."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (is_number or pa.types.is_duration(kind)):
        raise ConditionError(
            f"nearest={text!r} is of type {kind}, and a distance is a number or an interval; "
            "write one, such as abs(l.x - r.x)"
        )


def names_of(*trees: exp.Expression) -> Names:
    """Return the columns that expressions look at."""
    found = [pair for tree in trees for pair in columns(tree)]
    return {
        "left": tuple(sorted({name for alias, name in found if alias == "l"})),
        "right": tuple(sorted({name for alias, name in found if alias == "r"})),
    }
