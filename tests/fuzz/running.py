"""Runs streamjoin on a case, and says what came of it."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa

import streamjoin as sj
from streamjoin.errors import EvaluationError, SnapshotError, StreamJoinError
from streamjoin.indexes.trees import b_tree, chained_index, pim_tree
from streamjoin.indexes.two_keys import spo_join
from streamjoin.plans.limits import Limits, limits_in_use, use_limits

from .aggregates import align, plain_values
from .cases import Case
from .deadlines import find_overdue
from .nested_loop import is_in_order
from .outcomes import Row, Rows

EPOCH = datetime(1970, 1, 1)
SMALL_LIMITS = {  # where a few rows fill a subwindow
    "least_counted_rows": 4, "least_timed_rows": 4, "large_batch_rows": 8, "slice_rows": 2,
    "small_piece_rows": 4, "least_expired_rows": 8,
}  # fmt: skip
SMALL_INDEXES = [
    (b_tree, "LEAST_TUPLES", 8), (chained_index, "LEAST_TUPLES", 8), (pim_tree, "LEAST_TUPLES", 8),
    (spo_join, "FEW_ROWS", 4), (spo_join, "FEW_PROBES", 3), (spo_join, "THREAD_TUPLES", 6),
]  # fmt: skip
IDS = ["id", "id_right"]
AGGREGATES = ["a0", "a1", "a2", "a3"]
NAMES = [*IDS, "_match", *AGGREGATES, "_late", "_op"]  # of the columns that are compared
BUGS = ("different", "foreign", "raised", "disordered", "payload", "miscounted", "overdue")


@dataclass(frozen=True)
class Outcome:
    """equal, refused, one of BUGS; and what there is to say."""

    kind: str
    note: str = ""
    found: Rows | None = None
    expected: Rows | None = None

    @property
    def is_bug(self) -> bool:
        return self.kind in BUGS


@contextmanager
def small_parts(case: Case) -> Iterator[None]:
    """Let subwindows be full with a few rows, if the case says so."""
    before = [(module, name, getattr(module, name)) for module, name, _ in SMALL_INDEXES]
    try:
        for module, name, value in SMALL_INDEXES if case.small else ():
            setattr(module, name, value)
        with use_limits(Limits(**SMALL_LIMITS) if case.small else limits_in_use()):
            yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def run_case(case: Case) -> Outcome:
    """Compare what streamjoin finds with what is expected."""
    expected = case.expect()
    try:
        with small_parts(case):
            answer = join(case)
    except EvaluationError as error:
        # DuckDB's texts compute without bounds; Spark would raise too, so nothing can be said.
        # Nor does it say anything of distances and aggregates.
        has_more = case.kind.is_written or bool(case.kind.aggregates)
        spark = not has_more and all(part.by == "spark" for part in case.parts)
        return Outcome("raised" if spark else "refused", message_kind(error))
    except SnapshotError as error:  # of a join that runs
        return Outcome("raised", str(error)[:300], expected=expected)
    except StreamJoinError as error:
        return Outcome("refused", message_kind(error))
    except Exception as error:
        return Outcome("foreign", f"{type(error).__name__}: {error}"[:300], expected=expected)
    tables, stats = answer.tables, answer.stats
    pieces = [rows_in(table) for table in tables]
    if case.kind.aggregates:
        by_id = {row[0]: row for row in expected}
        pieces = [[align(row, by_id.get(row[0])) for row in rows] for rows in pieces]
    sequence = [row for rows in pieces for row in rows]
    nets = [Counter(rows) for rows in pieces]
    if case.kind.patience is not None:
        if not is_orderly(sequence):
            return Outcome("different", "rows are given or taken back repeatedly", None, expected)
        nets = [net_of(rows) for rows in pieces]
    found = add_nets(nets)
    if found != expected:
        return Outcome("different", "", found, expected)
    order = case.block.order if case.ordered_by_column else None
    if not is_in_order(sequence, case.steps, order, case.options.get("ordered", "none")):
        return Outcome("disordered", "", found, expected)
    late = None if stats is None else (stats.late_left, stats.late_right)
    if late is not None and case.is_open and late != case.late_counts:
        return Outcome("miscounted", f"late rows: {late}, not {case.late_counts}")
    if stats is not None and not case.saves and not case.finds and len(case.kind.sides) == 2:
        pairs = sum(None not in row[:2] for row in expected)
        if stats.matches != pairs:
            return Outcome("miscounted", f"matches: {stats.matches}, not {pairs}")
    if answer.ends and case.is_open and "batch_rows" not in case.options:
        given = [add_nets(nets[first:end]) for first, end in pairwise([0, *answer.ends])]
        if find_overdue(case, given, expected):
            return Outcome("overdue", "rows come later than they could", found, expected)
    if case.number % 8 == 0 and not case.is_lean and not has_payload(case, tables):
        return Outcome("payload", "columns of other rows", found, expected)
    return Outcome("equal", f"{found.total()}", found, expected)


def rows_in(table: pa.Table) -> list[Row]:
    """What rows of a result are compared by; none before both schemas are known."""
    names = [name for name in NAMES if name in table.schema.names]
    columns = [
        plain_values(table[name]) if name in AGGREGATES else table[name].to_pylist()
        for name in names
    ]
    return list(zip(*columns, strict=True))


def window_of(case: Case) -> sj.TimeWindow | Any:
    kind, *sizes = case.window
    lengths = [timedelta(microseconds=int(each) // 1000) for each in sizes]
    if kind == "time":
        return sj.TimeWindow(before=lengths[0], after=lengths[1])
    if kind == "count":
        return sj.CountWindow(left=int(sizes[0]), right=int(sizes[1]))
    if kind == "tumbling":
        return sj.TumblingWindow(lengths[0], offset=lengths[1])
    return sj.SessionWindow(lengths[0]) if kind == "session" else None


def arguments(case: Case) -> dict[str, Any]:
    """The arguments of `StreamJoin` or `join_tables`."""
    given: dict[str, Any] = {"on": case.on, "window": window_of(case), **case.options}
    given |= case.kind.options
    times = case.block.tables.times
    if case.kind.is_written and case.kind.distance is not None:
        given["nearest"] = case.kind.distance.read.format_map(case.names)
    if case.kind.aggregates:
        texts = [each.text.format_map(case.names) for each in case.kind.aggregates]
        given["aggregate"] = dict(zip(AGGREGATES, texts, strict=False))
    if case.has_time:
        given["time"] = (times["l"].name, times["r"].name)
    if case.ordered_by_column:
        given["order"] = "o"
    if case.delay is not None:
        given["delay"] = timedelta(microseconds=case.delay // 1000)
    return given


def rows_of(case: Case, side: str, places: tuple[int, ...] | None) -> pa.Table | None:
    if places is None:
        return None
    rows = case.block.tables.tables[side].take(pa.array(places, pa.int64()))
    for column in case.block.tables.columns[side]:
        if column.type == pa.string_view():
            place = rows.schema.get_field_index(column.name)
            array = pa.array(rows.column(place).to_pylist(), column.type)
            rows = rows.set_column(place, column.name, array)
    return rows.select(case.names_of(side))


def sides_of(case: Case, place: int) -> tuple[pa.Table | None, pa.Table | None]:
    step = case.steps[place]
    left = rows_of(case, "l", step.left)
    if case.is_self:
        return left, left
    return left, rows_of(case, "r", step.right)


def watermark_of(case: Case, nanoseconds: int) -> Any:
    """A watermark as a user would give it."""
    clock = case.block.tables.clock
    if clock.kind == "integer":
        return nanoseconds // 10**6
    moment = EPOCH + timedelta(microseconds=nanoseconds // 1000)
    if clock.kind == "date":
        return moment.date()
    if nanoseconds % 10**6 == 0 and case.number % 2:
        return nanoseconds // 10**6
    return moment.replace(tzinfo=UTC) if clock.types[0].tz else moment


def is_orderly(sequence: list[Row]) -> bool:
    """Whether each row is taken back only after it was given, and given once."""
    net: Rows = Counter()
    for *row, op in sequence:
        net[tuple(row)] += 1 if op == "+" else -1
        if net[tuple(row)] not in (0, 1):
            return False
    given = Counter(tuple(row) for *row, op in sequence if op == "+")
    return max(given.values(), default=1) == 1


def net_of(rows: list[Row]) -> Rows:
    """Rows that are given, less those that are taken back."""
    net: Rows = Counter()
    for *row, op in rows:
        net[tuple(row)] += 1 if op == "+" else -1
    return net


def add_nets(nets: list[Rows]) -> Rows:
    """What some steps give together; what is taken back may be of an earlier step."""
    total: Rows = Counter()
    for net in nets:
        total.update(net)
    return Counter({row: count for row, count in total.items() if count})


@dataclass(frozen=True)
class Answer:
    """All rows, in pieces."""

    tables: list[pa.Table]
    ends: tuple[int, ...] = ()  # how many there were after each push
    stats: sj.JoinStats | None = None


def join(case: Case) -> Answer:
    """Run the case."""
    given = arguments(case)
    if case.call in ("tables", "matches"):
        left, right = sides_of(case, 0)
        if case.call == "tables":
            return Answer([sj.join_tables(left, right, **given)])
        found = sj.find_matches(left, right, **given)
        return Answer([counted(found)])
    run = sj.StreamJoin(**given)
    if case.call == "stream":
        source = [sides_of(case, place) for place in range(len(case.steps))]
        tables = [part.rows for part in run.stream(source)]
        # The end of a source gives all; to finish after it adds nothing.
        if case.number % 2 == 0:
            tables.append(run.finish())
        return Answer(tables, stats=run.stats)
    tables, ends = [], []
    for place, step in enumerate(case.steps):
        if place in case.saves:
            run = sj.StreamJoin.restore(run.snapshot())
        if case.changes_threads:
            run.threads = 1 + place % 3
        left, right = sides_of(case, place)
        if place in case.finds:
            tables.append(counted(run.find(left, right)))
        else:
            tables.append(run.push(left, right))
        if step.watermark is not None:
            tables.append(run.advance(watermark_of(case, step.watermark)))
        ends.append(len(tables))
    if len(case.steps) in case.saves:
        run = sj.StreamJoin.restore(run.snapshot())
    return Answer([*tables, run.finish()], tuple(ends), run.stats)


def counted(found: Any) -> pa.Table:
    """All matches of a result that is left where it is; it must count what it gives."""
    count, table = found.count(), found.to_table()
    if count != table.num_rows:
        raise AssertionError(f"count() is {count}, and there are {table.num_rows} rows")
    return table


def has_payload(case: Case, tables: list[pa.Table]) -> bool:
    """Whether all columns of the matches are those of the rows that matched."""
    sides = case.kind.sides
    width = len(case.names_of("l")) * ("l" in sides)
    for table in tables:
        if not table.num_rows:  # whose columns may be those of one side still
            continue
        for side, name, shift in zip(sides, IDS, (0, width), strict=False):
            ids = {side: table[name]}
            source = case.block.tables.tables[side].take(ids[side].combine_chunks())
            source = source.select(case.names_of(side))
            for place in range(source.num_columns):
                one, other = source.column(place), table.column(shift + place)
                if pa.types.is_timestamp(one.type):  # which Python may not have in its zone
                    one, other = one.cast(pa.int64()), other.cast(pa.int64())
                if repr(one.to_pylist()) != repr(other.to_pylist()):
                    return False
    return True


RULES = [  # what a message says, whatever the condition in it
    "has no part that a join can use", "sorts rows by two inequalities", "do not compare",
    "overflows its type", "is too far from", "joins by equality", "not compared in process",
    "are not evaluated", "is not evaluated",
]  # fmt: skip


def message_kind(error: Exception) -> str:
    """An error without what differs from case to case."""
    text = str(error).split("\n")[0]
    for rule in RULES:
        if rule in text:
            return f"{type(error).__name__}: {rule}"
    text = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\b[lrLR]\.\S+|[-+]?\d[\w.]*", "…", text)
    return f"{type(error).__name__}: {text[:110]}"
