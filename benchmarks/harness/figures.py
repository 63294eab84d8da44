"""Figures: lines over one axis, measured by a suite, written as numbers and drawn as pictures."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

AxisScale = Literal["linear", "log"]
COLOURS = ("#0b6e99", "#d9822b", "#4c9a52", "#a23b72", "#7a6a53", "#555555", "#c9a227", "#6f5bb5")
OTHERWISE = {" (simulated)": "--", " (predicted)": "--", ", threads on 2 processors": ":"}
MARKS = "osD^vPX*"
MARKED = 40  # points of a line, above which they are not marked


@dataclass
class Figure:
    """Some lines: for each label, points (x, y) in the order of x."""

    name: str  # of the file
    title: str
    across: str  # what x is
    up: str  # what y is
    scales: tuple[AxisScale, AxisScale] = ("log", "log")
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    ticks: tuple[str, ...] = ()  # what x is called where it is 0, 1, 2, ...
    stacked: bool = False  # lines as bars, one on top of the other

    def add(self, label: str, x: float, y: float) -> None:
        """Add a point to a line."""
        self.lines.setdefault(label, []).append((x, y))

    def to_dict(self) -> dict[str, Any]:
        """The figure as it is written to JSON."""
        return {
            "title": self.title,
            "x": self.across,
            "y": self.up,
            **({"ticks": list(self.ticks)} if self.ticks else {}),
            "lines": {label: [list(point) for point in line] for label, line in self.lines.items()},
        }


def find_style(label: str) -> tuple[str, str]:
    """Return whose line it is, and how it is drawn: what was not measured as asked is broken.

    >>> find_style("SplitJoin (simulated)")
    ('SplitJoin', '--')
    """
    for ending, style in OTHERWISE.items():
        if label.endswith(ending):
            return label.removesuffix(ending), style
    return label, "-"


def draw_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Draw each figure as PNG and as SVG; return the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib import ticker

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    style: Any = {"svg.hashsalt": "streamjoin", "font.size": 10, "axes.spines.top": False}
    with plt.rc_context({**style, "axes.spines.right": False}):
        for figure in figures:
            canvas, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
            heights: dict[float, float] = {}  # of bars
            subjects: dict[str, int] = {}  # lines of one subject share a colour
            for label, line in figure.lines.items():
                subject, style = find_style(label)
                number = subjects.setdefault(subject, len(subjects))
                xs, ys = zip(*line, strict=True)
                mark, colour = MARKS[number % len(MARKS)], COLOURS[number % len(COLOURS)]
                mark = mark if len(line) <= MARKED else ""
                filled = "full" if number < len(MARKS) else "none"  # they come again hollow
                looks: Any = {"marker": mark, "color": colour, "fillstyle": filled}
                if figure.stacked:
                    below = [heights.get(x, 0.0) for x in xs]
                    axes.bar(xs, ys, bottom=below, label=label, color=colour, width=0.7)
                    heights |= {x: low + y for x, low, y in zip(xs, below, ys, strict=True)}
                else:
                    axes.plot(xs, ys, style, label=label, linewidth=1.6, **looks)
            axes.set_xscale(figure.scales[0], **({"base": 2} if figure.scales[0] == "log" else {}))
            axes.set_yscale(figure.scales[1])
            for axis, scale in zip((axes.xaxis, axes.yaxis), figure.scales, strict=True):
                if scale == "log":  # numbers as people write them, not as powers
                    axis.set_major_formatter("{x:,g}")
                    axis.set_minor_formatter(ticker.LogFormatter(minor_thresholds=(1, 0.4)))
            if figure.ticks:
                axes.set_xticks(range(len(figure.ticks)), figure.ticks)
            if figure.scales[1] == "linear":
                axes.set_ylim(bottom=0)
            axes.set(title=figure.title, xlabel=figure.across, ylabel=figure.up)
            axes.set_axisbelow(True)
            axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
            canvas.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
            for ending in ("png", "svg"):
                path = folder / f"{figure.name}.{ending}"
                canvas.savefig(path, dpi=130, metadata={"Date": None} if ending == "svg" else None)
                written.append(path)
            plt.close(canvas)
    return written
