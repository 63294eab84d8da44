"""Marks, against a list of flags; and what they cost in memory."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.kernels.compile import MAX_KEY
from streamjoin.plans import marks as module
from streamjoin.plans.marks import BLOCK, Marks, MarksOf


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("is_early", [False, True])
def test_marks_are_flags(seed, is_early):
    random = Random(seed)
    marks, keys = Marks(is_early=is_early), np.empty(0, np.int64)
    settled, early = np.empty(0, np.bool_), np.empty(0, np.bool_)
    for _ in range(30):
        act = random.choice(["append", "append", "settle", "unsettle", "due", "early", "drop"])
        some = np.array(sorted(random.sample(range(len(marks)), len(marks) // 3)), np.int64)
        if act == "append":
            size = random.choice([0, 1, 7, 8, 900, 3000])
            flags = np.array([random.random() < 0.3 for _ in range(size)], np.bool_)
            new = np.array([random.randint(0, 100) for _ in range(size)], np.int64)
            marks.append(flags, new)
            keys, settled = np.append(keys, new), np.append(settled, flags)
            early = np.append(early, np.zeros(size, np.bool_))
        elif act == "settle":
            twice = np.repeat(some, 2)
            fresh = twice[marks.settle(twice)]
            assert fresh.tolist() == some[~settled[some]].tolist()
            settled[some] = True
        elif act == "unsettle":
            marks.unsettle(some)
            settled[some] = False
        elif act == "due":
            bound = random.choice([-5, 0, 50, 101, MAX_KEY, MAX_KEY + 1])
            due = np.flatnonzero(~settled & (keys < min(bound, MAX_KEY)))
            assert marks.settle_due(bound, keys).tolist() == due.tolist()
            settled[due] = True
        elif act == "early" and is_early:
            bound = random.choice([-5, 0, 50, 101])
            rows, are_open = marks.take_early(bound, keys)
            assert rows.tolist() == np.flatnonzero(~early & (keys < bound)).tolist()
            assert are_open.tolist() == rows[~settled[rows]].tolist()
            early[rows] = True
        elif act == "drop":
            count = random.randint(0, len(marks))
            marks.drop_first(count)
            keys, settled, early = keys[count:], settled[count:], early[count:]
        every = np.arange(len(marks))
        assert marks.read(every).tolist() == settled.tolist()
        assert marks.read_early(every).tolist() == early.tolist()
        assert marks.list_open().tolist() == np.flatnonzero(~settled & ~early).tolist()
        marks.check(keys)


@pytest.mark.parametrize("seed", range(20))
def test_marks_of_others_settle_them(seed):
    random = Random(seed)
    held = [Marks.of(np.zeros(size, np.bool_), np.zeros(size, np.bool_)) for size in (5, 0, 30)]
    parts = [MarksOf.select(held[0], slice(1, 4)), held[1], MarksOf.select(held[2], np.arange(20))]
    every = MarksOf.concatenate(parts[: random.choice([1, 3])])
    places = [(0, row) for row in range(1, 4)] + [(2, row) for row in range(20)]
    settled: set[int] = set()
    for _ in range(6):
        rows = np.array(random.choices(range(len(every)), k=random.randint(0, 9)), np.int64)
        fresh = rows[every.settle(rows)].tolist()
        assert sorted(fresh) == sorted({*rows.tolist()} - settled)
        settled |= {*fresh}
        for row in random.sample(sorted(settled), len(settled) // 4):
            every.unsettle(np.array([row]))
            settled.remove(row)
        assert every.list_open().tolist() == sorted({*range(len(every))} - settled)
        for row, (number, place) in enumerate(places[: len(every)]):
            assert held[number].read(np.array([place]))[0] == (row in settled)


def test_a_block_that_is_not_due_is_not_read(monkeypatch):
    marks = Marks()
    marks.append(np.zeros(10 * BLOCK, np.bool_), np.arange(10 * BLOCK))
    assert marks.settle_due(5, np.arange(10 * BLOCK)).tolist() == [0, 1, 2, 3, 4]
    monkeypatch.setattr(module, "settle_due", None)  # it would be called for any due block
    assert marks.settle_due(5, np.arange(10 * BLOCK)).size == 0


WINDOWS = {
    "time": {"window": sj.TimeWindow("1 hour"), "time": "t"},
    "time pim_tree": {"window": sj.TimeWindow("1 hour"), "time": "t", "algorithm": "pim_tree"},
    "count": {"window": sj.CountWindow(1_000_000)},
    "cores": {"window": sj.TimeWindow("1 hour"), "time": "t", "cores": 2},
    "tumbling": {"window": sj.TumblingWindow("1 hour"), "time": "t"},
    "shj": {"window": sj.TumblingWindow("1 hour"), "time": "t", "algorithm": "shj_jm"},
    "session": {"window": sj.SessionWindow("1 hour"), "time": "t"},
}
EARLY = {"unmatched": "early", "patience": "2 hours"}
SIZE, BATCH = 400_000, 50_000


def bytes_held(name, **options):
    """Bytes after the same pushes, two sides of `SIZE` rows."""
    join = sj.StreamJoin("l.k = r.k", **WINDOWS[name], **options)
    for first in range(0, SIZE, BATCH):
        numbers = np.arange(first, first + BATCH)
        rows = pa.table({"k": numbers, "t": numbers // 1000})
        join.push(left=rows, right=rows.slice(0))  # another object: not a self-join
    return join.stats.bytes


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("options", [{"how": "full"}, {"how": "full"} | EARLY])
def test_marks_are_a_bit_per_row(name, options):
    if name == "count" and len(options) > 1:
        pytest.skip("nothing is early in a count window")
    rows = 2 * SIZE
    per_kind = rows / 8 + rows / BLOCK * 8  # a bit per row, and a key per block
    growth = 1.5 * per_kind * (1 + (len(options) > 1)) + 20_000  # arrays grow by half
    assert 0 <= bytes_held(name, **options) - bytes_held(name) <= growth
