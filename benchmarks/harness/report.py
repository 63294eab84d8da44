"""What a suite reports, so that a figure can be checked and repeated.

A `Claim` is one figure that was asked for: its value, its target, whether it was reached, and the
series on both sides. A `Report` collects claims, series and details and writes them, with commit,
machine, versions and seeds, as JSON and as a table.
"""

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from benchmarks.harness.figures import Figure
from benchmarks.harness.machine import describe_commit, describe_machine, describe_versions
from benchmarks.harness.series import Series

Direction = Literal["at least", "at most"]


@dataclass(frozen=True)
class Claim:
    """One figure that was asked for, and whether it was reached."""

    name: str
    value: float
    target: float
    reached: bool
    ours: Series | None = None
    theirs: Series | None = None
    note: str = ""
    direction: Direction = "at least"

    def to_dict(self) -> dict[str, Any]:
        """The claim as it is written to JSON."""
        return {
            "name": self.name,
            "value": self.value,
            "target": self.target,
            "direction": self.direction,
            "reached": self.reached,
            "ours": self.ours.summary() if self.ours else None,
            "theirs": self.theirs.summary() if self.theirs else None,
            "note": self.note,
        }


@dataclass
class Report:
    """Claims and series of one suite in one run, with all that is needed to repeat it."""

    suite: str
    quick: bool = False
    commit: dict[str, str | bool | None] = field(default_factory=describe_commit)
    console: Console = field(default_factory=lambda: Console(stderr=True), repr=False)
    claims: list[Claim] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    seeds: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)

    def seed(self, name: str, value: int) -> int:
        """Record a seed and give it back."""
        self.seeds[name] = value
        return value

    def add(self, *series: Series) -> None:
        """Keep raw series; one that is kept already is not kept twice."""
        self.series.extend(one for one in series if one not in self.series)

    def detail(self, name: str, value: Any) -> None:
        """Keep something that explains the figures, and that has no target."""
        self.details[name] = value

    def claim(self, claim: Claim) -> Claim:
        """Record a claim and its series, and say how it went."""
        self.claims.append(claim)
        self.add(*(one for one in (claim.ours, claim.theirs) if one is not None))
        outcome = "[green]reached[/]" if claim.reached else "[red]not reached[/]"
        self.console.print(f"{claim.name}: {_figure(claim.value)}, {outcome}", highlight=False)
        return claim

    def at_least(
        self,
        name: str,
        value: float,
        target: float,
        ours: Series | None = None,
        theirs: Series | None = None,
        note: str = "",
    ) -> Claim:
        """Record that ``value`` should be ``target`` or more."""
        return self.claim(Claim(name, value, target, value >= target, ours, theirs, note))

    def at_most(
        self,
        name: str,
        value: float,
        target: float,
        ours: Series | None = None,
        theirs: Series | None = None,
        note: str = "",
    ) -> Claim:
        """Record that ``value`` should be ``target`` or less."""
        reached = value <= target
        return self.claim(Claim(name, value, target, reached, ours, theirs, note, "at most"))

    def speedup(
        self, name: str, ours: Series, theirs: Series, target: float, note: str = ""
    ) -> Claim:
        """Record how many times less time we take, by medians; it should be ``target``."""
        return self.at_least(name, theirs.median / ours.median, target, ours, theirs, note)

    def rate_ratio(
        self, name: str, ours: Series, theirs: Series, target: float, note: str = ""
    ) -> Claim:
        """Record our rate as a multiple of theirs, by medians, and that it should be ``target``."""
        return self.at_least(name, ours.median / theirs.median, target, ours, theirs, note)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show what is being measured now, and how long that took."""
        start = time.perf_counter()
        with self.console.status(text):
            yield
        self.console.print(f"{text} [dim]({time.perf_counter() - start:.1f} s)[/]", highlight=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as it is written to JSON."""
        return {
            "suite": self.suite,
            "quick": self.quick,
            "commit": self.commit,
            "machine": describe_machine(),
            "versions": describe_versions(),
            "seeds": self.seeds,
            "settings": self.settings,
            "claims": [claim.to_dict() for claim in self.claims],
            "details": self.details,
            "figures": {figure.name: figure.to_dict() for figure in self.figures},
            "series": [
                {**series.summary(), "values": list(series.values)} for series in self.series
            ],
        }

    def to_json(self, path: str | Path) -> None:
        """Write the report; a value that JSON cannot hold (NaN, infinity) becomes null."""
        text = json.dumps(_finite(self.to_dict()), indent=2, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    def table(self) -> Table:
        """The claims as a table."""
        title = f"{self.suite}{' (quick: smaller sizes than the targets ask for)' * self.quick}"
        table = Table(title=title, title_justify="left")
        for heading in ("claim", "value", "target", "reached", "ours", "theirs", "note"):
            numeric = heading in ("value", "target", "ours", "theirs")
            table.add_column(heading, justify="right" if numeric else "left")
        for claim in self.claims:
            table.add_row(
                claim.name,
                _figure(claim.value),
                f"{claim.direction} {_figure(claim.target)}",
                "[green]yes[/]" if claim.reached else "[red]no[/]",
                _median_and_range(claim.ours),
                _median_and_range(claim.theirs),
                claim.note,
            )
        return table


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _figure(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 3
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _median_and_range(series: Series | None) -> str:
    if series is None:
        return "-"
    low, middle, high = (_figure(value) for value in (series.min, series.median, series.max))
    return f"{middle} {series.unit} ({low} to {high})"
