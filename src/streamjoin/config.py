"""The configuration of a join, checked once, where the user gives it."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from streamjoin.advisor import EAGER, EMITS, GOALS, KNOBS, LAZY, advise, check_ranges
from streamjoin.batches import joined_schema
from streamjoin.durations import Duration, parse_duration
from streamjoin.errors import SchemaError, StreamJoinError, WindowError
from streamjoin.intrawindow.protocol import Lazy
from streamjoin.intrawindow.registry import make_lazy
from streamjoin.joins.adviser import Adviser
from streamjoin.joins.binding import bind
from streamjoin.joins.candidates import Found
from streamjoin.joins.chain import Chain, make_chains
from streamjoin.joins.closed import ClosedRows
from streamjoin.joins.collector import Collector
from streamjoin.joins.eager_window import EagerWindow, Recipe
from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import Batches, Deliver, Executor
from streamjoin.joins.gather import Delivery, gather
from streamjoin.joins.manager import Manager
from streamjoin.joins.ordering import Ordered, Ordering
from streamjoin.joins.plan import SIDES, JoinPlan
from streamjoin.joins.prepared import Prepared
from streamjoin.joins.self_join import SelfJoin
from streamjoin.joins.sessions import SessionJoin
from streamjoin.joins.tumbling import TumblingJoin
from streamjoin.keys.operands import Operands, Side, quoted
from streamjoin.predicates import Condition, Residual, aliases, is_symmetric, parse_condition
from streamjoin.split.executor import SplitExecutor
from streamjoin.windows import CountWindow, SessionWindow, TimeWindow, TumblingWindow, Window

MOST_BITS = 16  # of partitions
ColumnPair = str | Sequence[str] | None  # one name for both sides, or a pair


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
        window: Window | None,
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
        """Check what does not need the schemas."""
        condition = parse_condition(on)
        if window is not None and not isinstance(window, Window):
            raise WindowError(
                f"window={window!r} is not a window; pass TimeWindow('10 minutes'), "
                "TumblingWindow('1 minute'), SessionWindow('10 minutes'), CountWindow(1000), or "
                "None for tables"
            )
        times, orders = pair("time", time), pair("order", order)
        timed = window is not None and not isinstance(window, CountWindow)
        if timed and times is None:
            raise WindowError(
                f"{window} needs the event-time columns of both sides; pass them as "
                "time=('left_column', 'right_column')"
            )
        if times is not None and not timed:
            raise WindowError(
                f"time={time!r} has no use with window={window!r}; pass a TimeWindow, a "
                "TumblingWindow or a SessionWindow, or leave time out"
            )
        if orders is not None and not isinstance(window, CountWindow):
            raise WindowError(
                f"order={order!r} gives the arrival order of a CountWindow; with window={window!r} "
                "leave it out"
            )
        if delay is not None and not timed:
            raise WindowError(
                f"delay={delay!r} moves the watermark of a window of time; with window={window!r} "
                "leave it out"
            )
        if batch_rows is not None and (not isinstance(batch_rows, int) or batch_rows < 1):
            raise StreamJoinError(
                f"batch_rows={batch_rows!r}: give the number of rows to collect, from 1, or None"
            )
        if cores is not None and (type(cores) is not int or cores < 1):
            raise StreamJoinError(
                f"cores={cores!r}: give the number of join cores, from 1, or None for one"
            )
        Ordering.parse(ordered)
        # Columns without an alias may still turn out to make a key, once the schemas are known.
        has_key = bool(times) or any(
            not isinstance(part, Residual) or "" in aliases(part.expression) for part in condition
        )
        advise(algorithm, has_key, condition.sql())
        closes = isinstance(window, TumblingWindow | SessionWindow)
        if closes and (cores or Ordering.parse(ordered)):
            raise WindowError(
                f"cores and ordered are for sliding windows; {window} closes as a whole: leave "
                "them out, and give it threads"
            )
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
            check_tuning(algorithm, tuning or {}, threads),
        )

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

    def make_engine(
        self,
        schemas: dict[Side, pa.Schema],
        is_self: bool = False,
        deliver: Callable[[Found, pa.Schema], Iterator[Delivery]] = gather,
        numbers: bool = False,
        manager: Callable[..., Manager] = Manager,
    ) -> Engine:
        """Bind this configuration to the schemas of both sides.

        ``deliver`` is what becomes of matches, if not joined rows; with ``numbers`` rows are
        numbered even if nothing here asks for it; ``manager`` makes who holds the windows.
        """
        condition = parse_condition(self.on, schemas["left"], schemas["right"])
        plan = bind(condition, self.window, self.time, schemas)
        algorithm = advise(self.algorithm, plan.has_key, self.on).algorithm
        check_ranges(algorithm, len(plan.open_ranges), self.on)
        schema = joined_schema(schemas["left"], schemas["right"])
        ordering = self.ordering

        def given(found: Found) -> Iterator[Delivery]:
            return deliver(found, schema)

        numbers = numbers or ordering is not None
        threads = self.threads_each

        def chains() -> dict[Side, Chain]:
            numbered = numbers or plan.counted is not None
            return make_chains(plan, self.window, algorithm, numbered, threads, self.cores)

        join: Executor
        chooses = algorithm == "auto"
        closing = self._make_closing(plan, given)
        symmetric = self._symmetry(condition) if is_self and plan.same_keys else None
        if closing is not None:
            join = closing
        elif self.is_split:
            managers = [Manager(plan, chains(), given, threads, chooses) for _ in range(self.cores)]
            join = SplitExecutor(managers, ordering, schema)
        elif symmetric is not None:
            join = SelfJoin(plan, chains(), given, threads, chooses, symmetric)
        else:
            join = manager(plan, chains(), given, threads, chooses)
        order = None if self.order is None else bind_order(self.order, schemas)
        wait = None if self.batch_us is None else self.batch_us / 1e6
        return Engine(plan, join, schema, order, numbers, Collector(self.batch_rows, wait))

    def is_closing(self, plan: JoinPlan) -> bool:
        """Whether windows close, and rows wait for that or go through an eager algorithm.

        An index gives the matches inside tumbling windows as rows come, where one is asked for, or
        where the condition has a band or an inequality.
        """
        if not plan.closes or self.emit == "close" or isinstance(self.window, SessionWindow):
            return plan.closes
        by_equality = self.algorithm == "auto" and not plan.open_ranges
        return by_equality or self.algorithm in EAGER or self.algorithm in LAZY

    def _make_closing(self, plan: JoinPlan, deliver: Deliver) -> TumblingJoin | SessionJoin | None:
        """Return what joins windows that close, if these do and no index does it as rows come."""
        if not self.is_closing(plan):
            return None
        adviser = self.make_adviser()
        closed = self.closed_rows(plan, deliver, adviser)
        if isinstance(self.window, SessionWindow):
            return SessionJoin(plan, closed, deliver, self.emit == "eager", adviser)
        if self.emit == "close" or (self.emit == "auto" and self.algorithm in LAZY):
            return TumblingJoin(plan, closed, None, deliver, adviser)

        def open_window(sides: Batches) -> EagerWindow | None:
            name = self.algorithm if self.algorithm in EAGER else adviser.choose_open()
            if name in LAZY:
                return None
            return EagerWindow(closed.within_one, Recipe(name, closed.threads, self.tuning))

        return TumblingJoin(plan, closed, open_window, deliver, adviser)

    def make_adviser(self) -> Adviser:
        """Return who decides where the algorithm is ``"auto"``."""
        return Adviser(self.optimize, self.emit, self.threads)

    def closed_rows(self, plan: JoinPlan, deliver: Deliver, adviser: Adviser) -> ClosedRows:
        """Return what joins rows that are all there."""
        structure = "auto" if self.algorithm in (*LAZY, *EAGER) else self.algorithm

        def make_manager(inner: JoinPlan, threads: int) -> Manager:
            chains = make_chains(inner, None, structure, False, threads, 1)
            return Manager(inner, chains, deliver, threads, structure == "auto")

        def choose(sides: Mapping[Side, Prepared], threads: int) -> Lazy | None:
            if self.algorithm in LAZY:
                return make_lazy(self.algorithm, threads, **dict(self.tuning))
            if structure != "auto" or sides["left"].plan.open_ranges:
                return None
            return make_lazy(adviser.choose_closed(sides), threads)

        return ClosedRows(plan, make_manager, choose, self.threads)

    def _symmetry(self, condition: Condition) -> bool | None:
        """Whether (a, b) matches whenever (b, a) does; None if one chain cannot serve both."""
        if len(set(self.order or ("",))) > 1:  # two orders need two chains
            return None
        balanced = isinstance(self.window, TimeWindow) and self.window == self.window.flip()
        return balanced and is_symmetric(condition)


def check_emit(algorithm: str, window: Window | None, emit: str | None, optimize: str) -> str:
    """Return when matches are given; refuse what does not go together."""
    if emit is not None and emit not in EMITS:
        raise StreamJoinError(
            f"emit={emit!r} does not exist; choose 'close', to join a window when it closes, "
            "'eager', to return matches as rows come, or 'auto'"
        )
    if optimize not in GOALS:
        raise StreamJoinError(
            f"optimize={optimize!r} does not exist; choose {', '.join(map(repr, GOALS))}"
        )
    closes = isinstance(window, TumblingWindow | SessionWindow)
    if emit is not None and not closes:
        raise WindowError(
            f"emit={emit!r} is for windows that close; with window={window!r} leave it out: "
            "matches are returned as rows come"
        )
    if algorithm in LAZY and window is not None and not closes:
        raise WindowError(
            f"algorithm={algorithm!r} joins tables, or windows that close; with {window} choose "
            "'auto', or use a TumblingWindow"
        )
    if algorithm in EAGER and not isinstance(window, TumblingWindow):
        raise WindowError(
            f"algorithm={algorithm!r} joins a TumblingWindow as its rows come; with "
            f"window={window!r} choose 'auto'"
        )
    if algorithm in EAGER and emit == "close":
        raise StreamJoinError(
            f"algorithm={algorithm!r} returns matches as rows come, and emit='close' asks for them "
            f"at the end; leave emit out, or choose {', '.join(map(repr, LAZY))}"
        )
    if algorithm in LAZY and emit == "eager":
        raise StreamJoinError(
            f"algorithm={algorithm!r} joins a window when it closes, and emit='eager' asks for "
            f"matches as rows come; leave emit out, or choose {', '.join(map(repr, EAGER))}"
        )
    return emit or ("eager" if algorithm in EAGER else "close")


def check_tuning(
    algorithm: str, tuning: Mapping[str, int], threads: int
) -> tuple[tuple[str, int], ...]:
    """Refuse knobs that an algorithm does not have, and what they cannot be set to."""
    knobs = KNOBS.get(algorithm, ())
    for name, value in tuning.items():
        if name not in knobs:
            has = f"it has {', '.join(map(repr, knobs))}" if knobs else "it has none"
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: algorithm={algorithm!r} has no knob {name!r}; {has}"
            )
        if type(value) is not int or value < 1:
            raise StreamJoinError(f"tuning={dict(tuning)!r}: {name!r} is a whole number from 1")
        if name == "bits" and value > MOST_BITS:
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: 'bits' is a whole number from 1 to {MOST_BITS}, for "
                f"2**{MOST_BITS} partitions at most"
            )
        if name == "group" and threads % value:
            raise StreamJoinError(
                f"tuning={dict(tuning)!r}: groups of {value} do not divide {threads} threads "
                f"evenly; give a divisor of {threads}, or another number of threads"
            )
    return tuple(sorted(tuning.items()))


def check_threads(threads: int | None) -> int:
    """Return how many threads are meant; refuse what is no number of them."""
    if threads is not None and (type(threads) is not int or threads < 1):
        raise StreamJoinError(f"threads={threads!r}: give a number from 1, or None for all cores")
    return threads or os.cpu_count() or 1


def pair(name: str, columns: ColumnPair) -> tuple[str, str] | None:
    """Return one column name a side."""
    if columns is None or isinstance(columns, str):
        return None if columns is None else (columns, columns)
    names = tuple(columns) if isinstance(columns, Sequence) else ()
    if len(names) != 2 or not all(isinstance(each, str) for each in names):
        raise StreamJoinError(
            f"{name}={columns!r}: give one column name for both sides, or a pair (left, right)"
        )
    return names[0], names[1]


def bind_order(order: tuple[str, str], schemas: dict[Side, pa.Schema]) -> Operands:
    """Resolve the order columns, and refuse what has no common order."""
    for side, name in zip(SIDES, order, strict=True):
        if name not in schemas[side].names:
            raise SchemaError(
                f"the {side} order column {name!r} is not there; the {side} columns are "
                f"{', '.join(schemas[side].names)}"
            )
    operands = Operands.bind(quoted("l", order[0]), quoted("r", order[1]), schemas)
    if operands.key_type is None:
        raise SchemaError(
            f"the order columns {order[0]!r} and {order[1]!r} are compared as {operands.type}; "
            "order by a number, a date or a timestamp"
        )
    return operands
