"""What the demos show: figures side by side while the streams run, samples, and the verdict.

On a terminal the figures are redrawn in place. Elsewhere, in a log or a pipe, each join prints a
line every two seconds.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from streamjoin.cli.demo.scenario import Scenario

BAR, SPARKS = 20, "▁▂▃▄▅▆▇█"
LINE_SECONDS = 2.0


class Progress(Protocol):
    """A join that runs."""

    @property
    def title(self) -> str:
        """Its name."""

    @property
    def done(self) -> float:
        """How much of it is done, from 0 to 1."""

    def figures(self) -> dict[str, str]:
        """Return label and value of each figure; the labels are the same for all joins."""


@dataclass(frozen=True)
class Board:
    """The figures of some joins, one column per join; ``note`` explains them."""

    joins: Sequence[Progress]
    note: str

    def __rich__(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
        table.caption, table.caption_justify = f"{self.note}\n", "left"
        table.add_column("")
        for join in self.joins:
            table.add_column(join.title, header_style="bold cyan", min_width=BAR + 6)
        table.add_row("progress", *(draw_bar(join.done) for join in self.joins))
        figures = [join.figures() for join in self.joins]
        for label in figures[0]:
            table.add_row(label, *(f"[bold]{each[label]}[/]" for each in figures))
        return table

    def lines(self) -> Iterator[str]:
        """Yield a line per join."""
        for join in self.joins:
            figures = ", ".join(f"{label} {value}" for label, value in join.figures().items())
            yield f"{join.title}, {join.done:.0%}: {figures}"


@contextmanager
def show_board(console: Console, board: Board) -> Iterator[Callable[[], None]]:
    """Show the board, and yield a function that must be called often to keep it up to date."""
    if console.is_terminal:
        with Live(board, console=console, refresh_per_second=8):
            yield lambda: None
        return
    shown = time.perf_counter()

    def print_lines() -> None:
        for line in board.lines():
            console.print(line, highlight=False, soft_wrap=True)

    def show() -> None:
        nonlocal shown
        if time.perf_counter() - shown > LINE_SECONDS:
            shown = time.perf_counter()
            print_lines()

    yield show
    print_lines()


def show_scenarios(console: Console, scenarios: Iterable[Scenario]) -> None:
    """Print what will be joined."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for scenario in scenarios:
        left, right = scenario.sides
        table.add_row(
            f"[bold cyan]{scenario.title}[/]",
            f"[bold]{left}[/] join [bold]{right}[/], within {scenario.window}\n{scenario.on}",
        )
    console.print(table, highlight=False)


def show_samples(console: Console, scenario: Scenario, matches: pa.Table) -> None:
    """Print a few matches."""
    table = Table(
        title=f"[bold cyan]{scenario.title}[/], some of the last matches",
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for heading in scenario.shown.values():
        table.add_column(heading, justify="right", header_style="dim")
    for row in matches.select(list(scenario.shown)).to_pylist():
        table.add_row(*map(format_value, row.values()))
    console.print(table)


def show_verdict(
    console: Console, title: str, judge: str, found: int, expected: int, same: bool, seed: int
) -> None:
    """Print whether the result is right."""
    if same:
        text = f"[green]✓ {title}: checked against {judge}: {expected:,} matches, identical[/]"
    else:
        text = (
            f"[red]✗ {title}: checked against {judge}: DIFFERENT, {found:,} matches here and "
            f"{expected:,} there. This is a bug; please report it with seed {seed}.[/]"
        )
    console.print(text, highlight=False, soft_wrap=True)


def draw_bar(done: float) -> str:
    """Draw how much is done."""
    filled = round(BAR * done)
    return f"[green]{'━' * filled}[/][dim]{'━' * (BAR - filled)}[/] {done:.0%}"


def draw_sparkline(values: Sequence[float]) -> str:
    """Draw a small chart.

    >>> draw_sparkline([0, 4, 8, 2])
    '▁▄█▂'
    """
    top = max(values, default=0) or 1
    return "".join(SPARKS[int((len(SPARKS) - 1) * value / top)] for value in values)


def format_percentiles(seconds: Sequence[float]) -> str:
    """Format the median and the 95th percentile of some durations.

    >>> format_percentiles([0.001, 0.002, 0.003])
    '2.0 ms, 2.9 ms'
    >>> format_percentiles([1.0, 2.0])
    '1.50 s, 1.95 s'
    """
    if not seconds:
        return "-"
    middle, high = np.percentile(seconds, (50, 95))
    if high < 0.1:
        return f"{1000 * middle:.1f} ms, {1000 * high:.1f} ms"
    return f"{middle:.2f} s, {high:.2f} s"


def format_value(value: Any) -> str:
    """Format a value of a sample."""
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S.%f}"[:-3]
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
