"""What the user asked for, checked: `JoinOptions`, which the rest of the package relies on.

There is one way to make it: check each option by itself (`options`, `values`), then all of them
together with window and condition (`rules`). What needs the schemas is checked once they are known.

Its fields are in the header of snapshots, so their names are a format.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import pyarrow as pa

from streamjoin.conditions import Condition, equate_points, recognise
from streamjoin.indexes.catalogue import BY_EQUALITY
from streamjoin.options.how import BY_NAME, INNER, How
from streamjoin.options.options import STREAMS, Given, StreamOptions
from streamjoin.options.ordering import Ordering
from streamjoin.options.rules import (
    check_aggregates,
    check_condition,
    check_emit,
    check_finite,
    check_kind,
    check_rank,
    check_spread,
    check_tuning,
    check_window,
    resolve_emit,
)
from streamjoin.options.values import ColumnPair, Ordered, read_pair, read_threads
from streamjoin.plans.plan import JoinPlan
from streamjoin.windows import Window, parse_window, read_window


@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """The options of a join; `options` says what each of them means."""

    on: str
    window: Window | None
    time: tuple[str, str] | None
    order: tuple[str, str] | None
    algorithm: str
    delay_us: int | None = None
    threads: int
    batch_rows: int | None = None
    batch_us: int | None = None
    cores: int = 1
    ordered: Ordered = "none"
    emit: str = "close"
    optimize: str = "throughput"
    tuning: tuple[tuple[str, int], ...] = ()
    how: How = INNER
    keep: str = "all"
    k: int = 1
    nearest: str | None = None
    aggregate: tuple[tuple[str, str], ...] = ()
    indicator: bool = False
    late: str = "drop"

    @classmethod
    def check(
        cls,
        on: str | Condition,
        window: Window | str | None,
        time: ColumnPair = None,
        **options: Unpack[StreamOptions],
    ) -> "JoinOptions":
        """Check the arguments of a `StreamJoin`."""
        return cls.check_given(on, window, time, STREAMS.read(options))

    @classmethod
    def check_given(
        cls,
        on: str | Condition,
        window: Window | str | None,
        time: ColumnPair,
        given: Given,
        is_finite: bool = False,
        **fixed: Any,
    ) -> "JoinOptions":
        """Check all options together, as far as that is possible without the schemas.

        ``is_finite`` says that all rows are known from the start. ``fixed`` are fields that the
        entry point sets itself, not its users.
        """
        if isinstance(window, str):
            window = parse_window(window)
        times, fields = read_pair("time", time), given.fields | fixed
        reduces = fields["keep"] != "all" or bool(fields["aggregate"])
        check_window(window, time, given.asked, reduces)
        check_spread(window, fields, reduces)
        algorithm, emit = fields["algorithm"], fields.get("emit")
        optimize, tuning = fields.get("optimize", cls.optimize), dict(fields["tuning"])
        if is_finite:
            check_finite(algorithm)
        is_timed = window is not None and window.is_timed
        condition = read_condition(on, window)
        check_condition(condition, algorithm, is_timed)
        check_emit(algorithm, window, emit, optimize)
        check_tuning(algorithm, tuning, fields["threads"])
        check_kind(given, window, emit)
        check_aggregates(fields["aggregate"], window, times)
        check_rank(fields["keep"], fields["nearest"], condition, window, times is not None)
        fields |= {
            "on": on if isinstance(on, str) else on.sql(),
            "window": window,
            "time": times,
            "emit": resolve_emit(algorithm, window, emit, optimize),
            "tuning": tuple(sorted((name, int(value)) for name, value in tuning.items())),
            "cores": fields.get("cores") or 1,
        }
        return cls(**fields)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "JoinOptions":
        """Read what `to_json` returned, and check it as if a user had asked for it."""
        window = read_window(saved["window"])
        saved = {**saved, "how": BY_NAME[saved.get("how", "inner")]}
        options = {
            name: option.write(saved[field])
            for name, option in STREAMS.table.items()
            if (field := option.field or name) in saved  # an older version may lack it
        }
        if window is None or not window.closes:
            options.pop("emit", None)  # other windows do not take it; they saved "close"
        return cls.check_given(saved["on"], window, saved["time"], STREAMS.read(options))

    def to_json(self) -> dict[str, Any]:
        """Return all fields in a form that JSON can hold."""
        fields: dict[str, Any] = asdict(replace(self, window=None)) | {"how": self.how.name}
        fields = json.loads(json.dumps(fields))
        return fields | {"window": self.window and self.window.to_json()}

    def condition(self, left: pa.Schema | None = None, right: pa.Schema | None = None) -> Condition:
        """Return the parts of the condition, with columns resolved if the schemas are known."""
        return read_condition(self.on, self.window, left, right)

    def with_threads(self, threads: int | None) -> "JoinOptions":
        """Return the same options with another number of threads."""
        number = read_threads("threads", threads)
        check_tuning(self.algorithm, dict(self.tuning), number)
        return replace(self, threads=number)

    @property
    def threads_each(self) -> int:
        """How many threads each core has."""
        return max(self.threads // self.cores, 1)

    @property
    def ordering(self) -> Ordering | None:
        """The order of results; None if there is none."""
        return Ordering.parse(self.ordered)

    @property
    def is_split(self) -> bool:
        """Whether the windows are spread over join cores."""
        return self.cores > 1 or self.ordering is not None

    @property
    def closes(self) -> bool:
        """Whether windows close as a whole."""
        return self.window is not None and self.window.closes

    @property
    def reduces(self) -> bool:
        """Whether all pairs of a left row count together, not each by itself."""
        return self.keep != "all" or bool(self.aggregate)

    @property
    def ends(self) -> bool:
        """Whether the end of the streams gives what was not given before."""
        return self.closes or self.reduces or bool(self.how.alone)

    @property
    def is_timed(self) -> bool:
        """Whether the window looks at event times; tables may have times without it."""
        return self.window is not None and self.window.is_timed

    @property
    def is_counted(self) -> bool:
        """Whether the window counts rows as they arrive."""
        return self.window is not None and not self.window.is_timed

    @property
    def follows_rows(self) -> bool:
        """Whether rows decide where windows begin and end."""
        return self.window is not None and self.window.follows_rows

    def joins_apart(self, plan: JoinPlan) -> bool:
        """Whether each window is joined for itself, when it closes or by an eager algorithm.

        Otherwise an index over all rows finds the matches as rows arrive: for sliding windows, and
        for tumbling ones if matches are wanted early and either the user asked for an index, or the
        condition has a band or an inequality.
        """
        if not self.closes or self.emit == "close" or self.follows_rows:
            return self.closes
        by_equality = self.algorithm == "auto" and not plan.open_ranges
        return by_equality or self.algorithm in BY_EQUALITY


def read_condition(
    on: str | Condition,
    window: Window | None,
    left: pa.Schema | None = None,
    right: pa.Schema | None = None,
) -> Condition:
    """Return the parts of a condition; sessions are cut by the equalities as they are written.

    A `Condition` is read again: knowing the schemas, there may be more that an index can find.
    """
    condition = recognise(on.sql() if isinstance(on, Condition) else on, left, right)
    follows_rows = window is not None and window.follows_rows
    return condition if follows_rows else equate_points(condition)
