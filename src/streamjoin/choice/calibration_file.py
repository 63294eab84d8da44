"""From where on which structure is the best, on this machine (PanJoin V-A4).

The paper's rule: BI-Sort if batches are large or a probe has many matches; otherwise RaP-Table, or
WiB+-Tree where keys rise all the time. What is large, and what is many, depends on the machine:
``streamjoin calibrate`` measures it, and writes it to a file that every join here reads. The
constants of the cost model, and what joining a window by equality costs, are kept in the same file;
with one that was written before there were any, the defaults hold.
"""

import json
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from streamjoin.choice.structure_costs import DEFAULT_COSTS, Costs, describe_choice, prefer_index
from streamjoin.choice.window_costs import DEFAULT_WINDOW_COSTS, WindowCosts
from streamjoin.errors import StreamJoinError

VARIABLE = "STREAMJOIN_CALIBRATION"  # where the file is, if not in the user's cache folder


@dataclass(frozen=True)
class Thresholds:
    """When BI-Sort is the best; beyond any batch or any number of matches, it never is."""

    large_batch: float  # rows
    many_matches: float  # of one probe, in one subwindow
    measured: str = ""  # when; empty: these are defaults
    costs: Costs = DEFAULT_COSTS
    windows: WindowCosts = DEFAULT_WINDOW_COSTS

    def choose_any(
        self, batch: float, share: float, rows: tuple[float, float], rising: bool, current: str
    ) -> str:
        """Choose between indexes of a whole window, by their predicted costs, and subwindows.

        A probe meets a ``share`` of the rows; ``rows`` are those of a window and of a subwindow.
        """
        window, subwindow = rows
        index = prefer_index(self.costs, window, share * window, batch, current)
        return index or self.choose(batch, share * subwindow, rising)

    def describe_any(self) -> str:
        """Say the whole rule in words, for a row with two matches."""
        told = describe_choice(self.costs)
        return (
            f"{told}, looked at again as rows come; otherwise {self.describe()}"
            if told
            else self.describe()
        )

    def choose(self, batch: float, matches: float, rising: bool) -> str:
        """Return the structure for batches of so many rows, with so many matches a probe.

        >>> Thresholds(large_batch=4096, many_matches=64).choose(100, 1, rising=True)
        'wib_tree'
        """
        if batch >= self.large_batch or matches >= self.many_matches:
            return "bi_sort"
        return "wib_tree" if rising else "rap_table"

    def describe(self) -> str:
        """Say the rule in words."""
        ends = [
            f"{number:,.0f} {what} and more"
            for number, what in (
                (self.large_batch, "rows"),
                (self.many_matches, "matches a probe"),
            )
            if number < float("inf")
        ]
        if self.large_batch <= 1:
            return "bi_sort, which is the fastest for batches of any size"
        few = "rap_table, or wib_tree where keys rise all the time"
        if not ends:
            return few
        return f"bi_sort for batches of {' or '.join(ends)}; below that {few}"


DEFAULTS = Thresholds(large_batch=1, many_matches=1)  # wherever it was measured so far


def calibration_file() -> Path:
    """Return where a calibration is kept."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "streamjoin" / "calibration.json"


def load_thresholds() -> Thresholds:
    """Return what was measured on this machine, or defaults."""
    path = calibration_file()
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return DEFAULTS
    return _read(path, changed)


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> Thresholds:
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        numbers = (float(saved["large_batch"]), float(saved["many_matches"]))
        costs = Costs.from_dict(saved["costs"]) if "costs" in saved else DEFAULT_COSTS
        windows = DEFAULT_WINDOW_COSTS
        if "windows" in saved:
            windows = WindowCosts.from_dict(saved["windows"])
        return Thresholds(*numbers, str(saved["measured"]), costs, windows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StreamJoinError(
            f"{path} is no calibration ({type(error).__name__}: {error}); write it anew with "
            "'streamjoin calibrate', or remove it to go back to the defaults"
        ) from error


def save_thresholds(thresholds: Thresholds) -> Path:
    """Write a calibration, and return where."""
    path = calibration_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f"{path.name}.{os.getpid()}")  # no reader may see a part of it
    whole.write_text(json.dumps(asdict(thresholds), indent=2) + "\n", encoding="utf-8")
    return whole.replace(path)
