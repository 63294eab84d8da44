"""SPO-Join's streams: several inequalities and bands at once, with ties, NULL, NaN and extremes.

Everything is tiny here, so that mutable parts are frozen, lists merged and subwindows sealed within
a few rows, and so that marks and scans both have their turn.
"""

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from math import inf, isnan, nan
from operator import ge, gt, le, lt, ne
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from oracle import Arrivals, join_by_count, join_by_time

import streamjoin as sj
from joins.small_streams import (
    EQUAL,
    NEAR_X,
    SAME_TEXT,
    both,
    check,
    compare,
    duckdb_pairs,
    known,
    pairs,
    push,
    run,
    steps_of,
    table,
)
from streamjoin.indexes import spo_join
from streamjoin.indexes.crossing import Crossing
from streamjoin.indexes.spo_join import SPOJoin
from streamjoin.joins import columns, manager, sizes
from streamjoin.joins.crossed_window import CrossedWindow
from streamjoin.kernels import MAX_KEY, MIN_KEY

random = settings(max_examples=20, suppress_health_check=list(HealthCheck))
OPERATORS = {"<": lt, "<=": le, ">": gt, ">=": ge, "<>": ne}
SPO = {"algorithm": "spo_join"}
threads = st.sampled_from([1, 2])


@pytest.fixture(autouse=True)
def tiny_parts(monkeypatch):
    for module, name, value in (
        (sizes, "FEW_ROWS", 4),
        (sizes, "LEAST_ROWS", 4),
        (sizes, "LARGE_BATCH", 8),
        (manager, "SLICE", 2),
        (columns, "FEW_ROWS", 8),
        (spo_join, "FEW_ROWS", 4),
        (spo_join, "FEW_PROBES", 3),
        (spo_join, "LARGE", 6),
        (SPOJoin.__init__, "__defaults__", (8, 1, 5)),
        (Crossing, "scans", property(lambda self: bool(self.places.size % 2))),
    ):
        monkeypatch.setattr(module, name, value)


# Conditions, in SQL and in Python.


def ordered(value):
    """A double in Spark's order: NaN equals itself and is the largest, and -0.0 is 0.0."""
    return (isnan(value), 0.0 if isnan(value) else value)


def test_of(left, sign, right):
    """A comparison of two columns, as Spark makes it."""

    def holds(one, other):
        if isinstance(one, float) or isinstance(other, float):
            one, other = ordered(one), ordered(other)
        return OPERATORS[sign](one, other)

    return compare(left, right, holds)


test_of.__test__ = False


NEAR_B = compare("b", "b", lambda one, other: abs(one - other) <= 1)
LESS_A, MORE_X = test_of("a", "<", "a"), test_of("x", ">", "x")

CONDITIONS = {
    "two": ("l.a < r.a and l.x > r.x", both(LESS_A, MORE_X)),
    "of other columns": (
        "l.a <= r.b and l.b >= r.a",
        both(test_of("a", "<=", "b"), test_of("b", ">=", "a")),
    ),
    "turned around": ("r.a > l.a and r.x < l.x", both(LESS_A, MORE_X)),
    "three": (
        "l.a <= r.a and l.x >= r.x and l.b <> r.b",
        both(test_of("a", "<=", "a"), test_of("x", ">=", "x"), test_of("b", "<>", "b")),
    ),
    "not equal twice": (
        "l.a <> r.a and l.x <> r.x",
        both(test_of("a", "<>", "a"), test_of("x", "<>", "x")),
    ),
    "two bands": ("abs(l.b - r.b) <= 1 and abs(l.x - r.x) <= 0.2", both(NEAR_B, NEAR_X)),
    "band and inequality": ("abs(l.b - r.b) <= 1 and l.x > r.x", both(NEAR_B, MORE_X)),
    "bands with or": (
        "(l.b - r.b between -3 and -2 or l.b - r.b = 0 or l.b - r.b > 2) and l.a < r.a",
        both(compare("b", "b", lambda a, b: a - b in (-3, -2, 0) or a - b > 2), LESS_A),
    ),
    "arithmetic": (
        "l.b * 2 >= r.b + r.k and l.b - l.k < r.b",
        lambda one, other: (
            known(one["b"], one["k"], other["b"], other["k"])
            and one["b"] * 2 >= other["b"] + other["k"]
            and one["b"] - one["k"] < other["b"]
        ),
    ),
    "equality": ("l.k = r.k and l.a < r.a and l.x > r.x", both(EQUAL, LESS_A, MORE_X)),
    "text": (
        "l.s = r.s and l.b <> r.b and l.x > r.x",
        both(SAME_TEXT, test_of("b", "<>", "b"), MORE_X),
    ),
    "two equalities": (
        "l.k = r.k and l.s = r.s and l.a <> r.a and l.x <> r.x",
        both(EQUAL, SAME_TEXT, test_of("a", "<>", "a"), test_of("x", "<>", "x")),
    ),
    "residual": (
        "l.a < r.a and l.x > r.x and l.b + r.b > 0",
        both(LESS_A, MORE_X, compare("b", "b", lambda a, b: a + b > 0)),
    ),
    "residual text": (
        "l.k = r.k and abs(l.b - r.b) <= 1 and l.x > r.x and l.s || r.s <> 'aa'",
        both(EQUAL, NEAR_B, MORE_X, compare("s", "s", lambda a, b: a + b != "aa")),
    ),
    "filters": (
        "l.a < r.a and l.x > r.x and l.b > 0 and r.s is not null",
        lambda a, b: LESS_A(a, b) and MORE_X(a, b) and known(a["b"], b["s"]) and a["b"] > 0,
    ),
}
conditions = st.sampled_from(sorted(CONDITIONS))
SYMMETRIC = ["not equal twice", "two bands"]

INTEGERS = [MIN_KEY, -1, 0, 1, MAX_KEY]
DOUBLES = [-inf, -0.0, 0.0, 0.2, 0.1 + 0.2, inf, nan]


VALUES = {
    "k": [None, *range(3), *range(3)],
    "s": [None, "", "a", "b", "a"],
    "a": [None, *INTEGERS, *INTEGERS],
    "b": [None, *range(-2, 3), *range(-2, 3)],
    "x": [None, *DOUBLES, *DOUBLES],
    "o": range(6),
}
TIMES = st.sampled_from([None, *range(20), *range(20), 10**9])
ROWS = st.fixed_dictionaries(
    {"t": TIMES} | {name: st.sampled_from(values) for name, values in VALUES.items()}
)


def many_rows(dice, size):
    """Rows whose times go on, but for some that come late and a few far ahead."""
    rows = []
    for place in range(dice.randint(size // 2, size)):
        late = dice.choice([0, 0, 0, 1, 2, dice.randint(0, 15)])
        times = [max(place // 2 - late, 0)] * 20 + [None, 10**9]
        row = {name: dice.choice(values) for name, values in VALUES.items()}
        rows.append({**row, "t": dice.choice(times)})
    return rows


@st.composite
def streams(draw, most=30, sides=(0, 1000)):
    """Lists of rows: some few that shrink well, most of them enough for chains of subwindows."""
    seed, chosen = draw(st.one_of(st.just(-1), *[st.integers(0, 10**6)] * 3)), []
    for first in sides:
        few = seed < 0
        rows = draw(st.lists(ROWS, max_size=most)) if few else many_rows(Random(seed + first), 80)
        chosen.append([{**row, "id": first + place} for place, row in enumerate(rows)])
    return chosen


def nested_loop(left, right, predicate):
    return Counter(
        (one["id"], other["id"]) for one in left for other in right if predicate(one, other)
    )


# Two operators, every combination.


OTHERS = {"t": 0, "k": 1, "s": "a", "b": 1, "o": 0}


def every_value(first):
    """Rows with every pair of values, some twice, in no order."""
    values = list(product([None, *INTEGERS, 0], [None, *DOUBLES, 0.2]))
    order = np.random.default_rng(first).permutation(len(values))
    return [
        {**OTHERS, "id": first + place, "a": values[each][0], "x": values[each][1]}
        for place, each in enumerate(order)
    ]


@pytest.mark.parametrize(("one", "other"), list(product(OPERATORS, OPERATORS)))
def test_every_two_operators(one, other):
    left, right = every_value(0), every_value(1000)
    text = f"l.a {one} r.a and l.x {other} r.x"
    predicate = both(test_of("a", one, "a"), test_of("x", other, "x"))
    expected = nested_loop(left, right, predicate)
    assert duckdb_pairs(text, left, right) == expected
    for count in (1, 2):
        found = sj.join_tables(table(left), table(right), on=text, threads=count, **SPO)
        assert pairs(found) == expected
    steps = [(left[:3], right[:40]), (left[3:7], []), (left[7:], right[40:])]
    join = sj.StreamJoin(text, sj.CountWindow(1000), threads=1, **SPO)
    assert run(join, steps)[0] == expected
    assert all(isinstance(held, CrossedWindow) for held in join._engine.chains["left"])
    join = sj.StreamJoin(text, sj.CountWindow(20), threads=2, **SPO)
    assert run(join, steps)[0] == join_by_count(steps, predicate, 20, 20)


@pytest.mark.parametrize("extreme", [MIN_KEY, MIN_KEY + 1, MAX_KEY - 1, MAX_KEY])
@pytest.mark.parametrize("sign", OPERATORS)
def test_integers_at_their_ends(sign, extreme):
    values = [extreme, max(extreme - 1, MIN_KEY), min(extreme + 1, MAX_KEY), 0]
    rows = [{"id": place, "a": value, "b": place % 2} for place, value in enumerate(values * 2)]
    predicate = both(test_of("a", sign, "a"), test_of("b", "<=", "b"))
    text = f"l.a {sign} r.a and l.b <= r.b"
    found = sj.join_tables(table(rows), table(rows), on=text, **SPO)
    assert pairs(found) == nested_loop(rows, rows, predicate)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-128, 0, 127]),
        (pa.uint32(), [0, 1, 2**32 - 1]),
        (pa.float32(), [-0.0, 0.1, nan]),
        (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.51")]),
        (pa.date32(), [date(1969, 1, 1), date(1970, 1, 1), date(2024, 2, 29)]),
        (pa.timestamp("ns"), [datetime(1969, 1, 1), datetime(1970, 1, 1), datetime(2024, 1, 1)]),
    ],
    ids=str,
)
def test_ranges_of_any_type(kind, values):
    every = list(product(range(3), range(3))) * 2
    v, w = (pa.array([values[each[side]] for each in every], kind) for side in (0, 1))
    rows = pa.table({"id": range(len(every)), "v": v, "w": w})
    for sign, other in product(OPERATORS, ["<=", "<>"]):
        found = sj.join_tables(rows, rows, on=f"l.v {sign} r.v and l.w {other} r.w", **SPO)
        expected = Counter(
            (i, j)
            for (i, one), (j, two) in product(enumerate(every), repeat=2)
            if OPERATORS[sign](one[0], two[0]) and OPERATORS[other](one[1], two[1])
        )
        assert pairs(found) == expected


@pytest.mark.parametrize("wide", [1.1, 2.0**50 + 1, 1e300, 2**50 + 1, MAX_KEY - 4], ids=repr)
def test_rounded_composite_ranges_find_a_pair_once(wide):
    # Behind the hash of an equality, keys are rounded, and two ranges of a part may meet in one.
    near = wide + 3 if isinstance(wide, int) else wide * (1 + 2**-52)
    values = [wide, near, wide, 0 * wide]
    rows = pa.table({"id": range(4), "k": [1] * 4, "x": values, "y": values[::-1]})
    for signs in product(["<>", "<", ">="], repeat=2):
        text = "l.k = r.k and l.x {} r.x and l.y {} r.y".format(*signs)
        predicate = both(test_of("x", signs[0], "x"), test_of("y", signs[1], "y"))
        expected = nested_loop(rows.to_pylist(), rows.to_pylist(), predicate)
        assert pairs(sj.join_tables(rows, rows, on=text, **SPO)) == expected


# Any condition, in any window.


@random
@given(sides=streams(), name=conditions, count=threads)
def test_tables(sides, name, count):
    text, predicate = CONDITIONS[name]
    found = sj.join_tables(*map(table, sides), on=text, threads=count, **SPO)
    assert pairs(found) == nested_loop(*sides, predicate) == duckdb_pairs(text, *sides)
    window = sj.TimeWindow(before=2, after=5)
    found = sj.join_tables(*map(table, sides), on=text, window=window, time="t", **SPO)
    assert pairs(found) == join_by_time(*sides, predicate, 2, 5)


@settings(random, max_examples=40)
@given(
    data=st.data(),
    sides=streams(),
    name=st.sampled_from([*sorted(CONDITIONS), "one"]),
    before=st.integers(0, 8),
    count=threads,
)
def test_time_windows_and_watermarks(data, sides, name, before, count):
    one = ("l.a < r.a", LESS_A)  # the window is the other range
    text, predicate = CONDITIONS.get(name, one)
    window = sj.TimeWindow(before=before, after=4)
    join = sj.StreamJoin(text, window, time="t", threads=count, **SPO)
    found, watermark, late, kept = Counter(), -1, 0, ([], [])
    for step in data.draw(steps_of(*sides)):
        act = data.draw(st.sampled_from(["push", "push", "save", "advance"]))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        found += push(join, *step)
        for rows, side in zip(step, kept, strict=True):
            on_time = [row for row in rows if row["t"] is None or row["t"] >= watermark]
            side += on_time
            late += len(rows) - len(on_time)
        if act == "advance":
            moved = data.draw(st.integers(0, 30))
            join.advance(moved)
            check(join)
            watermark = max(watermark, moved)
    assert found == join_by_time(*kept, predicate, before, 4)
    if join._engine is not None:
        held = join._engine.chains["left"].subwindows
        event(f"subwindows: {min(len(held), 5)}")
        event(f"side index: {any(each.side is not None for each in held)}")
        assert all(isinstance(each, CrossedWindow) for each in held)
        assert (join.stats.late, join.stats.matches) == (late, found.total())


@settings(random, max_examples=40)
@given(
    data=st.data(),
    sides=streams(),
    name=conditions,
    window=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
    count=threads,
)
def test_count_windows(data, sides, name, window, order, count):
    text, predicate = CONDITIONS[name]
    counted = sj.CountWindow(left=window[0], right=window[1])
    join = sj.StreamJoin(text, counted, order=order, threads=count, **SPO)
    steps = data.draw(steps_of(*sides))
    saves = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    found, _ = run(join, steps, saves)
    assert found == join_by_count(steps, predicate, *window, order)


@random
@given(
    data=st.data(),
    rows=streams(sides=(0,)),
    name=st.sampled_from([*sorted(CONDITIONS), *SYMMETRIC * 3]),
    size=st.sampled_from([None, 1, 4, 11]),
    count=threads,
)
def test_a_stream_with_itself(data, rows, name, size, count):
    [rows], (text, predicate) = rows, CONDITIONS[name]
    window = sj.TimeWindow(3) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(text, window, time=time, threads=count, **SPO)
    found, rest, steps = Counter(), list(rows), []
    while rest:
        cut = data.draw(st.sampled_from([1, 7, 20, 40]))
        steps.append((rest[:cut], rest[:cut]))
        batch, rest = table(rest[:cut]), rest[cut:]
        found += pairs(join.push(left=batch, right=batch))
        check(join)
        if data.draw(st.integers(0, 3)) == 0:
            join = sj.StreamJoin.restore(join.snapshot())
    if size is None:
        assert found == join_by_time(rows, rows, predicate, 3, 3)
    else:
        assert found == join_by_count(steps, predicate, size, size)


def in_sequence(result):
    if "id_right" not in result.schema.names:
        return []
    return list(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))


@settings(random, max_examples=20)
@given(
    data=st.data(),
    sides=streams(),
    name=conditions,
    size=st.sampled_from([None, 1, 4, 11]),
    cores=st.sampled_from([1, 2, 3]),
    ordering=st.sampled_from(["none", "outer", "inner", 2]),
    streamed=st.booleans(),
)
def test_cores_and_the_order_of_results(data, sides, name, size, cores, ordering, streamed):
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(3) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(text, window, time=time, cores=cores, ordered=ordering, threads=2, **SPO)
    steps = data.draw(steps_of(*sides))
    found = []
    for number, (left, right) in enumerate(steps):
        if streamed and number == 2:
            source = [(table(left), table(right)) for left, right in steps[2:]]
            found += [pair for piece in join.stream(source) for pair in in_sequence(piece.rows)]
            break
        if number % 4 == 1:
            join = sj.StreamJoin.restore(join.snapshot())
        found += in_sequence(join.push(table(left), table(right)))
        check(join)
    if size is None:
        assert Counter(found) == join_by_time(*sides, predicate, 3, 3)
    else:
        assert Counter(found) == join_by_count(steps, predicate, size, size)
    Arrivals(steps).check(found, ordering)


@settings(random, max_examples=20)
@given(
    data=st.data(),
    sides=streams(),
    name=conditions,
    size=st.sampled_from([None, 4, 11]),
    rows=st.sampled_from([None, 3, 10, 1000]),
    count=threads,
    cores=st.sampled_from([1, 1, 2]),
)
def test_batch_mode_and_results_left_where_they_are(data, sides, name, size, rows, count, cores):
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(3) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(
        text, window, time=time, batch_rows=rows, threads=count, cores=cores, **SPO
    )
    steps, found = data.draw(steps_of(*sides)), Counter()
    for left, right in steps:
        act = data.draw(st.sampled_from(["push", "push", "find", "save", "flush"]))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        if act == "flush":
            found.update(in_sequence(join.flush()))
        if act == "find":
            results = join.find(table(left), table(right))
            counted = results.count()
            some = in_sequence(results.to_table())
            assert counted == len(some) == results.count()
            found.update(some)
        else:
            found.update(in_sequence(join.push(table(left), table(right))))
    found.update(in_sequence(join.flush()))
    if size is None:
        assert found == join_by_time(*sides, predicate, 3, 3)
    else:
        assert found == join_by_count(steps, predicate, size, size)


# Directed.


def many(size, seed, noise=None):
    """Rows whose keys have few values or, with some noise, grow together."""
    generator = np.random.default_rng(seed)
    keys = generator.integers(0, 100, (2, size))
    if noise is not None:
        keys[0] = generator.integers(0, 10**6, size)
        keys[1] = keys[0] + generator.integers(0, noise, size)
    return pa.table({"id": np.arange(size), "a": keys[0], "b": keys[1]})


@pytest.mark.parametrize("window", [1, 3, 50])
def test_tiny_windows_and_huge_batches_leave_no_expired_rows(window):
    text, predicate = "l.a < r.a and l.b > r.b", both(LESS_A, test_of("b", ">", "b"))
    tables = [(many(1500, 1), many(10, 2)), (many(0, 3), many(1500, 4)), (many(700, 5),) * 2]
    steps = [tuple(each.to_pylist() for each in step) for step in tables]
    join = sj.StreamJoin(text, sj.CountWindow(window), threads=2, **SPO)
    found = Counter()
    for left, right in tables:
        found += pairs(join.push(left, right.slice(0)))
        check(join)
    assert found == join_by_count(steps, predicate, window, window)
    assert join.stats.live_left <= 2 * window + 8


@pytest.mark.parametrize("window", [sj.CountWindow(5000), sj.TimeWindow(10**9), None], ids=str)
def test_many_rows_as_they_are_meant_to_be(window, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(manager, "SLICE", 512)
    left, right = many(4000, 6, noise=20_000), many(4000, 7, noise=20_000)
    one, other = ([side[name].to_numpy() for name in ("a", "b")] for side in (left, right))
    matching = (one[0][:, None] < other[0]) & (one[1][:, None] > other[1])
    text, time = "l.a < r.a and l.b > r.b", "id" if isinstance(window, sj.TimeWindow) else None
    found = []
    if window is None:
        found.append(sj.join_tables(left, right, on=text, threads=2, **SPO))
    else:
        join, first = sj.StreamJoin(text, window, time=time, threads=2, **SPO), 0
        for size in (1, 20, 3000, 5, 63, 64, 847):
            found.append(join.push(left.slice(first, size), right.slice(first, size)))
            first += size
        check(join)
    joined = pa.concat_tables(found)
    places = joined["id"].to_numpy() * 4000 + joined["id_right"].to_numpy()
    assert np.array_equal(np.sort(places), np.flatnonzero(matching))


@pytest.mark.parametrize("name", ["two", "equality", "residual", "two bands"])
def test_empty_inputs(name):
    text, predicate = CONDITIONS[name]
    some = every_value(0)
    for left, right in (([], []), (some, []), ([], some)):
        assert sj.join_tables(table(left), table(right), on=text, **SPO).num_rows == 0
    join = sj.StreamJoin(text, sj.CountWindow(1000), **SPO)
    nothing = [{"id": -1, "a": None, "x": None}]
    steps = [([], []), (some, []), (nothing, nothing), ([], []), ([], some)]
    assert run(join, steps)[0] == nested_loop(some, some, predicate)
    assert join.find(table([]), table([])).count() == 0


@pytest.mark.parametrize(
    ("on", "window", "has"),
    [
        ("l.a < r.a", None, 1),
        ("l.a < r.a", sj.CountWindow(5), 1),
        ("l.k = r.k", sj.CountWindow(5), 0),
        ("l.k = r.k", sj.TimeWindow(5), 1),
        ("l.k = r.k and abs(l.a - r.a) <= 1 and l.a + r.b > 1", sj.CountWindow(5), 1),
    ],
)
def test_one_range_part_is_too_few(on, window, has):
    rows = table(every_value(0))
    time = "t" if isinstance(window, sj.TimeWindow) else None

    def join():
        if window is None:
            return sj.join_tables(rows, rows, on=on, **SPO)
        return sj.StreamJoin(on, window, time=time, **SPO).push(rows, rows)

    with pytest.raises(sj.ConditionError) as error:
        join()
    for told in ("algorithm='spo_join'", on, f"has {has}, the time window", "'bi_sort'"):
        assert told in str(error.value)


def test_more_matches_than_memory_could_hold():
    low, high = (pa.table({"a": np.arange(n), "b": -np.arange(n)}) for n in (50_000, 50_001))
    high = pa.table({"a": high["a"].to_numpy() + 50_000, "b": high["b"].to_numpy() - 50_000})
    found = sj.find_matches(low, high, on="l.a < r.a and l.b > r.b")
    assert found.count() == 50_000 * 50_001
    first = [batch.num_rows for batch, _ in zip(found.to_reader(), range(5), strict=False)]
    assert 0 < min(first) <= max(first) <= 1 << 18


def test_matches_are_an_arrow_stream():
    table = pa.table({"a": [1, 2, 3], "b": [3, 2, 1]})
    found = sj.find_matches(table, table, on="l.a < r.a and l.b > r.b")
    read = pa.RecordBatchReader.from_stream(found).read_all()
    assert read.schema == found.schema
    assert sorted(zip(read["a"].to_pylist(), read["a_right"].to_pylist(), strict=True)) == [
        (1, 2),
        (1, 3),
        (2, 3),
    ]
