"""The configuration of a join, checked once, where the user gives it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from streamjoin.conditions import Condition, Residual, aliases, equate_points, parse_condition
from streamjoin.errors import ConditionError
from streamjoin.expressions.parsing import parse_expression
from streamjoin.options.advisor import EAGER, LAZY, advise, check_equality, shorten
from streamjoin.options.checks import (
    ColumnPair,
    check_amount,
    check_emit,
    check_split,
    check_threads,
    check_tuning,
    check_window,
    pair,
)
from streamjoin.options.ordering import Ordered, Ordering
from streamjoin.plans.plan import JoinPlan
from streamjoin.windows import Window, parse_window
from streamjoin.windows.durations import Duration, parse_duration


@dataclass(frozen=True)
class JoinConfig:
    """What the user asked for, validated; see `StreamJoin` for the meaning of each."""

    on: str
    window: Window | None
    time: tuple[str, str] | None
    order: tuple[str, str] | None
    algorithm: str
    delay_us: int | None
    threads: int
    batch_rows: int | None = None
    batch_us: int | None = None
    cores: int = 1
    ordered: Ordered = "none"
    emit: str = "close"
    optimize: str = "throughput"
    tuning: tuple[tuple[str, int], ...] = ()

    @classmethod
    def check(
        cls,
        on: str | Condition,
        window: Window | str | None,
        time: ColumnPair = None,
        order: ColumnPair = None,
        algorithm: str = "auto",
        delay: Duration | None = None,
        threads: int | None = None,
        batch_rows: int | None = None,
        batch_time: Duration | None = None,
        cores: int | None = None,
        ordered: Ordered = "none",
        emit: str | None = None,
        optimize: str = "throughput",
        tuning: Mapping[str, int] | None = None,
    ) -> "JoinConfig":
        """Check what does not need the schemas; a window may be given as text."""
        if isinstance(window, str):
            window = parse_window(window)
        condition = read_condition(on, window)
        times, orders = pair("time", time), pair("order", order)
        check_window(window, time, order, delay)
        check_amount("batch_rows", batch_rows, "rows to collect, from 1, or None")
        check_split(window, cores, Ordering.parse(ordered) is not None)
        # Columns without an alias may still turn out to make a key, once the schemas are known.
        unknown = any("" in aliases(part.expression) for part in condition.residuals)
        keyed = any(not isinstance(part, Residual) for part in condition)
        check_equality(algorithm, unknown or bool(condition.equalities), condition.sql())
        if not (times or keyed or unknown) and algorithm != "scan":
            check_connectives(condition)
        advise(algorithm, bool(times) or keyed or unknown, condition.sql())
        emit = check_emit(algorithm, window, emit, optimize)
        threads = check_threads(threads)
        return cls(
            on if isinstance(on, str) else on.sql(),
            window,
            times,
            orders,
            algorithm,
            None if delay is None else parse_duration(delay),
            threads,
            batch_rows,
            None if batch_time is None else parse_duration(batch_time),
            cores or 1,
            ordered,
            emit,
            optimize,
            check_tuning(algorithm, tuning, threads),
        )

    def condition(self, left: pa.Schema | None = None, right: pa.Schema | None = None) -> Condition:
        """Return the parts of the condition, with columns resolved if the schemas are known."""
        return read_condition(self.on, self.window, left, right)

    def with_threads(self, threads: int | None) -> "JoinConfig":
        """Return the same configuration with another number of threads."""
        threads = check_threads(threads)
        check_tuning(self.algorithm, dict(self.tuning), threads)
        return replace(self, threads=threads)

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
    def is_counted(self) -> bool:
        """Whether the window counts rows as they arrive."""
        return self.window is not None and not self.window.is_timed

    @property
    def follows_rows(self) -> bool:
        """Whether rows decide where windows begin and end."""
        return self.window is not None and self.window.follows_rows

    def joins_apart(self, plan: JoinPlan) -> bool:
        """Whether each window is joined for itself, when it closes or by an eager algorithm.

        Otherwise an index over all rows finds the matches as rows come: of sliding windows, and of
        tumbling ones where matches are wanted early and an index is asked for, or the condition has
        a band or an inequality.
        """
        if not self.closes or self.emit == "close" or self.follows_rows:
            return self.closes
        by_equality = self.algorithm == "auto" and not plan.open_ranges
        return by_equality or self.algorithm in EAGER or self.algorithm in LAZY


def read_condition(
    on: str | Condition,
    window: Window | None,
    left: pa.Schema | None = None,
    right: pa.Schema | None = None,
) -> Condition:
    """Return the parts of a condition; sessions are cut by what is written as an equality."""
    condition = parse_condition(on, left, right)
    follows_rows = window is not None and window.follows_rows
    return condition if follows_rows else equate_points(condition)


def check_connectives(condition: Condition) -> None:
    """Refuse a condition without a key because of what its parts are combined by."""
    for part in condition.residuals:
        tree = parse_expression(part.expression).unnest()
        if isinstance(tree, exp.BitwiseAnd | exp.BitwiseOr):
            sign, word = ("&", "and") if isinstance(tree, exp.BitwiseAnd) else ("|", "or")
            raise ConditionError(
                f"{part.expression!r}: {sign} combines the bits of numbers; to combine conditions, "
                f"write {word}"
            )
        if isinstance(tree, exp.Or):
            raise ConditionError(
                f"the condition {shorten(condition.sql())!r} is an OR of things that no single "
                "index finds, so every pair of rows would have to be compared; join by each side "
                "of the OR and put the results together, each pair once, add what must hold in any "
                "case (and l.a = r.a), or ask for algorithm='scan' to compare every pair"
            )
