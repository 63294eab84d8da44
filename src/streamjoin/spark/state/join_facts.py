"""Facts about a join that a checkpoint keeps, so that no other join continues from it.

::

    condition     l.k % 7 = r.k               as the user wrote it; compared word by word
    left columns  k int, __streamjoin_key_l0 int of k
    settings      time zone UTC, ...          only where Spark evaluates a part of the condition

None of this is text that sqlglot or pyarrow has worded: their wording changes between versions, and
a good checkpoint must not be refused for that. What Spark computes, filters and checks afterwards
follows from the user's text, the columns and the settings, so these are kept instead; for a
computed key, also the columns that it is made of.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from streamjoin.options.checked import JoinOptions
from streamjoin.options.options import EntryPoint, Kinds, LateRows
from streamjoin.windows.durations import format_duration, parse_duration

FORMAT, CONDITION, COLUMNS = "format", "condition", ("left columns", "right columns")

Facts = dict[str, Any]


class GivenRows(Kinds, LateRows, total=False):
    """The options of what a join gives."""


_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
    | (?P<text> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<word> \w+ )
    | (?P<sign> . )""",
    re.DOTALL | re.VERBOSE,
)

_NAMES: dict[pa.DataType, str] = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.month_day_nano_interval(): "interval",
}


@dataclass(frozen=True)
class Request:
    """What the user asked for, before the condition was split between Spark and the cores."""

    on: str
    time: tuple[str, str] | None
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()  # computed keys, and the columns they read
    settings: tuple[tuple[str, str], ...] = ()  # of the session; none if Spark evaluates nothing
    given: Facts = field(default_factory=dict)  # what the result is, see `describe_kind`


def describe_columns(schema: pa.Schema, request: Request) -> list[list[str]]:
    """Return name and type of each column; for computed keys, also what they are made of."""
    sources = dict(request.keys)
    columns = []
    for each in schema:
        names, text = sources.get(each.name, ()), type_name(each.type)
        columns.append([each.name, f"{text} of {', '.join(names)}" if names else text])
    return columns


def describe_kind(config: JoinOptions) -> Facts:
    """Return what is given of pairs and rows, as far as it is not what it is without options."""
    options = EntryPoint("", GivenRows).table
    return {
        name: write_plainly(option.write(value))
        for name, option in options.items()
        if (value := getattr(config, option.field or name)) != option.read(name, option.default)
    }


def write_plainly(value: Any) -> Any:
    """Return an option's value in a form that JSON can hold, as users may have written it.

    >>> write_plainly(timedelta(seconds=5)), write_plainly("early")
    ('5 seconds', 'early')
    """
    return format_duration(parse_duration(value)) if isinstance(value, timedelta) else value


def type_name(kind: pa.DataType) -> str:
    """Return a type's name as Spark's DDL has it.

    >>> type_name(pa.list_(pa.timestamp("us", "UTC")))
    'array<timestamp>'
    """
    if kind in _NAMES:
        return _NAMES[kind]
    types = pa.types
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_duration(kind):
        return "interval day to second"
    if types.is_time(kind):
        return "time"
    if types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if types.is_struct(kind):
        return f"struct<{','.join(f'{each.name}:{type_name(each.type)}' for each in kind)}>"
    return str(kind)


def split_words(text: str, exact: Iterable[str] = ()) -> list[str]:
    """Return the tokens of SQL text, without blanks and comments, with words in lower case.

    Words whose lower case is one of ``exact`` stay as they are.

    >>> split_words("L.k<= r.K -- the key") == split_words("l.K <= R.k")
    True
    """
    unchanged = set(exact)
    return [
        each[0] if each.lastgroup != "word" or each[0].lower() in unchanged else each[0].lower()
        for each in _TOKEN.finditer(text)
        if each.lastgroup is not None
    ]


def find_changes(saved: Facts, facts: Facts) -> list[str]:
    """Describe the facts that differ from those saved; none if the join is the same."""
    if saved == facts:
        return []
    if saved.get(FORMAT) != facts.get(FORMAT):  # its facts may have other names
        return [f"its state has format {saved.get(FORMAT)}, and this version {facts.get(FORMAT)}"]
    names = [*facts, *(name for name in saved if name not in facts)]
    ambiguous = [name for side in COLUMNS for name in _ambiguous(facts.get(side) or [])]
    changes = []
    for name in names:
        was, is_ = saved.get(name), facts.get(name)
        same = was == is_
        if name == CONDITION and isinstance(was, str) and isinstance(is_, str):
            same = split_words(was, ambiguous) == split_words(is_, ambiguous)
        if not same:
            changes.append(f"{name} was {_format_fact(name, was)} and is {_format_fact(name, is_)}")
    return changes


def _ambiguous(columns: list[list[str]]) -> list[str]:
    """Return the names, in lower case, that several columns have."""
    counts = Counter(name.lower() for name, _ in columns)
    return [name for name, count in counts.items() if count > 1]


def _format_fact(name: str, value: Any) -> str:
    if value is None:
        return "nothing"
    if name in COLUMNS:
        return ", ".join(" ".join(column) for column in value)
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
