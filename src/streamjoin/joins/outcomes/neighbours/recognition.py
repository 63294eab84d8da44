"""As-of joins: the one right row that each left row keeps, found without looking at its matches.

Which row is kept follows from the order of one key alone if all that decides whether two rows match
are equalities and how far the keys are apart, and what decides which match is kept is the same key:
the distance of ``keep="nearest"``, or the time of ``"first"`` and ``"last"``. Then each left row
asks for the last right row up to a *bound*, or for the one after it::

                  right rows of the same equalities, by their key
                  ...  7    8    8   11   13   16   ...

    l = 12, last of l >= r                 11           bound 12
    first of l < r                              13      bound 12, and one further
    nearest                                11   13      both: level; the one of an earlier time
    last of r + 4 <= l       8    8                     bound 8: two that are equal

The kernels of `seeking` find them in one pass over both sides in the order of their keys. If rows
have come in that order, nothing is sorted, which one pass over the keys tells; otherwise the keys
of a side are sorted first, with their rows.

What the order does not decide:

* Keys that are equal, and distances that are level: these rows alone are compared, by their time
  and their columns (`level_rows`), once for all left rows that found them.
* Doubles whose distances are rounded to the same number, and left rows at infinity or NaN, from
  which all are equally far: `Kept.is_open` marks these rows, and for them alone all pairs are found
  (`keep`).
* Where k rows are kept, the keys on both sides are walked along. If the last that is kept is level
  with the first that is not, the row is open, too.
* Texts have hashes as keys. The values are compared once a row is kept. It may be the wrong one
  only if hashes are equal and values are not; then nothing here counts, and the same goes for keys
  at the edges of int64.

Invariants:
    1. A left row has kept a row if and only if it has a match.
    2. What is kept is in the range that the condition allows, and has equal equalities.
    3. No right row of that range and these equalities comes before it in rank.

Cost: O(n + m) time if both sides are in order; 4 bytes for each left row, and 8 to 16 more for each
row of either side if keys are wide, rows unordered, or both neighbours are needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from streamjoin.conditions import Inequality, NotEqual
from streamjoin.expressions.parsing import sides
from streamjoin.joins.outcomes.ranking.ranks import (
    KeyDistance,
    Measure,
    Ranking,
    RightTime,
    TableTime,
    TimeDistance,
    WrittenDistance,
    order_values,
)
from streamjoin.kernels.compile import Keys
from streamjoin.keys.bound_terms import RangePart
from streamjoin.keys.operands import Operands, Side
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared

Keep = Literal["nearest", "first", "last"]

MOST_NEIGHBOURS = 16  # that are kept; beyond it they are found as pairs
BOTH_SIDES: tuple[Side, ...] = ("left", "right")
RIGHT: tuple[Side, ...] = ("right",)
# Types of which a difference is exact, or is rounded as keys are. It may overflow in others.
SUBTRACTED = (pa.int32(), pa.int64(), pa.float32(), pa.float64())


def recognise(plan: JoinPlan, ranking: Ranking, k: int = 1) -> "Neighbours | None":
    """Return the search for the rows that are kept, if the order of one key decides which."""
    if plan.residuals or plan.counted is not None or plan.longest_pause is not None:
        return None
    first, *others = ranking.measures
    is_time = isinstance(first, RightTime | TableTime)
    compared = RIGHT if is_time else BOTH_SIDES
    by = operands_of(first, plan)
    bounds = [plan.ranges[part] for part in plan.open_ranges]
    if by is None or not all(is_usable(part) for part in bounds):
        return None
    if not all(is_same(part.operands, by, compared) for part in bounds):
        return None
    if not all(is_like(part, bounds[0]) for part in bounds):
        return None
    place = next(
        (
            number
            for number in (*plan.open_ranges, *sorted(plan.implied))
            if is_same(plan.ranges[number].operands, by, compared)
        ),
        None,
    )
    if place is None and by.key_type is None:
        return None
    part = unbounded(by) if place is None else plan.ranges[place]
    if k > MOST_NEIGHBOURS or (k > 1 and part.floating):
        return None
    keep: Keep = "nearest"
    if isinstance(first, RightTime | TableTime):
        keep = "last" if first.is_last else "first"
    single = isinstance(first, WrittenDistance) and pa.types.is_float32(by.type)
    return Neighbours(plan, part, place, keep, tuple(others), single, k)


def operands_of(measure: Measure, plan: JoinPlan) -> Operands | None:
    """Return the expressions of both sides that a measure looks at, if it looks at no more."""
    if isinstance(measure, KeyDistance | RightTime):
        return plan.ranges[measure.part].operands
    if isinstance(measure, TableTime | TimeDistance):
        return measure.operands
    if not isinstance(measure, WrittenDistance):
        return None
    tree = measure.tree.unnest()
    difference = tree.this.unnest() if isinstance(tree, exp.Abs) else None
    if not isinstance(difference, exp.Sub):
        return None
    texts = {
        alias: each.unnest().sql("spark")
        for each in (difference.this, difference.expression)
        for alias in sides(each)
    }
    if len(sides(difference.this)) != 1 or len(sides(difference.expression)) != 1:
        return None
    if set(texts) != {"l", "r"}:
        return None
    operands = Operands.bind(texts["l"], texts["r"], plan.schemas)
    kind = operands.type
    has_difference = kind in SUBTRACTED or pa.types.is_timestamp(kind)
    return operands if operands.same_type and has_difference else None


def is_same(one: Operands, other: Operands, sides: Sequence[Side]) -> bool:
    """Tell whether two parts compare the same expressions, in the same type."""
    if one is other:
        return True
    return one.type == other.type and all(
        one.expressions[side].sql("spark") == other.expressions[side].sql("spark") for side in sides
    )


def is_like(one: RangePart, other: RangePart) -> bool:
    """Tell whether two parts have the same keys."""
    return one.floating == other.floating and is_same(one.operands, other.operands, BOTH_SIDES)


def is_usable(part: RangePart) -> bool:
    """Tell whether the rows that a part allows are one range of exact keys."""
    if part.coarse or isinstance(part.source, NotEqual):
        return False
    if part.doubles:
        return all(len(intervals) == 1 for intervals in part.doubles.values())
    return len(part.exact) == 1


def unbounded(operands: Operands) -> RangePart:
    """Return a part that gives keys, and allows all."""
    assert operands.key_type is not None
    left, right = (operands.expressions[side].sql("spark") for side in BOTH_SIDES)
    source = Inequality(left, ">=", right)
    return RangePart(source, operands, operands.key_type.floating, exact=((-inf, inf),))


@dataclass(frozen=True)
class Neighbours:
    """How to find the rows that are kept; see the module docstring."""

    plan: JoinPlan
    part: RangePart  # has the keys
    place: int | None  # of the part among the plan's, if it is one
    keep: Keep
    level: tuple[Measure, ...]  # what decides first where distances are level
    single: bool  # whether distances are rounded to 32 bits
    k: int = 1  # how many rows are kept

    @cached_property
    def bounds(self) -> list[RangePart]:
        """The parts that say which keys match."""
        return [self.plan.ranges[part] for part in self.plan.open_ranges]

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest difference, left - right, of keys that match."""
        lows, highs = [-inf], [inf]
        for part in self.bounds:
            [(low, high)] = part.exact
            lows.append(low)
            highs.append(high)
        return max(lows), min(highs)

    def keys_of(self, batch: Prepared) -> Keys | None:
        """Return the keys of rows; None if some have none."""
        if self.place is not None:
            return batch.keys.ranges[self.place]
        keys, has_key = self.part.keys(batch.side, batch.rows)
        return keys if has_key is None else None

    @property
    def is_by_key(self) -> bool:
        """Whether of two rows whose distances are level, the one of the lesser key counts."""
        found = [operands_of(each, self.plan) for each in self.level]
        return bool(found) and found[0] is not None and is_same(found[0], self.part.operands, RIGHT)

    def ranks_of(self, right: Prepared) -> tuple[Keys, ...]:
        """Return what decides before the columns of right rows where keys are level."""
        ranks: list[Keys] = []
        for measure in self.level:
            if isinstance(measure, RightTime):
                ranks.append(right.keys.ranges[measure.part])
            else:
                assert isinstance(measure, TableTime)
                ranks += order_values(measure.operands.values("right", right.rows))
        return tuple(ranks)
