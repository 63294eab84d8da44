"""Windows of many rows: more than one step, chunk or partition of any algorithm; against DuckDB."""

from functools import cache
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.indexes.catalogue import EAGER, LAZY

ROWS = 150_000
WINDOW = 100_000
TUMBLING = f"""
    select count(*), sum(l.id::hugeint * 7 + r.id * 13) from l join r
    on l.k = r.k and l.t // {WINDOW} = r.t // {WINDOW}
"""
SESSIONS = """
    with every as (select 0 as side, * from l union all select 1, * from r),
    cut as (select *, t - lag(t) over (partition by k order by t) > 40 as starts from every),
    numbered as (
        select *, sum(coalesce(starts, true)::int) over
            (partition by k order by t rows between unbounded preceding and current row) as session
        from cut
    )
    select count(*), sum(l.id::hugeint * 7 + r.id * 13)
    from numbered l join numbered r on l.k = r.k and l.session = r.session
    where l.side = 0 and r.side = 1
"""


def stream(seed):
    """Times go on, a little out of order; keys from -2**63 on, some of them frequent."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(ROWS) < 0.01, 3, rng.integers(0, ROWS // 3, ROWS))
    times = np.sort(rng.integers(0, 3 * WINDOW, ROWS)) + rng.integers(0, 50, ROWS)
    return pa.table({"id": np.arange(ROWS), "k": keys * 2**40 - 2**62, "t": times})


LEFT, RIGHT = stream(1), stream(2)


@cache
def asked(sql):
    with duckdb.connect() as connection:
        connection.register("l", LEFT)
        connection.register("r", RIGHT)
        return tuple(map(int, connection.sql(sql).fetchall()[0]))


def summed(join, cuts):
    """The number of matches, and a sum over all pairs of ids."""
    count, total = 0, 0
    for first, last in pairwise(cuts):
        found = [join.push(*(each.slice(first, last - first) for each in (LEFT, RIGHT)))]
        if last == cuts[-1]:
            found.append(join.finish())
        for each in found:
            count += each.num_rows
            total += int((each["id"].to_numpy() * 7 + each["id_right"].to_numpy() * 13).sum())
    return count, total


@pytest.mark.parametrize("algorithm", ["auto", *LAZY, *EAGER])
def test_tumbling_windows(algorithm):
    options = {"algorithm": algorithm, "threads": 3, "delay": 100}
    join = sj.StreamJoin("l.k = r.k", sj.TumblingWindow(WINDOW), "t", **options)
    assert summed(join, [0, 10, 140_000, ROWS]) == asked(TUMBLING)
    assert join.stats.late == 0


@pytest.mark.parametrize("emit", ["close", "eager"])
def test_sessions(emit):
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow(40), "t", emit=emit, delay=100, threads=2)
    found = summed(join, [0, 10, 70_000, ROWS])
    assert found == asked(SESSIONS)
    assert found[0] > 100
    assert join.stats.late == 0
