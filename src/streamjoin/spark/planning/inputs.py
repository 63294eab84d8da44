"""From DataFrames and a condition to what the cores need, and what Spark does itself.

Spark evaluates every expression, so that answers are its own in any time zone and for any function
it knows; Python sees columns only::

    l.kind = 'x' and abs(ln(l.a) - r.b) <= 0.1 and l.name like r.pattern
      left rows       where l.kind = 'x'                 a condition on one side: before the join
      key             ln(l.a) as a separate column       abs(l.`key` - r.b) <= 0.1 in the cores
      joined rows     where l.name like r.pattern        anything else: over the candidate pairs

That is an inner join. Where rows are given that match nothing, none of them may be left out before
the join: a column says which of them may match. And where it counts whether a row matches, or which
of its matches are kept, nothing may be left out after the join: the cores check the pairs
(`pair_expressions`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from streamjoin.conditions import Band, Condition, Equality, Inequality, NotEqual, Residual
from streamjoin.errors import SchemaError, StreamJoinError
from streamjoin.expressions.aggregates import parse_aggregates
from streamjoin.expressions.parsing import qualify, read_expression, sides
from streamjoin.joins.outcomes.outcome import MATCH
from streamjoin.joins.outcomes.ranking.ranks import bind_distance, check_type
from streamjoin.keys.operands import Schemas, Side, quoted, type_of
from streamjoin.options.checked import JoinOptions
from streamjoin.options.rules import check_equality, check_key
from streamjoin.plans.batches import check_unique
from streamjoin.plans.binding import bind
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.spark.planning.computed_keys import ALIASES, KEY, ComputedKeys, Keyed, spark_text
from streamjoin.spark.planning.pair_expressions import PairExpressions
from streamjoin.spark.planning.schemas import arrow_schema, joined_names
from streamjoin.spark.session import semantic_settings
from streamjoin.spark.state.join_facts import Request, describe_kind


@dataclass(frozen=True)
class Inputs:
    """The two DataFrames with computed keys, and what is left for Spark to filter."""

    frames: dict[Side, DataFrame]
    columns: dict[Side, tuple[str, ...]]  # the user's; the frames may have key columns after them
    config: JoinOptions
    schemas: dict[Side, pa.Schema]  # of the frames
    filters: tuple[tuple[Side, str], ...]  # conditions on one side's rows, applied to the frames
    computed: tuple[tuple[str, str], ...]  # key expressions, and the columns that hold them
    residuals: tuple[str, ...]  # conditions on joined rows
    flagged: tuple[tuple[Side, str], ...] = ()  # conditions on one side's rows, in columns of flags
    request: Request | None = None  # as the user wrote it, if it was rewritten

    def plan(self) -> JoinPlan:
        """Bind the condition to the frames' columns."""
        condition = self.config.condition(self.schemas["left"], self.schemas["right"])
        return bind(condition, self.config.window, self.config.time, self.schemas)

    @property
    def output(self) -> list[str]:
        """The names of the joined columns."""
        return joined_names(self.columns["left"], self.columns["right"])

    @property
    def extra_columns(self) -> list[str]:
        """The columns after these: what tells what rows are, and the order of pairs."""
        ordering = self.config.ordering
        match = [MATCH] if self.config.indicator else []
        return match + ([] if ordering is None else ordering.names)


def prepare_inputs(left: DataFrame, right: DataFrame, config: JoinOptions) -> Inputs:
    """Split the condition between Spark and the cores; see the module docstring."""
    frames: dict[Side, DataFrame] = {"left": left, "right": right}
    schemas = {side: arrow_schema(frame.schema, side) for side, frame in frames.items()}
    for side, schema in schemas.items():
        check_unique(schema, side)
        taken = [name for name in schema.names if name.startswith(KEY)]
        if taken:
            raise SchemaError(
                f"the {side} input has a column {taken[0]!r}; names that begin with {KEY!r} are "
                "used by streamjoin: rename it"
            )
    condition = config.condition(schemas["left"], schemas["right"])
    filters: dict[Side, list[str]] = {"left": [], "right": []}
    pairwise: list[exp.Expression] = []
    for part in condition.residuals:
        tree = read_expression(part.expression, schemas["left"], schemas["right"])
        used = sides(tree)
        if used == {"r"}:
            filters["right"].append(spark_text(tree))
        elif used <= {"l"}:
            filters["left"].append(spark_text(tree))
        else:
            pairwise.append(tree)
    counted = find_counted(config, left.isStreaming)
    keys = ComputedKeys(frames, filters, schemas, counted, is_guarded=not config.follows_rows)
    parts: list[Keyed] = []
    for each in (*condition.equalities, *condition.ranges()):
        keyed, exact = keys.compute(each)
        if keyed is not None:
            parts.append(keyed)
        if not exact:
            pairwise.append(read_expression(each.sql(), schemas["left"], schemas["right"]))
    inside: list[Residual] = []
    residuals = [spark_text(tree) for tree in pairwise]
    kept: dict[str, Any] = {}
    if needs_every_pair(config):
        pairs = PairExpressions(keys, left.sparkSession)
        inside = [Residual(pairs.bind(tree, "condition")) for tree in pairwise]
        residuals, kept = [], bind_kept(config, pairs, schemas)
    computed = Condition(
        tuple(part for part in parts if isinstance(part, Equality)),
        tuple(part for part in parts if isinstance(part, Band)),
        tuple(part for part in parts if isinstance(part, Inequality)),
        tuple(part for part in parts if isinstance(part, NotEqual)),
        (*(Residual(flag) for flag in keys.flags()), *inside),
    )
    has_key = bool(parts) or config.is_timed
    check_equality(config.algorithm, bool(computed.equalities), config.on)
    check_key(config.algorithm, has_key, config.on)
    columns = {side: tuple(schema.names) for side, schema in schemas.items()}
    time = config.time and keys.compute_times(config.time)
    read = tuple(keys.columns_read())
    is_evaluated = bool(read or residuals or any(filters.values()))
    conditions = [(side, text) for side, texts in filters.items() for text in texts]
    settings = semantic_settings(left.sparkSession) if is_evaluated else ()
    inputs = Inputs(
        {side: keys.frame(side) for side in SIDES},
        columns,
        replace(config, on=computed.sql(), time=time, **kept),
        keys.schemas,
        tuple(each for each in conditions if each[0] not in counted),
        tuple(item for names in keys.names.values() for item in names.items()),
        tuple(residuals),
        tuple(each for each in conditions if each[0] in counted),
        Request(config.on, config.time, read, settings, describe_kind(config)),
    )
    check_default_distance(inputs)
    return inputs


def bind_kept(config: JoinOptions, pairs: PairExpressions, schemas: Schemas) -> dict[str, Any]:
    """Return distance and aggregates over columns that the cores have."""
    left, right = schemas["left"], schemas["right"]
    nearest = config.nearest
    if nearest is not None:
        with name_place(f"nearest={nearest!r}"):
            tree = read_expression(nearest, left, right)
        nearest = pairs.bind(tree, "nearest")
        known = pairs.keys.schemas
        check_type(config.nearest or "", type_of(nearest, known["left"], known["right"]))
    aggregates = []
    for each in parse_aggregates(config.aggregate):
        text = each.text
        if each.argument is not None:
            with name_place(f"aggregate {each.name!r}: {text!r}"):
                tree = qualify(each.argument, left, right)
            argument = pairs.bind(tree, f"aggregate {each.name!r}")
            text = f"{each.function}({argument})"
        aggregates.append((each.name, text))
    return {"nearest": nearest, "aggregate": tuple(aggregates)}


@contextmanager
def name_place(place: str) -> Iterator[None]:
    """Say in which option a column is that is not there."""
    try:
        yield
    except SchemaError as error:
        raise SchemaError(f"{place}: {error}") from error


def check_default_distance(inputs: Inputs) -> None:
    """Refuse to keep the nearest by something that has no distance, before workers would."""
    config = inputs.config
    if config.keep == "nearest" and config.nearest is None:
        condition = config.condition(inputs.schemas["left"], inputs.schemas["right"])
        bind_distance(config, condition, inputs.plan())


def find_counted(config: JoinOptions, is_streaming: bool) -> frozenset[Side]:
    """Return the sides of which no row may be left out before the join."""
    if config.follows_rows:  # rows that cannot match make sessions longer
        return frozenset(SIDES)
    if is_streaming and (config.is_counted or config.ordering is not None):
        return frozenset(SIDES)
    if config.unmatched == "early":  # any row may be the newest
        return frozenset(SIDES)
    late = config.how.sides if config.late == "keep" else ()
    return config.how.alone.union(late)


def find_homes(config: JoinOptions) -> frozenset[Side]:
    """Return the sides whose rows must find all their matches in one core, if there are any."""
    return config.how.follows | {"left"} if config.reduces else config.how.follows


def needs_every_pair(config: JoinOptions) -> bool:
    """Whether it must be known inside the join which pairs match: not if pairs are all there is."""
    return bool(config.how.follows) or config.reduces or config.late == "keep"


def choose_routing(
    plan: JoinPlan, config: JoinOptions, routing: str, tables: bool
) -> tuple[str, str]:
    """Return the routing and the reason for it; refuse one that does not fit."""
    part = range_part(plan, tables)
    counted = config.is_counted
    if counted or config.ordering is not None:
        if routing not in ("auto", "split"):
            misfit = "a CountWindow" if counted else f"ordered={config.ordered!r}"
            raise StreamJoinError(
                f"routing={routing!r} does not fit {misfit}: every core has to see all rows to "
                "number them; use 'split' or 'auto'" + ("" if counted else ", or ordered='none'")
            )
        return "split", "every core numbers all rows, and stores its turn"
    equal = plan.own_equalities
    if config.joins_apart(plan) and not equal:
        if routing not in ("auto", "split"):
            raise StreamJoinError(
                f"routing={routing!r} does not fit {config.window}, whose rows are joined when it "
                "closes, and a condition without an equality; use 'split' or 'auto'"
            )
        return "split", "left rows go to one core each, right rows to all of them"
    if config.joins_apart(plan) and routing in ("range", "split"):
        raise StreamJoinError(
            f"routing={routing!r} does not fit {config.window}, whose rows are joined when it "
            "closes: equal rows must be in one core; use 'hash' or 'auto'"
        )
    if routing == "hash" and not equal:
        raise StreamJoinError(
            "routing='hash' needs an equality in the condition, such as l.a = r.a; use 'auto'"
        )
    if routing == "range" and part is None:
        raise StreamJoinError(
            "routing='range' needs a band in the condition, such as abs(l.x - r.x) <= 5; use 'auto'"
        )
    if routing != "auto":
        return routing, "asked for"
    if equal:
        return "hash", "equal rows meet in one core"
    if part is not None:
        return "range", "a row's band touches one core or two neighbours"
    return "split", "a row is stored by one core and probes all of them"


def range_part(plan: JoinPlan, tables: bool) -> int | None:
    """Return the range part to route by: the most selective one that is bounded.

    Streams are not routed by time, since rows that come together would all go to one core. Tables
    may be, and by an inequality too: a row then probes the cores on one side of its key.
    """
    order = [layout.range_part for layout in plan.layouts() if layout.range_part is not None]
    bounded = [part for part in order if plan.ranges[part].bounded]
    if not tables:
        bounded = [part for part in bounded if part != plan.time_part]
        return bounded[0] if bounded else None
    halves = [part for part in order if isinstance(plan.ranges[part].source, Inequality)]
    return next(iter([*bounded, *halves]), None)


def filter_joined(joined: DataFrame, inputs: Inputs) -> DataFrame:
    """Apply the conditions that concern both rows of a pair, as Spark evaluates them."""
    if not inputs.residuals:
        return joined
    names = iter(inputs.output)
    pairs = {side: [(name, next(names)) for name in inputs.columns[side]] for side in SIDES}
    structs = [
        F.struct(*(F.col(backticks(out)).alias(name) for name, out in pairs[side])).alias(
            ALIASES[side]
        )
        for side in SIDES
    ]
    extra = inputs.extra_columns
    paired = joined.select(*structs, *extra)
    for text in inputs.residuals:
        paired = paired.where(F.expr(text))
    return paired.select(*flatten(pairs), *extra)


def flatten(pairs: dict[Side, list[tuple[str, str]]]) -> Sequence[Column]:
    """Return the columns of both structs under the names of the result."""
    return [
        F.col(quoted(ALIASES[side], name)).alias(out)
        for side, columns in pairs.items()
        for name, out in columns
    ]


def backticks(name: str) -> str:
    """Quote a column name for Spark."""
    return f"`{name.replace('`', '``')}`"
