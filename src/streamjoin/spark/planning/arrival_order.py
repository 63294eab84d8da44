"""Count windows over tables: arrival order becomes two bands.

Each row gets its place in its own table, and ``met``: the number of rows of the other table before
it. It meets the other rows whose places are the last n before ``met``. In a pair, the row that came
later meets the other, so the join is the union of two joins without a window::

    left came later     r.place between l.met - n and l.met - 1
    right came later    l.place between r.met - n and r.met - 1

The upper ends only say who came later: of any two rows one did, and meets the other's place without
looking. So the lower ends together say the same, in a single join, where rows count that match
nothing. It is slower: neither end bounds the pairs that the other lets through.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from streamjoin.conditions import sqltext
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.rules import find_distance
from streamjoin.plans.plan import SIDES
from streamjoin.spark.planning.computed_keys import ALIASES
from streamjoin.spark.planning.inputs import backticks
from streamjoin.spark.planning.schemas import arrow_schema

PLACE, MET = "__streamjoin_place", "__streamjoin_met"
NUMBERS = {name + suffix for name in (PLACE, MET) for suffix in ("", "_right")}  # once joined


def meeting_conditions(left: int, right: int) -> tuple[str, str]:
    """Return the two conditions over the numbered tables, for a window of so many rows."""
    return (
        f"r.{PLACE} between l.{MET} - {right} and l.{MET} - 1",
        f"l.{PLACE} between r.{MET} - {left} and r.{MET} - 1",
    )


def meeting_condition(left: int, right: int) -> str:
    """Return one condition over the numbered tables that says what both say together."""
    return f"r.{PLACE} >= l.{MET} - {right} and l.{PLACE} >= r.{MET} - {left}"


def name_distance(left: DataFrame, right: DataFrame, config: JoinOptions) -> str:
    """Return the distance of ``keep="nearest"``, which the meeting would hide."""
    schemas = arrow_schema(left.schema, "left"), arrow_schema(right.schema, "right")
    part = find_distance(config.condition(*schemas), has_time=False)
    assert part is not None  # otherwise it was refused
    return f"abs({sqltext.difference(part.left, part.right)})"


def number_rows(
    left: DataFrame, right: DataFrame, order: tuple[str, str]
) -> tuple[DataFrame, DataFrame]:
    """Add place and met to both tables.

    NULL comes first, and of equal values left comes before right. Spark sorts all rows in one task
    to do this.
    """
    tables: dict[Side, DataFrame] = {"left": left, "right": right}
    by = dict(zip(SIDES, order, strict=True))
    union = _side(tables, "left", by).union(_side(tables, "right", by))
    so_far = Window.orderBy(F.col("at").asc_nulls_first(), "side").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    counts = [
        F.count(F.when(F.col("side") == side, 1)).over(so_far).alias(f"count_{side}")
        for side in SIDES
    ]
    numbered = union.select("*", *counts)
    results = [
        numbered.where(F.col("side") == side).select(
            f"{ALIASES[side]}.*",
            (F.col(f"count_{side}") - 1).alias(PLACE),
            F.col(f"count_{OTHER[side]}").alias(MET),
        )
        for side in SIDES
    ]
    return results[0], results[1]


def _side(tables: dict[Side, DataFrame], side: Side, by: dict[Side, str]) -> DataFrame:
    """Return one table in the form in which both can be sorted together."""
    rows = {
        each: F.struct("*") if each == side else F.lit(None).cast(tables[each].schema)
        for each in SIDES
    }
    return tables[side].select(
        F.lit(side).alias("side"),  # 'left' sorts before 'right'
        F.col(backticks(by[side])).alias("at"),
        *(column.alias(ALIASES[each]) for each, column in rows.items()),
    )
