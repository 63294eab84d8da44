"""Every kind of table join without Spark: no routing, core count or cut changes what is given."""

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.errors import StreamJoinError
from streamjoin.plans.plan import SIDES
from streamjoin.spark import tables
from streamjoin.spark.routing import exchange
from streamjoin.spark.routing import table as routing_table
from tests.joins.outcomes.kept import DISTANCES
from tests.joins.small_streams import (
    CONDITIONS,
    SCHEMA,
    conditions,
    duckdb_pairs,
    many_rows,
    streams,
    table,
)
from tests.oracle import join_by_time
from tests.spark.in_process import join_tables, make_join
from tests.spark.kinds import HOW, ids_of, kind_of

examples = settings(max_examples=100)
everyhow = st.sampled_from(HOW)
routings = st.sampled_from(["auto", "hash", "range", "range", "split"])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let cores store few rows in one index, in tasks that send several parcels."""
    monkeypatch.setattr(tables, "PORTION_BYTES", 400)
    monkeypatch.setattr(tables, "CORE_ROWS", 20)
    monkeypatch.setattr(exchange, "ROUND_ROWS", 5)


def spread(on, routing, **options):
    make = partial(make_join, on, SCHEMA, tables=True, **options)
    try:
        make(1, routing)
    except StreamJoinError:
        routing = "auto"
    return lambda cores: make(cores, routing)


def check(make, left, right, cores, seed, pairs, how):
    """Join, and compare with what the pairs say."""
    found = join_tables(make, table(left), table(right), cores, seed)
    ids = [{row["id"] for row in rows} for rows in (left, right)]
    assert ids_of(found) == kind_of(pairs.elements(), *ids, how)
    return found


@examples
@given(streams(), conditions, everyhow, routings, st.integers(1, 5), st.integers(0, 999))
def test_tables_have_duckdbs_answer(sides, name, how, routing, cores, seed):
    on = CONDITIONS[name][0]
    pairs = duckdb_pairs(on, *sides)
    check(spread(on, routing, how=how), *sides, cores, seed, pairs, how)


@examples
@given(
    streams(),
    conditions,
    everyhow,
    routings,
    st.integers(0, 8),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(0, 999),
)
def test_time_windows(sides, name, how, routing, before, after, cores, seed):
    on, predicate = CONDITIONS[name]
    window = sj.TimeWindow(before=before, after=after)
    make = spread(on, routing, how=how, window=window, time="t")
    check(make, *sides, cores, seed, join_by_time(*sides, predicate, before, after), how)


@examples
@given(streams(), conditions, everyhow, routings, st.integers(1, 5), st.integers(0, 999))
def test_tumbling_windows(sides, name, how, routing, cores, seed):
    on = CONDITIONS[name][0]
    make = spread(on, routing, how=how, window=sj.TumblingWindow("7 ms"), time="t")
    pairs = duckdb_pairs(f"({on}) and l.t // 7 = r.t // 7", *sides)
    check(make, *sides, cores, seed, pairs, how)


@examples
@given(streams(), conditions, everyhow, routings, st.integers(1, 5), st.integers(0, 999))
def test_sessions_give_what_they_give_in_process(sides, name, how, routing, cores, seed):
    on, (left, right) = CONDITIONS[name][0], map(table, sides)
    options = {"window": sj.SessionWindow("2 ms"), "time": "t"}
    make = spread(on, routing, how=how, **options)
    inner = sj.join_tables(left, right, on, **options)
    check(make, *sides, cores, seed, ids_of(inner), how)


@examples
@given(
    streams(),
    st.sampled_from(sorted(DISTANCES)),
    everyhow,
    st.sampled_from(["nearest", "first", "last"]),
    st.integers(1, 3),
    routings,
    st.integers(1, 5),
    st.integers(0, 999),
)
def test_what_is_kept_is_what_is_kept_in_process(sides, name, how, keep, k, routing, cores, seed):
    on = CONDITIONS[name][0]
    nearest = {"nearest": DISTANCES[name][0]} if keep == "nearest" else {}
    options = {"how": how, "keep": keep, "k": k, "time": "t", **nearest}
    found = join_tables(spread(on, routing, **options), *map(table, sides), cores, seed)
    assert ids_of(found) == ids_of(sj.join_tables(*map(table, sides), on, **options))


WINDOWS = [
    {},
    {"window": sj.TimeWindow(before=5, after=2)},
    {"window": sj.TumblingWindow("7 ms")},
    {"window": sj.SessionWindow("2 ms")},
]
AGGREGATES = {
    "n": "count(*)",
    "few": "count(r.a)",
    "most": "max(r.x)",
    "sum": "sum(r.b)",
    "both": "sum(l.a * r.b)",
    "first": "first(r.id)",
    "mean": "avg(r.b)",
}


@examples
@given(
    streams(),
    conditions,
    st.sampled_from(["inner", "left"]),
    st.sampled_from(WINDOWS),
    routings,
    st.integers(1, 5),
    st.integers(0, 999),
)
def test_aggregates_are_those_in_process(sides, name, how, window, routing, cores, seed):
    on, options = CONDITIONS[name][0], {"how": how, "time": "t", "aggregate": AGGREGATES, **window}
    found = join_tables(spread(on, routing, **options), *map(table, sides), cores, seed)
    expected = sj.join_tables(*map(table, sides), on, **options)
    assert found.schema.names == expected.schema.names
    rows = [Counter(map(repr, each.to_pylist())) for each in (found, expected)]
    assert rows[0] == rows[1]


@examples
@given(
    streams(),
    st.sampled_from(sorted(DISTANCES)),
    everyhow,
    st.sampled_from(WINDOWS[1:]),
    st.sampled_from(["nearest", "first", "last"]),
    st.integers(1, 4),
    st.integers(0, 999),
)
def test_what_is_kept_in_windows(sides, name, how, window, keep, cores, seed):
    on = CONDITIONS[name][0]
    nearest = {"nearest": DISTANCES[name][0]} if keep == "nearest" else {}
    options = {"how": how, "keep": keep, "time": "t", **nearest, **window}
    found = join_tables(spread(on, "auto", **options), *map(table, sides), cores, seed)
    assert ids_of(found) == ids_of(sj.join_tables(*map(table, sides), on, **options))


@pytest.mark.parametrize("heavy", [0.0, 0.5])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "on", ["l.k = r.k", "abs(l.a - r.a) <= 1", "l.a < r.b", "l.s || r.s = 'a'"]
)
def test_keys_that_belong_to_all_cores(on, how, heavy, monkeypatch):
    """A few keys are so frequent that their rows are dealt out."""
    monkeypatch.setattr(routing_table, "HEAVY_SHARE", heavy)
    sides = [many_rows(Random(seed), 90) for seed in (1, 2)]
    for first, rows in zip((0, 1000), sides, strict=True):
        for place, row in enumerate(rows):
            row["id"] = first + place
    algorithm = "scan" if "||" in on else "auto"
    for cores in (1, 3, 4):
        make = spread(on, "auto", how=how, algorithm=algorithm)
        check(make, *sides, cores, cores, duckdb_pairs(on, *sides), how)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("empty", ["left", "right", "both"])
def test_empty_tables(how, empty):
    rows = [{**dict.fromkeys(SCHEMA.names), "id": 1, "k": 1}]
    sides = [[] if empty in (side, "both") else rows for side in SIDES]
    for cores in (1, 2):
        check(spread("l.k = r.k", "auto", how=how), *sides, cores, 1, Counter(), how)


def test_the_indicator_tells_pairs_from_rows_alone():
    rows = [{**dict.fromkeys(SCHEMA.names), "id": each, "k": each} for each in range(4)]
    make = spread("l.k = r.k", "auto", how="full", indicator=True)
    found = join_tables(make, table(rows[:3]), table(rows[1:]), 3)
    assert found.schema.names[-1] == "_match"
    told = {(row["id"], row["id_right"]): row["_match"] for row in found.to_pylist()}
    assert told == {
        (0, None): "left_only",
        (1, 1): "both",
        (2, 2): "both",
        (None, 3): "right_only",
    }


def test_columns_behind_those_of_the_user_are_not_given():
    for how in HOW:
        make = spread("l.k = r.k", "auto", how=how)
        hidden = {"columns": (("id", "s"), ("id",))}
        rows = [{**dict.fromkeys(SCHEMA.names), "id": each, "k": each} for each in range(4)]
        found = join_tables(
            lambda cores, make=make, hidden=hidden: replace(make(cores), **hidden),
            table(rows[:3]),
            table(rows[1:]),
            2,
        )
        names = {"left": ["id", "s"], "right": ["id"]}
        side = how.split("_")[0] if "_" in how else None
        assert found.schema.names == (names[side] if side else ["id", "s", "id_right"])
