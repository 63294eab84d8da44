"""Tumbling and session windows on Spark: when they close, or as rows come, against plain loops."""

import pytest

from streamjoin import SessionWindow, StreamJoinError, TumblingWindow
from streamjoin import spark as sjs
from tests.spark.streams.random_batches import (
    SECOND,
    flat,
    make_batches,
    near,
    on_time,
    same,
    table,
    watermarks,
)
from tests.spark.streams.running import Streams, finish, metrics, pairs, total

pytestmark = pytest.mark.spark

LENGTH, OFFSET, GAP = 4, 1, 1  # seconds


def window_of(row):
    return (row["t"] // SECOND - OFFSET) // LENGTH


def session_ends(rows, keyed):
    """Return the session of each row, as the time of its last one, by side and id."""
    groups, ends = {}, {}
    for side in (0, 1):
        for row in rows[side]:
            if not keyed or row["k"] is not None:
                key = row["k"] if keyed else None
                groups.setdefault(key, []).append((row["t"], side, row["id"]))
    for group in groups.values():
        session = []
        for each in [*sorted(group), (float("inf"), 0, 0)]:
            if session and each[0] - session[-1][0] > GAP * SECOND:
                ends |= {(side, id_): session[-1][0] for _, side, id_ in session}
                session = []
            session.append(each)
    return ends


def in_windows(rows, predicate, closed):
    """Return the pairs inside tumbling windows; of those before the watermark ``closed`` only."""
    bound = float("inf") if closed is None else (closed // SECOND - OFFSET) // LENGTH
    return sorted(
        (one["id"], two["id"])
        for one in rows[0]
        for two in rows[1]
        if predicate(one, two) and window_of(one) == window_of(two) < bound
    )


def in_sessions(rows, predicate, closed, keyed):
    ends = session_ends(rows, keyed)
    return sorted(
        (one["id"], two["id"])
        for one in rows[0]
        for two in rows[1]
        if predicate(one, two)
        and ends.get((0, one["id"]), -1) == ends.get((1, two["id"]), -2)
        and (closed is None or ends[0, one["id"]] + GAP * SECOND <= closed)
    )


TUMBLING = TumblingWindow(f"{LENGTH} seconds", offset=f"{OFFSET} seconds")
SESSION = SessionWindow(f"{GAP} seconds")
JOINS = [
    ({"on": "l.k = r.k", "window": TUMBLING}, same),
    ({"on": "l.k = r.k", "window": TUMBLING, "emit": "eager"}, same),
    ({"on": "l.k = r.k", "window": TUMBLING, "algorithm": "pmj_jb", "tuning": {"delta": 20}}, same),
    ({"on": "abs(l.x - r.x) <= 0.02", "window": TUMBLING, "algorithm": "bi_sort"}, near),
    ({"on": "abs(l.x - r.x) <= 0.02", "window": TUMBLING, "emit": "eager"}, near),
    ({"on": "l.k = r.k", "window": SESSION}, same),
    ({"on": "l.k = r.k", "window": SESSION, "emit": "eager"}, same),
    ({"on": "abs(l.x - r.x) <= 0.02", "window": SESSION}, near),
]


def expected(rows, join, predicate, closed):
    is_eager = join.get("emit") == "eager"
    closed = None if is_eager else closed
    if join["window"] is TUMBLING:
        if "pmj" in join.get("algorithm", ""):
            closed = None
        return in_windows(rows, predicate, closed)
    return in_sessions(rows, predicate, closed, "l.k" in join["on"])


def check_streams(session, folder, joins):
    """Run joins side by side over the same streams, and check what they give."""
    streams, batches = Streams(session, folder), make_batches(7, count=5, latest=14)
    for batch in batches:
        streams.add(*map(table, batch))
    queries = [streams.start(streams.join(time="t", **join)) for join, _ in joins]
    finish(*queries)
    rows, closed = flat(on_time(batches)), watermarks(batches)[-1]
    for query, (join, predicate) in zip(queries, joins, strict=True):
        found = sorted(pairs(session.table(query.name)).elements())
        wanted = expected(rows, join, predicate, closed)
        if "pmj" in join.get("algorithm", ""):  # what is left comes when a window closes
            assert set(in_windows(rows, predicate, closed)) <= set(found) <= set(wanted)
            assert len(set(found)) == len(found)
            continue
        assert found == wanted, join
        assert len(found) > 20
        told = metrics(query)
        assert total(told, "matches") == len(found)
        assert told[-1]["live_rows"] < sum(map(len, rows))


def test_streams(session, tmp_path):
    check_streams(session, tmp_path, [JOINS[0], JOINS[1], JOINS[5]])


def test_tables(session):
    rows = flat(make_batches(8, count=3))
    rows = [[row for row in side if row["t"] is not None] for side in rows]
    frames = [session.createDataFrame(table(side)) for side in rows]
    for join, predicate in JOINS:
        if "pmj" in join.get("algorithm", "") or join.get("emit"):
            continue
        found = sorted(pairs(sjs.join(*frames, time="t", **join)).elements())
        assert found == expected(rows, join, predicate, None), join
        assert found


def test_algorithms_that_do_not_join_tables(session):
    frame = session.createDataFrame(table(flat(make_batches(8, count=1))[0]))
    for algorithm, rule in [
        ("npj", "probe an index"),
        ("shj_jm", "tables have all their rows from the start"),
    ]:
        for call in (sjs.join, sjs.explain):
            with pytest.raises(StreamJoinError, match=rule):
                call(frame, frame, "l.k = r.k", TUMBLING, "t", algorithm=algorithm)


def test_explain_tells_what_joins_windows_that_close(session, tmp_path):
    streams = Streams(session, tmp_path)
    streams.add(*map(table, make_batches(1)[0]))
    left, right = streams.read()
    told = sjs.explain(left, right, "l.k = r.k", TUMBLING, "t", emit="auto", optimize="latency")
    assert "nothing: rows of one window are joined as they arrive, or all at once" in told
    assert "auto: for latency, by the last window that closed" in told
    assert "results      as rows arrive or when a window closes, decided when it opens" in told
    told = sjs.explain(left, right, "l.x <= r.x", TUMBLING, "t", emit="auto")
    assert "results      as rows arrive" in told
    knobs = {"algorithm": "pmj_jb", "tuning": {"delta": 20}}
    told = sjs.explain(left, right, "l.k = r.k", TUMBLING, "t", **knobs)
    assert "tuning       delta = 20" in told
    frame = session.createDataFrame(table(flat(make_batches(8, count=1))[0]))
    told = sjs.explain(frame, frame, "l.k = r.k", TUMBLING, "t")
    assert "index        a hash of l.k = r.k" in told
    assert "results" not in told


def test_what_does_not_fit(session, tmp_path):
    streams = Streams(session, tmp_path)
    streams.add(*map(table, make_batches(1)[0]))
    for message, join in [
        ("routing='range' does not fit", {"on": "l.k = r.k", "routing": "range"}),
        ("routing='hash' does not fit", {"on": "l.x < r.x", "routing": "hash"}),
        ("emit='now' does not exist", {"on": "l.k = r.k", "emit": "now"}),
        (
            "one thread has no groups, so leave it out",
            {"on": "l.k = r.k", "algorithm": "shj_jb", "tuning": {"group": 2}},
        ),
    ]:
        with pytest.raises(StreamJoinError, match=message):
            streams.join(window=TUMBLING, time="t", **join)
    with pytest.raises(StreamJoinError, match="any row can belong to any session"):
        streams.join("l.x < r.x", window=SESSION, time="t", cores=2)
