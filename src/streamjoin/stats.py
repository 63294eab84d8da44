"""What a join tells about itself."""

from dataclasses import dataclass, field

from streamjoin.joins.engine import Engine


@dataclass(frozen=True)
class JoinStats:
    """What a join has done so far, and what it holds now."""

    rows_left: int
    rows_right: int
    live_left: int  # rows held, those included that wait for their subwindow to expire
    live_right: int
    bytes: int
    subwindows: int = 0
    matches: int = 0
    late: int = 0  # rows that came after the watermark had passed their time; they match nothing
    null_times: int = 0  # rows without a time; they match nothing
    seconds: dict[str, float] = field(default_factory=dict)  # by phase; probe filters and gathers
    commands: dict[str, int] = field(default_factory=dict)  # sent to workers, by kind
    waiting: int = 0  # rows that wait in batch mode

    @classmethod
    def of(cls, engine: Engine) -> "JoinStats":
        """Read an engine."""
        counters, chains = engine.counters, engine.chains
        distinct = [chains["left"]] if engine.is_self_join else list(chains.values())
        return cls(
            rows_left=counters.rows["left"],
            rows_right=counters.rows["right"],
            live_left=len(chains["left"]),
            live_right=len(chains["right"]),
            bytes=sum(chain.nbytes for chain in distinct),
            subwindows=sum(len(chain.subwindows) for chain in distinct),
            matches=counters.matches,
            late=counters.late,
            null_times=counters.null_times,
            seconds=engine.seconds | engine.join.seconds,
            commands=dict(engine.join.commands),
            waiting=engine.collector.count,
        )
