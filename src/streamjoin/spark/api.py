"""What users of Spark call: `join` and `explain`, after `configure`, once per session."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, Unpack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streamjoin.conditions import Condition
from streamjoin.errors import SchemaError, StreamJoinError, WindowError
from streamjoin.indexes.catalogue import LAZY
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.options import SPARK, Given, SparkOptions
from streamjoin.options.rules import list_examples
from streamjoin.options.signatures import show_options
from streamjoin.options.values import ColumnPair
from streamjoin.plans.binding import bind_order
from streamjoin.plans.plan import SIDES
from streamjoin.spark.explain import explain_join
from streamjoin.spark.planning.arrival_order import (
    NUMBERS,
    PLACE,
    meeting_condition,
    meeting_conditions,
    name_distance,
    number_rows,
)
from streamjoin.spark.planning.homes import check_reduced, limit_cores
from streamjoin.spark.planning.inputs import (
    Inputs,
    backticks,
    choose_routing,
    filter_joined,
    needs_every_pair,
    prepare_inputs,
    range_part,
)
from streamjoin.spark.planning.results import list_sides, result_schema, result_struct
from streamjoin.spark.planning.schemas import arrow_schema
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.session import check_session, check_workers, demand_full_retry
from streamjoin.spark.state.checkpoint import read_saved_table
from streamjoin.spark.state.join_facts import Request, describe_kind
from streamjoin.spark.streams import ClosingProcessor, JoinProcessor, join_streams
from streamjoin.spark.tables import join_tables
from streamjoin.spark.tasks import choose_labels
from streamjoin.windows import Window

WATERMARK = "spark.watermarkDelayMs"  # in the metadata of a column that has one


@show_options(SPARK)
def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Condition,
    window: Window | str | None = None,
    time: ColumnPair = None,
    **options: Unpack[SparkOptions],
) -> DataFrame:
    """Join two DataFrames, both streaming or both not, by any condition.

    Parameters
    ----------
    on:
        The condition as SQL text over the aliases ``l`` and ``r``: any function that Spark knows.
    window:
        {window}
        Tables may be joined without one.
    time:
        The event-time columns ``(left, right)`` of any window but a `CountWindow`. Streams need
        `withWatermark` on both of them.
    {options}

    Returns
    -------
    An ordinary DataFrame: left's columns, then right's; right names that clash get ``_right``.
    """
    check_frames(left, right)
    given = SPARK.read(options)
    config = check_options(left, on, window, time, given)
    routing, cores, checkpoint = given["routing"], given["cores"], given["checkpoint"]
    check_order(left, right, config)
    if not left.isStreaming:
        check_algorithm(config)
        if checkpoint is not None:
            raise StreamJoinError(
                f"checkpoint={checkpoint!r} is for streams that restart, and these are tables; "
                "leave it out"
            )
    check_workers(left.sparkSession)
    if left.isStreaming:
        inputs = prepare_inputs(left, right, config)
        output = describe_result(left, right, inputs)
        spec = stream_spec(left.sparkSession, inputs, routing, cores, given["name"])
        if checkpoint is not None and spec.adapts:
            saved_table = read_saved_table(left.sparkSession, checkpoint, spec)
            spec = replace(spec, saved_table=saved_table)
        check_watermarks({"left": left, "right": right}, config)
        if spec.follows_order:
            demand_full_retry(left.sparkSession)
        processor = ClosingProcessor if spec.closes else JoinProcessor
        joined = join_streams(inputs, spec, output, processor)
    elif config.is_counted:
        return join_counted(left, right, config, given)
    else:
        inputs = prepare_inputs(left, right, config)
        output = describe_result(left, right, inputs)
        joined = join_tables(inputs, table_spec(inputs, routing), output, cores)
    return filter_joined(joined, inputs)


@show_options(SPARK)
def explain(
    left: DataFrame,
    right: DataFrame,
    on: str | Condition,
    window: Window | str | None = None,
    time: ColumnPair = None,
    **options: Unpack[SparkOptions],
) -> str:
    """Say how `join` would understand and run a condition; its arguments are the same."""
    check_frames(left, right)
    given = SPARK.read(options)
    config = check_options(left, on, window, time, given)
    routing, cores = given["routing"], given["cores"]
    check_order(left, right, config)
    if not left.isStreaming:
        check_algorithm(config)
    inputs = prepare_inputs(left, right, config)
    number: int | str = cores or "as many as a sample of the tables asks for"
    if left.isStreaming:
        number = stream_spec(left.sparkSession, inputs, routing, cores, "streamjoin").cores
    return explain_join(left, config, inputs, routing, number)


def check_options(
    left: DataFrame,
    on: str | Condition,
    window: Window | str | None,
    time: ColumnPair,
    given: Given,
) -> JoinOptions:
    """Check the options of a core, which has one thread."""
    is_finite = not left.isStreaming
    return JoinOptions.check_given(on, window, time, given, is_finite=is_finite, threads=1)


def describe_result(left: DataFrame, right: DataFrame, inputs: Inputs) -> StructType:
    """Return names and types of the result's columns."""
    config, frames = inputs.config, {"left": left, "right": right}
    structs: dict[Side, StructType] = {side: frames[side].schema for side in list_sides(config)}
    result = result_schema(config, inputs.schemas, inputs.columns, config.ordering)
    return result_struct(structs, result)


def table_spec(inputs: Inputs, routing: str) -> Callable[[int], JoinSpec]:
    """Return a function that makes the spec of a table join for a number of cores."""
    plan = inputs.plan()
    kind, _ = choose_routing(plan, inputs.config, routing, tables=True)
    part = range_part(plan, tables=True) if kind == "range" else None
    return lambda cores: make_spec(inputs, kind, part, choose_labels(cores, cores), "streamjoin")


def make_spec(
    inputs: Inputs,
    routing: str,
    route_part: int | None,
    labels: tuple[int, ...],
    name: str,
    has_fixed_cores: bool = True,
) -> JoinSpec:
    """Make the spec of a join from its inputs and its routing."""
    config = inputs.config
    return JoinSpec(
        config=replace(config, ordered="none"),
        left=inputs.schemas["left"],
        right=inputs.schemas["right"],
        columns=(inputs.columns["left"], inputs.columns["right"]),
        routing=routing,
        route_part=route_part,
        labels=labels,
        name=name,
        request=inputs.request or Request(config.on, config.time, given=describe_kind(config)),
        ordering=config.ordering,
        has_fixed_cores=has_fixed_cores,
    )


def join_counted(left: DataFrame, right: DataFrame, config: JoinOptions, given: Given) -> DataFrame:
    """Join two tables in a count window."""
    assert config.window is not None
    order, counts = config.order, config.window.shape.counts
    assert counts is not None
    if order is None:
        raise WindowError(
            f"{config.window} counts rows in the order of their arrival, and a table has none; "
            "name the columns that give it, as in order=('ts', 'ts')"
        )
    bind_order(
        order,
        {"left": arrow_schema(left.schema, "left"), "right": arrow_schema(right.schema, "right")},
    )
    numbered = number_rows(left, right, order)
    options: Any = {name: each for name, each in given.asked.items() if name != "order"}
    is_whole = needs_every_pair(config)
    if config.keep == "nearest" and config.nearest is None:
        options["nearest"] = name_distance(left, right, config)
    elif is_whole:  # a row's place is its time
        options["time"] = (PLACE, PLACE)
    meetings = [meeting_condition(*counts)] if is_whole else meeting_conditions(*counts)
    parts = [join(*numbered, on=f"({config.on}) and {meeting}", **options) for meeting in meetings]
    names = [name for name in parts[0].columns if name not in NUMBERS]
    return reduce(DataFrame.union, [part.select(*map(backticks, names)) for part in parts])


def check_frames(left: DataFrame, right: DataFrame) -> None:
    """Refuse what is not a pair of DataFrames."""
    for side, frame in (("left", left), ("right", right)):
        if not hasattr(frame, "isStreaming"):
            raise StreamJoinError(
                f"{side} is a {type(frame).__name__}, and streamjoin.spark joins Spark DataFrames; "
                "for Arrow, pandas or polars data use streamjoin.join_tables or StreamJoin"
            )
    if left.isStreaming != right.isStreaming:
        streaming, table = ("left", "right") if left.isStreaming else ("right", "left")
        raise StreamJoinError(
            f"{streaming} is a stream and {table} is not; read both with spark.readStream, or both "
            "with spark.read"
        )


def check_algorithm(config: JoinOptions) -> None:
    """Refuse algorithms that tables on Spark are not joined by."""
    if config.algorithm in LAZY and not config.follows_rows:
        raise StreamJoinError(
            f"algorithm={config.algorithm!r} joins all rows of both sides at once, and on Spark "
            "the rows of one table probe an index of the other as they come; leave algorithm out, "
            "or use streamjoin.join_tables for data that fit into memory"
        )


def check_order(left: DataFrame, right: DataFrame, config: JoinOptions) -> None:
    """Refuse an order of results that there is none of, or no room for."""
    if config.ordering is None:
        return
    if not left.isStreaming:
        raise StreamJoinError(
            f"ordered={config.ordered!r} follows the arrival of rows, and those of a table are all "
            "there at once; leave it out, and sort the result: joined.orderBy(...)"
        )
    for side, frame in zip(SIDES, (left, right), strict=True):
        for name in frame.columns:
            if name.lower() in config.ordering.names:
                raise SchemaError(
                    f"the {side} input has a column {name!r}, and ordered={config.ordered!r} adds "
                    f"one of that name to the result; rename it: "
                    f"{side}.withColumnRenamed({name!r}, {side + name!r})"
                )


def stream_spec(
    spark: SparkSession, inputs: Inputs, routing: str, cores: int | None, name: str
) -> JoinSpec:
    """Decide what the cores of a streaming join need to know."""
    config, plan = inputs.config, inputs.plan()
    if config.window is None:
        raise WindowError(
            f"a join of streams needs a window: {list_examples(is_timed=True)} with "
            f"time=('ts', 'ts'), or {list_examples(is_timed=False)}"
        )
    partitions = check_session(spark, cores)
    kind, _ = choose_routing(plan, config, routing, tables=False)
    check_reduced(config)
    cores = limit_cores(config, plan, kind, cores)
    part = range_part(plan, tables=False) if kind == "range" else None
    chosen = choose_labels(cores or partitions, partitions)
    return make_spec(inputs, kind, part, chosen, name, has_fixed_cores=cores is not None)


def check_watermarks(frames: dict[str, DataFrame], config: JoinOptions) -> None:
    """Refuse streams whose state could never be dropped."""
    if config.is_counted:
        return
    assert config.time is not None
    for side, column in zip(SIDES, config.time, strict=True):
        if WATERMARK not in frames[side].schema[column].metadata:
            marked = [each.name for each in frames[side].schema if WATERMARK in each.metadata]
            has = f"its watermark is on {marked[0]!r}" if marked else "it has no watermark"
            raise SchemaError(
                f"the {side} stream's time column is {column!r}, and {has}; write "
                f"{side}.withWatermark({column!r}, '10 seconds'), with the longest delay that rows "
                "may have"
            )
