"""Joins on two inequalities on Spark: SPO-Join's Q1 and Q3, with ties, against DuckDB.

Arrival is a matter of numbers here: a row has its place in its stream, which is its id, and the
number of rows of the other stream that came before it (``met``). In a batch, left comes first::

    batch        0                1                  CountWindow(2)
    left         0  1  2          3  4               left 3 has met 2: it may join right 0 and 1
    right                 0  1          2  3         right 2 has met 5: it may join left 3 and 4

So which pairs may be joined can be read off a joined row. A pair further apart is a false positive:
a row that had left the window, and was still found.

Spark takes seconds for a query, so all operators, windows and numbers of cores are tried out
on cores without Spark (`in_process`), whose tasks fail now and then.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from streamjoin import CountWindow
from streamjoin import spark as sjs
from tests.spark.answers import duckdb_pairs
from tests.spark.in_process import Cluster, Luck, make_join
from tests.spark.streams.running import Streams, finish, metrics

pytestmark = pytest.mark.spark

SECOND = 1_000_000
Q1 = "l.power < r.power and l.cool > r.cool"
Q3 = "l.distance > r.distance and l.fare < r.fare"
STRUCTURES = ("auto", "spo_join")  # windows are small here, where `auto` may choose another one
OPERATORS = [("<", ">"), ("<=", ">="), ("<", ">="), ("<=", ">"), ("<", "<"), (">=", ">=")]


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
    few = {name: rng.integers(0, 5, rows) for name in "xy"}
    return {"power": power, "cool": cool, **few}


def make_batches(draw, sizes, seed=1):
    """Return the (left, right) tables of micro-batches of these sizes."""
    rng, came, batches = np.random.default_rng(seed), [0, 0], []
    for batch, counts in enumerate(sizes):
        tables = []
        for side, count in enumerate(counts):
            times = (1000 + 5 * batch) * SECOND + rng.integers(0, 5, count) * SECOND
            columns = {
                "id": np.arange(came[side], came[side] + count),
                "met": np.full(count, came[1 - side]),
                "t": pa.array(times, pa.timestamp("us", "UTC")),
                **draw(rng, count),
            }
            tables.append(pa.table(columns))
            came[side] += count  # so right has met the left rows of its batch
        batches.append(tuple(tables))
    return batches


def whole(batches):
    """Return all rows of each side."""
    return [pa.concat_tables(tables) for tables in zip(*batches, strict=True)]


def write(session, folder, batches, delay=None):
    """Write micro-batches as files."""
    streams = Streams(session, folder, delay)
    for batch in batches:
        streams.add(*batch)
    return streams


def counted(left, right, on, window):
    """Return the pairs of a count window: either the left row came later, or the right one."""
    meetings = (
        f"r.id between l.met - {window.right} and l.met - 1",
        f"l.id between r.met - {window.left} and r.met - 1",
    )
    found = (duckdb_pairs(left, right, f"{on} and {meeting}") for meeting in meetings)
    return sum(found, Counter())


def false_positives(rows, window):
    """Return joined rows that were not in each other's window when the later one came."""
    left, met, right, met_right = (
        rows[name].to_numpy() for name in ("id", "met", "id_right", "met_right")
    )
    by_left = (right >= met - window.right) & (right < met)
    by_right = (left >= met_right - window.left) & (left < met_right)
    return rows.filter(pa.array(~by_left & ~by_right)).to_pylist()


def pairs_of(rows):
    """Return the ids of joined rows."""
    return Counter(zip(rows["id"].to_pylist(), rows["id_right"].to_pylist(), strict=True))


def run(streams, joins):
    """Run joins side by side; return the rows and the metrics of each."""
    queries = [streams.start(join) for join in joins]
    finish(*queries)
    return [(streams.session.table(query.name).toArrow(), metrics(query)) for query in queries]


def test_tables(session):
    rng = np.random.default_rng(3)
    tables = [pa.table({"id": np.arange(rows), **ties(rng, rows)}) for rows in (90, 70)]
    frames = [session.createDataFrame(table) for table in tables]
    conditions = [Q3, "l.distance >= r.distance and l.fare <= r.fare"]
    for on, structure in zip(conditions, STRUCTURES, strict=True):
        joined = sjs.join(*frames, on=on, algorithm=structure, cores=3)
        assert pairs_of(joined.toArrow()) == duckdb_pairs(*tables, on), on


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("operators", OPERATORS, ids=" ".join)
def test_every_operator_in_any_count_window(operators, structure, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    first, second = operators
    on = f"l.power {first} r.power and l.cool {second} r.cool"
    batches = make_batches(ties, [(30, 20), (5, 40), (0, 30), (40, 3), (20, 20)], seed=5)
    for number, sizes in enumerate([(500, 500), (25, 10), (3, 3)]):
        window = CountWindow(left=sizes[0], right=sizes[1])
        cores = number % 3 + 1
        join = make_join(on, batches[0][0].schema, cores, window=window, algorithm=structure)
        cluster = Cluster(join, Luck(), seed=number)
        rows = [rows for batch in batches for rows in cluster.batch(*batch)]
        joined = pa.Table.from_batches(rows, join.result_schema)
        assert false_positives(joined, window) == []
        assert pairs_of(joined) == counted(*whole(batches), on, window), (window, cores)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_high_rates_on_any_number_of_cores(structure, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    sizes = [(900, 800), (40, 1_000), (1_000, 0), (700, 700), (1_000, 1_000), (800, 900)]
    batches = make_batches(racks, sizes, seed=7)
    for size, cores, on in [(9, 4, "l.x < r.x and l.y > r.y"), (150, 2, Q1), (2_500, 3, Q1)]:
        window = CountWindow(size)
        join = make_join(on, batches[0][0].schema, cores, window=window, algorithm=structure)
        cluster = Cluster(join, Luck(), seed=size)
        rows = [rows for batch in batches for rows in cluster.batch(*batch)]
        joined = pa.Table.from_batches(rows, join.result_schema)
        assert false_positives(joined, window) == []
        assert pairs_of(joined) == counted(*whole(batches), on, window), (window, cores)
