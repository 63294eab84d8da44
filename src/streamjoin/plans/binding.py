"""Binding: a condition and a window, and two schemas, make a plan.

What can be wrong with types and columns is found here, before the first row.
"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor, inf
from typing import Any

import pyarrow as pa
from sqlglot import exp

from streamjoin.conditions import Band, Bound, Condition, Equality, Interval
from streamjoin.errors import ConditionError, SchemaError
from streamjoin.expressions.depth import balance
from streamjoin.expressions.evaluation import evaluate
from streamjoin.expressions.parsing import columns, read_expression, sides
from streamjoin.keys.bound_terms import EqualityPart, RangePart
from streamjoin.keys.operands import Operands, Schemas, Side, empty_batch, quoted
from streamjoin.keys.sort_keys import keys_per_second
from streamjoin.keys.window_part import WindowPart
from streamjoin.keys.written_ranges import bind_ranges
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.windows import Shape, Window


def bind(
    condition: Condition, window: Window | None, time: tuple[str, str] | None, schemas: Schemas
) -> JoinPlan:
    """Bind a condition and a window to the two schemas."""
    equalities: tuple[EqualityPart, ...] = tuple(
        EqualityPart.bind(part, schemas) for part in condition.equalities
    )
    ranges: list[RangePart] = []
    texts = [part.expression for part in condition.residuals]
    for part in condition.ranges():
        bound = bind_ranges(part, schemas)
        ranges += bound.parts
        texts += [] if bound.residual is None else [bound.residual]
    shape = Shape() if window is None else window.shape
    time_part, implied, longest_pause = None, frozenset[int](), None
    if window is not None and window.is_timed:
        assert time is not None
        time_part = len(ranges)
        ranges.append(bind_time(shape, time, schemas))
    if shape.buckets_us is not None:
        equalities = (*equalities, bind_buckets(shape.buckets_us, ranges[-1]))
        implied = frozenset([len(ranges) - 1])
    if shape.gap_us is not None:
        implied = frozenset([len(ranges) - 1])
        longest_pause = floor(in_ticks(shape.gap_us, ranges[-1]))
    filters: dict[Side, list[exp.Expression]] = {"left": [], "right": []}
    compared = [part.columns for part in equalities if part.columns is not None]
    residuals = [
        tree for part in equalities if part.columns is None and (tree := part.residual) is not None
    ]
    for text in texts:
        tree = read_expression(text, schemas["left"], schemas["right"])
        check_boolean(tree, text, schemas)
        used = sides(tree)
        if used <= {"l"}:  # a constant condition too
            filters["left"].append(tree)
        elif used == {"r"}:
            filters["right"].append(tree)
        else:
            residuals.append(tree)
    needed = [pair for tree in residuals for pair in columns(tree)]
    needed += [pair for names in compared for pair in zip("lr", names, strict=True)]
    return JoinPlan(
        schemas,
        equalities,
        tuple(ranges),
        time_part,
        {side: conjunction(trees) for side, trees in filters.items()},
        tuple(residuals),
        tuple(compared),
        {
            "left": tuple(sorted({name for side, name in needed if side == "l"})),
            "right": tuple(sorted({name for side, name in needed if side == "r"})),
        },
        None if shape.counts is None else dict(zip(SIDES, shape.counts, strict=True)),
        implied,
        longest_pause,
        closes=window is not None and window.closes,
    )


def conjunction(trees: list[exp.Expression]) -> exp.Expression | None:
    """Join conditions by AND, in their order; None if there are none."""
    joined: Any = balance(exp.and_(*trees, copy=False)) if trees else None
    return joined


def check_boolean(tree: exp.Expression, text: str, schemas: Schemas) -> None:
    """Refuse an expression that cannot be evaluated, or that is no condition."""
    found = evaluate(
        tree, left=empty_batch(schemas["left"]), right=empty_batch(schemas["right"])
    ).type
    if not (pa.types.is_boolean(found) or pa.types.is_null(found)):
        raise ConditionError(
            f"{text} is of type {found}, and a condition must be true or false; compare it with "
            "something"
        )


def in_ticks(microseconds: int, time: RangePart) -> Fraction:
    """Return a duration in keys of the time columns, exactly."""
    return Fraction(microseconds, 1_000_000) * keys_per_second(time.operands.type)


def bind_buckets(buckets_us: tuple[int, int], time: RangePart) -> WindowPart:
    """Turn stretches of time, of a length and from an offset, into an equality of their numbers."""
    expressions = time.operands.expressions
    source = Equality(expressions["left"].sql("spark"), expressions["right"].sql("spark"))
    length, offset = (in_ticks(each, time) for each in buckets_us)
    return WindowPart(source, time.operands, True, time, length, offset)


def bind_time(shape: Shape, time: tuple[str, str], schemas: Schemas) -> RangePart:
    """Turn the window into a band over the time columns: -after <= l.t - r.t <= before.

    Times in the same bucket are less than its length apart, those in the same session anything.
    """
    kinds = [time_kind(schemas[side], name, side) for side, name in zip(SIDES, time, strict=True)]
    if kinds[0] != kinds[1]:
        raise SchemaError(
            f"the time columns are {kinds[0]} ({time[0]!r}, left) and {kinds[1]} ({time[1]!r}, "
            "right); make both timestamps or dates, or both integers (milliseconds)"
        )

    def end(microseconds: int) -> Bound:
        if kinds[0] == "integer":
            return Bound(Decimal(microseconds) / 1000)
        return Bound(timedelta(microseconds=microseconds))

    if shape.band_us is not None:
        interval = Interval(*map(end, shape.band_us))
    else:
        length = shape.gap_us if shape.buckets_us is None else shape.buckets_us[0]
        assert length is not None
        interval = Interval(replace(end(-length), closed=False), replace(end(length), closed=False))
    left, right = quoted("l", time[0]), quoted("r", time[1])
    [part] = bind_ranges(Band(left, right, (interval,)), schemas).parts
    return part if shape.gap_us is None else replace(part, exact=((-inf, inf),))


def time_kind(schema: pa.Schema, name: str, side: str) -> str:
    """Check that a time column exists and is one."""
    if name not in schema.names:
        raise SchemaError(
            f"the {side} time column {name!r} is not there; the {side} columns are "
            f"{', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp"
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return "integer"
    raise SchemaError(
        f"the {side} time column {name!r} is {kind}; times are timestamps, dates or signed "
        "integers (milliseconds): cast it first"
    )


def bind_order(order: tuple[str, str], schemas: dict[Side, pa.Schema]) -> Operands:
    """Resolve the order columns, and refuse what has no common order."""
    for side, name in zip(SIDES, order, strict=True):
        if name not in schemas[side].names:
            raise SchemaError(
                f"the {side} order column {name!r} is not there; the {side} columns are "
                f"{', '.join(schemas[side].names)}"
            )
    operands = Operands.bind(quoted("l", order[0]), quoted("r", order[1]), schemas)
    if operands.key_type is None:
        raise SchemaError(
            f"the order columns {order[0]!r} and {order[1]!r} are compared as {operands.type}; "
            "order by a number, a date or a timestamp"
        )
    return operands
