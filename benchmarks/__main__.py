"""``python -m benchmarks SUITE``: measures a suite against its competitors and its targets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.harness.figures import draw_figures
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.registry import SUITES, find_suite
from streamjoin.cli.app import friendly_errors
from streamjoin.cli.files import check_folder

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_show_locals=False)
NAMES = ", ".join(sorted(SUITES))


@app.command()
def bench(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help=f"One of {NAMES}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run?")] = False,
    json: Annotated[
        Path | None, typer.Option(help="Write machine, versions, raw series and claims here.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Draw the suite's figures here, as PNG and SVG."),
    ] = None,
) -> None:
    """Measure a suite against its competitors and its targets.

    [bold]Example[/bold]: [green]python -m benchmarks engine --quick --json out.json[/green]
    """
    with friendly_errors():
        run = find_suite(suite)
        if json is not None:
            check_folder(json)
        report = Report(suite, quick)
        try:
            run(report, Scale.QUICK if quick else Scale.FULL)
        finally:  # what was measured before an error took its time too
            if report.claims:
                Console().print(report.table())
            if json is not None:
                report.to_json(json)
                typer.echo(f"written to {json}")
            if plots is not None:
                files = draw_figures(report.figures, plots)
                typer.echo(f"{len(files)} pictures in {plots}" if files else "no figures to draw")


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
