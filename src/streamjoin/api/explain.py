"""``explain``: how a condition is read, what is indexed, what is filtered, and why."""

from contextlib import suppress
from textwrap import wrap
from typing import Unpack

from sqlglot import exp

from streamjoin.api.explain_results import (
    describe_columns,
    describe_how,
    describe_results,
    is_plain,
)
from streamjoin.choice.advice import advise, describe_measured
from streamjoin.choice.calibration_file import load_calibration
from streamjoin.choice.decision_tree import describe_tree
from streamjoin.conditions import Band, Condition, Inequality, NotEqual, Residual, aliases, describe
from streamjoin.errors import StreamJoinError
from streamjoin.expressions.aggregates import parse_aggregates
from streamjoin.indexes.catalogue import BY_EQUALITY, TWO_KEYS
from streamjoin.options.checked import JoinOptions
from streamjoin.options.options import STREAMS, StreamOptions
from streamjoin.options.rules import check_key, check_ranges, find_distance
from streamjoin.options.signatures import show_options
from streamjoin.options.values import ColumnPair
from streamjoin.windows import Window
from streamjoin.windows.durations import format_duration

NEXT, WIDTH = "\n" + " " * 13, 87  # what continues a fact on the next line, and its width


@show_options(STREAMS)
def explain(
    on: str | Condition,
    window: Window | str | None = None,
    time: ColumnPair = None,
    **options: Unpack[StreamOptions],
) -> str:
    """Say how the condition is understood, what is indexed, what is filtered, and why.

    >>> on = "l.symbol = r.symbol and abs(l.price - r.price) <= 0.05"
    >>> print(explain(on, algorithm="bi_sort", threads=2))
    condition
      equality   l.symbol = r.symbol
      band       -0.05 <= l.price - r.price <= 0.05
    window       none: two finite tables
    index        a hash of l.symbol = r.symbol, then l.price - r.price
    filter       nothing else
    algorithm    bi_sort: asked for; good for large batches and for many matches
                 (sorted arrays with an index and an insertion buffer, PanJoin)
    threads      2

    It takes what `StreamJoin` takes, and without a window joins tables:

    {options}
    """
    config = JoinOptions.check(on, window, time, **options)
    condition = config.condition()
    index, filters = describe_index(condition, config, joins_whole(condition, config))
    lines = ["condition", *(f"  {line}" for line in describe(condition))]
    facts = [
        ("window", "none: two finite tables" if config.window is None else str(config.window)),
        ("time", " and ".join(config.time) if config.time else ""),
        ("order", " and ".join(config.order) if config.order else ""),
        ("watermark", describe_watermark(config)),
        ("index", index),
        ("filter", filters),
        ("algorithm", describe_algorithm(condition, config)),
        ("tuning", describe_tuning(config)),
        ("cores", describe_cores(config)),
        ("how", describe_how(config)),
        ("keep", describe_keep(condition, config)),
        ("aggregate", describe_aggregates(condition, config)),
        ("columns", NEXT.join(describe_columns(config))),
        ("results", NEXT.join(describe_results(condition, config))),
        ("threads", str(config.threads)),
    ]
    return "\n".join([*lines, *(f"{name:<12} {text}" for name, text in facts if text)])


def describe_watermark(config: JoinOptions) -> str:
    """Say what moves the watermark, if anything waits for it."""
    if config.delay_us is not None:
        return f"follows the slower stream, {format_duration(config.delay_us)} behind it"
    if not config.is_timed or is_plain(config):
        return ""
    return "is moved by advance(), since there is no delay; finish() gives what is left"


def joins_whole(condition: Condition, config: JoinOptions) -> bool:
    """Whether there is no index: an intra-window algorithm joins whole windows or tables."""
    if config.algorithm == "auto":
        return not condition.ranges() and (config.closes or config.window is None)
    return config.algorithm in BY_EQUALITY


def describe_algorithm(condition: Condition, config: JoinOptions) -> str:
    """Say which algorithm serves the join, and why."""
    algorithm = config.algorithm
    if algorithm == "auto" and joins_whole(condition, config):
        emit = "close" if config.follows_rows else config.emit
        told = describe_tree(config.optimize, emit, load_calibration().windows)
        lines = [f"auto: {told[0]}", *told[1:], f"({describe_measured()})"]
        return NEXT.join(line for each in lines for line in wrap(each, WIDTH))
    keyed = any(not isinstance(part, Residual) for part in condition)
    usable = keyed or config.is_timed or algorithm == "auto"
    check_key(algorithm, usable, config.on)
    advice = advise(algorithm, config.is_counted)
    check_ranges(algorithm, len(ranges_of(condition, config)), config.on)
    reason = advice.reason
    if algorithm == "auto" and len(condition.ranges()) > 1:
        reason = f"spo_join by two parts at once; by one, {reason}"
    return f"{advice.algorithm}: {reason}{NEXT}({advice.what})"


def describe_keep(condition: Condition, config: JoinOptions) -> str:
    """Say which matches of a left row count."""
    if config.keep == "all":
        return ""
    many = f"{config.k} matches" if config.k > 1 else "match"
    which = f"the {config.keep} {many} of each left row"
    if config.keep != "nearest":
        return f"{which}, by {'arrival' if config.is_counted else 'time of the right row'}"
    distance = config.nearest
    if distance is None:
        distance = "a distance that the types of columns tell"
        with suppress(StreamJoinError):  # columns may be of either side before these are known
            source = find_distance(condition, config.time is not None)
            distance = "time" if source is None else f"abs({source.left} - {source.right})"
    return f"{which}, by {distance}"


def describe_aggregates(condition: Condition, config: JoinOptions) -> str:
    """Say how aggregates over the matches of a left row are computed."""
    if not config.aggregate:
        return ""
    names = ", ".join(name for name, _ in config.aggregate)
    reason = find_need_of_pairs(condition, config)
    if reason:
        return f"{names}: from pairs, a block at a time, which are not kept{NEXT}({reason})"
    parts = [f"groups of {part.sql()}" for part in condition.equalities]
    parts += ranges_of(condition, config)
    return (
        f"{names}: without looking at pairs, by prefix sums and trees{NEXT}"
        f"(right rows are sorted by {', then '.join(parts)})"
    )


def find_need_of_pairs(condition: Condition, config: JoinOptions) -> str:
    """Say why aggregates need pairs; nothing if matches are ranges of sorted rows."""
    if config.window is not None and not config.closes:
        return "in a stream, left rows look for their matches in the index"
    both = [part.sql() for part in condition.residuals if len(aliases(part.expression)) > 1]
    if both:
        return f"{both[0]} is checked for each of them"
    ranges = ranges_of(condition, config)
    if len(ranges) > 1:
        return f"right rows cannot be sorted by {' and '.join(ranges)} at once"
    for each in parse_aggregates(config.aggregate):
        if each.function not in ("first", "last") and each.argument is not None:
            used = {column.table.lower() for column in each.argument.find_all(exp.Column)}
            if "l" in used:
                return f"{each.text} is taken of left rows, too"
    return ""


def describe_tuning(config: JoinOptions) -> str:
    """Say which knobs are set."""
    return ", ".join(f"{name} = {value}" for name, value in config.tuning)


def describe_cores(config: JoinOptions) -> str:
    """Say how the windows are spread over cores, if they are."""
    if config.cores == 1:
        return ""
    return f"{config.cores}: each stores its turn of the rows and is probed with all (SplitJoin)"


def describe_index(condition: Condition, config: JoinOptions, whole: bool) -> tuple[str, str]:
    """Say what the index is sorted by, and what is checked on the candidates it finds.

    There is no index where rows are joined as a ``whole``.
    """
    ranges = [] if whole else ranges_of(condition, config)
    prefix = " and ".join(part.sql() for part in condition.equalities)
    index = f"a hash of {prefix}" if prefix else ""
    checked = [prefix] if len(condition.equalities) > 1 and not ranges else []
    if whole:  # by equality alone: bands and inequalities are checked over the pairs
        index = f"nothing: {describe_whole(config)}{', by ' * bool(prefix)}{prefix}"
        checked += [part.sql() for part in condition.ranges()]
    if len(ranges) == 1:
        index = f"{index}, then {ranges[0]}" if index else ranges[0]
    elif ranges:
        choice = describe_choice(ranges, config.algorithm, config.is_timed)
        index = f"{index}, then {choice}" if index else choice
        if len(ranges) > 2 or config.algorithm not in TWO_KEYS:
            checked.append("the rest of these")
    filters = []
    for part in condition.residuals:
        used = aliases(part.expression)
        alone = {frozenset("l"): "left", frozenset("r"): "right"}.get(used)
        filters.append(
            f"{part.expression} ({alone} rows, before the join)" if alone else part.sql()
        )
    checked += filters
    return index or "nothing: every pair is a candidate", ", ".join(checked) or "nothing else"


def describe_whole(config: JoinOptions) -> str:
    """Say which rows are joined, and when, if there is no index."""
    if config.window is None:
        return "all rows are joined at once"
    unit = config.window.unit
    return {
        "close": f"rows wait, and those of one {unit} are joined when it closes",
        "eager": f"rows of one {unit} are joined as they arrive",
        "auto": f"rows of one {unit} are joined as they arrive, or all at once when it closes",
    }[config.emit]


def ranges_of(condition: Condition, config: JoinOptions) -> list[str]:
    """Return what rows can be sorted by."""
    window = ["the time window"] if config.is_timed and not config.closes else []
    return [*(name_part(part) for part in condition.ranges()), *window]


def describe_choice(ranges: list[str], algorithm: str, timed: bool) -> str:
    """Say how many of several parts are indexed, and how they are chosen."""
    if algorithm in TWO_KEYS:
        if len(ranges) == 2:
            return f"{' and '.join(ranges)} at once"
        names = ", ".join(ranges)
        return f"two of {names} at once, those that let the fewest pairs of a sample pass"
    choice = f"the most selective of {', '.join(ranges)}, judged by a sample"
    if algorithm == "auto" and len(ranges) - timed > 1:
        choice += "; or two of them at once, if each alone lets many pairs pass"
    return choice


def name_part(part: Band | Inequality | NotEqual) -> str:
    """Return what a range part sorts rows by."""
    return f"{part.left} - {part.right}" if isinstance(part, Band) else part.sql()
