"""Table joins without Spark: every routing, core count and cut gives the oracle's pairs."""

from collections import Counter
from functools import partial
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.errors import StreamJoinError
from streamjoin.indexes.catalogue import ONE_KEY, TWO_KEYS
from streamjoin.spark import tables
from streamjoin.spark.routing import exchange
from tests.joins.small_streams import (
    CONDITIONS,
    SCHEMA,
    conditions,
    duckdb_pairs,
    fitting,
    many_rows,
    pairs,
    streams,
    table,
)
from tests.oracle import join_by_time
from tests.spark.in_process import join_parcels, join_tables, make_join, pack_tables

random = settings(max_examples=60)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let cores store few rows in one index, in tasks that send several parcels."""
    monkeypatch.setattr(tables, "PORTION_BYTES", 400)
    monkeypatch.setattr(exchange, "ROUND_ROWS", 5)


def spread(name, routing, algorithm, **window):
    """Return the join as a function of the number of cores; a routing that does not fit is left."""
    make = partial(
        make_join, CONDITIONS[name][0], SCHEMA, tables=True, algorithm=algorithm, **window
    )
    try:
        make(1, routing)
    except StreamJoinError:
        routing = "auto"
    return lambda cores: make(cores, routing)


@random
@given(
    sides=streams(),
    name=conditions,
    routing=st.sampled_from(["auto", "hash", "range", "range", "split"]),
    algorithm=st.sampled_from(sorted([*ONE_KEY, *TWO_KEYS])),
    cores=st.integers(1, 5),
    seed=st.integers(0, 999),
)
def test_tables_have_duckdbs_answer(sides, name, routing, algorithm, cores, seed):
    left, right = sides
    name = fitting(name, algorithm)
    join = spread(name, routing, algorithm)
    found = pairs(join_tables(join, table(left), table(right), cores, seed))
    event(join(cores).routing)
    assert found == duckdb_pairs(CONDITIONS[name][0], left, right)


@random
@given(
    sides=streams(),
    name=conditions,
    routing=st.sampled_from(["auto", "hash", "range", "range", "split"]),
    before=st.integers(0, 8),
    after=st.integers(1, 8),
    cores=st.integers(1, 5),
    seed=st.integers(0, 999),
)
def test_time_windows_have_the_oracles_answer(sides, name, routing, before, after, cores, seed):
    left, right = sides
    window = sj.TimeWindow(before=before, after=after)
    join = spread(name, routing, "auto", window=window, time="t")
    found = pairs(join_tables(join, table(left), table(right), cores, seed))
    assert found == join_by_time(left, right, CONDITIONS[name][1], before, after)


def numbered(rows):
    return table([{**row, "id": place} for place, row in enumerate(rows)])


@pytest.mark.parametrize("on", ["l.k = r.k", "abs(l.a - r.a) <= 1", "l.a < r.b"])
@pytest.mark.parametrize("cores", [1, 3])
def test_parcels_in_another_order_are_refused_or_do_not_matter(on, cores, monkeypatch):
    """An engine may drop the sort below `mapInArrow`: no order gives other pairs."""
    monkeypatch.setattr(exchange, "ROUND_ROWS", 8)
    dice = Random(2)
    rows = [numbered(many_rows(dice, 60)), numbered(many_rows(dice, 90))]
    placement, spec, sent = pack_tables(partial(make_join, on, SCHEMA, tables=True), *rows, cores)
    expected, refused = pairs(join_parcels(placement, spec, sent)), 0
    assert expected
    for _ in range(60):
        shuffled = list(sent)
        for _ in range(dice.choice([1, 2, 200])):
            one, two = (dice.randrange(len(sent)) for _ in range(2))
            shuffled[one], shuffled[two] = shuffled[two], shuffled[one]
        places = [(row["core"], row["role"]) for row in shuffled]
        if places == sorted(places):
            assert pairs(join_parcels(placement, spec, shuffled)) == expected
            continue
        refused += 1
        with pytest.raises(StreamJoinError, match="does not keep the order of sortWithinPartit"):
            join_parcels(placement, spec, shuffled)
    assert 0 < refused < 60


def test_parcels_of_the_wrong_side_are_refused():
    rows = numbered(many_rows(Random(2), 20))
    make = partial(make_join, "l.k = r.k", SCHEMA, tables=True)
    placement, spec, sent = pack_tables(make, rows, rows, 1)
    with pytest.raises(StreamJoinError, match="does not keep the order"):
        join_parcels(placement, spec, [{**row, "side": 1 - row["side"]} for row in sent])


def test_extremes_of_keys():
    ends = [2**63 - 1, -(2**63), 2**63 - 2, 0, 1, -1]
    rows = [
        {"id": i, "a": end, "t": i, **dict.fromkeys(["k", "b", "s", "x", "o"])}
        for i, end in enumerate(ends * 3)
    ]
    for on in ("abs(l.a - r.a) <= 1", "l.a < r.a", "l.a = r.a", "l.a <> r.a"):
        for cores in (1, 3, 5):
            make = partial(make_join, on, SCHEMA, tables=True)
            found = pairs(join_tables(make, table(rows), table(rows), cores))
            compare = {
                "abs(l.a - r.a) <= 1": lambda one, two: abs(one - two) <= 1,
                "l.a < r.a": int.__lt__,
                "l.a = r.a": int.__eq__,
                "l.a <> r.a": int.__ne__,
            }[on]
            assert found == Counter(
                (one["id"], two["id"])
                for one in rows
                for two in rows
                if compare(one["a"], two["a"])
            ), (on, cores)
