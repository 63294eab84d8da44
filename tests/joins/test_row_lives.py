"""Every match is told once, and so is every row's end, in every kind of window and executor.

Nor does it matter whether a join goes on from a snapshot.

A toy observer keeps a diary. It refuses matches of rows that have not come or have ended; what it
has written at the end is compared with nested loops, and with which rows have ended by then.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.api import snapshots, table_join
from streamjoin.joins.engine import Engine
from streamjoin.joins.pairs.deliver import gather, leave_and_name
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.limits import use_limits
from tests import oracle
from tests.joins.closing import window_oracle
from tests.joins.small_streams import TINY

SIDES = ("left", "right")
BAND, EQUAL = "abs(l.x - r.x) <= 1", "l.k = r.k"
BOTH = "l.x <= r.x and l.y >= r.y"
RESIDUAL = f"{EQUAL} and l.y + r.y < 5"
UNLIKE = f"{EQUAL} and l.y <> r.y"


def are_known(*values):
    return None not in values


def equal(one, other):
    return are_known(one["k"], other["k"]) and one["k"] == other["k"]


def within_one(one, other):
    return are_known(one["x"], other["x"]) and abs(one["x"] - other["x"]) <= 1


def crossing(one, other):
    return are_known(one["x"], other["x"]) and one["x"] <= other["x"] and one["y"] >= other["y"]


PREDICATES = {  # and the column that may be NULL
    BAND: (within_one, "x"),
    EQUAL: (equal, "k"),
    BOTH: (crossing, "x"),
    UNLIKE: (lambda one, other: equal(one, other) and one["y"] != other["y"], "k"),
    RESIDUAL: (lambda one, other: equal(one, other) and one["y"] + other["y"] < 5, "k"),
}
TIME, COUNT = sj.TimeWindow(before=6, after=3), sj.CountWindow(left=7, right=4)
TUMBLING, SESSION = sj.TumblingWindow(10), sj.SessionWindow(2)
KINDS = {
    "time": (BAND, TIME, {}),
    "time, residual": (RESIDUAL, TIME, {}),
    "time, two threads": (BAND, TIME, {"threads": 2}),
    "time, scan": (BAND, TIME, {"algorithm": "scan"}),
    "time, two keys": (BOTH, TIME, {"algorithm": "spo_join"}),
    "time, whole": (BAND, TIME, {"algorithm": "pim_tree"}),
    "time, b_tree": (BAND, TIME, {"algorithm": "b_tree"}),
    "time, cores": (BAND, TIME, {"cores": 3}),
    "time, cores in order": (EQUAL, TIME, {"cores": 2, "ordered": "inner"}),
    "count": (EQUAL, COUNT, {}),
    "count, two keys": (BOTH, COUNT, {"algorithm": "spo_join"}),
    "count, whole": (BAND, COUNT, {"algorithm": "im_tree"}),
    "count, cores": (BAND, COUNT, {"cores": 2}),
    "count, cores in order": (BAND, COUNT, {"cores": 2, "ordered": "outer"}),
    "tumbling": (EQUAL, TUMBLING, {}),
    "tumbling, residual": (RESIDUAL, TUMBLING, {}),
    "tumbling, band": (BAND, TUMBLING, {}),
    "tumbling, band as rows come": (BAND, TUMBLING, {"emit": "eager"}),
    "tumbling, shj": (EQUAL, TUMBLING, {"algorithm": "shj_jm"}),
    "tumbling, pmj": (UNLIKE, TUMBLING, {"algorithm": "pmj_jb"}),
    "session": (EQUAL, SESSION, {}),
    "session, band": (UNLIKE, SESSION, {}),
    "session, as rows come": (EQUAL, SESSION, {"emit": "eager"}),
}


class Diary:
    """Writes down what it is told, and takes it back if asked to."""

    def __init__(self):
        self.came = {side: {} for side in SIDES}  # rows by ordinal
        self.pairs, self.ended, self.lost = Counter(), Counter(), set()
        self.is_kept = True

    def note_arrivals(self, side, ordinals, rows):
        came = self.came[side]
        assert ordinals.tolist() == list(range(len(came), len(came) + len(rows)))
        came |= dict(zip(ordinals.tolist(), rows.to_pylist(), strict=True))

    def note_guests(self, *_):
        raise AssertionError  # all rows live here

    def note_matches(self, pairs):
        for left, right in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True):
            assert ("left", left) not in self.ended
            assert ("right", right) not in self.ended
            self.pairs[self.came["left"][left]["id"], self.came["right"][right]["id"]] += 1

    def note_ends(self, side, ordinals, are_lost):
        for ordinal in ordinals.tolist():
            assert ordinal in self.came[side]
            self.ended[side, ordinal] += 1
            if are_lost:
                self.lost.add((side, self.came[side][ordinal]["id"]))

    def mark(self):
        came = {side: dict(rows) for side, rows in self.came.items()}
        return came, self.pairs.copy(), self.ended.copy(), set(self.lost)

    def undo(self, mark):
        came, pairs, ended, lost = mark
        self.came = {side: dict(rows) for side, rows in came.items()}
        self.pairs, self.ended, self.lost = pairs.copy(), ended.copy(), set(lost)

    def keep(self):
        pass

    def ends(self, side):
        """The ids of rows that have ended; each has ended once."""
        assert set(self.ended.values()) <= {1}
        return {self.came[at][ordinal]["id"] for at, ordinal in self.ended if at == side}


@pytest.fixture(autouse=True)
def small_windows():
    with use_limits(replace(TINY, least_expired_rows=4, small_piece_rows=4)):
        yield


def make(on, window, **options):
    timed = {} if isinstance(window, sj.CountWindow) else {"time": "t"}
    join = sj.StreamJoin(on, window, **{"threads": 1, **timed, **options})
    join._state.observer = Diary()
    return join, join._state.observer


def restore(join, diary):
    """Go on from a snapshot; the diary has been saved beside it."""
    restored = sj.StreamJoin.__new__(sj.StreamJoin)
    restored._open(snapshots.load(join.snapshot(), diary))
    return restored


def draw(dice, count, at, first):
    """Rows around a time; some have no key, some no time."""
    return [
        {
            "id": first + number,
            "k": dice.choice([None, 0, 1, 2]),
            "x": dice.choice([None, 0, 1, 2, 3, 4]),
            "y": dice.randrange(5),
            "t": None if dice.random() < 0.05 else at + dice.randint(-4, 4),
        }
        for number in range(count)
    ]


def table(rows):
    return pa.Table.from_pylist(rows, pa.schema(dict.fromkeys(("id", "k", "x", "y", "t"), "int64")))


def ids(result):
    return Counter(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))


class Arrived:
    """What has come, and which of it has ended by now."""

    def __init__(self, on, window):
        self.on, self.window, self.watermark = on, window, None
        self.steps, self.able = [], {side: [] for side in SIDES}  # rows in time, with a time

    def push(self, sides):
        self.steps.append(tuple(sides.get(side, []) for side in SIDES))
        for side, rows in sides.items():
            self.able[side] += [row for row in rows if self.is_able(row)]

    def is_able(self, row):
        if isinstance(self.window, sj.CountWindow):
            return True
        return row["t"] is not None and (self.watermark is None or row["t"] >= self.watermark)

    def pairs(self):
        left, right = self.able["left"], self.able["right"]
        (predicate, _), window = PREDICATES[self.on], self.window
        if isinstance(window, sj.TimeWindow):
            return oracle.join_by_time(left, right, predicate, 6, 3)
        if isinstance(window, sj.CountWindow):
            return oracle.join_by_count(self.steps, predicate, 7, 4)
        if isinstance(window, sj.TumblingWindow):
            return window_oracle.tumbling(left, right, predicate, 10)
        return window_oracle.sessions(left, right, predicate, 2, lambda row: row["k"])

    def ends(self, side):
        """The ids of rows that no row to come can meet."""
        every = [row for step in self.steps for row in step[SIDES.index(side)]]
        alive = {row["id"] for row in self.able[side] if not self.has_ended(side, row, every)}
        return {row["id"] for row in every} - alive

    def has_ended(self, side, row, every):
        window, watermark = self.window, self.watermark
        if row[PREDICATES[self.on][1]] is None:
            return True
        if isinstance(window, sj.CountWindow):
            return every.index(row) < len(every) - getattr(window, side)
        if watermark is None:
            return False
        if isinstance(window, sj.TimeWindow):
            return row["t"] + {"left": 3, "right": 6}[side] < watermark
        if isinstance(window, sj.SessionWindow):
            return self.last_of_session(row) + 2 < watermark
        return (row["t"] // 10 + 1) * 10 <= watermark

    def last_of_session(self, row):
        times = sorted(r["t"] for s in SIDES for r in self.able[s] if r["k"] == row["k"])
        last = row["t"]
        for time in times:
            if last < time <= last + 2:
                last = time
        return last


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch_rows", [None, 9])
@pytest.mark.parametrize("restores", [False, True])
def test_each_match_and_each_end_is_told_once(name, seed, batch_rows, restores):
    on, window, options = KINDS[name]
    dice = Random(f"{name} {seed}")
    join, diary = make(on, window, batch_rows=batch_rows, **options)
    arrived, found, is_left = Arrived(on, window), Counter(), False
    arrived.push({side: [] for side in SIDES})
    join.push(table([]), table([]))
    for number in range(14):
        act = dice.choice(["push", "push", "push", "find", "advance", "flush"])
        at = 5 * number
        if restores and dice.random() < 0.4:
            join, is_left = restore(join, diary), False
        if act in ("push", "find"):
            sides = dice.choice([SIDES, ("left",), ("right",)])
            rows = {s: draw(dice, dice.randrange(9), at, 100 * number) for s in sides}
            arrived.push(rows)
            result = getattr(join, act)(**{side: table(each) for side, each in rows.items()})
            if act == "find":
                assert result.count() == sum(ids(result.to_table()).values())
                result = result.to_table()  # to read them again tells nothing again
            found += ids(result)
            is_left = act == "find" and join._state.engine.executor.closing is None
        elif act == "advance" and not isinstance(window, sj.CountWindow):
            arrived.watermark = max(arrived.watermark or 0, at - dice.randint(0, 4))
            found += ids(join.advance(arrived.watermark))
        else:
            found += ids(join.flush())
            is_left = False
        assert diary.pairs == found
        for side in SIDES:
            assert diary.ends(side) <= arrived.ends(side)
            if batch_rows is None and not is_left:  # in batch mode, ends wait for the next batch
                assert diary.ends(side) == arrived.ends(side)
    found += ids(join.finish())
    assert diary.pairs == found == arrived.pairs()
    for side in SIDES:
        assert diary.ends(side) == {row["id"] for row in diary.came[side].values()}
    join.push(table(draw(dice, 5, 0, 10_000)), table(draw(dice, 5, 0, 10_000)))  # all are late
    assert diary.pairs == found
    assert all(len(diary.ends(side)) == len(diary.came[side]) for side in SIDES)
    assert not diary.lost


@pytest.mark.parametrize("name", [n for n in KINDS if "cores" in n or "whole" in n])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("batch_rows", [None, 9])
def test_of_a_source_that_is_read_ahead(name, seed, batch_rows):
    on, window, options = KINDS[name]
    dice = Random(seed)
    delay = {} if isinstance(window, sj.CountWindow) else {"delay": 4}
    join, diary = make(on, window, batch_rows=batch_rows, **delay, **options)
    steps = [
        tuple(table(draw(dice, dice.randrange(9), 5 * number, 100 * number)) for _ in SIDES)
        for number in range(20)
    ]
    found = Counter()
    for part in join.stream(iter(steps)):
        found += ids(part.rows)
    assert diary.pairs == found
    assert found
    ended = sum(len(diary.ends(side)) for side in SIDES)
    assert 0 < ended < sum(len(diary.came[side]) for side in SIDES)
    found += ids(join.finish())
    assert diary.pairs == found
    assert all(len(diary.ends(side)) == len(diary.came[side]) for side in SIDES)


@pytest.mark.parametrize("on", [BAND, "l.x < r.x"])
@pytest.mark.parametrize("options", [{}, {"algorithm": "pim_tree"}, {"batch_rows": 9}])
@pytest.mark.parametrize("window", [sj.TimeWindow(5), TIME, sj.CountWindow(6), TUMBLING])
def test_a_stream_joined_with_itself(on, window, options):
    if window == TUMBLING:
        options = {}
    dice = Random(3)
    join, diary = make(on, window, **options)
    found = Counter()
    for number in range(12):
        rows = table(draw(dice, 7, 5 * number, 100 * number))
        found += ids(join.push(rows, rows))
        if not isinstance(window, sj.CountWindow):
            found += ids(join.advance(5 * number - 4))
    found += ids(join.finish())
    assert diary.pairs == found
    assert found
    assert all(len(diary.ends(side)) == len(diary.came[side]) == 84 for side in SIDES)


@pytest.mark.parametrize("window", [None, TIME, COUNT, TUMBLING, SESSION])
@pytest.mark.parametrize("on", [BAND, EQUAL, RESIDUAL, BOTH])
@pytest.mark.parametrize("is_left", [False, True])
def test_tables(window, on, is_left):
    dice, diary = Random(5), Diary()
    left, right = (table(draw(dice, 40, 10, first)) for first in (0, 100))
    time = None if window in (None, COUNT) else "t"
    config = JoinOptions.check(on, window, time, threads=1)
    engine, batches = table_join._open(config, left, right, diary)
    deliver = leave_and_name if is_left else partial(gather, schema=engine.schema)
    found = list(table_join._join(config, engine, batches, deliver))
    deliveries = [d for each in found for d in gather(each, engine.schema)] if is_left else found
    rows = pa.Table.from_batches([b for d in deliveries for b in d.rows], engine.schema)
    expected = sj.join_tables(left, right, on, window, time)
    assert diary.pairs == ids(rows) == ids(expected)
    assert all(len(diary.ends(side)) == 40 for side in SIDES)


FAILING = f"{EQUAL} and 10 / (l.y - r.y) > 1"


def one(id_, y, t=0):
    return table([{"id": id_, "k": 0, "x": 0, "y": y, "t": t}])


@pytest.mark.parametrize("window", [sj.TimeWindow(5), sj.CountWindow(5)])
def test_a_push_that_fails_has_told_nothing(window):
    join, diary = make(FAILING, window)
    join.push(left=one(1, 3), right=one(11, 1))
    before = diary.mark()
    with pytest.raises(sj.StreamJoinError):
        join.push(left=pa.concat_tables([one(2, 2), one(3, 1)]))
    assert diary.mark() == before
    with pytest.raises(sj.StreamJoinError):
        join.find(left=pa.concat_tables([one(2, 2), one(3, 1)]))
    assert diary.pairs == before[1]
    assert diary.lost == {("left", 2), ("left", 3)}
    join.push(left=one(4, 2))
    assert diary.pairs == Counter([(1, 11), (4, 11)])


def test_a_batch_that_waited_and_fails_is_lost():
    join, diary = make(FAILING, sj.TimeWindow(5), batch_rows=3)
    join.push(left=one(1, 3), right=one(11, 1))
    with pytest.raises(sj.StreamJoinError):
        join.push(right=one(12, 3))
    assert not diary.pairs
    assert diary.lost == {("left", 1), ("right", 11), ("right", 12)}
    join.finish()
    assert diary.ends("right") == {11, 12}


@pytest.mark.parametrize("window", [TUMBLING, SESSION])
def test_a_window_that_fails_is_lost_alone(window):
    join, diary = make(FAILING, window)
    join.push(left=one(1, 3), right=one(11, 1))
    join.push(left=one(2, 3, t=20), right=one(12, 3, t=20))
    join.push(left=one(3, 3, t=40), right=one(13, 1, t=40))
    with pytest.raises(sj.StreamJoinError):
        join.finish()
    assert diary.pairs == Counter([(1, 11), (3, 13)])
    assert diary.lost == {("left", 2), ("right", 12)}
    assert diary.ends("left") == {1, 2, 3}


@pytest.mark.parametrize("name", ["time", "tumbling, shj", "session, as rows come", "count, cores"])
def test_what_is_interrupted_is_told_when_it_is_repeated(name, monkeypatch):
    on, window, options = KINDS[name]
    join, diary = make(on, window, **options)
    dice = Random(9)
    first, second = ([table(draw(dice, 9, 5, f)) for f in (n, n + 50)] for n in (0, 100))
    found = ids(join.push(*first))
    before, insert = diary.mark(), Engine._insert

    def interrupted(self, prepared):
        monkeypatch.setattr(Engine, "_insert", insert)
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "_insert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        join.push(*second)
    assert diary.mark() == before
    found += ids(join.push(*second)) + ids(join.finish())
    assert diary.pairs == found
    assert found
    assert all(len(diary.ends(side)) == len(diary.came[side]) == 18 for side in SIDES)


@pytest.mark.parametrize("name", ["time", "count, cores", "tumbling, shj", "session"])
def test_a_snapshot_serves_a_join_that_nobody_observes_too(name):
    on, window, options = KINDS[name]
    dice = Random(3)
    rows = [table(draw(dice, 20, 5, first)) for first in range(0, 800, 100)]
    join, diary = make(on, window, **options)
    found = ids(join.push(*rows[:2]))
    plain = sj.StreamJoin.restore(join.snapshot())
    join = restore(join, diary)
    for step in (rows[2:4], rows[4:6]):
        joined = [ids(each.push(*step)) for each in (plain, join)]
        assert joined[0] == joined[1]
        found += joined[0]
    assert ids(plain.finish()) == ids(last := join.finish())
    assert diary.pairs == found + ids(last)
    assert all(len(diary.ends(side)) == 60 for side in SIDES)
    with pytest.raises(sj.SnapshotError, match="nobody has observed the rows"):
        restore(plain, Diary())


def test_nobody_is_told_anything_without_an_observer():
    join = sj.StreamJoin(EQUAL, TUMBLING, time="t", threads=1)
    join.push(one(1, 1), one(2, 2))
    engine = join._state.engine
    assert engine.lives is None
    assert not engine.numbers
    assert not engine.plan.names_rows
    [batch] = engine.executor.rows["left"]
    assert batch.ordinals is None
    assert batch.arrival is None
    assert batch.intake.positions is None
