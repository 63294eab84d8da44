"""Rows that match nothing, or something, over all cores: each is given once, and when it is due.

Whatever is cut, lost or run again, the result is that of the rows that were on time, by loops.
"""

from collections import Counter
from copy import deepcopy

import pytest
from hypothesis import Phase, event, example, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.options.how import EVERY_HOW, read_how
from streamjoin.spark.routing import table as routing
from streamjoin.spark.state import mark_pages
from tests.joins.outcomes.kept import DISTANCES, keep_pairs, rank_of
from tests.joins.small_streams import CONDITIONS, both
from tests.oracle import join_by_count
from tests.spark.cores.test_attempts import WINDOWS, Twice
from tests.spark.cores.test_closing_core import sessions
from tests.spark.cores.test_join_core import (  # noqa: F401
    NONE,
    TIMED,
    cut,
    on_time,
    plain,
    seeds,
    small,
    timed,
    two_streams,
)
from tests.spark.cores.test_row_lives import EQUAL, PREDICATES, RESIDUAL, SAME
from tests.spark.in_process import Cluster, Luck, make_join

random = settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
UNLUCKY = Luck(workers=3, failures=0.2, restarts=0.1)
AT_END = 10**6  # a watermark after all rows

hows = st.sampled_from([each.name for each in EVERY_HOW])
KEYED = st.sampled_from(["equality", "two equalities", "text", "null-safe", "residual text"])
ROUTED = st.sampled_from(
    ["equality", "null-safe", "band", "double band", "two bands", "equality and band", "residual"]
)
ANY = st.sampled_from(
    ["equality", "band", "inequality", "two inequalities", "residual", "filters", "not equal"]
)


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Let a table be learnt from few rows, and a page hold eight."""
    monkeypatch.setattr(routing, "LEARNT_ROWS", 6)
    monkeypatch.setattr(mark_pages, "PAGE_BITS", 3)
    monkeypatch.setattr(mark_pages, "PAGE_BYTES", 1)


def ids(batches, how, extra=()):
    """The ids of rows of the result: pairs, with None for no row, or of one side."""
    kind, found = read_how("how", how), Counter()
    for rows in batches:
        columns = [rows["id"]] if kind.one_side else [rows["id"], rows["id_right"]]
        columns += [rows[name] for name in extra]
        found.update(zip(*(each.to_pylist() for each in columns), strict=True))
    return found


def result(pairs, left, right, how):
    """What a join gives, from the ids of its pairs and the rows of both sides."""
    kind = read_how("how", how)
    met = {"left": {one for one, _ in pairs}, "right": {two for _, two in pairs}}
    rows = {"left": left, "right": right}
    if kind.one_side:
        side = kind.one_side
        every = Counter(row["id"] for row in rows[side])
        return Counter(
            {(id_,): n for id_, n in every.items() if (id_ in met[side]) == bool(kind.met)}
        )
    found = Counter(pairs)
    for side in kind.alone:
        for row in rows[side]:
            if row["id"] not in met[side]:
                found[(row["id"], None) if side == "left" else (None, row["id"])] += 1
    return found


def is_null(names):
    return lambda row: any(row[name] is None for name in names)


NOT_NULL = {"equality": "kk", "band": "aa", "inequality": "ab", "residual": "aa", "not equal": "aa"}
NOT_NULL |= {"double band": "xx", "null-safe": ["", ""], "text": "ss", "or nothing": ["", ""]}
NOT_NULL |= {"two inequalities": ["ab", "ab"], "two bands": ["ax", "ax"], "residual text": "kk"}
NOT_NULL |= {"equality and band": ["ka", "ka"], "two equalities": ["ks", "ks"]}
UNABLE = {name: [*map(is_null, columns)] for name, columns in NOT_NULL.items()}
UNABLE["filters"] = [
    lambda row: None in (row["a"], row["b"]) or row["b"] <= 0,
    lambda row: None in (row["a"], row["s"]),
]


class Timeline:
    """Watches that rows without a match are given when they are due, not before and not later."""

    def __init__(self, how, name, due):
        self.kind, self.due, self.unable = read_how("how", how), due, UNABLE[name]
        self.open = {side: {} for side in self.kind.alone}
        self.overdue = set()  # if they have no match

    def arrive(self, rows):
        for side, own in zip(("left", "right"), rows, strict=True):
            if side in self.open:
                self.open[side].update({row["id"]: row for row in own})

    def check(self, given, watermark):
        """Compare with what a batch has given, whose state is that of a watermark."""
        for side, rows in self.open.items():
            place = 0 if side == "left" or self.kind.one_side else 1
            for each in given:
                row = rows.pop(each[place], None)
                if len(each) == 1 or each[1 - place] is None:
                    assert each[place] not in self.overdue
                    if each[place] is not None:
                        assert self.is_due(side, row, watermark)
            if watermark > 1:  # no timer goes off in the first millisecond of 1970
                due = (id_ for id_, row in rows.items() if self.is_due(side, row, watermark))
                self.overdue.update(due)

    def is_due(self, side, row, watermark):
        if row["t"] is None or self.unable[side == "right"](row):
            return True
        return bool(watermark) and self.due(side, row, watermark)


def run(join, how, name, seed, delay, due=None, luck=UNLUCKY, cluster=Cluster):
    """Run a stream on a cluster of bad luck; return what it gave, and the rows on time."""
    left, right = two_streams(seed)
    cluster = cluster(join, luck, seed, delay)
    found, kept, seen = Counter(), ([], []), 0
    timeline = None if due is None else Timeline(how, name, due)
    for step in cut(seed, left, right):
        fresh = [
            [row for row in rows if row["t"] is None or not cluster.late_until
             or row["t"] > cluster.late_until]
            for rows in step
        ]  # fmt: skip
        watermark = cluster.watermark
        given = ids(cluster.batch(*map(timed, step)), how)
        late = [len(rows) - len(own) for rows, own in zip(step, fresh, strict=True)]
        told = [cluster.metrics.late_left, cluster.metrics.late_right]
        for side, expected, counted in zip(("left", "right"), late, told, strict=True):
            assert counted == expected or (counted < expected and not join.gives_unable(side))
        seen += cluster.metrics.unmatched
        found += given
        if timeline:
            timeline.arrive(fresh)
            timeline.check(given, watermark)
        for side, rows in zip(kept, fresh, strict=True):
            side += rows
        if cluster.random.random() < 0.5:
            given = ids(cluster.idle(), how)
            seen += cluster.metrics.unmatched
            found += given
            if timeline:
                timeline.check(given, cluster.watermark)
    cluster.watermark = AT_END
    for _ in range(20):
        found += ids(cluster.idle(), how)
        seen += cluster.metrics.unmatched
        if not any(store.timers for store in cluster.stores.values()):
            break
    for store in cluster.stores.values():
        assert (store.saved, store.segments, store.timers) == (None, {}, set())
    alone = sum(n for ids_, n in found.items() if None in ids_)
    if read_how("how", how).gives_pairs:
        assert seen == alone
    return found, *kept


def pairs_within(left, right, predicate, before, after):
    return Counter(
        (one["id"], two["id"])
        for one in left
        for two in right
        if None not in (one["t"], two["t"])
        and one["t"] - before <= two["t"] <= one["t"] + after
        and predicate(one, two)
    )


@random
@given(
    seed=seeds,
    how=hows,
    name=ANY,
    cores=st.sampled_from([1, 2, 3]),
    routing=st.sampled_from(["auto", "auto", "split"]),
    before=st.integers(0, 8),
    after=st.integers(1, 8),
    delay=st.sampled_from([0, 2, 5, 100]),
    algorithm=st.sampled_from(["auto", "bi_sort", "pim_tree"]),
)
@example(236, "left", "equality", 3, "split", 5, 1, 0, "pim_tree")  # a worker has what has left
@example(704686, "left", "residual", 3, "auto", 6, 7, 5, "auto")  # a core alone ages its table
def test_time_windows(seed, how, name, cores, routing, before, after, delay, algorithm):
    on, predicate = CONDITIONS[name]
    if how == "full" and (
        routing == "split" or name in ("inequality", "two inequalities", "not equal")
    ):
        cores = 1
    join = make_join(
        on, TIMED, cores, routing, how=how, algorithm=algorithm,
        window=sj.TimeWindow(before=before, after=after), time="t",
    )  # fmt: skip

    def due(side, row, watermark):
        return watermark >= row["t"] + (after if side == "left" else before)

    found, left, right = run(join, how, name, seed, delay, due)
    assert found == result(pairs_within(left, right, predicate, before, after), left, right, how)
    event(f"{how}, {join.routing}")


@random
@given(
    seed=seeds,
    how=hows,
    name=ANY,
    cores=st.sampled_from([1, 2, 3]),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    order=st.sampled_from([None, "o"]),
    algorithm=st.sampled_from(["auto", "bi_sort", "im_tree"]),
)
@example(3827, "right", "band", 3, (13, 10), None, "im_tree")  # half of a segment has left
def test_count_windows(seed, how, name, cores, sizes, order, algorithm):
    on, predicate = CONDITIONS[name]
    cores = 1 if how == "full" else cores
    window = sj.CountWindow(left=sizes[0], right=sizes[1])
    join = make_join(on, TIMED, cores, how=how, window=window, order=order, algorithm=algorithm)
    left, right = two_streams(seed)
    cluster, steps, found = Cluster(join, UNLUCKY, seed), cut(seed, left, right), Counter()
    for step in steps:
        found += ids(cluster.batch(*map(timed, step)), how)
    pairs = join_by_count(steps, predicate, *sizes, order)
    if read_how("how", how).met:
        assert found == result(pairs, left, right, how)
        return
    # Rows that are still in their window may find matches, so they wait.
    sides = dict(zip(("left", "right"), zip(*steps, strict=True), strict=True))
    for side, batches in sides.items():
        rows = [
            row for batch in batches for row in sorted(batch, key=lambda row: row[order or "id"])
        ]
        waiting = rows[-sizes[side == "right"] :]
        unable = UNABLE[name][side == "right"]
        sides[side] = [row for row in rows if row not in waiting or unable(row)]
    every = result(pairs, left, right, how)
    given = {side: {row["id"] for row in rows} for side, rows in sides.items()}
    expected = Counter()
    for each, count in every.items():
        if len(each) == 1:
            side = read_how("how", how).one_side
            is_given = each[0] in given[side]
        else:
            is_given = None not in each or each[0] in given["left"] or each[1] in given["right"]
        if is_given:
            expected[each] += count
    assert found == expected


def together(left, right, window):
    """Pairs of rows that are in one tumbling window."""
    return lambda one, two: (
        None not in (one["t"], two["t"]) and one["t"] // window == two["t"] // window
    )


@random
@given(
    seed=seeds,
    how=hows,
    name=ANY,
    cores=st.sampled_from([1, 2, 3]),
    length=st.integers(1, 12),
    delay=st.sampled_from([0, 2, 5, 100]),
    kind=st.sampled_from(["close", "eager", "shj_jm", "pmj_jb", "auto"]),
)
def test_tumbling_windows(seed, how, name, cores, length, delay, kind):
    on, predicate = CONDITIONS[name]
    if how == "full" and not on.startswith("l.k = r.k"):
        cores = 1
    options = {"emit": kind} if kind in ("close", "eager", "auto") else {"emit": "eager"}
    if kind in ("shj_jm", "pmj_jb"):
        on, predicate = CONDITIONS["equality"]
        name = "equality"
        options["algorithm"] = kind
        if kind == "pmj_jb":
            options["tuning"] = {"delta": 6}
    join = make_join(
        on, TIMED, cores, how=how, window=sj.TumblingWindow(length), time="t", **options
    )

    def due(side, row, watermark):
        return watermark >= (row["t"] // length + 1) * length

    found, left, right = run(join, how, name, seed, delay, due)
    same = both(predicate, together(left, right, length))
    pairs = Counter((a["id"], b["id"]) for a in left for b in right if same(a, b))
    assert found == result(pairs, left, right, how)
    event(f"{how}, {join.routing}, {'closes' if join.closes else 'slides'}")


@random
@given(
    seed=seeds,
    how=hows,
    name=st.sampled_from(["equality", "and a sum"]),
    cores=st.sampled_from([1, 2, 3]),
    gap=st.integers(1, 6),
    delay=st.sampled_from([0, 2, 5, 100]),
    emit=st.sampled_from(["close", "eager"]),
)
def test_session_windows(seed, how, name, cores, gap, delay, emit):
    on, predicate = (EQUAL, SAME) if name == "equality" else (RESIDUAL, PREDICATES[RESIDUAL][0])
    join = make_join(on, TIMED, cores, how=how, emit=emit, window=sj.SessionWindow(gap), time="t")
    found, left, right = run(join, how, name, seed, delay)
    timed_rows = [[row for row in rows if row["t"] is not None] for rows in (left, right)]
    number = sessions(*timed_rows, gap, True)
    pairs = Counter(
        (a["id"], b["id"])
        for a in left
        for b in right
        if predicate(a, b) and number.get(a["id"], -1) == number.get(b["id"], -2)
    )
    assert found == result(pairs, left, right, how)


@random
@given(
    seed=seeds,
    how=hows,
    name=ROUTED,
    cores=st.sampled_from([1, 2, 3]),
    delay=st.sampled_from([0, 2]),
    window=st.sampled_from(["time", "tumbling", "session"]),
)
def test_late_rows_are_given_once(seed, how, name, cores, delay, window):
    if window == "session":
        name = "equality"
    on, _ = CONDITIONS[name]
    if how == "full" and window == "tumbling" and name != "equality":
        cores = 1
    windows = {
        "time": sj.TimeWindow(before=3, after=4),
        "tumbling": sj.TumblingWindow(5),
        "session": sj.SessionWindow(2),
    }
    kind = read_how("how", how)
    join = make_join(on, TIMED, cores, how=how, late="keep", window=windows[window], time="t")
    left, right = two_streams(seed)
    cluster, found, expected = Cluster(join, UNLUCKY, seed, delay), Counter(), Counter()
    for step in cut(seed, left, right):
        limit = cluster.late_until
        given = ids(cluster.batch(*map(timed, step)), how, ["_late"])
        found += Counter({each[:-1]: n for each, n in given.items() if each[-1]})
        for side, rows in zip(("left", "right"), step, strict=True):
            for row in rows:
                if side in kind.sides and limit and row["t"] is not None and row["t"] <= limit:
                    pair = (row["id"], None) if side == "left" else (None, row["id"])
                    expected[(row["id"],) if kind.one_side else pair] += 1
    assert found == expected


@random
@given(
    seed=seeds,
    how=hows,
    name=ROUTED,
    window=st.sampled_from(["time", "count", "tumbling", "eager", "session"]),
    cores=st.sampled_from([1, 2, 3]),
    delay=st.sampled_from([0, 2, 5]),
)
def test_attempts_write_the_same_marks(seed, how, name, window, cores, delay):
    if window in ("session", "eager"):
        name = "equality"
    elif how == "full" and window in ("count", "tumbling") and name != "equality":
        cores = 1
    cores = 1 if how == "full" and window == "count" else cores
    join = make_join(CONDITIONS[name][0], TIMED, cores, how=how, **WINDOWS[window])
    cluster = Twice(join, Luck(), seed, delay)
    for step in cut(seed, *two_streams(seed)):
        cluster.batch(*map(timed, step))
        if cluster.random.random() < 0.3:
            cluster.idle()
    assert cluster.attempts


@random
@given(
    seed=seeds,
    how=hows,
    name=st.sampled_from(["equality", "band", "inequality", "residual", "equality and band"]),
    keep=st.sampled_from(["nearest", "first", "last"]),
    k=st.integers(1, 3),
    cores=st.sampled_from([1, 2, 3]),
    delay=st.sampled_from([0, 2, 5, 100]),
    window=st.sampled_from(["time", "tumbling", "session"]),
)
def test_the_best_pairs_are_kept(seed, how, name, keep, k, cores, delay, window):
    name = "equality" if window == "session" else name
    on, predicate = CONDITIONS[name]
    if "right" in read_how("how", how).follows and not on.startswith("l.k = r.k"):
        cores = 1
    nearest, distance = DISTANCES[name]
    options = {"nearest": nearest} if nearest and keep == "nearest" else {}
    kind, meets = windows_of(window)
    join = make_join(on, TIMED, cores, how=how, keep=keep, k=k, window=kind, time="t", **options)

    def due(side, row, watermark):
        if window == "tumbling":
            return watermark >= (row["t"] // 5 + 1) * 5
        return watermark >= row["t"] + (4 if side == "left" else 3 + 4)

    given, left, right = run(join, how, name, seed, delay, None if window == "session" else due)
    together = meets(left, right)

    def matches(one, two):
        return None not in (one["t"], two["t"]) and together(one, two) and predicate(one, two)

    pairs = keep_pairs(left, right, matches, rank_of(keep, distance), k)
    assert given == result(pairs, left, right, how)


@random
@given(
    seed=seeds,
    how=st.sampled_from(["inner", "left"]),
    name=st.sampled_from(["equality", "band", "inequality", "residual"]),
    cores=st.sampled_from([1, 2, 3]),
    delay=st.sampled_from([0, 2, 5, 100]),
    window=st.sampled_from(["time", "tumbling", "session"]),
)
def test_aggregates(seed, how, name, cores, delay, window):
    name = "equality" if window == "session" else name
    on, predicate = CONDITIONS[name]
    kind, meets = windows_of(window)
    join = make_join(
        on, TIMED, cores, how=how, window=kind, time="t",
        aggregate={"n": "count(*)", "total": "sum(r.id)"},
    )  # fmt: skip
    cluster, found, kept = Cluster(join, UNLUCKY, seed, delay), Counter(), ([], [])

    def take(batches):
        for rows in batches:
            columns = [rows[column].to_pylist() for column in ("id", "n", "total")]
            found.update(zip(*columns, strict=True))

    for step in cut(seed, *two_streams(seed)):
        limit = cluster.late_until
        for side, rows in zip(kept, step, strict=True):
            side += [row for row in rows if row["t"] is None or not limit or row["t"] > limit]
        take(cluster.batch(*map(timed, step)))
        if cluster.random.random() < 0.5:
            take(cluster.idle())
    cluster.watermark = AT_END
    for _ in range(20):
        take(cluster.idle())
    left, right = kept
    together = meets(left, right)
    expected = Counter()
    for one in left:
        met = [
            two["id"]
            for two in right
            if None not in (one["t"], two["t"]) and together(one, two) and predicate(one, two)
        ]
        if met or how == "left":
            expected[(one["id"], len(met), sum(met) if met else None)] += 1
    assert found == expected


def windows_of(name):
    """A window, and what tells which rows of two sides it brings together."""
    if name == "time":
        window = sj.TimeWindow(before=3, after=4)
        return window, lambda *_: lambda one, two: one["t"] - 3 <= two["t"] <= one["t"] + 4
    if name == "tumbling":
        return sj.TumblingWindow(5), lambda *_: lambda one, two: one["t"] // 5 == two["t"] // 5

    def in_session(*sides):
        number = sessions(
            *([row for row in rows if row["t"] is not None] for rows in sides), 2, True
        )
        return lambda one, two: number.get(one["id"], -1) == number.get(two["id"], -2)

    return sj.SessionWindow(2), in_session


LONELY = st.sampled_from([each.name for each in EVERY_HOW if each.alone])
LUCK = st.sampled_from([UNLUCKY, Luck(restarts=1.0), Luck(workers=4, failures=0.5, hints=0.4)])


class EarlyRun:
    """A stream whose rows are given once their patience has run out, and may be taken back.

    ``meet`` finds the pairs of rows that have come; ``is_final`` tells when a row may be given
    without an end to its patience, ``is_open`` when it must be because of that.
    """

    def __init__(self, join, how, name, luck, patience, meet, is_final, is_open, cluster=Cluster):
        self.join, self.patience, self.meet = join, patience, meet
        self.kind, self.unable, self.luck = read_how("how", how), UNABLE[name], luck
        self.is_final, self.is_open, self.cluster_of = is_final, is_open, cluster
        self.at_once = not join.closes or join.config.emit != "close"  # are matches found
        self.given, self.taken, self.net = Counter(), Counter(), Counter()
        self.newest, self.rows = -1, {"left": [], "right": []}

    def go(self, seed, delay):
        """Run all batches; return the net of what was given."""
        cluster = self.cluster_of(self.join, self.luck, seed, delay)
        for step in cut(seed, *two_streams(seed)):
            limit, watermark = cluster.late_until or 0, cluster.watermark
            for side, rows in zip(self.rows, step, strict=True):
                times = [row["t"] for row in rows if row["t"] is not None]
                self.newest = max([self.newest, *times])
                self.rows[side] += [row for row in rows if row["t"] is None or row["t"] > limit]
            self.take(cluster.batch(*map(timed, step)), watermark)
            self.check(watermark)
            if cluster.random.random() < 0.3:
                self.take(cluster.idle(), cluster.watermark)
        cluster.watermark = AT_END
        for _ in range(20):
            self.take(cluster.idle(), AT_END)
        for store in cluster.stores.values():
            assert (store.saved, store.segments, store.timers) == (None, {}, set())
        return +self.net

    def take(self, batches, watermark):
        """Take rows in the order in which they come."""
        waits = {
            (side, row["id"]): row
            for side, rows in self.rows.items()
            for row in rows
            if row["t"] is not None and not self.unable[side == "right"](row)
        }
        fresh = set()  # given in this batch
        for batch in batches:
            pair = [batch["id"]] if self.kind.one_side else [batch["id"], batch["id_right"]]
            columns = [each.to_pylist() for each in [*pair, batch["_op"]]]
            for *ids_, op in zip(*columns, strict=True):
                each = tuple(ids_)
                self.net[each] += 1 if op == "+" else -1
                alone = self.find_alone(each)
                if alone is None:
                    assert op == "+"
                    continue
                (self.given if op == "+" else self.taken)[alone] += 1
                assert op == "+" or alone not in fresh, "its match was there"
                fresh.add(alone)
                assert (self.given[alone], self.taken[alone]) in ((1, 0), (1, 1))
                row = waits.get(alone)
                assert op == "+" or row is not None
                if op == "+" and row is not None:
                    is_out = row["t"] < self.newest - self.patience
                    assert is_out or self.is_final(alone[0], row, watermark)

    def find_alone(self, each):
        """The side and the id of a row without a match; None if this is a pair."""
        if self.kind.one_side:
            return self.kind.one_side, each[0]
        left, right = each
        if None not in each:
            return None
        return ("left", left) if right is None else ("right", right)

    def check(self, watermark):
        """Whose patience has run out has been given, unless it has matched."""
        pairs = self.meet(self.rows["left"], self.rows["right"])
        met = {"left": {one for one, _ in pairs}, "right": {two for _, two in pairs}}
        for side in self.kind.alone:
            for row in self.rows[side]:
                if row["t"] is None or self.unable[side == "right"](row):
                    continue
                stands = self.given[side, row["id"]] > self.taken[side, row["id"]]
                has_met = row["id"] in met[side]
                if self.at_once:
                    assert not (stands and has_met)
                if self.is_open(side, row, watermark) and not (self.at_once and has_met):
                    assert stands == (row["t"] < self.newest - self.patience)


def early(patience):
    return {"unmatched": "early", "patience": f"{patience} ms"}


@random
@given(
    seed=seeds,
    how=LONELY,
    name=st.sampled_from([*ROUTED.elements, "inequality", "filters"]),
    cores=st.sampled_from([1, 2, 3]),
    routing=st.sampled_from(["auto", "auto", "split"]),
    reach=st.tuples(st.integers(0, 12), st.integers(1, 12)),
    delay=st.sampled_from([0, 2, 5, 100]),
    patience=st.sampled_from([0, 1, 3, 8]),
    algorithm=st.sampled_from(["auto", "bi_sort", "pim_tree"]),
    luck=LUCK,
    cluster=st.sampled_from([Cluster, Cluster, Twice]),
)
def test_early_rows_of_time_windows(
    seed, how, name, cores, routing, reach, delay, patience, algorithm, luck, cluster
):
    before, after = reach
    on, predicate = CONDITIONS[name]
    if how == "full" and (routing == "split" or name in ("inequality", "filters")):
        cores = 1
    join = make_join(
        on, TIMED, cores, routing, how=how, algorithm=algorithm, time="t",
        window=sj.TimeWindow(before=before, after=after), **early(patience),
    )  # fmt: skip

    def meet(left, right):
        return pairs_within(left, right, predicate, before, after)

    def is_final(side, row, watermark):
        return watermark >= row["t"] + (after if side == "left" else before)

    def is_open(*row):
        return not is_final(*row)

    stream = EarlyRun(join, how, name, luck, patience, meet, is_final, is_open, cluster)
    net = stream.go(seed, delay)
    assert net == result(meet(*stream.rows.values()), *stream.rows.values(), how)
    event(f"{how}, {join.routing}, taken back: {stream.taken.total() > 0}")


@random
@given(
    seed=seeds,
    how=LONELY,
    name=st.sampled_from(["equality", "null-safe", "band", "residual", "inequality"]),
    cores=st.sampled_from([1, 2, 3]),
    length=st.integers(2, 20),
    delay=st.sampled_from([0, 2, 5, 100]),
    patience=st.sampled_from([0, 1, 3, 8]),
    kind=st.sampled_from(["close", "eager", "shj_jm", "pmj_jb", "auto"]),
    luck=LUCK,
    cluster=st.sampled_from([Cluster, Cluster, Twice]),
)
def test_early_rows_of_tumbling_windows(
    seed, how, name, cores, length, delay, patience, kind, luck, cluster
):
    options = {"emit": kind} if kind in ("close", "eager", "auto") else {"emit": "eager"}
    if kind in ("shj_jm", "pmj_jb"):
        name = "equality"
        options["algorithm"] = kind
        if kind == "pmj_jb":
            options["tuning"] = {"delta": 6}
    on, predicate = CONDITIONS[name]
    if how == "full" and not on.startswith("l.k = r.k"):
        cores = 1
    join = make_join(
        on, TIMED, cores, how=how, window=sj.TumblingWindow(length), time="t",
        **options, **early(patience),
    )  # fmt: skip

    def meet(left, right):
        same = both(predicate, together(left, right, length))
        return Counter((a["id"], b["id"]) for a in left for b in right if same(a, b))

    def is_final(_, row, watermark):
        return watermark >= (row["t"] // length + 1) * length

    def is_open(*row):
        return not is_final(*row)

    stream = EarlyRun(join, how, name, luck, patience, meet, is_final, is_open, cluster)
    if kind in ("auto", "pmj_jb"):  # some windows, or rows, are joined at the close
        stream.check = lambda _: None
    net = stream.go(seed, delay)
    assert net == result(meet(*stream.rows.values()), *stream.rows.values(), how)
    event(f"{how}, {kind}, taken back: {stream.taken.total() > 0}")


@random
@given(
    seed=seeds,
    how=LONELY,
    has_residual=st.booleans(),
    cores=st.sampled_from([1, 2, 3]),
    gap=st.integers(1, 6),
    delay=st.sampled_from([0, 2, 5, 100]),
    patience=st.sampled_from([0, 1, 3, 8]),
    emit=st.sampled_from(["close", "eager"]),
    luck=LUCK,
)
def test_early_rows_of_sessions(seed, how, has_residual, cores, gap, delay, patience, emit, luck):
    on, predicate = (RESIDUAL, PREDICATES[RESIDUAL][0]) if has_residual else (EQUAL, SAME)
    join = make_join(
        on, TIMED, cores, how=how, emit=emit, window=sj.SessionWindow(gap), time="t",
        **early(patience),
    )  # fmt: skip

    def meet(*sides):
        number = sessions(
            *([row for row in rows if row["t"] is not None] for rows in sides), gap, True
        )
        return Counter(
            (a["id"], b["id"])
            for a in sides[0]
            for b in sides[1]
            if predicate(a, b) and number.get(a["id"], -1) == number.get(b["id"], -2)
        )

    def is_final(_, row, watermark):  # at the earliest
        return watermark >= row["t"] + gap

    def is_open(*row):
        return not is_final(*row)

    stream = EarlyRun(join, how, "equality", luck, patience, meet, is_final, is_open)
    net = stream.go(seed, delay)
    assert net == result(meet(*stream.rows.values()), *stream.rows.values(), how)
    event(f"{how}, {emit}, taken back: {stream.taken.total() > 0}")


LEFT_EARLY = {"window": sj.TimeWindow(200), "time": "t", "how": "left", **early(20)}


def give(cluster, left, right):
    """What a batch gives: operations and ids."""
    return [
        each
        for rows in cluster.batch(left, right)
        for each in zip(
            *(rows[name].to_pylist() for name in ("_op", "id", "id_right")), strict=True
        )
    ]


def test_the_newest_row_of_all_cores_tells_whose_patience_has_run_out():
    cluster = Cluster(make_join(EQUAL, TIMED, 3, **LEFT_EARLY))
    assert give(cluster, plain(1, 1, t=10, k=1), plain(100, 1, t=30, k=2)) == []
    assert give(cluster, NONE, plain(101, 1, t=31, k=None)) == [("+", 1, None)]
    assert give(cluster, NONE, plain(102, 1, t=40, k=3)) == []
    assert give(cluster, NONE, plain(103, 1, t=11, k=1)) == [("-", 1, None), ("+", 1, 103)]


def test_what_a_failed_task_has_given_early_counts_for_nothing():
    cluster = Cluster(make_join(EQUAL, TIMED, 1, **LEFT_EARLY))
    assert give(cluster, plain(1, 1, t=10), NONE) == []
    lost, other = cluster.workers[0], deepcopy(cluster.workers[0])
    cluster.fail(NONE, plain(100, 1, t=100, k=None))  # which stores nothing
    cluster.workers = [other]
    assert give(cluster, NONE, plain(101, 1, t=20, k=2)) == []
    cluster.workers = [lost]
    assert give(cluster, NONE, plain(102, 1, t=31, k=2)) == [("+", 1, None)]


def test_patience_is_a_fact_of_the_checkpoint():
    facts = make_join(EQUAL, TIMED, 1, **LEFT_EARLY).facts
    assert (facts["unmatched"], facts["patience"]) == ("early", "20 milliseconds")
    cluster = Cluster(make_join(EQUAL, TIMED, 1, **LEFT_EARLY))
    cluster.batch(plain(1, 1), NONE)
    cluster.spec = make_join(EQUAL, TIMED, 1, **LEFT_EARLY | early(30))
    with pytest.raises(sj.SnapshotError, match="patience was 20 milliseconds and is 30"):
        cluster.batch(plain(2, 1), NONE)
