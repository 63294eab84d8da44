"""From DataFrames and a condition to what the cores need, and what Spark does itself.

Spark evaluates every expression, so that answers are its own in any time zone and for any function
it knows; Python sees columns only::

    l.kind = 'x' and abs(ln(l.a) - r.b) <= 0.1 and l.name like r.pattern
      left rows       where l.kind = 'x'                 a condition on one side: before the join
      key             ln(l.a) as a column of its own     abs(l.`key` - r.b) <= 0.1 in the cores
      joined rows     where l.name like r.pattern        anything else: over the candidate pairs
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType
from sqlglot import exp

from streamjoin.advisor import advise
from streamjoin.batches import check_unique
from streamjoin.config import JoinConfig
from streamjoin.errors import SchemaError, StreamJoinError
from streamjoin.expressions.coercion import common_type
from streamjoin.expressions.parsing import parse_expression, qualify, sides
from streamjoin.joins.plan import SIDES, JoinPlan, bind
from streamjoin.keys.operands import Side, quoted
from streamjoin.keys.parts import RangePart
from streamjoin.predicates import Band, Condition, Equality, Inequality, NotEqual, parse_condition
from streamjoin.spark.schemas import arrow_schema, is_collated, joined_names

ROUTINGS = ("auto", "hash", "range", "split")
KEY = "__streamjoin_key_"  # and a number: columns that hold computed keys

ALIASES: dict[Side, str] = {"left": "l", "right": "r"}
Keyed = Equality | Band | Inequality | NotEqual


@dataclass(frozen=True)
class Inputs:
    """The two DataFrames with computed keys, and what is left for Spark to filter."""

    frames: dict[Side, DataFrame]
    columns: dict[Side, tuple[str, ...]]  # the user's; the frames may have keys beside them
    config: JoinConfig
    schemas: dict[Side, pa.Schema]  # of the frames
    filters: tuple[tuple[Side, str], ...]  # conditions on one side's rows, applied to the frames
    computed: tuple[tuple[str, str], ...]  # key expressions, and the columns that hold them
    residuals: tuple[str, ...]  # conditions on joined rows

    def plan(self) -> JoinPlan:
        """Bind the condition to the frames' columns."""
        condition = parse_condition(self.config.on, self.schemas["left"], self.schemas["right"])
        return bind(condition, self.config.window, self.config.time, self.schemas)

    @property
    def output(self) -> list[str]:
        """The names of the joined columns."""
        return joined_names(self.columns["left"], self.columns["right"])


def prepare_inputs(left: DataFrame, right: DataFrame, config: JoinConfig) -> Inputs:
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
    condition = parse_condition(config.on, schemas["left"], schemas["right"])
    filters: dict[Side, list[str]] = {"left": [], "right": []}
    residuals: list[str] = []
    for part in condition.residuals:
        tree = qualify(parse_expression(part.expression), schemas["left"], schemas["right"])
        used = sides(tree)
        if used == {"r"}:
            filters["right"].append(spark_text(tree))
        elif used <= {"l"}:
            filters["left"].append(spark_text(tree))
        else:
            residuals.append(spark_text(tree))
    keys = Keys(frames, filters, schemas)
    parts: list[Keyed] = []
    for each in (*condition.equalities, *condition.ranges()):
        keyed = keys.compute(each)
        if keyed is not None:
            parts.append(keyed)
        else:
            tree = qualify(parse_expression(each.sql()), schemas["left"], schemas["right"])
            residuals.append(spark_text(tree))
    computed = Condition(
        tuple(part for part in parts if isinstance(part, Equality)),
        tuple(part for part in parts if isinstance(part, Band)),
        tuple(part for part in parts if isinstance(part, Inequality)),
        tuple(part for part in parts if isinstance(part, NotEqual)),
    )
    has_key = bool(parts) or config.time is not None
    advise(config.algorithm, has_key, config.on)
    columns = {side: tuple(schema.names) for side, schema in schemas.items()}
    return Inputs(
        {side: keys.frame(side) for side in SIDES},
        columns,
        replace(config, on=computed.sql(), threads=1),
        keys.schemas,
        tuple((side, text) for side, texts in filters.items() for text in texts),
        tuple(item for names in keys.names.values() for item in names.items()),
        tuple(residuals),
    )


class Keys:
    """Key expressions that are no plain columns become columns, computed by Spark."""

    def __init__(
        self,
        frames: dict[Side, DataFrame],
        filters: dict[Side, list[str]],
        schemas: dict[Side, pa.Schema],
    ) -> None:
        self.frames: dict[Side, DataFrame] = {}
        for side, frame in frames.items():
            frame = frame.alias(ALIASES[side])
            for text in filters[side]:
                frame = frame.where(F.expr(text))
            self.frames[side] = frame
        self.schemas = dict(schemas)
        self.names: dict[Side, dict[str, str]] = {"left": {}, "right": {}}

    def compute(self, part: Keyed) -> Keyed | None:
        """Return the part over plain columns, converted as far as Spark has to do it.

        None if no key can tell: text under a collation, or a type without an order.
        """
        texts: dict[Side, str] = {"left": part.left, "right": part.right}
        kinds = {side: self._kind(side, text) for side, text in texts.items()}
        if any(is_collated(kind) for kind in kinds.values()):
            return None
        texts = self._as_one_type(texts, kinds)
        columns: Any = {side: self._column(side, text) for side, text in texts.items()}
        keyed = replace(part, **columns)
        if not isinstance(keyed, Equality) and RangePart.bind(keyed, self.schemas) is None:
            return None
        return keyed

    def frame(self, side: Side) -> DataFrame:
        """Return the DataFrame with its computed keys."""
        keys = [
            F.expr(self._spark_text(text)).alias(name) for text, name in self.names[side].items()
        ]
        return self.frames[side].select("*", *keys)

    def _column(self, side: Side, text: str) -> str:
        """Return a plain column for an expression."""
        tree = qualify(parse_expression(text), self.schemas["left"], self.schemas["right"])
        if isinstance(tree, exp.Column):
            return text
        names = self.names[side]
        if text not in names:
            names[text] = f"{KEY}{ALIASES[side]}{len(names)}"
            self.schemas[side] = self.schemas[side].append(
                pa.field(names[text], self._type(side, self._kind(side, text)))
            )
        return quoted(ALIASES[side], names[text])

    def _spark_text(self, text: str) -> str:
        """Return an expression with its columns resolved, as Spark reads it."""
        return spark_text(
            qualify(parse_expression(text), self.schemas["left"], self.schemas["right"])
        )

    def _kind(self, side: Side, text: str) -> DataType:
        """Ask Spark for the type of an expression."""
        [field] = self.frames[side].select(F.expr(self._spark_text(text)).alias("key")).schema
        return field.dataType

    def _type(self, side: Side, kind: DataType) -> pa.DataType:
        """Return a type as Python sees it."""
        return arrow_schema(StructType([StructField("key", kind)]), side).field("key").type

    def _as_one_type(self, texts: dict[Side, str], kinds: dict[Side, DataType]) -> dict[Side, str]:
        """Let Spark convert where the session's time zone decides: dates, times and text."""
        types = {side: self._type(side, kind) for side, kind in kinds.items()}
        common = common_type(types["left"], types["right"])
        name = ZONED.get(str(common).split("[")[0]) if common is not None else None
        if common is None or types["left"] == types["right"] or name is None:
            return texts
        if pa.types.is_timestamp(common) and common.tz is None:
            name = "timestamp_ntz"
        return {
            side: text if types[side] == common else f"CAST({text} AS {name})"
            for side, text in texts.items()
        }


ZONED = {"timestamp": "timestamp", "date32": "date"}


def choose_routing(plan: JoinPlan, routing: str, counted: bool, tables: bool) -> tuple[str, str]:
    """Return the routing and the reason for it; refuse one that does not fit."""
    if routing not in ROUTINGS:
        raise StreamJoinError(
            f"routing={routing!r} does not exist; choose one of {', '.join(map(repr, ROUTINGS))}"
        )
    part = range_part(plan, tables)
    if counted:
        if routing not in ("auto", "split"):
            raise StreamJoinError(
                f"routing={routing!r} does not fit a CountWindow: every core has to see all rows "
                "to number them; use 'split' or 'auto'"
            )
        return "split", "every core numbers all rows, and stores its turn"
    if routing == "hash" and not plan.equalities:
        raise StreamJoinError(
            "routing='hash' needs an equality in the condition, such as l.a = r.a; use 'auto'"
        )
    if routing == "range" and part is None:
        raise StreamJoinError(
            "routing='range' needs a band in the condition, such as abs(l.x - r.x) <= 5; use 'auto'"
        )
    if routing != "auto":
        return routing, "asked for"
    if plan.equalities:
        return "hash", "equal rows meet in one core"
    if part is not None:
        return "range", "a row's band touches one core or two neighbours"
    return "split", "a row is stored by one core and probes all of them"


def range_part(plan: JoinPlan, tables: bool) -> int | None:
    """Return the range part to route by: the most selective one that is bounded.

    Streams are not routed by time: all rows that come together would go to one core. Tables may be,
    and by an inequality too: a row then probes the cores on one side of its key.
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
    paired = joined.select(*structs)
    for text in inputs.residuals:
        paired = paired.where(F.expr(text))
    return paired.select(*flatten(pairs))


def flatten(pairs: dict[Side, list[tuple[str, str]]]) -> Sequence[Column]:
    """Return the columns of both structs under the names of the result."""
    return [
        F.col(quoted(ALIASES[side], name)).alias(out)
        for side, columns in pairs.items()
        for name, out in columns
    ]


def spark_text(tree: exp.Expression) -> str:
    """Return an expression as Spark SQL, with every name quoted: it may be a keyword."""
    text: str = tree.sql("spark", identify=True)
    return text


def backticks(name: str) -> str:
    """Quote a column name for Spark."""
    return f"`{name.replace('`', '``')}`"
