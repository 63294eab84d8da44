"""The command ``streamjoin``: joins files, runs jobs on Spark, explains, shows a demo, calibrates.

Commands import what they need when they run, so ``streamjoin --help`` answers at once. An error the
user can fix (a condition, a window, a file) is one red paragraph on stderr, and exit code 2; a
traceback means a bug of ours. Progress goes to stderr, results to stdout.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from streamjoin import __version__
from streamjoin.cli.options import (
    TimeOption,
    WindowOption,
    as_arguments,
    as_columns,
    as_csv,
    as_options,
    as_window,
    take_options,
)
from streamjoin.errors import StreamJoinError
from streamjoin.options.options import STREAMS, TABLES

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help="Join two streams or tables by [bold]any[/bold] condition, inside a window.\n\n"
    "Start with [green]streamjoin demo[/green], then "
    "[green]streamjoin explain 'abs(l.x - r.x) <= 5'[/green].",
)

# The extra that installs a package, by the name that is imported (google is protobuf).
EXTRAS = {"pyspark": "spark", "pandas": "spark", "google": "spark", "duckdb": "demo"}


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"streamjoin {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Take the options that come before a command; the help text is the app's."""


@app.command()
def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="How long the streams run.",
            show_default="25; in process, 6",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the generated data.")] = 7,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to keep Spark's input and results.")
    ] = Path("out/demo"),
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run one join in this process, without Spark.")
    ] = False,
) -> None:
    """Join live streams of data centres and of prices on a local Spark, and check the results.

    [bold]Example[/bold]: [green]streamjoin demo --seconds 10 --out demo/[/green]
    """
    with friendly_errors():
        from streamjoin.cli.demo import in_process as without_spark
        from streamjoin.cli.demo import on_spark

        if in_process:
            is_right = without_spark.run(Console(), seconds or without_spark.SECONDS, seed)
        else:
            is_right = on_spark.run(Console(), seconds or on_spark.SECONDS, seed, out)
        if not is_right:
            raise typer.Exit(1)


@app.command()
@take_options(STREAMS)
def explain(
    on: Annotated[str, typer.Argument(metavar="ON", help="The condition, over l and r.")],
    window: WindowOption = None,
    time: TimeOption = None,
    **options: Any,
) -> None:
    """Say how a condition is understood, which algorithm would join it, and why.

    [bold]Examples[/bold]

    [green]streamjoin explain "abs(l.x - r.x) <= 5"[/green]

    [green]streamjoin explain "l.id = r.id and l.a < r.b" --window "10 minutes" --time ts[/green]
    """
    with friendly_errors(as_options):
        import streamjoin as sj

        text = sj.explain(
            on=on,
            window=as_window(window),
            time=as_columns(time),
            **as_arguments(STREAMS, options),
        )
        typer.echo(text)


@app.command()
@take_options(TABLES)
def join(
    left: Annotated[Path, typer.Argument(metavar="LEFT", help="The file with the rows of l.")],
    right: Annotated[Path, typer.Argument(metavar="RIGHT", help="The file with the rows of r.")],
    on: Annotated[
        str, typer.Option(help="The condition, in SQL over the aliases l and r.", metavar="SQL")
    ],
    window: WindowOption = None,
    time: TimeOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write the matches to this file, replacing it if it exists; without "
            "this option, the first few are shown.",
        ),
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Only count the rows of the result.")
    ] = False,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="What separates columns in CSV input.", show_default="a comma; in .tsv, a tab"
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="The encoding of CSV input, e.g. [green]latin-1[/green].", show_default="utf-8"
        ),
    ] = None,
    **options: Any,
) -> None:
    """Join two files: parquet, CSV, Arrow or lines of JSON, by their endings.

    Matches are written as they are found, so there may be more than fit into memory.

    [bold]Examples[/bold]

    [green]streamjoin join trades.parquet quotes.parquet --window "10 minutes" --time ts
    --on "l.symbol = r.symbol and abs(l.price - r.price) <= 0.05" --out matches.parquet[/green]

    [green]streamjoin join a.csv b.arrow --on "l.power < r.power and l.cool > r.cool"
    --count[/green]
    """
    with friendly_errors(as_options):
        from streamjoin.cli.join_files import join_files

        told = join_files(
            (left, right),
            out,
            progress=Console(stderr=True),
            counts=count,
            csv=as_csv(delimiter, encoding),
            on=on,
            window=as_window(window),
            time=as_columns(time),
            **as_arguments(TABLES, options),
        )
        typer.echo(told)


@app.command()
def run(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The TOML file with the job.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check file and sources, and explain the join.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Stop a stream after this time, not by Ctrl-C.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a value of the file, e.g. [green]right.path=other/[/green]; repeatable.",
        ),
    ] = None,
) -> None:
    """Run the join of streams or tables that a file describes, on Spark (docs/guide/jobs.md).

    [bold]Example[/bold]: [green]streamjoin run job.toml --seconds 60 --set join.cores=4[/green]
    """
    with friendly_errors():
        from streamjoin.spark.run_job import explain_job, load_job, run_job

        loaded, progress = load_job(job, settings or ()), Console(stderr=True)
        if dry_run:
            typer.echo(explain_job(loaded, console=progress))
        else:
            typer.echo(run_job(loaded, console=progress, seconds=seconds))


@app.command()
def calibrate(
    rows: Annotated[int, typer.Option(min=1 << 14, help="Rows in the measured subwindow.")] = (
        1 << 20
    ),
) -> None:
    """Measure which structure is fastest on this machine, for ``algorithm="auto"`` to choose by.

    Takes half a minute on a machine that does nothing else. The result is kept in a file for this
    user; ``explain`` shows it.
    """
    with friendly_errors():
        from streamjoin.calibration.structures import (
            as_table,
            calibrate,
            constants_table,
            windows_table,
        )
        from streamjoin.choice.calibration_file import save_calibration
        from streamjoin.choice.structure import describe_windows

        with Console(stderr=True).status("compiling kernels ...") as status:
            found, costs = calibrate(rows, note=lambda cost: status.update(f"measured {cost}"))
        Console().print(as_table(costs))
        Console().print(constants_table(found.costs))
        Console().print(windows_table(found.windows))
        path = save_calibration(found)
        typer.echo(f"auto takes {describe_windows(found)}\nwritten to {path}")


@contextmanager
def friendly_errors(word: Callable[[str], str] = str) -> Iterator[None]:
    """Show errors that the user can fix, in the words of the command line."""
    try:
        yield
    except StreamJoinError as error:
        message = word(str(error))
    except FileNotFoundError as error:
        message = f"There is no file {error.filename}. Check the name and the folder."
        if error.filename is None:
            message = str(error)
    except OSError as error:
        message = f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "streamjoin":
            raise
        extra = EXTRAS.get(package)
        needed = f"'streamjoin[{extra}]'" if extra else package
        message = f"This command needs {package}. Install it: pip install {needed}."
    else:
        return
    console = Console(stderr=True)
    wraps = console.is_terminal  # elsewhere a message is one line, so that it can be grepped
    console.print(
        f"[bold red]Error:[/] [red]{escape(message)}[/]", highlight=False, soft_wrap=not wraps
    )
    raise typer.Exit(2)
