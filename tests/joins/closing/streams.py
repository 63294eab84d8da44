"""Streams through windows that close: any pushes, watermarks, saves and finds, step by step."""

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa
from hypothesis import strategies as st

import streamjoin as sj
from tests.joins.closing.window_oracle import Arrived, group_of, pushed, sessions, tumbling
from tests.joins.small_streams import CONDITIONS, pairs, steps_of
from tests.oracle import Pairs, Row

Look = Callable[[Pairs, Arrived], None]  # at what was found so far

KNOBS = {
    "prj": {"bits": 2},
    "mway": {"run_rows": 3},
    "mpass": {"run_rows": 3},
    "pmj_jm": {"delta": 4},
    "pmj_jb": {"delta": 5},
}
WINDOWS = {
    "tumbling": st.builds(sj.TumblingWindow, st.integers(1, 12), st.integers(0, 7)),
    "session": st.builds(sj.SessionWindow, st.integers(1, 4)),
}
equalities = st.sampled_from(["equality", "text", "two equalities", "null-safe", "residual text"])
ACTS = ["push", "push", "push", "advance", "save", "find", "count", "threads", "flush"]


def joined(result: pa.Table) -> Pairs:
    return pairs(result) if "id_right" in result.schema.names else Counter()


def before_1970(rows: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """The same rows with times on both sides of 1970."""
    return [
        [row if row["t"] is None else {**row, "t": row["t"] - 14} for row in side] for side in rows
    ]


def expected(
    sides: tuple[list[Row], list[Row]],
    name: str,
    window: sj.SessionWindow | sj.TumblingWindow,
    until: int | None = None,
) -> Pairs:
    """The oracle's pairs of a condition; with ``until``, of the windows that it has passed."""
    predicate = CONDITIONS[name][1]
    if isinstance(window, sj.SessionWindow):
        return sessions(*sides, predicate, window.gap_us // 1000, group_of(name), until)
    length, offset = window.length_us // 1000, window.offset_us // 1000
    return tumbling(*sides, predicate, length, offset, until=until)


def closed_so_far(name: str, window: sj.SessionWindow | sj.TumblingWindow) -> Look:
    """At any time, just the windows are out that the watermark has passed."""

    def check(found: Pairs, arrived: Arrived) -> None:
        until = -(10**9) if arrived.watermark is None else arrived.watermark
        assert found == expected(arrived.sides, name, window, until)

    return check


def all_so_far(name: str, window: sj.SessionWindow | sj.TumblingWindow) -> Look:
    """At any time, all pairs of the rows that have come."""

    def check(found: Pairs, arrived: Arrived) -> None:
        assert found == expected(arrived.sides, name, window)

    return check


def go(
    data: st.DataObject,
    join: sj.StreamJoin,
    rows: Sequence[Sequence[Row]],
    arrived: Arrived,
    after: Look = lambda found, arrived: None,
) -> tuple[Pairs, sj.StreamJoin]:
    """Bring all rows in, in any way, and finish; ``after`` looks at what was found so far."""
    found: Pairs = Counter()
    for left, right in data.draw(steps_of(*rows)):
        act = data.draw(st.sampled_from(ACTS))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        if act == "threads":
            join.threads = data.draw(st.sampled_from([1, 2, 3]))
        if act == "flush":
            found += joined(join.flush())
        if act in ("find", "count"):
            results = join.find(**pushed(left, right))
            count = results.count()
            fetched = joined(results.to_table())
            assert fetched.total() == count
            found += fetched
        else:
            found += joined(join.push(**pushed(left, right)))
        arrived.push(left, right)
        if act == "advance" and arrived.delay is None:
            times = [row["t"] for row in left + right if row["t"] is not None]
            watermark = (max(times) if times else 0) - data.draw(st.integers(-2, 9))
            arrived.advance(watermark)
            found += joined(join.advance(watermark))
        after(found, arrived)
    if data.draw(st.booleans()):
        join = sj.StreamJoin.restore(join.snapshot())
    found += joined(join.finish())
    stats = join.stats
    if join.schema is not None:
        assert (stats.live_left, stats.live_right, stats.subwindows) == (0, 0, 0)
        assert stats.late == arrived.late
    return found, join
