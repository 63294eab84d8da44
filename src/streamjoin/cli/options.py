"""The options of joins as command-line options, and back.

`options.options` says which options there are and what they mean; this module says how they are
written. Checks speak of Python arguments; `as_options` rewrites their messages for the command
line.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from streamjoin.errors import StreamJoinError
from streamjoin.options.options import STREAMS, EntryPoint
from streamjoin.options.values import Aggregates, ColumnPair, Knobs, Ordered
from streamjoin.windows import WINDOWS
from streamjoin.windows.durations import Duration

if TYPE_CHECKING:
    from streamjoin.cli.files import CsvOptions
    from streamjoin.windows import Window

Command = TypeVar("Command", bound=Callable[..., object])

_NAMES = "|".join(["window", "time", *STREAMS.table])
_ARGUMENT = re.compile(
    rf"(?<![\w.'\"-])({_NAMES})="
    r"(?:'([^']*)'|\"([^\"]*)\"|\(([^()]*)\)|(\{[^{}]*\})|(\w+(?:\([^()]*\))?))"
)

WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        "-w",
        metavar="WINDOW",
        help="What makes a pair. "
        + " ".join(
            f"{kind.__name__}: {kind.pairs}, as in "
            + " or ".join(f"[green]{text}[/green]" for text in kind.texts)
            + "."
            for kind in WINDOWS
        ),
    ),
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time",
        "-t",
        metavar="COLUMN",
        help="The event time: one column name for both sides, or two, as in "
        "[green]l_ts,r_ts[/green]. Every window but [green]count[/green] needs it.",
    ),
]


@dataclass(frozen=True)
class Form:
    """How options of one type are written on the command line."""

    kind: Any  # the type typer reads
    convert: Callable[[Any], Any] = lambda value: value
    metavar: str | None = None


def take_options(entry: EntryPoint) -> Callable[[Command], Command]:
    """Give a command the options of an entry point; it receives them as ``**options``."""

    def take(command: Command) -> Command:
        own = signature(command)
        named = [each for each in own.parameters.values() if each.kind != Parameter.VAR_KEYWORD]
        options = [
            Parameter(
                name, Parameter.KEYWORD_ONLY, default=each.default, annotation=annotate(entry, name)
            )
            for name, each in entry.table.items()
        ]
        command.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[each.replace(kind=Parameter.KEYWORD_ONLY) for each in [*named, *options]]
        )
        del command.__annotations__["options"]
        return command

    return take


def annotate(entry: EntryPoint, name: str) -> Any:
    """Return the type of an option, and its help, as typer takes them."""
    option, form = entry.table[name], FORMS[entry.types[name]]
    return Annotated[
        form.kind,
        typer.Option(
            f"--{name.replace('_', '-')}",
            metavar=form.metavar,
            help=mark_up(option.meaning),
            show_default=option.default is not None,
        ),
    ]


def mark_up(meaning: str) -> str:
    """Return the meaning of an option in the markup of the terminal.

    >>> mark_up('``"auto"`` chooses; see `explain`, ``{"bits": 10}``.')
    '[green]auto[/green] chooses; see explain, [green]bits=10[/green].'
    >>> mark_up('With ``keep="nearest"``: ``{"n": "count(*)", "best": "max(r.bid)"}``.')
    'With [green]--keep nearest[/green]: [green]n=count(*)[/green], [green]best=max(r.bid)[/green].'
    """
    marked = re.sub("``(.*?)``", lambda code: mark_code(code[1]), meaning)
    return marked.replace("`", "")


def mark_code(code: str) -> str:
    """Return Python code as it is written on the command line, in the markup of the terminal."""
    if code.startswith("{"):
        pairs = re.findall(r'"(\w+)": (?:"([^"]*)"|(\d+))', code)
        return ", ".join(f"[green]{name}={text or number}[/green]" for name, text, number in pairs)
    option = re.fullmatch(rf'({_NAMES})="([^"]*)"', code)
    text = f"--{option[1].replace('_', '-')} {option[2]}" if option else code.strip('"')
    return f"[green]{text}[/green]"


def as_arguments(entry: EntryPoint, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options as arguments of the Python functions."""
    return {
        name: FORMS[entry.types[name]].convert(value)
        for name, value in options.items()
        if value not in (None, [])
    }


def as_ordered(text: str) -> str | int:
    """Return a name or a number."""
    return int(text) if text.isdecimal() else text


def as_tuning(texts: list[str] | None) -> dict[str, int]:
    """Return the knobs that were set."""
    tuning = {}
    for text in texts or ():
        name, _, value = (part.strip() for part in text.partition("="))
        if not value.isdecimal():
            raise StreamJoinError(
                f"--tuning {text!r}: give a knob and a whole number, such as bits=10"
            )
        tuning[name] = int(value)
    return tuning


def as_aggregates(texts: list[str] | None) -> dict[str, str]:
    """Return the aggregates by the names of their columns."""
    aggregates: dict[str, str] = {}
    for text in texts or ():
        name, found, aggregate = (part.strip() for part in text.partition("="))
        if not (name and found and aggregate):
            raise StreamJoinError(
                f"--aggregate {text!r}: give a column and its aggregate, such as best=max(r.bid)"
            )
        if name in aggregates:
            raise StreamJoinError(
                f"--aggregate {text!r}: there is a column {name!r} already, of "
                f"{aggregates[name]}; give this one another name"
            )
        aggregates[name] = aggregate
    return aggregates


def as_options(message: str) -> str:
    """Rewrite Python arguments in a message as command-line options.

    >>> as_options("it needs time=('a', 'b'), or ask for algorithm='scan'")
    'it needs --time a,b, or ask for --algorithm scan'
    >>> as_options("tuning={'bits': 3}: no knob of algorithm='npj' with window=None")
    '--tuning bits=3: no knob of --algorithm npj without --window'
    >>> print(as_options("aggregate={'n': 'count(*)', 's': 'sum(r.x)'} and indicator=True"))
    --aggregate "n=count(*)" --aggregate "s=sum(r.x)" and --indicator
    """
    return _ARGUMENT.sub(_as_option, message).replace("with no --", "without --")


def _as_option(argument: re.Match[str]) -> str:
    name, text, other_text, columns, entries, value = argument.groups()
    option = f"--{name.replace('_', '-')}"
    if value == "None":
        return f"no {option}"
    if value == "True":
        return option
    if columns is not None:
        names = columns.replace("'", "").split(", ")
        return f"{option} {','.join(dict.fromkeys(names))}"
    if entries is not None:
        return write_entries(option, entries)
    if value is not None:
        return f"{option} {value}"
    return f"{option} {as_word(other_text if text is None else text)}"


def write_entries(option: str, entries: str) -> str:
    """Return a dict, as Python writes it, as one option for each of its entries."""
    try:
        pairs = ast.literal_eval(entries).items()
    except (ValueError, SyntaxError):  # cut off within a text
        return f"{option} {entries}"
    return " ".join(f"{option} {as_word(f'{key}={each}')}" for key, each in pairs) or option


def as_word(text: str) -> str:
    """Return a text as one word of a shell.

    >>> as_word("left_semi"), as_word("max(r.bid)")
    ('left_semi', '"max(r.bid)"')
    """
    return text if re.fullmatch(r"[\w.,:=/+-]+", text) else f'"{text}"'


def as_csv(delimiter: str | None, encoding: str | None) -> "CsvOptions":
    """Return how to read CSV files."""
    from streamjoin.cli.files import CsvOptions

    return CsvOptions("\t" if delimiter == "\\t" else delimiter, encoding)


def as_window(text: str | None) -> "Window | None":
    """Return the window, if one was given."""
    from streamjoin.windows import parse_window

    return None if text is None else parse_window(text)


def as_columns(text: str | None) -> tuple[str, str] | None:
    """Return the time columns of left and right, if given."""
    if text is None:
        return None
    left, _, right = (part.strip() for part in text.partition(","))
    return left, right or left


FORMS = {
    str: Form(str | None),
    str | None: Form(str | None),
    int | None: Form(int | None),
    Ordered: Form(str | None, as_ordered, "NAME or NUMBER"),
    Duration | None: Form(str | None, metavar="DURATION"),
    ColumnPair: Form(str | None, as_columns, "COLUMN"),
    Knobs | None: Form(list[str] | None, as_tuning, "KNOB=VALUE"),
    Aggregates | None: Form(list[str] | None, as_aggregates, "NAME=AGGREGATE"),
    int: Form(int | None),
    bool: Form(bool | None),
}
