"""The cost model against measurements: nanoseconds a tuple, by structure and window.

The constants are measured first, then every structure for tuples that come one by one, with two
matches each. How a tuple's time is measured is up to the caller.
"""

from collections.abc import Callable
from statistics import median

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.pimtree.sizes import MODELLED_WINDOWS
from streamjoin.calibration.structure_costs import measure_costs
from streamjoin.choice.structure_costs import Costs, steps_of
from streamjoin.indexes.catalogue import WHOLE_WINDOWS

Measure = Callable[[str, int], float]  # takes a structure's name and a window; nanoseconds a tuple

MATCHES = 2.0
MEASURED_ROWS = Sized(full=1 << 20, quick=1 << 14)  # for the constants
NEAR = 0.3  # a prediction is off by this much at most, in the median


def measure_predictions(
    report: Report,
    scale: Scale,
    measure: Measure,
    structures: tuple[str, ...] = WHOLE_WINDOWS,
    costs: Costs | None = None,
) -> Figure:
    """Draw what is predicted beside what is measured, and claim that they are near each other."""
    if costs is None:
        with report.step("the constants of the cost model"):
            costs = measure_costs(scale.pick(MEASURED_ROWS))
    report.detail("constants of the cost model", vars(costs))
    figure = Figure(
        "pimtree_model",
        f"predicted and measured, {MATCHES:g} matches a tuple",
        "window, tuples",
        "nanoseconds a tuple",
    )
    errors: dict[str, list[float]] = {name: [] for name in structures}
    for window in scale.pick(MODELLED_WINDOWS):
        with report.step(f"cost model: windows of {window:,}"):
            for name in structures:
                measured = measure(name, window)
                predicted = steps_of(costs, name, window, MATCHES, batch=1).total
                figure.add(name, window, measured)
                figure.add(f"{name} (predicted)", window, predicted)
                errors[name].append(abs(predicted / measured - 1))
    report.figures.append(figure)
    for name, each in errors.items():
        note = f"the median of {len(each)} windows; the worst {max(each):.2f}"
        report.at_most(f"cost model: relative error, {name}", median(each), NEAR, note=note)
    return figure
