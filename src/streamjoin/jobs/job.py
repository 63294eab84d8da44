"""A job: two sources, a join and a sink, checked before Spark starts.

The dataclasses are the format of job files (`streamjoin.jobs.reading` reads them): a field is a
key, its type says which values fit, and a field without a default is required. The keys of
``[join]`` are the arguments of `streamjoin.spark.join`, as `streamjoin.options.options` lists them.
Keys that make no sense together are refused when a `Job` is made.

As in Spark, keys that only streams use (watermark, checkpoint, trigger) are allowed in a job over
tables, so that one file serves both: ``--set left.stream=false --set right.stream=false``.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NewType

from streamjoin.errors import StreamJoinError
from streamjoin.options.checked import JoinOptions
from streamjoin.options.options import SPARK, Given
from streamjoin.options.values import OP
from streamjoin.windows import Window
from streamjoin.windows.durations import parse_duration

STAR = re.compile(r"(?:^|[(,])\s*\*")  # all columns, not a product
WORD = re.compile(r"\w+")

Location = NewType("Location", str)  # a path or a URI
Delay = NewType("Delay", str)  # a duration
Settings = Mapping[str, str | int | float | bool]

MODES = ("error", "errorifexists", "append", "overwrite", "ignore")
TRIGGERS = ("available now", "once")
KEEP_NO_PLACE = ("console", "memory", "noop")  # sinks for which Spark invents a checkpoint folder


@dataclass(frozen=True)
class Join:
    """The arguments of `streamjoin.spark.join`."""

    on: str
    window: Window | None = None
    time: tuple[str, str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # those given in the file

    @property
    def given(self) -> Given:
        """All options, checked one by one."""
        return SPARK.read(self.options)

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments given in the file."""
        return {"on": self.on, "window": self.window, "time": self.time, **self.options}


@dataclass(frozen=True)
class Source:
    """Where the rows of one side come from."""

    format: str | None = None
    path: Location | None = None
    table: str | None = None
    stream: bool = False
    schema: str | None = None
    select: tuple[str, ...] = ()
    where: str | None = None
    watermark: Delay | None = None
    options: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Sink:
    """Where the matches go."""

    format: str | None = None
    path: Location | None = None
    table: str | None = None
    mode: str | None = None
    checkpoint: Location | None = None
    trigger: str | None = None
    name: str | None = None
    select: tuple[str, ...] = ()
    options: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A whole job file, checked."""

    file: Path
    join: Join
    left: Source
    right: Source
    sink: Sink
    spark: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)

    @property
    def is_stream(self) -> bool:
        """Whether both sides are streams; otherwise both are tables."""
        return self.left.stream


def check(job: Job) -> None:
    """Refuse keys that make no sense together."""
    join = job.join
    given = join.given
    config = JoinOptions.check_given(join.on, join.window, join.time, given, threads=1)  # of a core
    if job.left.stream != job.right.stream:
        raise StreamJoinError(
            f"left.stream = {quote(job.left.stream)} and right.stream = {quote(job.right.stream)}: "
            "a stream joins a stream, a table a table. Make both the same."
        )
    for name, part in (("left", job.left), ("right", job.right), ("sink", job.sink)):
        check_place(name, part)
    for name, side in (("left", job.left), ("right", job.right)):
        if side.watermark and join.time is None:
            raise StreamJoinError(
                f"{name}.watermark = {quote(side.watermark)} follows the event time, and join.time "
                'is missing. Add it, e.g. time = "ts", or leave the watermark out.'
            )
    if job.is_stream:
        check_stream(job)
    elif config.ordering is not None:
        raise StreamJoinError(
            f"join.ordered = {quote(config.ordered)} follows the arrival of rows, and the rows of "
            "a table do not arrive one by one. Leave it out, and sort the result."
        )
    elif (job.sink.mode or "error") not in MODES:
        raise StreamJoinError(
            f"sink.mode = {quote(job.sink.mode)}: it must be one of {', '.join(MODES)}."
        )


def check_place(name: str, part: Source | Sink) -> None:
    """Require a format or a table of the catalog, not both."""
    if part.format == "table":
        raise StreamJoinError(
            f'{name}.format = "table": a table of the catalog is named without a format, '
            'e.g. table = "sales.trades".'
        )
    if part.table is None and part.format is None:
        raise StreamJoinError(
            f'{name}.format is missing. Add e.g. format = "parquet", or the name of a table of '
            'the catalog, e.g. table = "sales.trades".'
        )
    if part.table is not None and (part.path or (part.format and isinstance(part, Source))):
        raise StreamJoinError(
            f"{name}.table = {quote(part.table)} already says where the rows are. "
            f"Leave out {'path' if part.path else 'format'}."
        )


def check_stream(job: Job) -> None:
    """Refuse streams that could not start, or could not go on after a restart."""
    sink = job.sink
    if job.join.window is None:
        raise StreamJoinError(
            "join.window is missing. Without it, a stream would keep all its rows for ever. "
            'Add e.g. window = "10 minutes".'
        )
    for name, side in (("left", job.left), ("right", job.right)):
        if job.join.window.is_timed and side.watermark is None:
            raise StreamJoinError(
                f"{name}.watermark is missing: it says how late rows may be, and so when old ones "
                'can be forgotten. Add e.g. watermark = "10 seconds" to ' + f"[{name}]."
            )
    if sink.mode not in (None, "append"):
        raise StreamJoinError(
            f"sink.mode = {quote(sink.mode)}: a join of streams only ever adds matches. "
            'Write "append", or leave it out.'
        )
    if job.join.given["unmatched"] == "early" and sink.select:
        check_corrections(sink.select)
    if sink.trigger is not None and sink.trigger not in TRIGGERS:
        try:
            parse_duration(sink.trigger)
        except StreamJoinError as error:
            raise StreamJoinError(
                f'sink.trigger = {quote(sink.trigger)}: it must be "available now", "once" or a '
                'duration such as "10 seconds". Leave it out to run as fast as possible.'
            ) from error
    placed = sink.checkpoint or "checkpointLocation" in sink.options
    if not placed and sink.format not in KEEP_NO_PLACE:
        if "spark.sql.streaming.checkpointLocation" in job.spark:
            return
        raise StreamJoinError(
            "sink.checkpoint is missing: the stream keeps its state and its place there, to go on "
            'after a restart. Add e.g. checkpoint = "matches-checkpoint/".'
        )


def check_corrections(select: tuple[str, ...]) -> None:
    """Refuse to hide which rows are taken back."""
    if not any(map(keeps_op, select)):
        raise StreamJoinError(
            f'sink.select = {quote(select)} leaves {OP} out, and join.unmatched = "early" takes '
            f"rows back: {OP} is - in these, + in all others. Add {quote(OP)} to sink.select, or "
            'write unmatched = "final", which takes none back.'
        )


def keeps_op(expression: str) -> bool:
    """Return whether an expression of a sink reads the column of operations.

    >>> [keeps_op(each) for each in ("to_json(struct(*)) as value", "a * b", "_op = '+' as is_new")]
    [True, False, True]
    >>> keeps_op("* except (_op)")
    False
    """
    words = WORD.findall(expression.lower())
    if STAR.search(expression):
        return OP not in words or "except" not in words
    return OP in words


def quote(value: Any) -> str:
    """Write a value as TOML does."""
    return json.dumps(value, default=str, ensure_ascii=False)
