"""One trait varies: the outcomes of the joins at each of its values, as tables and as figures."""

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.harness.figures import AxisScale, Figure
from benchmarks.harness.report import Report
from benchmarks.intrawindow.algorithms import LABELS, Outcomes
from benchmarks.intrawindow.simulator import PHASES, Outcome

METRICS: dict[str, tuple[str, Callable[[Outcome], float]]] = {
    "throughput": ("million tuples a second", lambda outcome: outcome.throughput),
    "latency": ("95th percentile of latency, ms", lambda outcome: outcome.latency),
    "progress": ("half of the matches are out, ms", lambda outcome: outcome.half),
}


@dataclass
class Sweep:
    """The outcomes by value, and by join."""

    name: str  # "Fig. 9"
    title: str
    across: str  # what varies
    differs: str = ""  # from the paper
    points: dict[float, Outcomes] = field(default_factory=dict)

    def table(self) -> dict[str, dict[str, dict[str, float]]]:
        """All figures, by value and join."""
        return {
            f"{value:g}": {LABELS[name]: outcome.figures() for name, outcome in outcomes.items()}
            for value, outcomes in self.points.items()
        }

    def draw(self, metric: str, scales: tuple[AxisScale, AxisScale]) -> Figure:
        """Return one metric as lines over the values."""
        up, get = METRICS[metric]
        file = f"{make_file_name(self.name)}-{metric}"
        figure = Figure(file, f"{self.title}: {metric}", self.across, up, scales)
        for value, outcomes in self.points.items():
            for name, outcome in outcomes.items():
                figure.add(LABELS[name], value, get(outcome))
        return figure

    def enter(self, report: Report, across: AxisScale = "log") -> "Sweep":
        """Enter the table and the figures into a report."""
        title = f"{self.name}: {self.title}"
        report.detail(title, self.table())
        if self.differs:
            report.detail(f"{title}: differs from the paper", self.differs)
        report.figures.extend(self.draw(metric, (across, "log")) for metric in METRICS)
        return self


def make_file_name(name: str) -> str:
    """Return the beginning of the names of a figure's files.

    >>> make_file_name("Fig. 9")
    'fig-9'
    """
    return name.lower().replace(". ", "-").replace(", ", "-").replace(" ", "-")


def draw_breakdown(name: str, title: str, across: str, bars: dict[str, Outcome]) -> Figure:
    """Return where the time of some runs goes, as bars of phases; without waiting."""
    figure = Figure(
        *(make_file_name(name), title, across, "ns a tuple", ("linear", "linear")),
        ticks=tuple(bars),
        stacked=True,
    )
    for x, outcome in enumerate(bars.values()):
        for phase in PHASES[1:]:
            figure.add(phase, x, max(outcome.breakdown[phase], 0.0))
    return figure


def round_breakdown(outcome: Outcome) -> dict[str, float]:
    """Return a breakdown as it goes into a table, ns a tuple."""
    return {phase: round(spent, 2) for phase, spent in outcome.breakdown.items()}
