"""What ``explain`` says of the rows that a join gives: their columns, and when each of them comes.

A line for each reason why a row is given; `docs/guide/kinds.md` has the same as tables::

    columns      those of left, then those of right
                 _match: both, left_only or right_only
    results      pairs: as rows arrive
                 left rows that match nothing: once the watermark has passed l.ts + 10 seconds
                 rows that nothing can match, such as those with NULL in a key: at once
"""

from collections.abc import Iterator

from streamjoin.conditions import Condition
from streamjoin.indexes.catalogue import LAZY
from streamjoin.joins.outcomes.outcome import LATE, MATCH
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.how import INNER
from streamjoin.options.values import OP, Ordered
from streamjoin.plans.plan import SIDES
from streamjoin.windows import CountWindow, TimeWindow
from streamjoin.windows.durations import format_duration

ORDERS: dict[Ordered, str] = {
    "none": "",
    "outer": "in order: the matches of an earlier row come first",
    "inner": "in order: the matches of an earlier row come first, those of one row oldest first",
}
EMITS = {
    "close": "when a window closes: the watermark has passed its end",
    "eager": "as rows arrive",
    "auto": "as rows arrive or when a window closes, decided when it opens",
}
CLOSED = "once the watermark has passed the end of their window"


def is_plain(config: JoinOptions) -> bool:
    """Whether a join gives pairs, and nothing beside them."""
    return config.how is INNER and not (config.reduces or config.indicator or config.late == "keep")


def describe_how(config: JoinOptions) -> str:
    """Say what is returned besides pairs, or instead of them."""
    how = config.how
    if config.aggregate:
        which = "all left rows" if how.alone else "left rows that match something"
        return f"{how.name}: {which}, each once"
    if how is INNER:
        return ""
    if how.met is not None:
        return f"{how.name}: {how.met} rows that {name_fate(config, how.met, True)}, each once"
    alone = [side for side in SIDES if side in how.alone]
    fates = {side: name_fate(config, side, False) for side in alone}
    pairs = "pairs, and " if how.gives_pairs else ""
    if len(set(fates.values())) == 1:
        return f"{how.name}: {pairs}{' and '.join(alone)} rows that {fates[alone[0]]}"
    return f"{how.name}: {pairs}{' and '.join(f'{side} rows that {fates[side]}' for side in alone)}"


def name_fate(config: JoinOptions, side: Side, has_match: bool) -> str:
    """Say what is true of rows of a side that have a match, or none."""
    if config.keep != "all" and side == "right":
        return f"{'a' if has_match else 'no'} left row keeps"
    return f"match {'something' if has_match else 'nothing'}"


def describe_columns(config: JoinOptions) -> list[str]:
    """Say which columns a join gives that gives more, or less, than pairs."""
    if is_plain(config):
        return []
    one_side = "left" if config.aggregate else config.how.one_side
    columns = "those of left, then those of right" if one_side is None else f"those of {one_side}"
    lines = [", ".join([columns, *(name for name, _ in config.aggregate)])]
    if config.indicator:
        lines.append(f"{MATCH}: both, left_only or right_only")
    if config.late == "keep":
        lines.append(f"{LATE}: true for rows that came too late")
    if config.unmatched == "early":
        lines.append(f"{OP}: + for rows that are given, - for rows that are taken back")
    return lines


def describe_results(condition: Condition, config: JoinOptions) -> list[str]:
    """Say when the rows of a stream's result come, and in which order."""
    if config.window is None:
        return []
    order = ORDERS.get(
        config.ordered, f"in order by row; oldest first in groups of {config.ordered}"
    )
    pairs = describe_emit(condition, config) if config.closes else EMITS["eager"]
    if is_plain(config):
        return [order or pairs] if order or config.closes else []
    if pairs == EMITS["close"]:
        pairs = CLOSED
    return [*list_moments(config, pairs), *([order] if order else [])]


def list_moments(config: JoinOptions, pairs: str) -> Iterator[str]:
    """Yield what is given, and when; ``pairs`` says when a match is found."""
    how = config.how
    if config.aggregate:
        yield f"left rows with their aggregates: {name_end(config, 'left')}"
    elif how.gives_pairs and config.keep == "all":
        yield f"pairs: {pairs}"
    elif how.gives_pairs:
        yield f"what a left row keeps: {name_end(config, 'left')}"
    elif how.met is not None:
        found = name_end(config, "left") if config.reduces else pairs
        yield f"{how.met} rows that {name_fate(config, how.met, True)}: {found}"
    for side in SIDES:
        if side in how.alone and not config.aggregate:
            fate = f"{side} rows that {name_fate(config, side, False)}"
            yield f"{fate}: {name_end(config, side)}"
    if how.alone:
        yield "rows that nothing can match, such as those with NULL in a key: at once"
    if config.unmatched == "early" and config.patience_us is not None:
        patience = format_duration(config.patience_us)
        yield f"before that, with +, once the newest time is more than {patience} beyond theirs"
        yield "the same rows again, with -: if they match after all, with their first match"
    if config.late == "keep":
        yield "late rows, alone: at once"


def name_end(config: JoinOptions, side: Side) -> str:
    """Say when the fate of a row is known: no row that is on time can change it."""
    window, time = config.window, config.time
    if isinstance(window, TimeWindow) and time is not None:
        both = config.keep != "all" and side == "right"  # left rows may wait, and keep it then
        after = window.before_us * (side == "right") + window.after_us * (side == "left" or both)
        column = f"{side[0]}.{time[side == 'right']}"
        passed = f"{column} + {format_duration(after)}" if after else column
        return f"once the watermark has passed {passed}"
    if isinstance(window, CountWindow):
        return f"once {getattr(window, side):,} more {side} rows have come"
    return CLOSED


def describe_emit(condition: Condition, config: JoinOptions) -> str:
    """Say when windows that close return their matches."""
    emit = config.emit
    if emit == "auto" and config.algorithm in LAZY:
        emit = "close"
    elif emit == "auto" and (config.algorithm != "auto" or condition.ranges()):
        emit = "eager"
    return EMITS[emit]
