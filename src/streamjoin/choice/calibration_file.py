"""The calibration: what was measured on this machine, in a file that every join here reads.

``streamjoin calibrate`` writes it. It holds the thresholds between the structures of subwindows
(`structure` has the rule), the constants of the cost models (`structure_costs`), and the costs of
joining a window by equality (`window_costs`). Numbers that an older file lacks come from the
defaults.
"""

import json
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from streamjoin.choice.structure_costs import (
    DEFAULT_COSTS,
    DEFAULT_TWO_KEY_COSTS,
    Costs,
    TwoKeyCosts,
)
from streamjoin.choice.window_costs import DEFAULT_WINDOW_COSTS, WindowCosts
from streamjoin.errors import StreamJoinError

VARIABLE = "STREAMJOIN_CALIBRATION"  # environment variable: the file, if not in the cache folder


@dataclass(frozen=True)
class Calibration:
    """What was measured."""

    large_batch: float  # rows of a batch from which BI-Sort is the best
    many_matches: float  # matches per probe and subwindow from which BI-Sort is the best
    measured: str = ""  # when; empty: these are defaults
    costs: Costs = DEFAULT_COSTS
    windows: WindowCosts = DEFAULT_WINDOW_COSTS
    two_keys: TwoKeyCosts = DEFAULT_TWO_KEY_COSTS


DEFAULTS = Calibration(large_batch=1.0, many_matches=1.0)  # the same on every machine so far


def calibration_file() -> Path:
    """Return where a calibration is kept."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "streamjoin" / "calibration.json"


def load_calibration() -> Calibration:
    """Return what was measured on this machine, or defaults."""
    path = calibration_file()
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return DEFAULTS
    return _read(path, changed)


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> Calibration:
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        numbers = (float(saved["large_batch"]), float(saved["many_matches"]))
        costs = Costs.from_dict(saved["costs"]) if "costs" in saved else DEFAULT_COSTS
        windows = DEFAULT_WINDOW_COSTS
        if "windows" in saved:
            windows = WindowCosts.from_dict(saved["windows"])
        two_keys = DEFAULT_TWO_KEY_COSTS
        if "two_keys" in saved:
            two_keys = TwoKeyCosts.from_dict(saved["two_keys"])
        return Calibration(*numbers, str(saved["measured"]), costs, windows, two_keys)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StreamJoinError(
            f"{path} is not a calibration ({type(error).__name__}: {error}); rewrite it with "
            "'streamjoin calibrate', or remove it to go back to the defaults"
        ) from error


def save_calibration(calibration: Calibration) -> Path:
    """Write a calibration, and return where."""
    path = calibration_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f"{path.name}.{os.getpid()}")  # so that no reader sees half of it
    whole.write_text(json.dumps(asdict(calibration), indent=2) + "\n", encoding="utf-8")
    return whole.replace(path)
