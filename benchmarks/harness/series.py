"""Raw measurements of one thing, in the order in which they were taken.

Medians are compared and not means: one pause of the system would move a mean.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Series:
    """Measurements with their median and spread.

    >>> Series("sort", (0.4, 0.2, 0.3)).median
    0.3
    """

    name: str
    values: tuple[float, ...]
    unit: str = "s"

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"the series {self.name!r} is empty; measure at least once")

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def min(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def max(self) -> float:
        """The largest value."""
        return max(self.values)

    @property
    def iqr(self) -> float:
        """The width of the middle half of the values; 0 for a single one."""
        if len(self.values) == 1:
            return 0.0
        first, _, third = statistics.quantiles(self.values, n=4, method="inclusive")
        return third - first

    def add_place(self, place: str) -> "Series":
        """Return the series under a name that says where it was measured.

        >>> Series("sort", (0.3,)).add_place("window of 1,000").name
        'sort, window of 1,000'
        """
        return replace(self, name=f"{self.name}, {place}")

    def summary(self) -> dict[str, Any]:
        """Median and spread, as they are written to JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": self.min,
            "max": self.max,
            "iqr": self.iqr,
        }


def make_series(
    measured: Mapping[str, Sequence[float]], unit: str, name: str = "{}"
) -> dict[str, Series]:
    """Make a series of what each competitor measured; its own name takes the place of ``{}``.

    >>> make_series({"ours": [3.0, 1.0]}, "M/s", "probe {}")["ours"]
    Series(name='probe ours', values=(3.0, 1.0), unit='M/s')
    """
    return {
        each: Series(name.format(each), tuple(values), unit) for each, values in measured.items()
    }
