"""The options of a join, each defined once: what takes it, what it means, what it may be.

``on``, ``window`` and ``time`` say what to join. Everything else is a keyword option. Each class
below is a group of options that the same entry points take::

                        EveryJoin   Kinds   InProcess   EveryStream,   OwnClock   OnSpark
                                                         LateRows
    join_tables             x         x         x
    find_matches            x         x         x
    StreamJoin, explain     x         x         x            x             x
    spark.join, .explain    x         x                      x                       x
    job files               x         x                      x                       x
    streamjoin join         x         x         x
    streamjoin explain      x         x         x            x             x

An entry is a name, a type and an `Option`. From it follow the signatures (`show_options` in
`signatures`; type checkers read the same classes), the docstrings, the options of the command line,
the keys of job files, and the first check. To add an option, write

1. an entry here, in the group of the entry points that take it, and a function in `values` if none
   there reads such a value yet;
2. a field of `JoinOptions` in `checked`, which is what the rest of the package sees, and in
   `rules` what it cannot be combined with;
3. the code that does what it says.

This module loads neither kernels nor Arrow, since ``--help`` is made from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Annotated, Any, TypedDict, get_args, get_type_hints

from streamjoin.errors import StreamJoinError
from streamjoin.indexes.catalogue import CATALOGUE, Family, describe_family
from streamjoin.options.how import read_how
from streamjoin.options.values import (
    GOALS,
    Aggregates,
    ColumnPair,
    Knobs,
    Ordered,
    join_words,
    keep,
    quote_words,
    read_aggregates,
    read_algorithm,
    read_batch_rows,
    read_cores,
    read_count,
    read_emit,
    read_flag,
    read_keep,
    read_knobs,
    read_late,
    read_microseconds,
    read_optimize,
    read_ordered,
    read_pair,
    read_routing,
    read_spark_cores,
    read_text,
    read_threads,
    read_unmatched,
    write_microseconds,
)
from streamjoin.windows.durations import Duration


@dataclass(frozen=True)
class Option:
    """What is known of an option besides its name and its type."""

    default: Any
    meaning: str  # for docstrings; its first sentence is the help on the command line
    read: Callable[[str, Any], Any] = keep  # takes name and value, returns what a join keeps
    write: Callable[[Any], Any] = lambda value: value  # and back, for snapshots
    field: str | None = ""  # of `JoinOptions`; "" means the option's name, None means no field
    instead: str = "leave it out"  # the way out where the option has no use
    in_job: bool = True  # whether it is a key of [join] in a job file


def list_knobs() -> str:
    """List the knobs, and the algorithms they belong to."""
    knobs: dict[str, list[str]] = {}
    for entry in CATALOGUE:
        for knob in entry.knobs:
            knobs.setdefault(knob.name, []).append(f'``"{entry.name}"``')
    return ", ".join(f'``"{knob}"`` of {" and ".join(names)}' for knob, names in knobs.items())


class EveryJoin(TypedDict, total=False):
    """Options of every join."""

    algorithm: Annotated[
        str,
        Option(
            "auto",
            '``"auto"``, or the structure to keep windows in: '
            f"{describe_family(Family.SUBWINDOWS)}; for two inequalities or bands at once, "
            f"{describe_family(Family.TWO_KEYS)}; or, for rows that arrive a few at a time, "
            f"{describe_family(Family.WHOLE_WINDOWS)}. For equalities in tables and in windows "
            f"that close: {describe_family(Family.LAZY)}, once all rows are known, or "
            f"{describe_family(Family.EAGER)}, as rows arrive.",
            read_algorithm,
        ),
    ]
    order: Annotated[
        ColumnPair,
        Option(
            None,
            "Count windows: the columns that give arrival order within one push, micro-batch or "
            "table; without them, left comes first.",
            read_pair,
        ),
    ]
    tuning: Annotated[
        Knobs | None,
        Option(
            None,
            f'Settings of an algorithm, such as ``{{"bits": 10}}``: {list_knobs()}.',
            read_knobs,
            write=lambda pairs: dict(pairs) or None,
        ),
    ]


class Kinds(TypedDict, total=False):
    """Options of what a join gives: pairs, some of them, or rows that match or do not."""

    how: Annotated[
        str,
        Option(
            "inner",
            'What is returned: ``"inner"``, pairs that match; ``"left"``, ``"right"`` and '
            '``"full"``, rows that match nothing as well, with NULL in the columns of the other '
            'side; ``"left_semi"`` and ``"right_semi"``, rows of one side that match something, '
            'each once; ``"left_anti"`` and ``"right_anti"``, those that match nothing. In a '
            "stream, a row without a match is returned once no row that is on time can match it.",
            read_how,
            write=lambda how: how.name,
        ),
    ]
    keep: Annotated[
        str,
        Option(
            "all",
            'Which of the matches of a left row count: ``"all"``; ``"nearest"``, the one at the '
            'least distance (see ``nearest``); ``"first"`` or ``"last"``, by the time of the right '
            "row, and in count windows by its arrival. Of matches that are level, the one whose "
            "right row comes first by time counts, then by its columns from the first on. Tables "
            "without a window take ``time`` for that. In a stream, a left row's matches are "
            "returned once no row that is on time can change them: in windows of time, when the "
            "watermark has passed the end of its window, and so not before `finish` if nothing "
            "moves the watermark; in count windows, when it has left its window. ``how`` goes over "
            "the matches that count; in count windows of streams, not for right rows.",
            read_keep,
        ),
    ]
    k: Annotated[
        int,
        Option(
            1,
            "With ``keep``: how many matches of a left row count.",
            read_count,
        ),
    ]
    nearest: Annotated[
        str | None,
        Option(
            None,
            'With ``keep="nearest"``: the distance, such as ``"abs(l.ts - r.ts)"``, a number or '
            "an interval; NULL is farthest. Without it, the difference in the condition's only "
            "band or, if it has none, in its only inequality or, if it has neither, in time.",
            read_text,
        ),
    ]
    aggregate: Annotated[
        Aggregates | None,
        Option(
            None,
            'Return aggregates over the matches of each left row instead of pairs: ``{"n": '
            '"count(*)", "best": "max(r.bid)"}`` adds columns ``n`` and ``best`` to left\'s. There '
            "are count, sum, avg, min, max, first and last (by the time of the right row), of any "
            "expression. Types and NULLs are as in Spark; sums are exact, those of doubles have "
            'twice their precision. Left rows without matches are returned with ``how="left"``. '
            "Tables and windows that close are aggregated without looking at pairs if the "
            "condition has only equalities and one band or inequality, a `TimeWindow` counted. In "
            "a stream, a left row is returned once no row that is on time can change it.",
            read_aggregates,
            write=lambda pairs: dict(pairs) or None,
        ),
    ]
    indicator: Annotated[
        bool,
        Option(
            False,
            "Add a column ``_match``, which is ``both`` for pairs, and ``left_only`` or "
            "``right_only`` for rows that match nothing.",
            read_flag,
        ),
    ]


class LateRows(TypedDict, total=False):
    """Options of streams whose rows may come too late."""

    late: Annotated[
        str,
        Option(
            "drop",
            'Rows that come after the watermark has passed them match nothing: ``"drop"`` counts '
            'them only, ``"keep"`` returns them, with NULL in the columns of the other side and '
            "True in the column ``_late``, which is False elsewhere.",
            read_late,
            instead="leave it out: tables have all their rows from the start",
        ),
    ]
    unmatched: Annotated[
        str,
        Option(
            "final",
            'Outer and anti joins: when a row without a match is returned. ``"final"``: once no '
            'row that is on time can match it. ``"early"``: after ``patience``; if it matches '
            "something later, it is returned again, to be taken back. A column ``_op`` says ``+`` "
            "or, for what is taken back, ``-``.",
            read_unmatched,
            instead="leave it out: tables have all their rows from the start",
        ),
    ]
    patience: Annotated[
        Duration | None,
        Option(
            None,
            'With ``unmatched="early"``: a row waits for its match until the newest time of '
            "either stream is more than this beyond its own.",
            read_microseconds,
            write_microseconds,
            field="patience_us",
            instead="leave it out: tables have all their rows from the start",
        ),
    ]


class InProcess(TypedDict, total=False):
    """Options of joins in this process."""

    threads: Annotated[
        int | None,
        Option(
            None,
            "How many threads probe; all processors if None. It can be changed while a "
            "`StreamJoin` runs.",
            read_threads,
            instead="ask for more cores=, each of which has one thread",
        ),
    ]


class EveryStream(TypedDict, total=False):
    """Options of streams, in process and on Spark."""

    ordered: Annotated[
        Ordered,
        Option(
            "none",
            'The order of matches: ``"none"``; ``"outer"``, the matches of an earlier row come '
            'first, counted over both streams; ``"inner"``, in addition those of one row come '
            "oldest first; or a number p: as inner, but only groups of p rows of the other stream "
            "are in order. On Spark, matches get two columns to sort by, ``_arrival`` and "
            "``_matched``.",
            read_ordered,
            instead="leave it out, and sort the result",
        ),
    ]
    emit: Annotated[
        str | None,
        Option(
            None,
            'Tumbling and session windows: ``"close"`` returns their matches when the watermark '
            'has passed their end, ``"eager"`` as rows arrive, ``"auto"`` whichever suits '
            '``optimize`` best. The pairs are the same. None means ``"close"``, or ``"eager"`` for '
            "algorithms that join rows as they arrive.",
            read_emit,
            instead="leave it out: tables are joined all at once",
        ),
    ]
    optimize: Annotated[
        str,
        Option(
            GOALS[0],
            'What ``"auto"`` optimizes: ``"throughput"`` (the last match comes early), '
            '``"latency"`` (a match comes soon after the later of its rows) or '
            '``"progressiveness"`` (half of the matches come early).',
            read_optimize,
            instead="leave it out: tables are joined all at once",
        ),
    ]


class OwnClock(TypedDict, total=False):
    """Options of streams in this process; Spark has its own ways to say the same."""

    delay: Annotated[
        Duration | None,
        Option(
            None,
            "Let the watermark follow the data: after each push it stands this far behind the "
            "newest time of the slower stream. Without it, call `advance`.",
            read_microseconds,
            write_microseconds,
            field="delay_us",
            instead="leave it out; on Spark, use withWatermark",
        ),
    ]
    batch_rows: Annotated[
        int | None,
        Option(
            None,
            "Batch mode: rows wait until there are this many, then they are joined together, which "
            "costs less per row.",
            read_batch_rows,
            instead="leave it out; on Spark, the trigger decides",
        ),
    ]
    batch_time: Annotated[
        Duration | None,
        Option(
            None,
            "Batch mode: rows wait until the first has waited this long; with ``batch_rows``, "
            "whichever comes first. `push` looks at the clock, even an empty ``push()``; `flush` "
            "does not wait.",
            read_microseconds,
            write_microseconds,
            field="batch_us",
            instead="leave it out; on Spark, the trigger decides",
        ),
    ]
    cores: Annotated[
        int | None,
        Option(
            None,
            "Spread the windows over this many join cores, each a thread with a part of the rows "
            "(SplitJoin); one if None.",
            read_cores,
            write=lambda cores: None if cores == 1 else cores,
            instead="give it threads",
        ),
    ]


class OnSpark(TypedDict, total=False):
    """Options of joins on Spark."""

    routing: Annotated[
        str,
        Option(
            "auto",
            'How rows go to cores: ``"hash"`` by an equality, ``"range"`` by a band, ``"split"`` '
            'stores once and probes everywhere; ``"auto"`` chooses.',
            read_routing,
            field=None,
        ),
    ]
    cores: Annotated[
        int | None,
        Option(
            None,
            "How many parallel joiners. None means ``spark.sql.shuffle.partitions`` for streams, "
            "and as many as their size calls for with tables.",
            read_spark_cores,
            field=None,
        ),
    ]
    name: Annotated[
        str,
        Option(
            "streamjoin",
            "The name of this join's metrics in `StreamingQueryProgress.observedMetrics`.",
            field=None,
            in_job=False,  # the sink's
        ),
    ]
    checkpoint: Annotated[
        str | None,
        Option(
            None,
            "Streams: the query's ``checkpointLocation``. After a restart, the first batch then "
            "goes only to the cores that need it instead of to all; it changes nothing else.",
            field=None,
            in_job=False,  # the sink's
        ),
    ]


class TableOptions(EveryJoin, Kinds, InProcess, total=False):
    """What `join_tables` and `find_matches` take."""


class StreamOptions(EveryJoin, Kinds, LateRows, OwnClock, EveryStream, InProcess, total=False):
    """What `StreamJoin` and `explain` take."""


class SparkOptions(EveryJoin, Kinds, LateRows, OnSpark, EveryStream, total=False):
    """What `streamjoin.spark.join` and `streamjoin.spark.explain` take."""


@dataclass(frozen=True)
class EntryPoint:
    """Functions that take the same options."""

    name: str
    options: type

    @cached_property
    def table(self) -> dict[str, Option]:
        """The options by name."""
        return {name: get_args(hint)[1] for name, hint in self._hints.items()}

    @cached_property
    def types(self) -> dict[str, Any]:
        return {name: get_args(hint)[0] for name, hint in self._hints.items()}

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.options, include_extras=True)

    def read(self, options: Mapping[str, Any]) -> "Given":
        """Read all options, with defaults for those not given; refuse unknown ones."""
        for name, value in options.items():
            if name not in self.table:
                refuse_option(self, name, value)
        values = {
            name: option.read(name, options.get(name, option.default))
            for name, option in self.table.items()
        }
        return Given(self, options, values)


@dataclass(frozen=True)
class Given:
    """All options passed to an entry point, each checked by itself."""

    entry: EntryPoint
    asked: Mapping[str, Any]  # as the user gave them; the others are missing
    values: dict[str, Any]  # all of them, as a join keeps them

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def fields(self) -> dict[str, Any]:
        """The options that `JoinOptions` has fields for."""
        table = self.entry.table
        return {
            option.field or name: self.values[name]
            for name, option in table.items()
            if option.field is not None
        }


TABLES = EntryPoint("join_tables", TableOptions)
STREAMS = EntryPoint("StreamJoin", StreamOptions)
SPARK = EntryPoint("spark.join", SparkOptions)
ENTRY_POINTS = (STREAMS, TABLES, SPARK)


IN_CONDITION = "write it into the condition, as in l.id = r.id"
FAMILIAR = {  # options of other systems, and what to write here
    **dict.fromkeys(("by", "left_by", "right_by", "left_on", "right_on"), IN_CONDITION),
    "tolerance": "write a band into the condition, as in l.ts - r.ts between 0 and 5000",
    **dict.fromkeys(
        ("direction", "strategy"),
        "write an inequality into the condition, as in r.ts <= l.ts, and pass keep='nearest'",
    ),
    "type": "did you mean 'how'?",
    "join_type": "did you mean 'how'?",
    "agg": "did you mean 'aggregate'?",
}


def refuse_option(entry: EntryPoint, name: str, value: Any) -> None:
    """Refuse an option that an entry point does not take, or that does not exist."""
    takers = [each for each in ENTRY_POINTS if name in each.table]
    if takers:
        whose = join_words(each.name for each in takers)
        raise StreamJoinError(
            f"{name}={value!r} has no use in {entry.name}: it is an option of {whose}; "
            f"{takers[0].table[name].instead}"
        )
    near = get_close_matches(name, entry.table, n=1)
    way = f"did you mean {near[0]!r}?" if near else f"it has {quote_words(entry.table)}"
    way = FAMILIAR.get(name, way)
    raise StreamJoinError(f"{entry.name} has no option {name!r}; {way}")
