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
    from streamjoin.api.explain import explain as explain
    from streamjoin.api.results import Punctuated as Punctuated
    from streamjoin.api.results import Results as Results
    from streamjoin.api.stats import JoinStats as JoinStats
    from streamjoin.api.stream_join import StreamJoin as StreamJoin
    from streamjoin.api.table_join import find_matches as find_matches
    from streamjoin.api.table_join import join_tables as join_tables
    from streamjoin.conditions import Band as Band
    from streamjoin.conditions import Bound as Bound
    from streamjoin.conditions import Condition as Condition
    from streamjoin.conditions import Equality as Equality
    from streamjoin.conditions import Inequality as Inequality
    from streamjoin.conditions import Interval as Interval
    from streamjoin.conditions import NotEqual as NotEqual
    from streamjoin.conditions import Residual as Residual
    from streamjoin.conditions import parse_condition as parse_condition
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
    from streamjoin.windows import CountWindow as CountWindow
    from streamjoin.windows import SessionWindow as SessionWindow
    from streamjoin.windows import TimeWindow as TimeWindow
    from streamjoin.windows import TumblingWindow as TumblingWindow

_HOMES = {
    "api.stream_join": ("StreamJoin",),
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
    "api.explain": ("explain",),
    "conditions": (
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
    "api.results": ("Punctuated", "Results"),
    "api.stats": ("JoinStats",),
    "api.table_join": ("find_matches", "join_tables"),
    "windows": ("CountWindow", "SessionWindow", "TimeWindow", "TumblingWindow"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


if not TYPE_CHECKING:  # or any name would pass for one of these

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'streamjoin' has no attribute {name!r}")
        value = getattr(import_module(f"streamjoin.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
