"""What each option may be set to: each function returns the value as a join keeps it.

A message has the value, the rule and the way out. `rules` says what cannot be combined.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from streamjoin.errors import StreamJoinError
from streamjoin.indexes.catalogue import ALGORITHMS
from streamjoin.windows.durations import Duration, parse_duration

ColumnPair = str | Sequence[str] | None  # one name for both sides, or a pair
Knobs = Mapping[str, int]
Aggregates = Mapping[str, str]  # SQL by the name of its column
Ordered = str | int  # "none", "outer", "inner", or a precision

MOST_THREADS = 1024  # more than any machine of today can use
EMITS = ("close", "eager", "auto")
GOALS = ("throughput", "latency", "progressiveness")
ORDERS = ("none", "outer", "inner")
KEEPS = ("all", "nearest", "first", "last")
LATE_ROWS = ("drop", "keep")
UNMATCHED = ("final", "early")
OP = "_op"  # the column that tells which rows are given, and which taken back
ROUTINGS = ("auto", "hash", "range", "split")


def keep(_: str, value: Any) -> Any:
    """Keep a value as it is."""
    return value


def read_algorithm(name: str, value: Any) -> str:
    """Read the name of an algorithm."""
    if value != "auto" and value not in tuple(ALGORITHMS):
        raise StreamJoinError(
            f"{name} {value!r} does not exist; choose 'auto' or one of {quote_words(ALGORITHMS)}"
        )
    return str(value)


def read_pair(name: str, value: Any) -> tuple[str, str] | None:
    """Read one column name per side."""
    if value is None or isinstance(value, str):
        return None if value is None else (value, value)
    names = tuple(value) if isinstance(value, Sequence) else ()
    if len(names) != 2 or not all(isinstance(each, str) for each in names):
        raise StreamJoinError(
            f"{name}={value!r}: give one column name for both sides, or a pair (left, right)"
        )
    return names[0], names[1]


def read_amount(name: str, value: Any, what: str, most: int = sys.maxsize) -> int | None:
    """Read a number from 1; ``what`` says of what, and what None means."""
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise StreamJoinError(f"{name}={value!r}: give the number of {what}")
    return value


def read_threads(name: str, value: Any) -> int:
    """Read a number of threads; None means one for each processor."""
    what = f"threads, from 1 to {MOST_THREADS:,}, or None for all cores"
    return read_amount(name, value, what, MOST_THREADS) or os.cpu_count() or 1


def read_cores(name: str, value: Any) -> int | None:
    """Read a number of join cores, of this process."""
    what = f"join cores, from 1 to {MOST_THREADS:,}, or None for one"
    return read_amount(name, value, what, MOST_THREADS)


def read_spark_cores(name: str, value: Any) -> int | None:
    """Read a number of join cores, on Spark."""
    what = "parallel join cores, from 1, or None to let streamjoin choose"
    return read_amount(name, value, what)


def read_batch_rows(name: str, value: Any) -> int | None:
    """Read how many rows make a batch."""
    return read_amount(name, value, "rows to collect, from 1, or None")


def read_microseconds(_: str, value: Duration | None) -> int | None:
    """Read a duration, if there is one."""
    return None if value is None else parse_duration(value)


def write_microseconds(value: int | None) -> timedelta | None:
    """Return a duration as a user gives it."""
    return None if value is None else timedelta(microseconds=value)


def read_flag(name: str, value: Any) -> bool:
    """Read True or False."""
    if not isinstance(value, bool):
        raise StreamJoinError(f"{name}={value!r}: give True or False")
    return value


def read_text(name: str, value: Any) -> str | None:
    """Read an expression, if there is one."""
    if value is not None and not isinstance(value, str):
        raise StreamJoinError(f"{name}={value!r}: give an expression as text")
    return value


def read_count(name: str, value: Any) -> int:
    """Read how many matches count."""
    if type(value) is not int or not 1 <= value <= sys.maxsize:
        raise StreamJoinError(
            f"{name}={value!r}: give the number of matches, from 1 to {sys.maxsize:,}"
        )
    return value


def read_keep(name: str, value: Any) -> str:
    """Read which matches count."""
    if value not in KEEPS:
        raise StreamJoinError(
            f"{name}={value!r} does not exist; choose 'all' or, for one match of each left row, "
            "'nearest', 'first' or 'last'"
        )
    return str(value)


def read_late(name: str, value: Any) -> str:
    """Read what becomes of late rows."""
    if value not in LATE_ROWS:
        raise StreamJoinError(
            f"{name}={value!r} does not exist; choose 'drop', to count them only, or 'keep', to "
            "have them marked in a column _late"
        )
    return str(value)


def read_unmatched(name: str, value: Any) -> str:
    """Read when rows without a match are given."""
    if value not in UNMATCHED:
        raise StreamJoinError(
            f"{name}={value!r} does not exist; choose 'final', to have a row when nothing can "
            "match it any more, or 'early', to have it after patience=, and taken back if it "
            "matches"
        )
    return str(value)


def read_aggregates(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    """Read aggregates by the names of their columns."""
    if value is None:
        return ()
    if (
        not isinstance(value, Mapping)
        or not value
        or not all(isinstance(each, str) for pair in value.items() for each in pair)
    ):
        raise StreamJoinError(
            f"{name}={value!r}: give a dict of columns and their aggregates, such as "
            "{'n': 'count(*)', 'best': 'max(r.bid)'}"
        )
    return tuple(value.items())


def read_emit(name: str, value: Any) -> str | None:
    """Read when matches are returned; `rules.resolve_emit` decides what None means."""
    if value is not None and value not in EMITS:
        raise StreamJoinError(
            f"{name}={value!r} does not exist; choose 'close', to join a window when it closes, "
            "'eager', to return matches as rows arrive, or 'auto'"
        )
    return value


def read_optimize(name: str, value: Any) -> str:
    """Read what ``"auto"`` looks at."""
    if value not in GOALS:
        raise StreamJoinError(f"{name}={value!r} does not exist; choose {quote_words(GOALS)}")
    return str(value)


def read_ordered(name: str, value: Any) -> Ordered:
    """Read an order of results."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and value > 0
    if value not in ORDERS and not is_number:
        raise StreamJoinError(
            f"{name}={value!r} is not an order of results; choose 'none', 'outer' (matches "
            "of an earlier row come first), 'inner' (and those of one row oldest first), or a "
            "number from 1: how many rows of the other stream may be out of order"
        )
    ordered: Ordered = value
    return ordered


def read_routing(name: str, value: Any) -> str:
    """Read how rows go to the cores of Spark."""
    if value not in ROUTINGS:
        raise StreamJoinError(
            f"{name}={value!r} does not exist; choose one of {quote_words(ROUTINGS)}"
        )
    return str(value)


def read_knobs(name: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """Read knobs; `rules.check_tuning` checks them against the algorithm."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise StreamJoinError(
            f"{name}={value!r}: give a dict of knobs and whole numbers, such as {{'bits': 10}} "
            "of algorithm='prj', or leave it out"
        )
    return tuple(value.items())


def quote_words(words: Iterable[str]) -> str:
    """List words as Python writes them.

    >>> quote_words(["a", "b"])
    "'a', 'b'"
    """
    return ", ".join(map(repr, words))


def join_words(words: Iterable[str]) -> str:
    """Put words into a sentence.

    >>> join_words(["a", "b", "c"])
    'a, b or c'
    """
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
