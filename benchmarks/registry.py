"""The benchmark suites by name. A suite is a module with ``run(report, scale)``.

Suites import the systems that they compare with, so each is loaded only when it is asked for.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from streamjoin.errors import StreamJoinError

Suite: TypeAlias = Callable[[Report, Scale], None]


def _lazy(module: str) -> Suite:
    def run(report: Report, scale: Scale) -> None:
        import_module(module).run(report, scale)

    return run


SUITES: dict[str, Suite] = {
    "engine": _lazy("benchmarks.engine.suite"),
    "intra-window": _lazy("benchmarks.intrawindow.suite"),
    "join-types": _lazy("benchmarks.jointypes.suite"),
    "panjoin": _lazy("benchmarks.panjoin.suite"),
    "pimtree": _lazy("benchmarks.pimtree.suite"),
    "spark": _lazy("benchmarks.spark.suite"),
    "splitjoin": _lazy("benchmarks.splitjoin.suite"),
    "spojoin": _lazy("benchmarks.spojoin.suite"),
}


def find_suite(name: str) -> Suite:
    """The suite of that name, or an error that lists them all."""
    if name not in SUITES:
        raise StreamJoinError(
            f"There is no benchmark suite {name!r}. The suites are: {', '.join(sorted(SUITES))}."
        )
    return SUITES[name]
