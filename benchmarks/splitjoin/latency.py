"""How long batches take through SplitJoin, stage by stage (figures 15 and 18).

::

    scheduled ------------> the slowest core begins -----> it ends -----> gathered
               distribution                      execution         gathering

Distribution has the waiting in it, at the source and in channels; gathering waits for the stars of
all cores. *Visiting* is the time until a row is compared with another, on average over all cores:
half of each core's search is over by then (equation 6).

The source is an open loop (`beds`), at 50 % and at 90 % of the highest rate that can be
sustained: at which batches do not take longer and longer. A closed loop gives a first guess. From
80 % of it, or less if that is too much, to 110 %, a bisection looks for the highest rate at which
the median latency of the last third of the batches is not above that of the first third by more
than 2 % of the time between them, or by two batches' time. A join that is 2 % too slow for its
source falls behind as fast as that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.splitjoin.beds import SECONDS, Bed, Load, Passage, name_cores

LOW, HIGH, LEAST = 0.8, 1.1, 0.3
GROWTH = 0.02  # seconds of latency that may be gained in a second
SHARES = (0.5, 0.9)
HALVINGS = Sized(full=4, quick=2)  # of the search for the highest rate
STAGES = ("distribution", "execution", "gathering", "total", "visiting")


@dataclass(frozen=True)
class Stages:
    """Where a batch spent its time, in seconds."""

    distribution: float
    execution: float
    gathering: float
    visiting: float

    @property
    def total(self) -> float:
        """From its scheduled time until it was gathered."""
        return self.distribution + self.execution + self.gathering

    @classmethod
    def of(
        cls, scheduled: float, spans: Sequence[tuple[float, float]], gathered: float
    ) -> "Stages":
        """Divide a batch's time; ``spans`` are those of the cores."""
        begun, ended = max(spans, key=lambda span: span[1])
        middle = sum(first + last for first, last in spans) / len(spans) / 2
        return cls(begun - scheduled, ended - begun, gathered - ended, middle - scheduled)


@dataclass(frozen=True)
class Sustained:
    """What a join can sustain, in rows a second, and the stages at some part of that."""

    closed: float  # rate of a closed loop
    highest: float
    stages: dict[float, list[Stages]]  # by the share of the highest rate

    def percentile(self, share: float, stage: str, percent: float) -> float:
        """Return a percentile of one stage, in seconds."""
        values = [getattr(each, stage) for each in self.stages[share]]
        return float(np.percentile(values, percent))

    def to_dict(self) -> dict[str, Any]:
        """Everything in milliseconds, as details of a report."""
        return {
            "closed loop, rows/s": self.closed,
            "highest sustainable, rows/s": self.highest,
            "latency, ms": {
                f"{share:.0%}": {
                    stage: {
                        f"p{percent}": 1e3 * self.percentile(share, stage, percent)
                        for percent in (50, 95, 99)
                    }
                    for stage in STAGES
                }
                for share in self.stages
            },
        }


def divide_times(passages: Sequence[Passage]) -> list[Stages]:
    """Divide the time of batches, after the first few."""
    return [
        Stages.of(
            passage.scheduled,
            [(span.begun, span.ended) for span in passage.timing.spans],
            passage.timing.gathered,
        )
        for passage in passages[min(4, len(passages) // 4) :]
    ]


def is_falling_behind(passages: Sequence[Passage]) -> bool:
    """Whether the backlog grows."""
    third = max(len(passages) // 3, 1)
    begin, end = (
        median(passage.timing.gathered - passage.scheduled for passage in part)
        for part in (passages[:third], passages[-third:])
    )
    interval = (passages[-1].scheduled - passages[0].scheduled) / max(len(passages) - 1, 1)
    between = interval * (len(passages) - third)
    return end - begin > max(GROWTH * between, 2 * interval)


def count_batches(bed: Bed, rate: float, seconds: float) -> int:
    """Return how many batches come in so many seconds, at least a few."""
    return max(int(seconds * rate / bed.load.batch), 12)


def find_highest_rate(bed: Bed, closed: float, scale: Scale) -> float:
    """Return the highest rate that does not let the backlog grow."""

    def is_too_high(rate: float) -> bool:
        return is_falling_behind(bed.paced(rate, count_batches(bed, rate, scale.pick(SECONDS))))

    low, high = LOW * closed, HIGH * closed
    while is_too_high(low) and low > LEAST * closed:
        low, high = LOW * low, low
    for _ in range(scale.pick(HALVINGS)):
        rate = (low + high) / 2
        if is_too_high(rate):
            high = rate
        else:
            low = rate
    return low


def find_sustained(load: Load, cores: int, scale: Scale) -> Sustained:
    """Find what SplitJoin with outer order can sustain, and how long batches take then."""
    bed, seconds = Bed(load, cores, "outer"), scale.pick(SECONDS)
    bed.rate(seconds / 4)
    closed = median(bed.rate(seconds / 2) for _ in range(3))
    highest = find_highest_rate(bed, closed, scale)
    stages = {}
    for share in SHARES:
        rate = share * highest
        stages[share] = divide_times(bed.paced(rate, count_batches(bed, rate, 2 * seconds)))
    bed.close()
    return Sustained(closed, highest, stages)


def measure_latencies(report: Report, loads: Sequence[Load], scale: Scale) -> None:
    """Figures 15 (time windows) and 18 (count windows): one and two cores."""
    for load in loads:
        paper = "fig15" if load.timed else "fig18"
        figure = Figure(
            f"{paper}_{load.slug}",
            f"{load}, batches of {load.batch:,}",
            "cores",
            "median latency, ms",
        )
        for cores in (1, 2):
            about = f"latency: {load}, {name_cores(cores)}"
            with report.step(about):
                each = find_sustained(load, cores, scale)
            report.detail(about, each.to_dict())
            for share in SHARES:
                for stage in STAGES if share == SHARES[0] else ("total",):
                    label = f"{stage}, at {share:.0%} of the highest rate"
                    figure.add(label, cores, 1e3 * each.percentile(share, stage, 50))
        report.figures.append(figure)
