"""Which algorithm serves a join, and why, in the words that ``explain`` prints."""

from dataclasses import dataclass

from streamjoin.choice.calibration_file import load_calibration
from streamjoin.choice.structure import describe_subwindows, describe_windows
from streamjoin.indexes.catalogue import ALGORITHMS


@dataclass(frozen=True)
class Advice:
    """An algorithm and the reason for it."""

    algorithm: str
    reason: str

    @property
    def what(self) -> str:
        """What the algorithm is."""
        if self.algorithm != "auto":
            return ALGORITHMS[self.algorithm].what
        return f"chosen for each subwindow; {describe_measured()}"


def describe_measured() -> str:
    """Say when the numbers that ``"auto"`` relies on were measured."""
    measured = load_calibration().measured
    if measured:
        return f"measured on this machine, {measured}"
    return "'streamjoin calibrate' measures what is best here"


def advise(algorithm: str, is_counted: bool = False) -> Advice:
    """Give the reason for an algorithm; windows that count rows may be kept whole."""
    if algorithm == "scan":
        return Advice("scan", "asked for; it compares every pair of rows in the window")
    if algorithm == "auto":
        describe = describe_windows if is_counted else describe_subwindows
        return Advice("auto", describe(load_calibration()))
    return Advice(algorithm, f"asked for; good for {ALGORITHMS[algorithm].good_for}")
