"""``explain`` for DataFrames: what Spark does, what the cores do, and how rows get to them."""

from pyspark.sql import DataFrame

from streamjoin.api.explain import (
    NEXT,
    describe_algorithm,
    describe_emit,
    describe_index,
    describe_tuning,
    joins_whole,
)
from streamjoin.choice.advice import advise
from streamjoin.conditions import describe
from streamjoin.options.checked import JoinOptions
from streamjoin.options.ordering import Ordering
from streamjoin.options.rules import check_key
from streamjoin.spark.planning.inputs import Inputs, choose_routing, range_part


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
    by = "" if part is None else f" of {plan.ranges[part].source.sql()}"
    facts = [
        ("inputs", "two tables" if tables else "two streams"),
        ("window", "none" if config.window is None else str(config.window)),
        ("time", " and ".join(config.time) if config.time else ""),
        ("order", " and ".join(config.order) if config.order else ""),
        ("ordered", "" if config.ordering is None else describe_order(config.ordering)),
        *(("before", f"Spark keeps {side} rows with {text}") for side, text in inputs.filters),
        *(("keys", f"Spark computes {text} as {name}") for text, name in inputs.computed),
        ("routing", f"{kind}{by}: {reason}"),
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
        ("results", describe_emit(keys, config) if config.closes and not tables else ""),
    ]
    lines = ["condition", *(f"  {line}" for line in describe(condition))]
    return "\n".join([*lines, *(f"{name:<12} {text}" for name, text in facts if text)])


def describe_order(ordering: Ordering) -> str:
    """Say by which columns results are in order."""
    groups = (ordering.precision or 1) > 1
    return f"results by {', then '.join(ordering.names)}" + (
        f" in groups of {ordering.precision}" if groups else ""
    )
