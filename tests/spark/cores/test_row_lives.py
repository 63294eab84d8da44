"""Over all cores, every match is told once, and so is every row's arrival and its end.

Each core has a diary that is saved beside its state, and goes back with it when a task fails. It
refuses matches of rows that it does not know, or that live here and have ended. What all diaries
say together is compared with nested loops, and with which rows have ended by the clock.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.options.ordering import Ordering
from streamjoin.plans.plan import SIDES
from streamjoin.spark import tables
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.routing import exchange
from tests.joins.small_streams import SCHEMA, both, compare, many_rows, table
from tests.oracle import join_by_count, join_by_time
from tests.spark.cores.test_attempts import Twice
from tests.spark.cores.test_closing_core import join_all, sessions
from tests.spark.cores.test_join_core import (  # noqa: F401
    TIMED,
    cut,
    on_time,
    seeds,
    small,
    timed,
    two_streams,
)
from tests.spark.in_process import Cluster, Luck, join_parcels, make_join, pack_tables, pairs_of

random = settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])
UNLUCKY = Luck(workers=3, failures=0.2, restarts=0.1)

SAME = compare("k", "k", lambda one, other: one == other)
SUM = compare("a", "b", lambda one, other: one + other > 0)
PREDICATES = {  # and the columns of both sides that must not be NULL
    "l.k = r.k": (SAME, "k", "k"),
    "abs(l.a - r.a) <= 1": (compare("a", "a", lambda one, two: abs(one - two) <= 1), "a", "a"),
    "l.a < r.b": (compare("a", "b", lambda one, two: one < two), "a", "b"),
    "l.k = r.k and coalesce(l.a + r.b, 0) > 0": (both(SAME, SUM), "k", "k"),
}
EQUAL, BAND, UNEQUAL, RESIDUAL = PREDICATES
TIME = {"window": sj.TimeWindow(before=6, after=3), "time": "t"}
COUNT = {"window": sj.CountWindow(left=9, right=14)}
TUMBLING = {"window": sj.TumblingWindow(7), "time": "t"}
SESSION = {"window": sj.SessionWindow(2), "time": "t"}
EAGER = {"emit": "eager"}
KINDS = {
    "time": (EQUAL, TIME),
    "time, band": (BAND, TIME),
    "time, inequality": (UNEQUAL, TIME),
    "time, residual": (RESIDUAL, TIME),
    "time, split": (BAND, {**TIME, "routing": "split"}),
    "time, two keys": (UNEQUAL, {**TIME, "algorithm": "spo_join"}),
    "time, whole": (BAND, {**TIME, "algorithm": "pim_tree"}),
    "time, in order": (EQUAL, {**TIME, "ordering": "inner"}),
    "count": (EQUAL, COUNT),
    "count, by a column": (BAND, {**COUNT, "order": "o"}),
    "count, whole": (BAND, {**COUNT, "algorithm": "im_tree"}),
    "count, in order": (UNEQUAL, {**COUNT, "ordering": "outer"}),
    "tumbling": (EQUAL, TUMBLING),
    "tumbling, band": (BAND, TUMBLING),
    "tumbling, residual": (RESIDUAL, TUMBLING),
    "tumbling, band as rows come": (BAND, {**TUMBLING, **EAGER}),
    "tumbling, shj": (EQUAL, {**TUMBLING, **EAGER, "algorithm": "shj_jm"}),
    "tumbling, pmj": (EQUAL, {**TUMBLING, "algorithm": "pmj_jb", "tuning": {"delta": 6}}),
    "session": (EQUAL, SESSION),
    "session, residual": (RESIDUAL, SESSION),
    "session, as rows come": (EQUAL, {**SESSION, **EAGER}),
}


class Diary:
    """What one core was told; names are sides and ordinals, rows are sides and ids."""

    def __init__(self):
        self.names, self.living = {}, set()
        self.pairs, self.came, self.ended, self.guests = (Counter() for _ in range(4))
        self.is_kept = True

    def start(self, is_new):
        """Begin with an attempt; a core without a state counts from 0 again."""
        if is_new:
            assert not self.living
            self.names = {}
        self.is_kept = False

    def _name(self, side, ordinals, rows):
        names = [(side, ordinal) for ordinal in ordinals.tolist()]
        assert not self.names.keys() & set(names)
        self.names |= zip(names, [(side, id_) for id_ in rows["id"].to_pylist()], strict=True)
        return names

    def note_arrivals(self, side, ordinals, rows):
        names = self._name(side, ordinals, rows)
        self.living.update(names)
        self.came.update(self.names[name] for name in names)

    def note_guests(self, side, ordinals, rows):
        self.guests.update(self.names[name] for name in self._name(side, ordinals, rows))

    def note_matches(self, pairs):
        for left, right in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True):
            rows = [self.names[name] for name in (("left", left), ("right", right))]
            for name in (("left", left), ("right", right)):
                assert name in self.living or not self.came[self.names[name]]
            self.pairs[tuple(id_ for _, id_ in rows)] += 1

    def note_ends(self, side, ordinals, are_lost):
        assert not are_lost
        for name in ((side, ordinal) for ordinal in ordinals.tolist()):
            self.living.remove(name)
            self.ended[self.names[name]] += 1

    @property
    def state(self):
        return [dict(self.names), set(self.living), *map(Counter, self.counters)]

    @property
    def counters(self):
        return self.pairs, self.came, self.ended, self.guests

    mark = state.fget

    def undo(self, mark):
        self.names, self.living, *counters = mark
        self.pairs, self.came, self.ended, self.guests = map(Counter, counters)

    def keep(self):
        self.is_kept = True


class Observers:
    """Gives each attempt of a core the diary that is in its store."""

    store = None  # of the core that is made next

    def __call__(self, _):
        self.store.diary = self.store.diary or Diary()
        self.store.diary.start(self.store.saved is None)
        return self.store.diary


def observe(spec, cluster, *others):
    """Return a cluster whose cores have diaries."""
    made = cluster(replace(spec, observe=Observers()), *others)
    core = made.core

    def make_core(spec, label, store, *others):
        spec.observe.store = store
        return core(spec, label, store, *others)

    made.core = make_core
    return made


def make(name, cores):
    """Return one of the joins."""
    on, options = KINDS[name]
    options = dict(options)
    ordering = Ordering.parse(options.pop("ordering", "none"))
    spec = make_join(on, TIMED, cores, **options)
    return spec if ordering is None else replace(spec, routing="split", ordering=ordering)


class Expected:
    """What has come, and what follows from it."""

    def __init__(self, on, window, order):
        self.on, self.window, self.order = on, window, order
        self.steps, self.kept = [], {side: [] for side in SIDES}

    def push(self, step, late_until):
        self.steps.append(step)
        for side, rows in zip(SIDES, step, strict=True):
            is_counted = isinstance(self.window, sj.CountWindow)
            self.kept[side] += rows if is_counted else on_time(rows, late_until)

    def pairs(self):
        predicate, window = PREDICATES[self.on][0], self.window
        left, right = self.kept.values()
        if isinstance(window, sj.CountWindow):
            return join_by_count(self.steps, predicate, 9, 14, self.order)
        if isinstance(window, sj.TimeWindow):
            return join_by_time(left, right, predicate, 6, 3)
        if isinstance(window, sj.TumblingWindow):
            return join_all(left, right, predicate, lambda one, two: one["t"] // 7 == two["t"] // 7)
        ids = sessions(left, right, 2, keyed=True)
        return join_all(left, right, predicate, lambda one, two: ids[one["id"]] == ids[two["id"]])

    def came(self):
        return Counter(
            (side, row["id"])
            for step in self.steps
            for side, rows in zip(SIDES, step, strict=True)
            for row in rows
        )

    def ended(self, watermark):
        """The rows that have ended by now, those too that never could match."""
        kept = {(side, row["id"]) for side, rows in self.kept.items() for row in rows}
        self.lasts, alive = self.find_lasts(), set()
        for side, column in zip(SIDES, PREDICATES[self.on][1:], strict=True):
            for at, row in enumerate(self.in_order(side)):
                is_able = row[column] is not None and (side, row["id"]) in kept
                if is_able and not self.has_ended(side, at, row, watermark):
                    alive.add((side, row["id"]))
        return self.came().keys() - alive

    def in_order(self, side):
        rows = []
        for step in self.steps:
            own = step[SIDES.index(side)]
            rows += own if self.order is None else sorted(own, key=lambda row: row[self.order])
        return rows

    def has_ended(self, side, at, row, watermark):
        if isinstance(self.window, sj.CountWindow):
            return at < len(self.in_order(side)) - getattr(self.window, side)
        if isinstance(self.window, sj.TimeWindow):
            last = row["t"] + {"left": 3, "right": 6}[side]
        elif isinstance(self.window, sj.TumblingWindow):
            last = (row["t"] // 7 + 1) * 7
        else:
            last = self.lasts[row["id"]] + 2
        return 0 < watermark >= last

    def find_lasts(self):
        """Return when each session has its last row, by the ids of its rows."""
        if not isinstance(self.window, sj.SessionWindow):
            return {}
        ids = sessions(*self.kept.values(), 2, keyed=True)
        lasts = {}
        for row in [*self.kept["left"], *self.kept["right"]]:
            number = ids.get(row["id"])
            lasts[number] = max(lasts.get(number, 0), row["t"])
        return {id_: lasts[number] for id_, number in ids.items()}


def add_up(diaries):
    """Return pairs, arrivals and ends over all cores, and how many guests there were."""
    totals = [Counter() for _ in range(4)]
    for diary in diaries:
        for total, own in zip(totals, diary.counters, strict=True):
            total.update(own)
    pairs, came, ended, guests = totals
    assert set(came.values()) | set(ended.values()) <= {1}
    return pairs, came, ended.keys(), guests.total()


def diaries_of(cluster):
    """Return the diaries; engines that are up to date have the same rows alive."""
    stores = [store for store in cluster.stores.values() if store.diary is not None]
    for store in stores:
        assert store.diary.is_kept
        for cached in find_cached(cluster, store):
            living = {
                (side, ordinal)
                for side, rows in cached.engine.lives.living.items()
                for ordinal in rows.concatenate()[1].tolist()
            }
            assert living == store.diary.living
    return [store.diary for store in stores]


def find_cached(cluster, store):
    """Yield the engines in all workers that hold what a store does."""
    for worker in cluster.workers:
        for owner, cached in worker.items():
            is_own = cluster.stores[int(owner.rpartition("/")[2])] is store
            if is_own and store.saved is not None and cached.batch == store.manifest.batch:
                yield cached


@pytest.mark.parametrize("name", KINDS)
@random
@given(seed=seeds, cores=st.sampled_from([1, 2, 2, 3]), delay=st.sampled_from([0, 2, 5, 100]))
def test_each_match_and_each_end_is_told_once(name, seed, cores, delay):
    spec = make(name, cores)
    cluster = observe(spec, Cluster, UNLUCKY, seed, delay)
    expected = Expected(KINDS[name][0], spec.config.window, KINDS[name][1].get("order"))
    found = Counter()
    for step in cut(seed, *two_streams(seed, size=60)):
        expected.push(step, cluster.late_until)
        ended = expected.ended(cluster.watermark)
        found += cluster.pairs(*map(timed, step))
        pairs, came, told, _ = add_up(diaries_of(cluster))
        assert (pairs, came, told) == (found, expected.came(), ended)
        if cluster.random.random() < 0.3:
            found += pairs_of(cluster.idle())
            pairs, _, told, _ = add_up(diaries_of(cluster))
            assert pairs == found
            assert ended <= told <= expected.ended(cluster.watermark)
    cluster.watermark = 10**6
    while any(store.timers for store in cluster.stores.values()):
        found += pairs_of(cluster.idle())
    pairs, came, told, guests = add_up(diaries_of(cluster))
    assert pairs == found == expected.pairs()
    assert told == expected.ended(10**6)
    if not spec.counted:
        assert told == came.keys()
        assert not any(diary.living for diary in diaries_of(cluster))
    assert guests or cores == 1 or spec.is_hashed
    if cores == 1:
        assert not guests


@pytest.mark.parametrize("name", KINDS)
def test_attempts_write_the_same_state(name):
    cluster = observe(make(name, 3), Twice, UNLUCKY, 4, 2)
    for step in cut(4, *two_streams(4)):
        cluster.batch(*map(timed, step))
    assert cluster.attempts


@pytest.mark.parametrize("name", ["time, band", "count", "tumbling, shj", "session"])
def test_an_attempt_that_fails_has_told_nothing(name, monkeypatch):
    cluster = observe(make(name, 2), Cluster)
    steps = cut(3, *two_streams(3))
    for step in steps[:4]:
        cluster.batch(*map(timed, step))
    before = [diary.state for diary in diaries_of(cluster)]

    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(JoinCore, "_write_state", fail)
    with pytest.raises(RuntimeError):
        cluster.batch(*map(timed, steps[4]))
    after = [store.diary for store in cluster.stores.values()]
    assert [diary.state for diary in after] == before
    assert sum(diary.is_kept for diary in after) == 1  # of the core that was not tried


class TableObservers:
    """Gives each core of a join of tables a diary."""

    def __init__(self):
        self.diaries = {}

    def __call__(self, core):
        assert core not in self.diaries
        self.diaries[core] = Diary()
        self.diaries[core].start(is_new=True)
        return self.diaries[core]


def draw_rows(dice, size):
    return [{**row, "id": place} for place, row in enumerate(many_rows(dice, size) if size else [])]


@pytest.mark.parametrize("on", PREDICATES)
@pytest.mark.parametrize(
    "options", [{}, TIME, TUMBLING, SESSION], ids=["none", "time", "tumbling", "session"]
)
@pytest.mark.parametrize("routing", ["auto", "split"])
@pytest.mark.parametrize("cores", [1, 4])
def test_tables(on, options, routing, cores, monkeypatch):
    if routing == "split" and options in (TUMBLING, SESSION):
        pytest.skip("equal rows must be in one core")
    monkeypatch.setattr(tables, "PORTION_BYTES", 400)
    monkeypatch.setattr(exchange, "ROUND_ROWS", 5)
    make = partial(make_join, on, SCHEMA, routing=routing, tables=True, **options)
    for sizes in [(30, 80), (80, 30), (0, 20), (20, 0)]:
        rows = [draw_rows(Random(7 + side), size) for side, size in enumerate(sizes)]
        frames = [table(side) for side in rows]
        observers = TableObservers()
        placement, spec, sent = pack_tables(
            lambda count, made=observers: replace(make(count), observe=made), *frames, cores
        )
        found = pairs_of(join_parcels(placement, spec, sent).to_batches())
        plain = pairs_of(join_parcels(*pack_tables(make, *frames, cores)).to_batches())
        pairs, came, ended, guests = add_up(observers.diaries.values())
        assert pairs == found == plain
        assert found or not all(sizes)
        assert ended == came.keys()
        assert [{id_ for at, id_ in came if at == side} for side in SIDES] == [
            {row["id"] for row in side} for side in rows
        ]
        assert all(diary.is_kept and not diary.living for diary in observers.diaries.values())
        assert cores > 1 or not guests
