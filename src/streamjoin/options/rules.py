"""Which options cannot be combined with each other, with a window or with a condition.

Each message has the value, the rule and the way out. `values` checks each option by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from streamjoin.conditions import Band, Condition, Inequality, Residual, aliases
from streamjoin.errors import ConditionError, StreamJoinError, WindowError
from streamjoin.expressions.aggregates import is_aggregate, parse_aggregates
from streamjoin.expressions.parsing import parse_expression
from streamjoin.indexes.catalogue import ALGORITHMS, BY_EQUALITY, EAGER, LAZY, TWO_KEYS
from streamjoin.options.values import GOALS, join_words, quote_words

if TYPE_CHECKING:
    from streamjoin.options.options import Given
from streamjoin.windows import WINDOWS, Window

LONGEST_QUOTE = 300  # characters of a condition in a message


def list_windows(is_timed: bool) -> str:
    """Name the windows that look at event times, or those that do not."""
    return join_words(f"a {each.__name__}" for each in WINDOWS if each.is_timed == is_timed)


def list_examples(is_timed: bool | None = None) -> str:
    """Show example calls: of windows that look at event times, of those that do not, or of all."""
    return join_words(each.example for each in WINDOWS if is_timed in (None, each.is_timed))


def check_window(window: Any, time: Any, options: Mapping[str, Any], reduces: bool = False) -> None:
    """Refuse what is not a window, and columns or delays that the window cannot use, or lacks.

    Tables need no window for ``time`` if it tells which matches count, where a join ``reduces``.
    """
    if window is not None and not isinstance(window, Window):
        raise WindowError(
            f"window={window!r} is not a window; pass {', '.join(each.example for each in WINDOWS)}"
            ", a text such as '10 minutes', or None for tables"
        )
    timed = window is not None and window.is_timed
    if timed and time is None:
        raise WindowError(
            f"{window} needs the event-time columns of both sides; pass them as "
            "time=('left_column', 'right_column')"
        )
    if time is not None and not timed and not (window is None and reduces):
        use = "; without a window, only keep and aggregate go by time" if window is None else ""
        raise WindowError(
            f"time={time!r} has no use with window={window!r}{use}; pass "
            f"{list_windows(is_timed=True)}, or leave time out"
        )
    order, delay = options.get("order"), options.get("delay")
    if order is not None and (window is None or window.is_timed):
        raise WindowError(
            f"order={order!r} gives the arrival order of {list_windows(is_timed=False)}; with "
            f"window={window!r} leave it out"
        )
    if delay is not None and not timed:
        raise WindowError(
            f"delay={delay!r} moves the watermark of a window of time; with window={window!r} "
            "leave it out"
        )


def check_spread(window: Window | None, fields: Mapping[str, Any], reduces: bool = False) -> None:
    """Refuse cores and an order of results for windows that close, and where a join reduces."""
    if reduces and (fields.get("cores") or 1) > 1:
        raise StreamJoinError(
            f"cores={fields['cores']} spread the matches of a left row over several windows, and "
            "keep and aggregate look at all of them; leave cores out, and give it threads"
        )
    is_ordered = fields.get("ordered", "none") != "none"
    if window is not None and window.closes and (fields.get("cores") or is_ordered):
        raise WindowError(
            f"cores and ordered are for sliding windows; {window} closes as a whole: leave "
            "them out, and give it threads"
        )


def check_emit(algorithm: str, window: Window | None, emit: str | None, optimize: str) -> None:
    """Refuse an ``emit`` or ``optimize`` that the window or the algorithm cannot follow."""
    closes = window is not None and window.closes
    given = "emit" if emit is not None else "optimize" if optimize != GOALS[0] else ""
    if given and not closes:
        when = "as rows arrive"
        if window is None:
            when = "all at once, since tables have all their rows from the start"
        raise WindowError(
            f"{given}={emit or optimize!r} is for windows that close; with window={window!r} leave "
            f"it out: matches are returned {when}"
        )
    if algorithm in LAZY and window is not None and not closes:
        raise WindowError(
            f"algorithm={algorithm!r} joins tables, or windows that close; with {window} choose "
            "'auto', or use a TumblingWindow"
        )
    if window is None:
        check_finite(algorithm)
    if algorithm in EAGER and not takes_eager(window):
        raise WindowError(
            f"algorithm={algorithm!r} joins a TumblingWindow as its rows arrive; with "
            f"window={window!r} choose 'auto'"
        )
    if algorithm in EAGER and emit == "close":
        raise StreamJoinError(
            f"algorithm={algorithm!r} returns matches as rows arrive, and emit='close' asks for "
            f"them at the end; leave emit out, or choose {quote_words(LAZY)}"
        )
    if algorithm in LAZY and emit == "eager":
        others = EAGER if takes_eager(window) else ["auto"]
        raise StreamJoinError(
            f"algorithm={algorithm!r} joins a window when it closes, and emit='eager' asks for "
            f"matches as rows arrive; leave emit out, or choose {quote_words(others)}"
        )


def takes_eager(window: Window | None) -> bool:
    """Whether eager algorithms can join the window: a row must tell which window it is in."""
    return window is not None and window.closes and not window.follows_rows


def resolve_emit(algorithm: str, window: Window | None, emit: str | None, optimize: str) -> str:
    """Return when matches are returned; ``"auto"`` stays, if each window can decide as it opens."""
    if emit == "auto" and not takes_eager(window):
        return "close" if algorithm in LAZY or optimize == "throughput" else "eager"
    return emit or ("eager" if algorithm in EAGER else "close")


def check_kind(given: "Given", window: Window | None, emit: str | None) -> None:
    """Refuse options of what a join gives that contradict each other, or the window."""
    plain = Plain(given)
    how, keep, aggregate = given["how"], given["keep"], dict(given["aggregate"])
    for name in ("k", "nearest"):
        if plain.has(name) and keep == "all":
            ways = "keep='nearest'" if name == "nearest" else "keep='nearest', 'first' or 'last'"
            raise StreamJoinError(
                f"{name}={given[name]!r} is about the matches that are kept, and all are; add "
                f"{ways}, or leave {name} out"
            )
    if plain.has("nearest") and keep != "nearest":
        raise StreamJoinError(
            f"nearest={given['nearest']!r} is a distance, and keep={keep!r} goes by time; choose "
            "keep='nearest', or leave nearest out"
        )
    if aggregate and how.name not in ("inner", "left"):
        raise StreamJoinError(
            f"aggregate={aggregate!r} gives one row for each left row, and how={how.name!r} gives "
            "others; choose 'inner', for left rows that have matches, or 'left', for all"
        )
    if aggregate and keep != "all":
        raise StreamJoinError(
            f"aggregate={aggregate!r} goes over all matches of a left row, and keep={keep!r} "
            "leaves some out; leave one of them out"
        )
    if given["indicator"] and (aggregate or not how.gives_pairs):
        what = f"aggregate={aggregate!r}" if aggregate else f"how={how.name!r}"
        raise StreamJoinError(
            f"indicator=True tells pairs from rows without a match, and {what} gives no pairs; "
            "leave it out"
        )
    check_keep(given, window)
    if emit in ("eager", "auto") and (keep != "all" or aggregate):
        raise StreamJoinError(
            f"emit={emit!r} asks for matches as rows arrive, and which of them count is known at "
            "the end of the window only; leave emit out"
        )
    if given["algorithm"] in EAGER and (keep != "all" or aggregate):
        raise StreamJoinError(
            f"algorithm={given['algorithm']!r} returns matches as rows arrive, and which of them "
            "count is known at the end of the window only; leave algorithm out"
        )
    if plain.has("ordered"):
        for name in ("how", "keep", "aggregate", "late"):
            if plain.has(name):
                raise StreamJoinError(
                    f"ordered={given['ordered']!r} puts pairs into the order of their arrival, and "
                    f"{name}={given.asked[name]!r} gives something else; leave one of them out"
                )
    check_early(plain, window)
    if plain.has("late") and (window is None or not window.is_timed):
        raise WindowError(
            f"late={given['late']!r} is for windows that look at event times; with "
            f"window={window!r} no row is late: leave it out"
        )


def check_aggregates(pairs: Iterable[tuple[str, str]], window: Window | None, time: Any) -> None:
    """Refuse what is no aggregate, and ones that go by a time that is not there."""
    for each in parse_aggregates(pairs):
        if each.function in ("first", "last") and window is None and time is None:
            raise StreamJoinError(
                f"aggregate {each.name!r}: {each.text} goes by the time of right rows; pass the "
                "time columns as time=('left_column', 'right_column')"
            )


def check_keep(given: "Given", window: Window | None) -> None:
    """Refuse to keep some matches of what cannot be told in time."""
    how, keep = given["how"], given["keep"]
    follows_right = "right" in how.follows
    if keep != "all" and follows_right and window is not None and not window.is_timed:
        if given.entry.name == "join_tables":
            return
        raise WindowError(
            f"how={how.name!r} waits for right rows until no left row can keep them any more, and "
            f"with keep={keep!r} and {window} that may be long after they have left the window; "
            "use a TimeWindow, or a how that looks at left rows: 'inner', 'left', 'left_semi' or "
            "'left_anti'"
        )


def check_rank(
    keep: str, nearest: str | None, condition: Condition, window: Window | None, has_time: bool
) -> None:
    """Refuse to keep the best matches where nothing tells which these are."""
    has_arrival = window is not None and not window.is_timed
    if nearest is not None:
        check_distance(nearest)
    if keep in ("first", "last") and not (has_time or has_arrival):
        raise StreamJoinError(
            f"keep={keep!r} goes by the time of the right row; pass the time columns as "
            "time=('left_column', 'right_column')"
        )
    unknown = any("" in aliases(part.expression) for part in condition.residuals)
    if keep == "nearest" and nearest is None and not unknown:
        find_distance(condition, has_time, not has_arrival)


def check_distance(text: str) -> None:
    """Refuse a distance that cannot be read, or that is not one of a pair."""
    place = f"nearest={text!r}"
    try:
        tree = parse_expression(text)
    except ConditionError as error:
        raise type(error)(f"{place}: {error}") from error
    function: Any = exp.Func
    if any(is_aggregate(each) for each in tree.find_all(function)):
        raise ConditionError(
            f"{place} is an aggregate, and a distance is that of one pair; write an expression "
            "over l and r, such as abs(l.x - r.x)"
        )


def check_early(plain: "Plain", window: Window | None) -> None:
    """Refuse to give rows before it is known that they match nothing where that has no meaning."""
    given = plain.given
    is_early = plain.has("unmatched")
    if plain.has("patience") and not is_early:
        raise StreamJoinError(
            f"patience={given.asked['patience']!r} is how long a row waits for a match before it "
            "is given early; add unmatched='early', or leave patience out"
        )
    if not is_early:
        return
    asked = f"unmatched={given['unmatched']!r}"
    how, keep, aggregate = given["how"], given["keep"], dict(given["aggregate"])
    if not how.alone:
        raise StreamJoinError(
            f"{asked} is about rows without a match, and how={how.name!r} gives none; choose "
            "'left', 'right', 'full', 'left_anti' or 'right_anti', or leave unmatched out"
        )
    if keep != "all" or aggregate:
        what = f"keep={keep!r}" if keep != "all" else f"aggregate={aggregate!r}"
        raise StreamJoinError(
            f"{asked} gives a row before all of its matches are known, and {what} needs them all; "
            "leave one of them out"
        )
    if window is None or not window.is_timed:
        raise WindowError(
            f"{asked} goes by event times, and window={window!r} does not; choose "
            f"{list_windows(is_timed=True)}, or leave unmatched out"
        )
    if given["patience"] is None:
        raise StreamJoinError(
            f"{asked} needs patience='10 seconds', say: how long a row waits for a match, in "
            "event time, before it is given"
        )


@dataclass(frozen=True)
class Plain:
    """Tells which options are not what they are if nobody asks for anything."""

    given: "Given"

    def has(self, name: str) -> bool:
        """Whether an option is there and was set to something else than its default."""
        option = self.given.entry.table.get(name)
        return option is not None and self.given[name] != option.read(name, option.default)


def find_distance(
    condition: Condition, has_time: bool, takes_time: bool = True
) -> Band | Inequality | None:
    """Return the condition's only band, or else its only inequality; None goes by time."""
    bands = [part for part in condition.ranges() if isinstance(part, Band)]
    inequalities = [part for part in condition.ranges() if isinstance(part, Inequality)]
    found: Sequence[Band | Inequality] = bands or inequalities
    if len(found) > 1:
        what = "bands" if bands else "inequalities"
        ways = join_words(f"nearest={f'abs({each.left} - {each.right})'!r}" for each in found)
        raise StreamJoinError(
            f"keep='nearest' needs a distance, and the condition has {len(found)} {what}; say "
            f"which one counts: {ways}"
        )
    if not found and not has_time:
        or_time = ", or pass the time columns as time=('left_column', 'right_column')"
        raise StreamJoinError(
            "keep='nearest' needs a distance, and the condition has no band and no inequality; "
            f"say what it is, as in nearest='abs(l.x - r.x)'{or_time * takes_time}"
        )
    return found[0] if found else None


def check_finite(algorithm: str) -> None:
    """Refuse an eager algorithm for tables."""
    if algorithm in EAGER:
        raise StreamJoinError(
            f"algorithm={algorithm!r} joins rows as they arrive, but tables have all their rows "
            f"from the start; choose one of {quote_words(LAZY)}, or leave algorithm out"
        )


def check_tuning(algorithm: str, tuning: Mapping[str, Any], threads: int) -> None:
    """Refuse knobs that the algorithm does not have, and values that a knob cannot take."""
    knobs = {} if algorithm == "auto" else {each.name: each for each in ALGORITHMS[algorithm].knobs}
    for name, value in tuning.items():
        if name not in knobs:
            has = f"it has {quote_words(knobs)}" if knobs else "it has none"
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: algorithm={algorithm!r} has no knob {name!r}; {has}"
            )
        if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
            raise StreamJoinError(f"tuning={dict(tuning)!r}: {name!r} is a whole number from 1")
        most = knobs[name].most
        if most is not None and int(value) > most:
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: {name!r} is a whole number from 1 to {most}"
            )
        if knobs[name].divides_threads and threads % int(value):
            way = f"give a divisor of {threads}, or another number of threads"
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: groups of {value} do not divide {threads} threads "
                f"evenly; {way if threads > 1 else 'one thread has no groups, so leave it out'}"
            )


def check_condition(condition: Condition, algorithm: str, has_time: bool) -> None:
    """Refuse a condition that needs every pair compared, unless the user asked for that."""
    # Columns without an alias may still turn out to make a key, once the schemas are known.
    unknown = any("" in aliases(part.expression) for part in condition.residuals)
    keyed = has_time or unknown or any(not isinstance(part, Residual) for part in condition)
    check_equality(algorithm, unknown or bool(condition.equalities), condition.sql())
    if not keyed and algorithm != "scan":
        check_connectives(condition)
    check_key(algorithm, keyed, condition.sql())


def check_connectives(condition: Condition) -> None:
    """Refuse a condition that has no key because of how its parts are combined."""
    for part in condition.residuals:
        tree = parse_expression(part.expression).unnest()
        if isinstance(tree, exp.BitwiseAnd | exp.BitwiseOr):
            sign, word = ("&", "and") if isinstance(tree, exp.BitwiseAnd) else ("|", "or")
            raise ConditionError(
                f"{part.expression!r}: {sign} combines the bits of numbers; to combine conditions, "
                f"write {word}"
            )
        if isinstance(tree, exp.Or):
            raise ConditionError(
                f"the condition {shorten(condition.sql())!r} is an OR of things that no single "
                "index finds, so every pair of rows would have to be compared; join by each side "
                "of the OR and put the results together, each pair once, add what must hold in any "
                "case (and l.a = r.a), or ask for algorithm='scan' to compare every pair"
            )


def check_key(algorithm: str, has_key: bool, on: str) -> None:
    """Refuse a join without a key to index by."""
    if not has_key and algorithm != "scan":
        raise ConditionError(
            f"the condition {shorten(on)!r} has no part that a join can use as a key, so every "
            "pair of rows would have to be compared. A key is an equality (l.a = r.a), a band "
            "(abs(l.x - r.x) <= 5) or an inequality (l.x < r.x) between the two sides, joined to "
            "the rest by AND; an OR is one only where all of it compares the same two expressions. "
            "Add a key, give a window of time, split an OR into several joins, or ask for "
            "algorithm='scan' to compare every pair"
        )


def check_equality(algorithm: str, has_equality: bool, on: str) -> None:
    """Refuse an algorithm that joins by equality if there is none: it would compare every pair."""
    if algorithm in BY_EQUALITY and not has_equality:
        raise ConditionError(
            f"algorithm={algorithm!r} joins by equality, and the condition {shorten(on)!r} has "
            "none between the two sides, so every pair of rows would have to be compared; leave "
            "algorithm out, or add an equality (l.a = r.a)"
        )


def check_ranges(algorithm: str, ranges: int, on: str) -> None:
    """Refuse an algorithm that needs two range parts if there are fewer."""
    if algorithm in TWO_KEYS and ranges < 2:
        raise ConditionError(
            f"algorithm={algorithm!r} sorts rows by two inequalities or bands at once, and the "
            f"condition {shorten(on)!r} has {ranges}, a TimeWindow counted; leave algorithm out, "
            "or choose 'bi_sort'"
        )


def shorten(on: str) -> str:
    """Cut a condition to a length that fits into a message."""
    return on if len(on) <= LONGEST_QUOTE else f"{on[: LONGEST_QUOTE - 4]} ..."
