"""Options that several commands have, and what becomes of them.

What checks them speaks of arguments, since that is what they are in Python; `as_options` says the
same as it is written on the command line.
"""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from streamjoin.errors import StreamJoinError

if TYPE_CHECKING:
    from streamjoin.cli.files import CsvOptions
    from streamjoin.windows import Window

_ARGUMENT = re.compile(
    r"(?<![\w.'\"-])(algorithm|emit|optimize|threads|time|tuning|window)="
    r"(?:'([^']*)'|\(([^()]*)\)|\{([^{}]*)\}|(\w+(?:\([^()]*\))?))"
)

WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        "-w",
        metavar="WINDOW",
        help="How far apart a pair may be: [green]10 minutes[/green] in time, "
        "[green]before 1 hour, after 5 minutes[/green], [green]count 1000[/green] in arrivals "
        "or [green]count 1000, 2000[/green] for left and right. Or what a pair shares: "
        "[green]tumbling 1 hour[/green], [green]tumbling 1 hour offset 15 minutes[/green], "
        "[green]session 10 minutes[/green].",
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
AlgorithmOption = Annotated[
    str, typer.Option(help="[green]auto[/green] chooses; explain tells what and why.")
]
EmitOption = Annotated[
    str | None,
    typer.Option(
        help="Tumbling and session windows: matches [green]close[/green], when a window closes, "
        "[green]eager[/green], as rows come, or [green]auto[/green].",
        show_default="close",
    ),
]
OptimizeOption = Annotated[
    str,
    typer.Option(
        help="What auto looks at: [green]throughput[/green], [green]latency[/green] or "
        "[green]progressiveness[/green].",
    ),
]
TuningOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tuning",
        metavar="KNOB=VALUE",
        help="Set a knob of the algorithm, e.g. [green]bits=10[/green] of prj; repeatable.",
    ),
]


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


def as_options(message: str) -> str:
    """Return a message with arguments as they are written on the command line.

    >>> as_options("it needs time=('a', 'b'), or ask for algorithm='scan'")
    'it needs --time a,b, or ask for --algorithm scan'
    >>> as_options("tuning={'bits': 3}: no knob of algorithm='npj' with window=None")
    '--tuning bits=3: no knob of --algorithm npj without --window'
    """
    return _ARGUMENT.sub(_as_option, message).replace("with no --", "without --")


def _as_option(argument: re.Match[str]) -> str:
    name, text, columns, knobs, value = argument.groups()
    if value == "None":
        return f"no --{name}"
    if columns is not None:
        value = columns.replace("'", "").replace(", ", ",")
    elif knobs is not None:
        value = knobs.replace("'", "").replace(": ", "=")
    elif text is not None:
        value = f'"{text}"' if " " in text else text
    return f"--{name} {value}"


def as_csv(delimiter: str | None, encoding: str | None) -> "CsvOptions":
    """Return how CSV files are written."""
    from streamjoin.cli.files import CsvOptions

    return CsvOptions("\t" if delimiter == "\\t" else delimiter, encoding)


def as_window(text: str | None) -> "Window | None":
    """Return the window that was given, if one was."""
    from streamjoin.windows import parse_window

    return None if text is None else parse_window(text)


def as_columns(text: str | None) -> tuple[str, str] | None:
    """Return the time columns of left and right, if they were given."""
    if text is None:
        return None
    left, _, right = (part.strip() for part in text.partition(","))
    return left, right or left
