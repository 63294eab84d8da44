"""Checks of what the user gives: each message has the value, the rule and the way out."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from streamjoin.errors import StreamJoinError, WindowError
from streamjoin.options.advisor import EAGER, EMITS, GOALS, KNOBS, LAZY, MOST_BITS
from streamjoin.windows import WINDOWS, Window
from streamjoin.windows.durations import Duration

MOST_THREADS = 1024  # more than any machine of today has use for
ColumnPair = str | Sequence[str] | None  # one name for both sides, or a pair


def check_window(
    window: Window | None, time: ColumnPair, order: ColumnPair, delay: Duration | None
) -> None:
    """Refuse what is no window, and columns and delays that a window has no use for, or lacks."""
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
    if time is not None and not timed:
        raise WindowError(
            f"time={time!r} has no use with window={window!r}; pass {list_windows(is_timed=True)}, "
            "or leave time out"
        )
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


def list_windows(is_timed: bool) -> str:
    """Name the windows that look at event times, or those that do not."""
    return join_words(f"a {each.__name__}" for each in WINDOWS if each.is_timed == is_timed)


def list_examples(is_timed: bool | None = None) -> str:
    """Show how the windows are called that look at event times, that do not, or all."""
    return join_words(each.example for each in WINDOWS if is_timed in (None, each.is_timed))


def join_words(words: Iterable[str]) -> str:
    """Put words into a sentence.

    >>> join_words(["a", "b", "c"])
    'a, b or c'
    """
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def check_split(window: Window | None, cores: int | None, ordered: bool) -> None:
    """Refuse what is no number of join cores, and windows that cannot be spread over them."""
    check_amount(
        "cores", cores, f"join cores, from 1 to {MOST_THREADS:,}, or None for one", MOST_THREADS
    )
    if window is not None and window.closes and (cores or ordered):
        raise WindowError(
            f"cores and ordered are for sliding windows; {window} closes as a whole: leave "
            "them out, and give it threads"
        )


def check_amount(name: str, value: int | None, what: str, most: int = sys.maxsize) -> None:
    """Refuse what is no number of something, or too many."""
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise StreamJoinError(f"{name}={value!r}: give the number of {what}")


def check_emit(algorithm: str, window: Window | None, emit: str | None, optimize: str) -> str:
    """Return when matches are given; refuse what does not go together."""
    if emit is not None and emit not in EMITS:
        raise StreamJoinError(
            f"emit={emit!r} does not exist; choose 'close', to join a window when it closes, "
            "'eager', to return matches as rows come, or 'auto'"
        )
    if optimize not in GOALS:
        raise StreamJoinError(
            f"optimize={optimize!r} does not exist; choose {', '.join(map(repr, GOALS))}"
        )
    closes = window is not None and window.closes
    takes_eager = window is not None and window.closes and not window.follows_rows
    given = "emit" if emit is not None else "optimize" if optimize != GOALS[0] else ""
    if given and not closes:
        when = "as rows come"
        if window is None:
            when = "all together, since all rows of tables are there"
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
    if algorithm in EAGER and not takes_eager:
        raise WindowError(
            f"algorithm={algorithm!r} joins a TumblingWindow as its rows come; with "
            f"window={window!r} choose 'auto'"
        )
    if algorithm in EAGER and emit == "close":
        raise StreamJoinError(
            f"algorithm={algorithm!r} returns matches as rows come, and emit='close' asks for them "
            f"at the end; leave emit out, or choose {', '.join(map(repr, LAZY))}"
        )
    if algorithm in LAZY and emit == "eager":
        others = EAGER if takes_eager else ["auto"]
        raise StreamJoinError(
            f"algorithm={algorithm!r} joins a window when it closes, and emit='eager' asks for "
            f"matches as rows come; leave emit out, or choose {', '.join(map(repr, others))}"
        )
    if emit == "auto" and closes and not takes_eager:
        return "close" if algorithm in LAZY or optimize == "throughput" else "eager"
    return emit or ("eager" if algorithm in EAGER else "close")


def check_finite(algorithm: str) -> None:
    """Refuse an algorithm for rows that come, where tables are joined."""
    if algorithm in EAGER:
        raise StreamJoinError(
            f"algorithm={algorithm!r} joins rows as they come, and those of tables are all there "
            f"at once; choose one of {', '.join(map(repr, LAZY))}, or leave algorithm out"
        )


def check_tuning(
    algorithm: str, tuning: Mapping[str, Any] | None, threads: int
) -> tuple[tuple[str, int], ...]:
    """Refuse knobs that an algorithm does not have, and what they cannot be set to."""
    if tuning is None:
        return ()
    if not isinstance(tuning, Mapping):
        raise StreamJoinError(
            f"tuning={tuning!r}: give a dict of knobs and whole numbers, such as {{'bits': 10}} "
            "of algorithm='prj', or leave it out"
        )
    knobs = KNOBS.get(algorithm, ())
    for name, value in tuning.items():
        if name not in knobs:
            has = f"it has {', '.join(map(repr, knobs))}" if knobs else "it has none"
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: algorithm={algorithm!r} has no knob {name!r}; {has}"
            )
        if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
            raise StreamJoinError(f"tuning={dict(tuning)!r}: {name!r} is a whole number from 1")
        if name == "bits" and int(value) > MOST_BITS:
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: 'bits' is a whole number from 1 to {MOST_BITS}, for "
                f"2**{MOST_BITS} partitions at most"
            )
        if name == "group" and threads % int(value):
            way = f"give a divisor of {threads}, or another number of threads"
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: groups of {value} do not divide {threads} threads "
                f"evenly; {way if threads > 1 else 'one thread has no groups, so leave it out'}"
            )
    return tuple(sorted((name, int(value)) for name, value in tuning.items()))


def check_threads(threads: int | None) -> int:
    """Return how many threads are meant; refuse what is no number of them."""
    check_amount(
        "threads",
        threads,
        f"threads, from 1 to {MOST_THREADS:,}, or None for all cores",
        MOST_THREADS,
    )
    return threads or os.cpu_count() or 1


def pair(name: str, columns: ColumnPair) -> tuple[str, str] | None:
    """Return one column name a side."""
    if columns is None or isinstance(columns, str):
        return None if columns is None else (columns, columns)
    names = tuple(columns) if isinstance(columns, Sequence) else ()
    if len(names) != 2 or not all(isinstance(each, str) for each in names):
        raise StreamJoinError(
            f"{name}={columns!r}: give one column name for both sides, or a pair (left, right)"
        )
    return names[0], names[1]
