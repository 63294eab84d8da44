"""Keys that Spark computes: expressions, conversions, and times in the session's zone.

Spark's arithmetic on timestamps goes by local time, and so do the keys::

    l.ts - r.ts <= interval 1 hour       cast(l.ts as timestamp_ntz) - cast(r.ts as timestamp_ntz)
    l.ts <= r.ts + interval 90 minutes   as it is: less than a day is counted in microseconds
    l.ts <= r.ts + interval 7 days       36 hours more each way; Spark checks the pairs
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampType
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from streamjoin.conditions import Band, Equality, Inequality, NotEqual
from streamjoin.conditions.intervals import Bound, Interval
from streamjoin.expressions.coercion import common_type
from streamjoin.expressions.parsing import read_expression
from streamjoin.keys.operands import Side, quoted
from streamjoin.keys.written_ranges import bind_ranges
from streamjoin.spark.planning.schemas import arrow_schema, is_collated
from streamjoin.spark.session import UTC, ZONE

KEY = "__streamjoin_key_"  # and a number: columns that hold computed keys
ALIASES: dict[Side, str] = {"left": "l", "right": "r"}
Keyed = Equality | Band | Inequality | NotEqual

_FIXED = re.compile(r"(?i)Z|(Etc/)?(UTC|GMT|UT|UCT|Zulu|Universal|Greenwich)|(UTC|GMT|UT)?[+-].*")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = Spark.Tokenizer.KEYWORDS
_CAST_BY_ZONE = {"timestamp": "timestamp", "date32": "date"}
_OFFSETS = timedelta(hours=36)  # no two offsets of a zone lie further apart


class ComputedKeys:
    """Turns key expressions that are not plain columns into columns that Spark computes.

    Rows that fail a condition on one side are left out here, but not of sides whose rows all are
    ``counted``: there they stay, without keys, and `flags` says which they are. In sessions they
    have keys as well: keys are not ``is_guarded``.
    """

    def __init__(
        self,
        frames: dict[Side, DataFrame],
        filters: dict[Side, list[str]],
        schemas: dict[Side, pa.Schema],
        counted: Collection[Side] = (),
        is_guarded: bool = True,
    ) -> None:
        self.is_guarded = is_guarded
        self.frames: dict[Side, DataFrame] = {}
        self.guards: dict[Side, str] = {}
        for side, frame in frames.items():
            frame = frame.alias(ALIASES[side])
            guard = " AND ".join(f"({text})" for text in filters[side])
            if guard and side in counted:
                self.guards[side] = guard
            elif guard:
                frame = frame.where(F.expr(guard))
            self.frames[side] = frame
        zone = frames["left"].sparkSession.conf.get(ZONE)
        self.clocks_change = not _FIXED.fullmatch(zone or "")
        self.is_utc = bool(UTC.fullmatch(zone or ""))
        self.schemas = dict(schemas)
        self.names: dict[Side, dict[str, str]] = {"left": {}, "right": {}}

    def compute(self, part: Keyed) -> tuple[Keyed | None, bool]:
        """Return the part over plain columns, and whether that is equivalent to the part.

        None if no key can be: for text under a collation, or a type without an order.
        """
        texts: dict[Side, str] = {"left": part.left, "right": part.right}
        kinds = {side: self.kind(side, text) for side, text in texts.items()}
        if any(is_collated(kind) for kind in kinds.values()):
            return None, False
        texts = self.as_one_type(texts, kinds)
        exact = True
        if isinstance(part, Band) and self.goes_by_local_time(kinds):
            bounds = [bound for each in part.intervals for bound in each.bounds()]
            if all(bound.form == "difference" for bound in bounds):
                texts = {side: f"CAST({text} AS timestamp_ntz)" for side, text in texts.items()}
            elif not all(_is_part_of_a_day(bound) for bound in bounds):
                part, exact = _widen(part), False
        columns: Any = {side: self._column(side, text) for side, text in texts.items()}
        keyed = replace(part, **columns)
        if not isinstance(keyed, Equality) and not bind_ranges(keyed, self.schemas).parts:
            return None, False
        return keyed, exact

    def compute_times(self, time: tuple[str, str]) -> tuple[str, str]:
        """Return time columns that compare without regard to the zone."""
        names: dict[Side, str] = dict(zip(ALIASES, time, strict=True))
        if any(name not in self.schemas[side].names for side, name in names.items()):
            return time  # binding the plan will refuse it
        texts = {side: quoted(ALIASES[side], name) for side, name in names.items()}
        kinds = {side: self.kind(side, text) for side, text in texts.items()}
        for side, text in self.as_one_type(texts, kinds).items():
            if text != texts[side]:
                names[side] = self.add_column(side, text)
        return names["left"], names["right"]

    def flags(self) -> list[str]:
        """Return columns that say which rows may match, where rows were not left out."""
        return [
            quoted(ALIASES[side], self.add_column(side, text)) for side, text in self.guards.items()
        ]

    def frame(self, side: Side) -> DataFrame:
        """Return the DataFrame with its computed keys."""
        guard, keys = self.guards.get(side), []
        for text, name in self.names[side].items():
            key = F.expr(self._spark_text(text))
            # So that `l.a <> 0 and 10 / l.a < r.b` is no error.
            if guard is not None and text != guard and self.is_guarded:
                key = F.when(F.expr(guard), key)
            keys.append(key.alias(name))
        return self.frames[side].select("*", *keys)

    def columns_read(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the name of each computed key, and the columns that it is made of."""
        for names in self.names.values():
            for text, name in names.items():
                tree = read_expression(text, self.schemas["left"], self.schemas["right"])
                yield name, tuple(sorted({each.name for each in tree.find_all(exp.Column)}))

    def goes_by_local_time(self, kinds: dict[Side, DataType]) -> bool:
        """Whether Spark subtracts values of these types by the clocks of a time zone."""
        return self.clocks_change and TimestampType() in kinds.values()

    def _column(self, side: Side, text: str) -> str:
        """Return a plain column for an expression."""
        tree = read_expression(text, self.schemas["left"], self.schemas["right"])
        if isinstance(tree, exp.Column):
            return text
        return quoted(ALIASES[side], self.add_column(side, text))

    def add_column(self, side: Side, text: str) -> str:
        """Return the name of a column that holds an expression."""
        names = self.names[side]
        if text not in names:
            names[text] = f"{KEY}{ALIASES[side]}{len(names)}"
            self.schemas[side] = self.schemas[side].append(
                pa.field(names[text], _arrow_type(self.kind(side, text), side))
            )
        return names[text]

    def _spark_text(self, text: str) -> str:
        """Return an expression with its columns resolved, as Spark reads it."""
        return spark_text(read_expression(text, self.schemas["left"], self.schemas["right"]))

    def kind(self, side: Side, text: str) -> DataType:
        """Ask Spark for the type of an expression."""
        [field] = self.frames[side].select(F.expr(self._spark_text(text)).alias("key")).schema
        return field.dataType

    def as_one_type(self, texts: dict[Side, str], kinds: dict[Side, DataType]) -> dict[Side, str]:
        """Have Spark convert dates, times and text where the session's time zone decides."""
        types = {side: _arrow_type(kind, side) for side, kind in kinds.items()}
        common = common_type(types["left"], types["right"])
        name = _CAST_BY_ZONE.get(str(common).split("[")[0]) if common is not None else None
        if common is None or types["left"] == types["right"] or name is None:
            return texts
        if pa.types.is_timestamp(common) and common.tz is None:
            name = "timestamp_ntz"
        return {
            side: text if types[side] == common else f"CAST({text} AS {name})"
            for side, text in texts.items()
        }


def _arrow_type(kind: DataType, side: Side) -> pa.DataType:
    """Return a type as Python sees it."""
    return arrow_schema(StructType([StructField("key", kind)]), side).field("key").type


def _is_part_of_a_day(bound: Bound) -> bool:
    return bound.form != "difference" and abs(_duration(bound)) < timedelta(days=1)


def _duration(bound: Bound) -> timedelta:
    """Return the shift of a time; no shift is the number zero."""
    return bound.value if isinstance(bound.value, timedelta) else timedelta(0)


def _widen(part: Band) -> Band:
    """Return the part with one interval that contains all its own, under any zone offsets."""
    lower = _move_bound(part.intervals[0].lower, -_OFFSETS)
    upper = _move_bound(part.intervals[-1].upper, _OFFSETS)
    return replace(part, intervals=(Interval(lower, upper),))


def _move_bound(bound: Bound | None, by: timedelta) -> Bound | None:
    return None if bound is None else replace(bound, value=_duration(bound) + by)


def spark_text(tree: exp.Expression) -> str:
    """Return an expression as Spark SQL, with names quoted where they have to be."""
    tree = tree.copy()
    for name in tree.find_all(exp.Identifier):
        if not _PLAIN_NAME.fullmatch(name.name) or name.name.upper() in _KEYWORDS:
            name.set("quoted", True)
    text: str = tree.sql("spark")
    return text
