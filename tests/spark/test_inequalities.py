"""Joins on two inequalities on Spark: SPO-Join's Q1 and Q3, with ties, against DuckDB.

Arrival is a matter of numbers here: a row has its place in its stream, which is its id, and the
number of rows of the other stream that came before it (``met``). In a micro-batch left comes first::

    batch        0                1                  CountWindow(2)
    left         0  1  2          3  4               left 3 has met 2: it may join right 0 and 1
    right                 0  1          2  3         right 2 has met 5: it may join left 3 and 4

So which pairs may be joined can be read off a joined row. A pair further apart is a false positive:
a row that had left the window, and was still found.
"""

from collections import Counter
from itertools import cycle

import numpy as np
import pyarrow as pa
import pytest

from spark.answers import duckdb_pairs, within
from spark.running import Streams, finish, metrics, pairs, total
from streamjoin import CountWindow, TimeWindow
from streamjoin import spark as sjs
from streamjoin.advisor import ALGORITHMS

pytestmark = pytest.mark.spark

SECOND = 1_000_000
Q1 = "l.power < r.power and l.cool > r.cool"
Q3 = "l.distance > r.distance and l.fare < r.fare"
# Windows are small here, where `auto` may choose another structure than for large ones.
STRUCTURES = [name for name in ("auto", "spo_join") if name in ("auto", *ALGORITHMS)]


def ties(rng, rows):
    """Return columns of five values each, some of them NULL."""
    columns = {}
    for name in ("power", "cool", "distance", "fare"):
        values = rng.integers(0, 5, rows) / 2
        columns[name] = pa.array(values, pa.float64(), mask=rng.random(rows) < 0.05)
    return columns


def racks(rng, rows):
    """Return cooling that follows power, so that few rows match, and two columns where many do."""
    power = rng.integers(0, 100_000, rows)
    cool = power + rng.integers(-40, 40, rows)
    return {"power": power, "cool": cool, "x": rng.integers(0, 5, rows), "y": rng.random(rows)}


def write(session, folder, draw, sizes, delay=None, seed=1):
    """Write micro-batches of these sizes; return the streams, and all rows of each side."""
    streams, sides = Streams(session, folder, delay), ([], [])
    rng, came = np.random.default_rng(seed), [0, 0]
    for batch, counts in enumerate(sizes):
        for side, count in enumerate(counts):
            times = (1000 + 5 * batch) * SECOND + rng.integers(0, 5, count) * SECOND
            columns = {
                "id": np.arange(came[side], came[side] + count),
                "met": np.full(count, came[1 - side]),
                "t": pa.array(times, pa.timestamp("us", "UTC")),
                **draw(rng, count),
            }
            sides[side].append(pa.table(columns))
            came[side] += count  # right has met the left rows of its batch
        streams.add(sides[0][-1], sides[1][-1])
    return streams, *map(pa.concat_tables, sides)


def counted(left, right, on, window):
    """Return the pairs of a count window: either the left row came later, or the right one."""
    meetings = (
        f"r.id between l.met - {window.right} and l.met - 1",
        f"l.id between r.met - {window.left} and r.met - 1",
    )
    found = (duckdb_pairs(left, right, f"{on} and {meeting}") for meeting in meetings)
    return sum(found, Counter())


def false_positives(joined, window):
    """Return joined rows that were not in each other's window when the later one came."""
    return joined.where(
        f"not (id_right between met - {window.right} and met - 1)"
        f" and not (id between met_right - {window.left} and met_right - 1)"
    ).collect()


def run(streams, joins):
    """Run joins side by side, in the structures in turn; return each with its rows and metrics."""
    queries = [
        streams.start(streams.join(**{"algorithm": structure, **join}))
        for join, structure in zip(joins, cycle(STRUCTURES), strict=False)
    ]
    finish(*queries)
    rows = [streams.session.table(query.name) for query in queries]
    return list(zip(joins, rows, map(metrics, queries), strict=True))


def test_q1_in_count_windows(session, tmp_path):
    sizes = [(40, 60), (70, 0), (50, 45)]
    streams, left, right = write(session, tmp_path, ties, sizes)
    joins = [
        {"on": Q1, "window": CountWindow(7)},
        {"on": "l.power <= r.power and l.cool >= r.cool", "window": CountWindow(left=30, right=999)},
        {"on": "l.power >= r.power and l.cool > r.cool", "window": CountWindow(90), "cores": 2},
        {"on": "l.power < r.power and l.cool <= r.cool", "window": CountWindow(90)},
    ]
    for join, rows, told in run(streams, joins):
        expected = counted(left, right, join["on"], join["window"])
        assert pairs(rows) == expected, join
        assert total(told, "matches") == expected.total() > 100


def test_q1_in_time_windows(session, tmp_path):
    sizes, window = [(50, 60), (40, 0), (45, 50)], TimeWindow(before="4 seconds", after="2 seconds")
    streams, left, right = write(session, tmp_path, ties, sizes, delay="2 seconds")
    conditions = [Q1, "l.power <= r.power and l.cool > r.cool"]
    joins = [{"on": on, "window": window, "time": "t"} for on in conditions]
    for join, rows, told in run(streams, joins):
        expected = duckdb_pairs(left, right, f"{join['on']} and {within(window)}")
        assert pairs(rows) == expected, join
        assert total(told, "matches") == expected.total() > 100
        assert total(told, "late") == 0


def test_q3_joins_a_stream_with_itself(session, tmp_path):
    streams, left, _ = write(session, tmp_path, ties, [(60, 0), (50, 0), (40, 0)])
    trips = streams.read()[0]
    place = left["id"].to_numpy()
    first, size = np.array([0, 60, 110])[[0] * 60 + [1] * 50 + [2] * 40], np.array([60, 50, 40])
    after = first + size[np.searchsorted([60, 110], place, "right")]
    sides = [
        left.set_column(left.schema.get_field_index("met"), "met", pa.array(met))
        for met in (first, after)
    ]
    joins = [
        (Q3, CountWindow(25)),
        ("l.distance >= r.distance and l.fare <= r.fare", CountWindow(100)),
    ]
    queries = [
        streams.start(sjs.join(trips, trips, on=on, window=window, algorithm=STRUCTURES[-1]))
        for on, window in joins
    ]
    finish(*queries)
    for query, (on, window) in zip(queries, joins, strict=True):
        found = pairs(session.table(query.name))
        assert found == counted(*sides, on, window), on
        is_strict = "=" not in on
        assert any(one == other for one, other in found) != is_strict  # a row meets itself


@pytest.mark.parametrize("structure", STRUCTURES)
def test_rows_that_have_left_the_window_are_not_found(session, tmp_path, structure):
    sizes = [(4_000, 3_500), (2_000, 4_500), (4_200, 10), (3_000, 3_000)]
    streams, left, right = write(session, tmp_path, racks, sizes)
    joins = [
        {"on": "l.x < r.x and l.y > r.y", "window": CountWindow(9), "cores": 3},
        {"on": Q1, "window": CountWindow(left=7_000, right=9_000), "cores": 3},
    ]
    for join, rows, told in run(streams, [{**join, "algorithm": structure} for join in joins]):
        window = join["window"]
        assert not false_positives(rows, window), join
        expected = counted(left, right, join["on"], window)
        assert pairs(rows) == expected, join
        assert expected.total() > 10_000
        largest = max(left.num_rows, right.num_rows)
        assert told[-1]["live_rows"] < min(window.left + window.right, largest) + 2 * 4_500


def test_tables(session):
    rng = np.random.default_rng(3)
    tables = [pa.table({"id": np.arange(rows), **ties(rng, rows)}) for rows in (90, 70)]
    frames = [session.createDataFrame(table) for table in tables]
    conditions = [
        Q3,
        "l.distance >= r.distance and l.fare < r.fare",
        "l.distance >= r.distance and l.fare <= r.fare",
        "l.distance < r.distance and l.fare < r.fare",
    ]
    for on, structure in zip(conditions, cycle(STRUCTURES), strict=False):
        joined = sjs.join(*frames, on=on, algorithm=structure, cores=3)
        assert pairs(joined) == duckdb_pairs(*tables, on), on
