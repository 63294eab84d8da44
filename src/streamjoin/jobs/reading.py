"""A join described in a TOML file, read into a `Job`.

::

    [join]    on, window, time, ...       Join, and the options of `streamjoin.spark.join`
    [left]    format, path, stream, ...   Source
    [right]   the same                    Source
    [sink]    format, path, mode, ...     Sink
    [spark]   settings of the session     a dict, names as Spark has them

The fields of the dataclasses are the known keys, and `FITTING` says which values fit their types.
So a new key is a new field in `streamjoin.jobs.job` or a new option of joins; nothing changes here.
Overrides such as ``--set right.path=other/`` are put into the tables first, and pass the same
checks.
``docs/guide/jobs.md`` is the reference for users; `streamjoin.spark.run_job` runs a job.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from streamjoin.errors import StreamJoinError
from streamjoin.jobs.job import (
    Delay,
    Job,
    Join,
    Location,
    Settings,
    Sink,
    Source,
    quote,
)
from streamjoin.options.options import SPARK
from streamjoin.options.values import Aggregates, ColumnPair, Knobs, Ordered, read_pair
from streamjoin.windows import Window, parse_window
from streamjoin.windows.durations import Duration, parse_duration

URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters or more: C: is a drive

TABLES = {"join": Join, "left": Source, "right": Source, "sink": Sink}
OPTIONS = {name: SPARK.types[name] for name, option in SPARK.table.items() if option.in_job}
Part = TypeVar("Part", Source, Sink)


def load_job(path: str | Path, overrides: Iterable[str] = ()) -> Job:
    """Read and check a job file; ``overrides`` are texts such as ``"right.path=other/"``."""
    path = Path(path)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StreamJoinError(
            f'{path} is not TOML: {error}. Texts stand in quotes, as in window = "10 minutes".'
        ) from error
    try:
        refuse_unknown("table", tables, (*TABLES, "spark"))
        for name in TABLES:
            if name not in tables:
                raise StreamJoinError(
                    f"there is no table [{name}]. A job has [join], [left], [right] and [sink]."
                )
        parts = {name: flatten(name, tables.get(name, {})) for name in (*TABLES, "spark")}
        for override in overrides:
            apply_override(parts, override)
        return Job(
            path,
            read_join(parts["join"], path),
            read_part(Source, "left", parts["left"], path),
            read_part(Source, "right", parts["right"], path),
            read_part(Sink, "sink", parts["sink"], path),
            fit(Settings, "spark", parts["spark"], path),
        )
    except StreamJoinError as error:
        raise type(error)(f"{path}: {error}") from error


def flatten(name: str, table: Any) -> dict[str, Any]:
    """Make ``kafka.topic = ...`` one option: TOML reads a dotted name as tables in tables.

    >>> flatten("left", {"format": "kafka", "options": {"kafka": {"group": {"id": "a"}}}})
    {'format': 'kafka', 'options': {'kafka.group.id': 'a'}}
    >>> flatten("spark", {"master": "local", "spark.ui": {"enabled": False}})
    {'spark.master': 'local', 'spark.ui.enabled': False}
    """
    refuse_scalar(name, table)
    if name == "spark":
        return {setting_name(key): value for key, value in dotted(table)}
    if "options" not in table:
        return table
    refuse_scalar(f"{name}.options", table["options"])
    return table | {"options": dict(dotted(table["options"]))}


def refuse_scalar(name: str, table: Any) -> None:
    """Refuse a value where a table belongs."""
    if not isinstance(table, dict):
        raise StreamJoinError(f"{name} = {quote(table)}: it must be a table, [{name}].")


def dotted(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield every value inside with its dotted name."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{rest}", inner) for rest, inner in dotted(value))
        else:
            yield key, value


def setting_name(key: str) -> str:
    """Return a key's name in Spark: every setting begins with ``spark.``."""
    return key if key.startswith("spark.") else f"spark.{key}"


def apply_override(parts: dict[str, dict[str, Any]], override: str) -> None:
    """Put one ``table.key=value`` into the tables; a value that is not a text is read as TOML."""
    name, equals, text = (each.strip() for each in override.partition("="))
    table, dot, key = name.partition(".")
    if not (equals and dot and key):
        raise StreamJoinError(
            f"the setting {override!r} cannot be read. Write table.key=value, "
            "e.g. right.path=other/ or sink.options.header=true."
        )
    refuse_unknown("table", [table], tuple(parts))
    if table == "spark":
        parts["spark"][setting_name(key)] = text
    elif key.startswith("options."):
        parts[table].setdefault("options", {})[key.removeprefix("options.")] = text
    else:
        hint = hints_of(table).get(key)
        parts[table][key] = toml_value(text) if hint in READ_AS_TOML else text


def toml_value(text: str) -> Any:
    """Read a value as TOML, or as text without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def hints_of(name: str) -> dict[str, Any]:
    """Return the keys of a table, and their types."""
    hints = get_type_hints(TABLES[name])
    if name == "join":
        del hints["options"]
        hints |= OPTIONS
    return hints


def read_join(table: dict[str, Any], file: Path) -> Join:
    """Turn the table ``[join]`` into a `Join`."""
    values = read_values(Join, "join", table, file)
    options = {name: values.pop(name) for name in OPTIONS if name in values}
    return Join(**values, options=options)


def read_part(kind: type[Part], name: str, table: dict[str, Any], file: Path) -> Part:
    """Turn a table into its dataclass."""
    return kind(**read_values(kind, name, table, file))


def read_values(
    kind: type[Join | Source | Sink], name: str, table: dict[str, Any], file: Path
) -> dict[str, Any]:
    """Return the values of a table as its dataclass holds them; refuse unknown or missing keys."""
    hints = hints_of(name)
    refuse_unknown(f"[{name}] key", table, tuple(hints))
    for each in fields(kind):
        if each.default is MISSING and each.default_factory is MISSING and each.name not in table:
            raise StreamJoinError(f"{name}.{each.name} is missing. Add it to [{name}].")
    return {key: fit(hints[key], f"{name}.{key}", table[key], file) for key in table}


def fit(hint: Any, name: str, value: Any, file: Path) -> Any:
    """Return the value as its field holds it, or raise and say what would fit."""
    words, convert = FITTING[hint]
    try:
        fitted = convert(value, file)
    except StreamJoinError as error:
        raise type(error)(f"{name}: {error}") from error
    if fitted is None:
        raise StreamJoinError(f"{name} = {quote(value)}: it must be {words}.")
    return fitted


def as_text(value: Any, _file: Path) -> str | None:
    """Accept a text that is not empty."""
    return value if isinstance(value, str) and value.strip() else None


def as_texts(value: Any, _file: Path) -> tuple[str, ...] | None:
    """Accept a list of texts; one text is a list of one."""
    texts = [value] if isinstance(value, str) else value
    fits = isinstance(texts, list) and texts and all(as_text(each, _file) for each in texts)
    return tuple(texts) if fits else None


def as_location(value: Any, file: Path) -> str | None:
    """Accept a URI, or a path relative to the folder of the job file."""
    if as_text(value, file) is None or URI.match(value):
        return as_text(value, file)
    return str(file.absolute().parent / Path(value).expanduser())


def as_window(value: Any, _file: Path) -> Window | None:
    """Accept a window as it is written on the command line."""
    return parse_window(value) if isinstance(value, str) else None


def as_delay(value: Any, _file: Path) -> str | None:
    """Accept a duration."""
    return value if isinstance(value, str) and parse_duration(value) >= 0 else None


def as_pair(value: Any, _file: Path) -> tuple[str, str] | None:
    """Accept one name for both sides, or two."""
    return read_pair("columns", value)


def as_ordered(value: Any, _file: Path) -> Ordered | None:
    """Accept a name or a number; the join checks which."""
    return value if type(value) in (str, int) else None


def as_settings(value: Any, _file: Path) -> Settings | None:
    """Accept names with texts, numbers and truth values."""
    fits = isinstance(value, dict) and all(
        isinstance(each, str | int | float | bool) for each in value.values()
    )
    return value if fits else None


def as_knobs(value: Any, _file: Path) -> Knobs | None:
    """Accept names with whole numbers; the join checks which."""
    fits = isinstance(value, dict) and all(type(each) is int for each in value.values())
    return value if fits else None


def as_aggregates(value: Any, _file: Path) -> Aggregates | None:
    """Accept names with texts; the join checks which."""
    fits = isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    return value if fits and value else None


def as_count(value: Any, _file: Path) -> int | None:
    """Accept a whole number from 1."""
    return value if type(value) is int and value >= 1 else None


FITTING: dict[Any, tuple[str, Callable[[Any, Path], Any]]] = {
    str: ("a text in quotes", as_text),
    str | None: ("a text in quotes", as_text),
    bool: ("true or false", lambda value, _: value if isinstance(value, bool) else None),
    int: ("a whole number from 1", as_count),
    int | None: ("a whole number from 1", as_count),
    Ordered: ('"none", "outer", "inner", or a whole number from 1', as_ordered),
    tuple[str, ...]: ('a list of texts, e.g. ["id", "price * 2 as double_price"]', as_texts),
    tuple[str, str] | None: ("one or two names", as_pair),
    ColumnPair: ("one or two names", as_pair),
    Location | None: ("a path in quotes", as_location),
    Delay | None: ('a duration in quotes, e.g. "5 seconds"', as_delay),
    Duration | None: ('a duration in quotes, e.g. "5 seconds"', as_delay),
    Window | None: ('a window in quotes, e.g. "10 minutes" or "count 1000"', as_window),
    Knobs | None: ("a table of whole numbers, e.g. { bits = 10 }", as_knobs),
    Aggregates | None: (
        'a table of columns and aggregates, e.g. { n = "count(*)" }',
        as_aggregates,
    ),
    Settings: ("a table of texts, numbers, true and false", as_settings),
}
READ_AS_TOML = (
    bool,
    int,
    int | None,
    Aggregates | None,
    Ordered,
    tuple[str, ...],
    tuple[str, str] | None,
    ColumnPair,
    Knobs | None,
)


def refuse_unknown(what: str, keys: Iterable[str], known: tuple[str, ...]) -> None:
    """Refuse an unknown key; most are typing errors."""
    for key in keys:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(known)}."
            raise StreamJoinError(f"there is no {what} {key!r}. {hint}")
