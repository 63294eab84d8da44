"""Joins two data streams, or two tables, by any condition, inside a sliding window.

>>> import pyarrow as pa
>>> import streamjoin as sj
>>> join = sj.StreamJoin(on="abs(l.x - r.x) <= 1", window=sj.CountWindow(100))
>>> _ = join.push(left=pa.table({"x": [1, 5, 9]}))
>>> join.push(right=pa.table({"x": [4]})).to_pylist()
[{'x': 5, 'x_right': 4}]

Names load what they need when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from streamjoin.api import StreamJoin as StreamJoin
    from streamjoin.errors import ConditionError as ConditionError
    from streamjoin.errors import CoreError as CoreError
    from streamjoin.errors import EvaluationError as EvaluationError
    from streamjoin.errors import MissingPackageError as MissingPackageError
    from streamjoin.errors import SchemaError as SchemaError
    from streamjoin.errors import SnapshotError as SnapshotError
    from streamjoin.errors import StreamJoinError as StreamJoinError
    from streamjoin.errors import StreamJoinWarning as StreamJoinWarning
    from streamjoin.errors import UnsupportedExpressionError as UnsupportedExpressionError
    from streamjoin.errors import WindowError as WindowError
    from streamjoin.explanation import explain as explain
    from streamjoin.predicates import Band as Band
    from streamjoin.predicates import Bound as Bound
    from streamjoin.predicates import Condition as Condition
    from streamjoin.predicates import Equality as Equality
    from streamjoin.predicates import Inequality as Inequality
    from streamjoin.predicates import Interval as Interval
    from streamjoin.predicates import NotEqual as NotEqual
    from streamjoin.predicates import Residual as Residual
    from streamjoin.predicates import parse_condition as parse_condition
    from streamjoin.results import Punctuated as Punctuated
    from streamjoin.results import Results as Results
    from streamjoin.stats import JoinStats as JoinStats
    from streamjoin.tables import find_matches as find_matches
    from streamjoin.tables import join_tables as join_tables
    from streamjoin.windows import CountWindow as CountWindow
    from streamjoin.windows import SessionWindow as SessionWindow
    from streamjoin.windows import TimeWindow as TimeWindow
    from streamjoin.windows import TumblingWindow as TumblingWindow

_HOMES = {
    "api": ("StreamJoin",),
    "errors": (
        "ConditionError",
        "CoreError",
        "EvaluationError",
        "MissingPackageError",
        "SchemaError",
        "SnapshotError",
        "StreamJoinError",
        "StreamJoinWarning",
        "UnsupportedExpressionError",
        "WindowError",
    ),
    "explanation": ("explain",),
    "predicates": (
        "Band",
        "Bound",
        "Condition",
        "Equality",
        "Inequality",
        "Interval",
        "NotEqual",
        "Residual",
        "parse_condition",
    ),
    "results": ("Punctuated", "Results"),
    "stats": ("JoinStats",),
    "tables": ("find_matches", "join_tables"),
    "windows": ("CountWindow", "SessionWindow", "TimeWindow", "TumblingWindow"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'streamjoin' has no attribute {name!r}")
    value = getattr(import_module(f"streamjoin.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
