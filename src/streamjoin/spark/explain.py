"""``explain`` for DataFrames: what Spark does, what the cores do, and how rows get to them."""

from dataclasses import replace

from pyspark.sql import DataFrame

from streamjoin.api.explain import (
    NEXT,
    describe_algorithm,
    describe_index,
    describe_keep,
    describe_tuning,
    joins_whole,
)
from streamjoin.api.explain_results import describe_columns, describe_how, describe_results
from streamjoin.choice.advice import advise
from streamjoin.conditions import describe
from streamjoin.keys.operands import OTHER
from streamjoin.options.checked import JoinOptions
from streamjoin.options.ordering import Ordering
from streamjoin.options.rules import check_key
from streamjoin.spark.planning.inputs import Inputs, choose_routing, find_homes, range_part


def explain_join(
    left: DataFrame,
    config: JoinOptions,
    inputs: Inputs,
    routing: str,
    cores: int | str,
) -> str:
    """Return the explanation; ``cores`` is their number, or how it will be chosen."""
    tables = not left.isStreaming
    plan = inputs.plan()
    kind, reason = choose_routing(plan, config, routing, tables)
    part = range_part(plan, tables) if kind == "range" else None
    condition = config.condition(inputs.schemas["left"], inputs.schemas["right"])
    keys = inputs.config.condition(inputs.schemas["left"], inputs.schemas["right"])
    # Those of tables probe an index, but for sessions.
    waits = not tables or config.follows_rows
    whole = waits and config.closes and joins_whole(keys, inputs.config)
    index, others = describe_index(keys, inputs.config, whole)
    check_key(config.algorithm, plan.has_key, config.on)
    advice = advise(config.algorithm)
    algorithm = f"{advice.algorithm}: {advice.reason}{NEXT}({advice.what})"
    unordered = replace(config, ordered="none")  # the columns say the order, not the rows
    by = "" if part is None else f" of {plan.ranges[part].source.sql()}"
    facts = [
        ("inputs", "two tables" if tables else "two streams"),
        ("window", "none" if config.window is None else str(config.window)),
        ("time", " and ".join(config.time) if config.time else ""),
        ("order", " and ".join(config.order) if config.order else ""),
        ("ordered", "" if config.ordering is None else describe_order(config.ordering)),
        *(("before", f"Spark keeps {side} rows with {text}") for side, text in inputs.filters),
        *(
            ("before", f"Spark marks {side} rows with {text}; others match nothing")
            for side, text in inputs.flagged
        ),
        *(("keys", f"Spark computes {text} as {name}") for text, name in inputs.computed),
        ("routing", f"{kind}{by}: {reason}"),
        ("home", "" if kind == "hash" else describe_homes(config, tables)),
        ("cores", str(cores)),
        ("index", index),
        ("filter", others),
        (
            "after",
            " and ".join(inputs.residuals)
            and f"Spark keeps joined rows with {' and '.join(inputs.residuals)}",
        ),
        ("algorithm", describe_algorithm(keys, inputs.config) if whole else algorithm),
        ("tuning", describe_tuning(config)),
        ("how", describe_how(config)),
        ("keep", describe_keep(condition, config)),
        ("aggregate", describe_aggregated(config)),
        ("columns", NEXT.join(describe_columns(config))),
        ("results", "" if tables else NEXT.join(describe_results(keys, unordered))),
    ]
    lines = ["condition", *(f"  {line}" for line in describe(condition))]
    return "\n".join([*lines, *(f"{name:<12} {text}" for name, text in facts if text)])


def describe_homes(config: JoinOptions, tables: bool) -> str:
    """Say where the rows meet whose matches have to be known in one place."""
    homes = find_homes(config)
    if tables and config.reduces and "right" in homes:
        return "all rows in one core, which knows what every left row keeps"
    if len(homes) == 2:
        return "rows go to one core each, and are guests wherever else they may match something"
    for side in homes:
        return f"{side} rows go to one core each, {OTHER[side]} rows to all where they may match"
    return ""


def describe_aggregated(config: JoinOptions) -> str:
    """Say what is computed over the matches of each left row."""
    texts = ", ".join(f"{name} = {text}" for name, text in config.aggregate)
    return texts and f"{texts}: in the cores, from pairs that are not kept"


def describe_order(ordering: Ordering) -> str:
    """Say by which columns results are in order."""
    groups = (ordering.precision or 1) > 1
    return f"results by {', then '.join(ordering.names)}" + (
        f" in groups of {ordering.precision}" if groups else ""
    )
