"""The statistics of a join: counts, sizes and times."""

from dataclasses import dataclass, field

from streamjoin.choice.decision_tree import Decision
from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import CoreReport


@dataclass(frozen=True)
class JoinStats:
    """What a join has done so far, and what it holds now."""

    rows_left: int
    rows_right: int
    live_left: int  # rows held, including those that wait for their subwindow to expire
    live_right: int
    bytes: int
    subwindows: int = 0
    matches: int = 0
    late: int = 0  # rows that came after the watermark had passed their time; they match nothing
    late_left: int = 0
    late_right: int = 0
    null_times: int = 0  # rows without a time; they match nothing
    seconds: dict[str, float] = field(default_factory=dict)  # by phase; probe also filters, gathers
    commands: dict[str, int] = field(default_factory=dict)  # sent to workers, by kind
    waiting: int = 0  # rows that wait in batch mode
    cores: tuple["CoreStats", ...] = ()  # one per core, if the join is spread over cores
    decision: Decision | None = None  # the last, where "auto" chooses for windows that close

    @classmethod
    def of(cls, engine: Engine) -> "JoinStats":
        counters, executor = engine.counters, engine.executor
        held = executor.holdings
        return cls(
            rows_left=counters.rows["left"],
            rows_right=counters.rows["right"],
            live_left=held.rows["left"],
            live_right=held.rows["right"],
            bytes=held.nbytes,
            subwindows=held.subwindows,
            matches=counters.matches,
            late=counters.late,
            late_left=counters.late_left,
            late_right=counters.late - counters.late_left,
            null_times=counters.null_times,
            seconds={**engine.seconds, **executor.seconds},
            commands=dict(executor.commands),
            waiting=engine.collector.count,
            cores=tuple(map(CoreStats.of, executor.report_cores())),
            decision=executor.decision,
        )


@dataclass(frozen=True)
class CoreStats:
    """What one join core holds, and how long it has worked."""

    core: int
    is_alive: bool
    live_left: int
    live_right: int
    seconds: float

    @classmethod
    def of(cls, core: CoreReport) -> "CoreStats":
        left, right = core.rows["left"], core.rows["right"]
        return cls(core.number, core.is_alive, left, right, core.busy_seconds)
