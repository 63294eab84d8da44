"""Streams whose rows may match nothing: each is given once, as Spark's own join of tables has it.

Spark's join of streams had bugs of its own in this; what they were about is tested here: a row that
matched comes back as one without a match, when the other row has left before (SPARK-26154) or in
the same batch (SPARK-38684); a row that comes and leaves in one batch is forgotten (SPARK-49829);
cores of other partitions under a union (SPARK-29438); a watermark of the wrong side (SPARK-58904).
"""

from collections import Counter

import pytest

from streamjoin import (
    CountWindow,
    SessionWindow,
    StreamJoinError,
    TimeWindow,
    TumblingWindow,
    WindowError,
)
from streamjoin import spark as sjs
from tests.spark.streams.random_batches import (
    SECOND,
    WINDOW,
    flat,
    make_batches,
    on_time,
    table,
    watermarks,
)
from tests.spark.streams.running import Streams, finish, metrics, total

pytestmark = pytest.mark.spark

BAND = "abs(l.x - r.x) <= 0.02"
EQUAL = "l.k = r.k and l.s || r.s <> 'aa'"


def ids(frame):
    """The ids of rows of the result."""
    names = [name for name in ("id", "id_right") if name in frame.columns]
    return Counter(tuple(row) for row in frame.select(*names).collect())


def spark_join(session, left, right, on, how):
    """What Spark's join of tables gives, over the rows that were on time."""
    one, two = (session.createDataFrame(table(rows).to_pandas()) for rows in (left, right))
    low, high = (f"interval '{each}' microsecond" for each in (WINDOW.before_us, WINDOW.after_us))
    condition = f"{on} and r.t between l.t - {low} and l.t + {high}"
    if how.startswith("right_"):
        one, two, how = two, one, how.replace("right", "left")
        condition = condition.replace("l.", "x.").replace("r.", "l.").replace("x.", "r.")
    one.createOrReplaceTempView("one")
    two.createOrReplaceTempView("two")
    kind = how.replace("_", " ")
    columns = "l.id" if how in ("left_semi", "left_anti") else "l.id, r.id as id_right"
    return ids(session.sql(f"select {columns} from one l {kind} join two r on {condition}"))


def waiting(batches, key, window=WINDOW):
    """The ids of rows that may still find a match when all is over: not those without a key."""
    last = watermarks(batches)[-1]
    reaches = {"left": window.after_us, "right": window.before_us}
    return {
        side: {
            row["id"] for row in rows if row[key] is not None and row["t"] + reaches[side] > last
        }
        for side, rows in zip(reaches, flat(batches), strict=True)
    }


def without_waiting(expected, how, missed):
    """Leave those out that are not due yet, of rows without a match."""
    kept = Counter()
    for each, count in expected.items():
        if how.endswith("_anti"):
            open_ = each[0] in missed[how.split("_")[0]]
        else:
            open_ = (
                len(each) == 2
                and None in each
                and (each[0] in missed["left"] or each[1] in missed["right"])
            )
        if not open_:
            kept[each] += count
    return kept


def check_kinds(session, folder, on, hows, seed, **options):
    """Run joins side by side over the same streams, and compare them with Spark's of tables."""
    streams, batches = Streams(session, folder), make_batches(seed, count=4, latest=14)
    for batch in batches:
        streams.add(*map(table, batch))
    queries = {
        how: streams.start(streams.join(on, window=WINDOW, time="t", how=how, **options))
        for how in hows
    }
    finish(*queries.values())
    rows = flat(on_time(batches))
    missed = waiting(on_time(batches), "k" if on == EQUAL else "x")
    for how, query in queries.items():
        expected = without_waiting(spark_join(session, *rows, on, how), how, missed)
        found = ids(session.table(query.name))
        assert found == expected, how
        alone = sum(count for each, count in found.items() if None in each)
        if not how.endswith(("semi", "anti")):
            assert total(metrics(query), "unmatched") == alone
        elif how.endswith("anti"):
            assert total(metrics(query), "unmatched") == found.total() > 3


@pytest.mark.slow
def test_equal_rows(session, tmp_path):
    check_kinds(session, tmp_path, EQUAL, ["left", "full", "right_semi", "left_anti"], 6)


@pytest.mark.slow
def test_bands(session, tmp_path):
    check_kinds(session, tmp_path, BAND, ["right", "full", "left_semi", "right_anti"], 8)


@pytest.mark.slow
def test_a_full_join_by_range_and_an_anti_join_by_neither(session, tmp_path):
    check_kinds(session, tmp_path / "range", BAND, ["full"], 9, routing="range")
    check_kinds(session, tmp_path / "split", "l.x < r.x - 0.9", ["left_anti"], 9)


@pytest.mark.slow
def test_a_stop_after_every_batch_changes_nothing(session, tmp_path):
    streams, batches = Streams(session, tmp_path, "9 seconds"), make_batches(5, count=4)
    kinds = {"left": BAND, "full": BAND, "right_anti": EQUAL, "left_semi": EQUAL}
    for batch in batches:
        streams.add(*map(table, batch))
        joins = {
            how: streams.join(on, window=WINDOW, time="t", how=how) for how, on in kinds.items()
        }
        finish(*(streams.start(joined, how, "files") for how, joined in joins.items()))
    rows = flat(batches)
    last = min(max(row["t"] for row in side) for side in rows) - 9 * SECOND
    for how, on in kinds.items():
        expected, found = spark_join(session, *rows, on, how), ids(streams.sink(how))
        if how == "left_semi":
            assert found == expected
            continue
        missing = expected - found
        assert not found - expected, how
        reach = {"left": WINDOW.after_us, "right": WINDOW.before_us}
        times = {row["id"]: row["t"] for side in rows for row in side}
        for each in missing:  # those that are not due yet
            assert how == "right_anti" or None in each
            [id_] = [value for value in each if value is not None]
            side = "right" if id_ == each[-1] else "left"
            assert times[id_] + reach[side] > last


def given(id_, seconds, k=1):
    return {"id": id_, "t": (1000 + seconds) * SECOND, "k": k, "s": "b", "x": 0.5, "o": 0}


def run(session, folder, batches, how, window=WINDOW, on="l.k = r.k", delays=None, **options):
    """Run a join over batches of rows; return what it gave."""
    streams = Streams(session, folder, None)
    for batch in batches:
        streams.add(*map(table, batch))
    left, right = (
        frame.withWatermark("t", delay)
        for frame, delay in zip(streams.read(), delays or ("0 seconds",) * 2, strict=True)
    )
    joined = sjs.join(left, right, on=on, window=window, time="t", how=how, **options)
    query = streams.start(joined)
    finish(query)
    return session.table(query.name)


def test_rows_that_left_after_their_match_had_are_not_given_again(session, tmp_path):
    window = TimeWindow(before="0 seconds", after="20 seconds")
    batches = [
        ([given(1, 0)], [given(2, 0)]),
        ([given(3, 10)], [given(4, 10, k=2)]),  # right 2 leaves, left 1 does not
        ([given(5, 60)], [given(6, 60)]),  # left 1 leaves
        ([given(7, 90)], [given(8, 90)]),
    ]
    found = ids(run(session, tmp_path, batches, "full", window))
    assert found == Counter([(1, 2), (3, None), (None, 4), (5, 6), (7, 8)])


def test_a_match_in_the_batch_that_lets_rows_go(session, tmp_path):
    window = TimeWindow(before="5 seconds", after="5 seconds")
    batches = [
        ([given(1, 0), given(2, 0, k=2)], [given(3, 0, k=9)]),
        ([given(4, 50, k=9)], [given(5, 3), given(6, 50, k=8)]),  # 1 meets 5, and both leave then
        ([given(7, 60, k=9)], [given(8, 60, k=8)]),
    ]
    found = ids(run(session, tmp_path, batches, "full", window))
    assert found >= Counter([(1, 5), (2, None), (None, 3)])
    assert not any(1 in each or 5 in each for each in found if None in each)


def test_rows_that_come_and_leave_in_one_batch(session, tmp_path):
    window = TimeWindow(before="2 seconds", after="2 seconds")
    batches = [
        ([given(1, 10)], [given(2, 10)]),
        ([given(3, 12), given(4, 12, k=5), given(5, 60, k=7)], [given(6, 12), given(7, 60, k=8)]),
        # On time by the watermark of the batch before, and due by that of this one.
        ([given(8, 61), given(9, 90)], [given(10, 61, k=6), given(11, 90)]),
        ([given(12, 120)], [given(13, 120)]),
    ]
    found = ids(run(session, tmp_path, batches, "full", window))
    pairs = [(1, 2), (1, 6), (3, 2), (3, 6), (9, 11), (12, 13)]
    alone = [(4, None), (5, None), (None, 7), (8, None), (None, 10)]
    assert found == Counter(pairs + alone)


def test_streams_that_are_unions(session, tmp_path):
    first, second = (Streams(session, tmp_path / name, "1 day") for name in ("a", "b"))
    rows = make_batches(3, count=4)
    for batch in rows:
        first.add(table(batch[0][::2]), table(batch[1][::2]))
        second.add(table(batch[0][1::2]), table(batch[1][1::2]))
    left, right = (one.union(two) for one, two in zip(first.read(), second.read(), strict=True))
    joined = sjs.join(left, right, on="l.k = r.k", window="1 day", time="t", how="full")
    query = first.start(joined)
    finish(query)
    found = ids(session.table(query.name))
    sides = flat(rows)
    expected = Counter(
        (one["id"], two["id"])
        for one in sides[0]
        for two in sides[1]
        if one["k"] is not None and one["k"] == two["k"]
    )
    for row in sides[0]:
        if row["k"] is None:
            expected[(row["id"], None)] += 1
    for row in sides[1]:
        if row["k"] is None:
            expected[(None, row["id"])] += 1
    assert found == expected
    assert any(None in each for each in found)


def test_the_slower_of_two_watermarks_counts(session, tmp_path):
    window = TimeWindow(before="2 seconds", after="2 seconds")
    batches = [
        ([given(1, 10)], [given(2, 40, k=2)]),
        ([given(3, 50, k=3)], [given(4, 41, k=2)]),  # right may be 30 seconds late
        ([given(5, 60, k=3)], [given(6, 11)]),  # 1 meets 6
        ([given(7, 100, k=3)], [given(8, 130, k=2)]),
    ]
    found = ids(run(session, tmp_path, batches, "left", window, delays=("0 seconds", "30 seconds")))
    assert found[(1, 6)] == 1
    assert (1, None) not in found
    assert found[(3, None)] == found[(5, None)] == 1


def test_a_side_without_rows_lets_none_go(session, tmp_path):
    batches = [
        ([given(1, 0)], [given(2, 500, k=2)]),
        ([], [given(3, 600, k=2)]),
        ([], [given(4, 1)]),  # not late: the watermark is that of left
    ]
    assert ids(run(session, tmp_path, batches, "left")) == Counter([(1, 4)])


def test_late_rows_are_given(session, tmp_path):
    batches = [
        ([given(1, 0)], [given(2, 0)]),
        ([given(3, 50)], [given(4, 50)]),
        ([given(5, 90)], [given(6, 90)]),
        ([given(7, 1), given(8, 91)], [given(9, 2, k=None), given(10, 91)]),
    ]
    frame = run(session, tmp_path, batches, "left", late="keep", indicator=True)
    found = Counter(
        tuple(row) for row in frame.select("id", "id_right", "_match", "_late").collect()
    )
    assert found[(7, None, "left_only", True)] == 1
    assert found[(None, 9, "right_only", True)] == 1
    assert sum(n for each, n in found.items() if each[-1]) == 2
    assert found[(8, 10, "both", False)] == 1


@pytest.mark.parametrize(
    "window", [TumblingWindow("10 seconds"), SessionWindow("5 seconds")], ids=str
)
def test_windows_that_close(session, tmp_path, window):
    batches = [
        ([given(1, 0), given(2, 1, k=2)], [given(3, 2), given(4, 3, k=3)]),
        ([given(5, 50)], [given(6, 51, k=5)]),
        ([given(7, 90)], [given(8, 90)]),
        ([given(9, 130, k=None)], [given(10, 130)]),
    ]
    found = ids(run(session, tmp_path, batches, "full", window))
    alone = [(2, None), (None, 4), (5, None), (None, 6), (9, None)]
    assert found == Counter([(1, 3), (7, 8), *alone])


def test_the_nearest_row_is_kept(session, tmp_path):
    window = TimeWindow(before="10 seconds", after="10 seconds")
    batches = [
        ([given(1, 0), given(2, 1, k=2)], [given(3, 8), given(4, 9, k=3)]),
        ([given(5, 9, k=7)], [given(6, 4)]),
        ([given(7, 90)], [given(8, 90)]),
        ([given(9, 130)], [given(10, 130)]),
    ]
    found = ids(run(session, tmp_path, batches, "left", window, keep="nearest"))
    assert found == Counter([(1, 6), (2, None), (5, None), (7, 8)])


EARLY = {"unmatched": "early", "patience": "10 seconds", "window": "1 minute", "time": "t"}


@pytest.mark.slow
def test_early_rows_and_a_restart(session, tmp_path):
    streams = Streams(session, tmp_path, "1 hour")
    batches = [
        ([given(1, 0), given(2, 0, k=2), given(3, 5, k=3)], [given(11, 0, k=2)]),
        ([], [given(12, 11) | {"s": "a"}]),  # it matches nothing, but tells the time
        ([given(4, 12, k=4)], [given(13, 3)]),
        ([], [given(14, 16, k=7)]),
    ]
    for first in (0, 2):
        for batch in batches[first : first + 2]:
            streams.add(*map(table, batch))
        joined = streams.join("l.k = r.k and r.s = 'b'", how="left", **EARLY)
        finish(streams.start(joined, "early", "files"))
    rows = streams.sink("early").select("_op", "id", "id_right").collect()
    assert Counter(map(tuple, rows)) == Counter(
        [("+", 2, 11), ("+", 1, None), ("-", 1, None), ("+", 1, 13), ("+", 3, None)]
    )


@pytest.mark.slow
def test_the_net_of_early_rows_and_restarts(session, tmp_path):
    streams, batches = Streams(session, tmp_path, "9 seconds"), make_batches(6, count=4)
    options = EARLY | {"window": WINDOW, "patience": "2 seconds"}
    kinds = {"full": BAND, "right": BAND, "left_anti": EQUAL}
    for batch in batches:
        streams.add(*map(table, batch))
        finish(
            *(
                streams.start(streams.join(on, how=how, **options), how, "files")
                for how, on in kinds.items()
            )
        )
    rows = flat(batches)
    times = {row["id"]: row["t"] for side in rows for row in side}
    for how, on in kinds.items():
        sink = streams.sink(how)
        expected = spark_join(session, *rows, on, how)
        plus, minus = (ids(sink.where(f"_op = '{op}'")) for op in "+-")
        assert minus.total() > 3, how
        assert max(minus.values()) == 1
        assert not minus - plus
        assert not (plus - minus) - expected, how
        for each in expected - (plus - minus):  # whose patience has not run out
            [id_] = [value for value in each if value is not None]
            assert times[id_] >= max(times.values()) - 2 * SECOND


def test_what_one_core_must_do(session, tmp_path):
    streams = Streams(session, tmp_path)
    streams.add(table([given(1, 0)]), table([]))
    options = {"window": WINDOW, "time": "t"}
    with pytest.raises(StreamJoinError, match="one core has to see them all; leave cores out"):
        streams.join("l.x < r.x", how="full", cores=2, **options)
    with pytest.raises(StreamJoinError, match="which right rows are kept"):
        streams.join(BAND, how="right", keep="nearest", cores=2, **options)
    with pytest.raises(WindowError, match="keep='first' in CountWindow"):
        streams.join("l.k = r.k", window=CountWindow(5), keep="first")
