"""What each kind of join gives, and when: a nested loop over the rows that have come, each time.

A row is given as ``(left id, right id)``, with None for a side that is missing; late rows as
``("late", side, id)``. After each step there is what *must* have been given by then, and what *may*
have been: they differ where a join may take its time (algorithms that find pairs at the end of a
window, batch mode).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import streamjoin as sj
from streamjoin.options.how import BY_NAME
from tests.joins.closing.window_oracle import group_of
from tests.joins.small_streams import CONDITIONS, compare, known
from tests.oracle import Row, Steps, join_by_count, join_by_time

EVERYTHING = 10**9  # a time after all
Given = Counter[tuple[Any, ...]]

ALL = CONDITIONS | {
    "or": (
        "(l.k = r.k or l.a < r.b)",
        lambda one, other: (
            (known(one["k"], other["k"]) and one["k"] == other["k"])
            or (known(one["a"], other["b"]) and one["a"] < other["b"])
        ),
    ),
    "left filter": (
        "l.k = r.k and l.b > 0",
        lambda one, other: (
            known(one["k"], other["k"], one["b"]) and one["k"] == other["k"] and one["b"] > 0
        ),
    ),
    "right filter": (
        "l.a < r.a and r.s <> 'a'",
        lambda one, other: (
            compare("a", "a", lambda x, y: x < y)(one, other)
            and other["s"] is not None
            and other["s"] != "a"
        ),
    ),
}
# The columns whose NULL keeps a left row, or a right row, from matching anything.
NEEDED: dict[str, tuple[str, str]] = {
    "equality": ("k", "k"),
    "text": ("s", "s"),
    "two equalities": ("ks", "ks"),
    "null-safe": ("", ""),
    "null-safe text": ("", ""),
    "band": ("a", "a"),
    "asymmetric band": ("a", "b"),
    "double band": ("x", "x"),
    "two bands": ("ax", "ax"),
    "bands with or": ("a", "a"),
    "inequality": ("a", "b"),
    "arithmetic": ("a", "ab"),
    "not equal": ("a", "a"),
    "two inequalities": ("ab", "ab"),
    "equality and band": ("ka", "ka"),
    "text and double band": ("sx", "sx"),
    "equality and two ranges": ("kab", "kab"),
    "equality and not equal": ("ka", "ka"),
    "residual": ("a", "a"),
    "residual text": ("ks", "ks"),
    "filters": ("ab", "as"),
    "or": ("", ""),
    "left filter": ("kb", "k"),
    "right filter": ("a", "as"),
}
FILTERS: dict[str, tuple[Callable[[Row], bool], Callable[[Row], bool]]] = {
    "filters": (lambda row: row["b"] > 0, lambda row: True),
    "left filter": (lambda row: row["b"] > 0, lambda row: True),
    "right filter": (lambda row: True, lambda row: row["s"] != "a"),
}


@dataclass
class Truth:
    """A join of two streams; ``window`` is None for tables."""

    how: str
    condition: str
    window: Any
    delay: int | None = None
    keeps_late: bool = False
    patience: int | None = None
    is_eager: bool = True  # whether windows that close give pairs as their rows come
    is_prompt: bool = True  # whether all that can be given is given at once
    watermark: int | None = None
    newest: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"left": [], "right": []})
    late: dict[str, list[Row]] = field(default_factory=lambda: {"left": [], "right": []})
    steps: Steps = field(default_factory=list)  # of count windows

    def push(self, left: list[Row], right: list[Row]) -> None:
        """Take rows, some of them late; without a time, they cannot match, and are never late."""
        if self.is_counted and self.watermark is not None:
            self.late["left"] += left
            self.late["right"] += right
            return
        self.steps.append((left, right))
        for side, rows in (("left", left), ("right", right)):
            for row in rows:
                if self.is_timed and row["t"] is not None:
                    self.newest[side] = max(self.newest.get(side, row["t"]), row["t"])
                    if self.watermark is not None and row["t"] < self.watermark:
                        self.late[side].append(row)
                        continue
                self.rows[side].append(row)
        if self.delay is not None and len(self.newest) == 2:
            self.advance(min(self.newest.values()) - self.delay)

    def advance(self, watermark: int) -> None:
        self.watermark = max(watermark, -EVERYTHING if self.watermark is None else self.watermark)

    def finish(self) -> None:
        self.advance(EVERYTHING)

    @property
    def is_counted(self) -> bool:
        return isinstance(self.window, sj.CountWindow)

    @property
    def is_timed(self) -> bool:
        return self.window is not None and not self.is_counted

    @property
    def closes(self) -> bool:
        return isinstance(self.window, sj.TumblingWindow | sj.SessionWindow)

    def predicate(self, one: Row, other: Row) -> bool:
        return bool(ALL[self.condition][1](one, other))

    def is_able(self, side: str, row: Row) -> bool:
        """Whether a row could match something."""
        place = int(side == "right")
        if self.is_timed and row["t"] is None:
            return False
        if any(row[column] is None for column in NEEDED[self.condition][place]):
            return False
        return FILTERS.get(self.condition, (bool, bool))[place](row)

    def closing(self) -> Iterator[tuple[dict[str, list[Row]], int]]:
        """Yield the rows of each window that closes, and when it does."""
        group = group_of(self.condition)
        placed: dict[Any, list[tuple[str, Row]]] = {}
        for side, rows in self.rows.items():
            for row in rows:
                if row["t"] is None:
                    continue
                if isinstance(self.window, sj.TumblingWindow):
                    placed.setdefault(row["t"] // length_of(self.window), []).append((side, row))
                elif group(row) is not None:
                    placed.setdefault(group(row), []).append((side, row))
        for key, members in placed.items():
            if isinstance(self.window, sj.TumblingWindow):
                yield by_side(members), (key + 1) * length_of(self.window)
                continue
            gap = gap_of(self.window)
            session: list[tuple[str, Row]] = []
            for member in sorted(members, key=lambda each: each[1]["t"]):
                if session and member[1]["t"] - session[-1][1]["t"] > gap:
                    yield by_side(session), session[-1][1]["t"] + gap + 1
                    session = []
                session.append(member)
            yield by_side(session), session[-1][1]["t"] + gap + 1

    def pairs(self, until: int | None = None) -> Given:
        """The pairs that have come so far; with ``until``, of windows that close by then."""
        left, right = self.rows["left"], self.rows["right"]
        if self.is_counted:
            size = self.window
            return join_by_count(self.steps, self.predicate, size.left, size.right)
        if self.closes:
            return Counter(
                (one["id"], other["id"])
                for rows, end in self.closing()
                if until is None or end <= until
                for one in rows["left"]
                for other in rows["right"]
                if self.predicate(one, other)
            )
        reach = (EVERYTHING, EVERYTHING)
        if self.window is not None:
            reach = (self.window.before_us // 1000, self.window.after_us // 1000)
            return join_by_time(left, right, self.predicate, *reach)
        return Counter((a["id"], b["id"]) for a in left for b in right if self.predicate(a, b))

    def is_final(self, side: str, row: Row, place: int) -> bool:
        """Whether no row that is on time can match a row of a window that slides."""
        if self.watermark is not None and self.watermark >= EVERYTHING:
            return True
        if self.is_counted:
            size = self.window.left if side == "left" else self.window.right
            return place < len(self.rows[side]) - size
        if self.watermark is None or row["t"] is None:
            return False
        window = self.window
        reach = (window.after_us if side == "left" else window.before_us) // 1000
        return bool(row["t"] + reach < self.watermark)

    def final(self) -> dict[str, list[Row]]:
        """The rows that nothing on time can match any more."""
        if self.window is None:
            return self.rows
        if self.closes:
            ended: dict[str, list[Row]] = {"left": [], "right": []}
            for rows, end in self.closing():
                if self.watermark is not None and end <= self.watermark:
                    for side in ended:
                        ended[side] += rows[side]
            return ended
        return {
            side: [row for place, row in enumerate(rows) if self.is_final(side, row, place)]
            for side, rows in self.rows.items()
        }

    def impatient(self, side: str) -> list[Row]:
        """The rows that have waited long enough."""
        if self.patience is None or not self.newest:
            return []
        before = max(self.newest.values()) - self.patience
        return [row for row in self.rows[side] if row["t"] is not None and row["t"] < before]

    def expected(self) -> tuple[Given, Given]:
        """Return what must have been given by now, and what may have been."""
        how, now = BY_NAME[self.how], self.watermark
        everything, closed = self.pairs(), self.pairs(-EVERYTHING if now is None else now)
        early = everything if self.is_eager or not self.closes else closed
        sure = early if self.is_prompt or not self.closes else closed
        must, may = self.kind(sure), self.kind(early)
        lone: Given = Counter()
        known = everything if self.patience is None else early
        matched = {"left": {one for one, _ in known}, "right": {two for _, two in known}}
        final = self.final()
        for side in how.alone:
            ids = {row["id"] for row in [*final[side], *self.impatient(side)]}
            ids |= {row["id"] for row in self.rows[side] if not self.is_able(side, row)}
            lone.update(alone(side, each) for each in ids - matched[side])
        if self.keeps_late:
            for side in how.sides:
                lone.update(("late", side, row["id"]) for row in self.late[side])
        return must + lone, may + lone

    def kind(self, pairs: Given) -> Given:
        """What a join gives for pairs."""
        how = BY_NAME[self.how]
        if how.met is not None:
            return Counter({alone(how.met, pair[how.met == "right"]): 1 for pair in pairs})
        return pairs if how.gives_pairs else Counter()


def by_side(members: list[tuple[str, Row]]) -> dict[str, list[Row]]:
    return {side: [row for at, row in members if at == side] for side in ("left", "right")}


def length_of(window: sj.TumblingWindow) -> int:
    return window.length_us // 1000


def gap_of(window: sj.SessionWindow) -> int:
    return window.gap_us // 1000


def alone(side: str, row: Any) -> tuple[Any, Any]:
    return (row, None) if side == "left" else (None, row)


def read(how: str, result: pa.Table, indicator: bool = False) -> Given:
    """Read the rows of a result, and check the columns that tell what they are."""
    names = result.schema.names
    count, one_side = result.num_rows, BY_NAME[how].one_side
    if one_side is None:
        lefts, rights = result["id"].to_pylist(), result["id_right"].to_pylist()
    else:
        ids, none = result["id"].to_pylist(), [None] * count
        lefts, rights = (ids, none) if one_side == "left" else (none, ids)
    late = result["_late"].to_pylist() if "_late" in names else [False] * count
    if indicator:
        told = ["both", "left_only", "right_only"]
        for one, other, name in zip(lefts, rights, result["_match"].to_pylist(), strict=True):
            assert name == told[(other is None) + 2 * (one is None)]
    check_nulls(how, result)
    return Counter(
        ("late", "right" if one is None else "left", other if one is None else one)
        if is_late
        else (one, other)
        for one, other, is_late in zip(lefts, rights, late, strict=True)
    )


def check_nulls(how: str, result: pa.Table) -> None:
    """A missing side is NULL in all of its columns."""
    if BY_NAME[how].one_side is not None:
        return
    for row in result.to_pylist():
        for suffix in ("", "_right"):
            if row[f"id{suffix}"] is None:
                names = [name for name in row if name.endswith("_right") == bool(suffix)]
                shown = {name: row[name] for name in names if not name.startswith("_")}
                assert not any(value is not None for value in shown.values()), row
