"""As-of joins by the order of one key, against a nested loop and DuckDB.

Few values, so that keys and distances are level everywhere. Stretches have a few rows, and threads
share even these.
"""

import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.outcomes.keep import keep as keeping
from streamjoin.joins.outcomes.neighbours import key_codes, search, unequal_values
from streamjoin.joins.outcomes.ranking.level_rows import pick_first
from streamjoin.kernels import threads as sharing
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.outcomes.kept import HOWS, give, ids, keep_pairs, null_last

random = settings(max_examples=40, suppress_health_check=list(HealthCheck))
INF, NAN = math.inf, math.nan
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TICKS = [EPOCH + timedelta(milliseconds=each) for each in range(5)]


class Kind:
    """Values of one type, and conditions over them."""

    def __init__(self, values, left, right=None, unit="", is_open=False):
        self.values, self.types, self.unit = values, (left, right or left), unit
        self.is_open = is_open  # whether some rows take the general way

    def span(self, number):
        return f"interval {number} millisecond" if self.unit == "ms" else f"{number}"

    def apart(self, one, other):
        """The difference, in the numbers that conditions are written with."""
        difference = one - other
        if not isinstance(difference, timedelta):
            return difference
        return difference / timedelta(days=1) if self.unit == "day" else difference // TICKS_LONG


TICKS_LONG = timedelta(milliseconds=1)
KINDS = {
    "int64": Kind([0, 1, 2, 3, 5], pa.int64()),
    "int8 and int32": Kind([-128, -127, 0, 1, 127], pa.int8(), pa.int32()),
    "wide": Kind([-(2**60), -(2**60) + 1, 0, 1, 2**60], pa.int64()),
    "double": Kind([0.0, -0.0, 0.5, 1.0, 1e16, 1e16 + 2, -1e16], pa.float64(), is_open=True),
    "special": Kind([0.0, -0.0, 1.0, INF, -INF, NAN], pa.float64(), is_open=True),
    "float": Kind([0.0, 0.5, 1.0, 2.0, 2.5], pa.float32(), is_open=True),
    "decimal": Kind([Decimal(each) for each in ("0.5", "1", "1.5", "3")], pa.decimal128(9, 2)),
    "timestamp": Kind(TICKS, pa.timestamp("us", "UTC"), unit="ms"),
    "units": Kind(TICKS, pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"), unit="ms"),
    "date": Kind([date(2024, 1, each) for each in (1, 2, 3, 5)], pa.date32(), unit="day"),
}
KEYS = {
    "": [],
    "l.k = r.k": ["k"],
    "l.s = r.s": ["s"],
    "l.k = r.k and l.s = r.s": ["k", "s"],
    "l.w = r.w": ["w"],
}
RANGES = {  # SQL, and the least and greatest difference; a strict end is moved a little
    "l.v >= r.v": (0, INF),
    "l.v > r.v": (1e-9, INF),
    "l.v <= r.v": (-INF, 0),
    "l.v < r.v": (-INF, -1e-9),
    "abs(l.v - r.v) <= {1}": (-1, 1),
    "abs(l.v - r.v) <= {3}": (-3, 3),
    "l.v - r.v <= {2} and l.v >= r.v": (0, 2),
    "l.v - r.v between {1} and {3}": (1, 3),
    "l.v - r.v > -{3} and l.v - r.v < {1}": (-3 + 1e-9, 1 - 1e-9),
}


def order(value):
    """Spark's order of numbers, NaN last."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def null_first(value):
    return (False,) if value is None else (True, order(value))


def make_predicate(kind, keys, ends):
    def predicate(one, other):
        for name in (*keys, "v"):
            if one[name] is None or other[name] is None:
                return False
        if any(one[name] != other[name] for name in keys):
            return False
        if INF in ends or -INF in ends:  # compared as they are, not by their difference
            left, right = order(one["v"]), order(other["v"])
            if ends[0] == 0:
                return left >= right
            if ends[1] == 0:
                return left <= right
            return left > right if ends[1] == INF else left < right
        return order(ends[0]) <= order(kind.apart(one["v"], other["v"])) <= order(ends[1])

    return predicate


def make_rank(kind, keep, names, is_timed):
    def rank(one, other):
        columns = tuple(null_first(other[name]) for name in names)
        time = null_last(other["t"]) if is_timed else ()
        if keep == "nearest":
            return (order(abs(kind.apart(one["v"], other["v"]))), time, columns)
        value = order(other["v"])
        return (value if keep == "first" else (-value[0], -as_number(value[1])), columns)

    return rank


def as_number(value):
    if isinstance(value, datetime):
        return (value - EPOCH) // TICKS_LONG
    return value.toordinal() if isinstance(value, date) else value


def make_schema(kind, side, names):
    types = {"id": pa.int64(), "k": pa.int64(), "s": pa.string(), "t": pa.int64(), "w": pa.int64()}
    types["v"] = kind.types[side]
    return pa.schema([(name, types[name]) for name in names])


@st.composite
def sides(draw, kind):
    """Rows of both sides: with NULLs or without, in order or not."""
    nulls = draw(st.booleans())

    def maybe(values):
        return st.sampled_from([*values, None] if nulls else values)

    rows = st.fixed_dictionaries(
        {
            "k": maybe([1, 2, 3]),
            "s": maybe(["", "a", "ab", "symbol-1", "symbol-2"]),
            "t": maybe([0, 1, 2]),
            "w": maybe([-(2**62), 0, 2**62]),
            "v": maybe(kind.values),
        }
    )
    found = []
    for _ in range(2):
        side = draw(st.lists(rows, max_size=24))
        if draw(st.booleans()):
            side.sort(key=lambda row: null_first(row["v"]))
        found.append([{"id": number, **row} for number, row in enumerate(side)])
    return found


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    for module in (key_codes, search):
        monkeypatch.setattr(module, "STRETCH", 5)
    monkeypatch.setattr(sharing, "ALONE_TUPLES", 0)
    with use_limits(Limits(block_pairs=6)):
        yield


@pytest.fixture
def searches(monkeypatch):
    """What searches by the order of a key have found."""
    found = []
    find = keeping.find_neighbours

    def note(*arguments):
        found.append(find(*arguments))
        return found[-1]

    monkeypatch.setattr(keeping, "find_neighbours", note)
    return found


@pytest.mark.parametrize("name", KINDS)
@random
@given(data=st.data())
def test_what_is_kept_is_what_a_nested_loop_keeps(searches, name, data):
    kind = KINDS[name]
    left, right = data.draw(sides(kind))
    equal = data.draw(st.sampled_from(sorted(KEYS)))
    text = data.draw(st.sampled_from(sorted(RANGES)))
    ends = RANGES[text]
    keep = data.draw(st.sampled_from(["nearest", "first", "last"]))
    is_time = kind.unit or all(map(pa.types.is_integer, kind.types))
    if keep != "nearest" and not is_time:
        keep = "nearest"
    names = data.draw(st.permutations(["t", "k", "s", "w", "v", "id"]))
    tables = [
        pa.Table.from_pylist(rows, make_schema(kind, side, names))
        for side, rows in enumerate((left, right))
    ]
    is_timed = keep == "nearest" and data.draw(st.booleans())
    how, k = data.draw(st.sampled_from(HOWS)), data.draw(st.sampled_from([1, 1, 2, 3]))
    on = text.format(*(kind.span(number) for number in range(4)))
    result = sj.join_tables(
        *tables,
        on=f"{equal} and {on}" if equal else on,
        time=("v" if keep != "nearest" else "t") if keep != "nearest" or is_timed else None,
        keep=keep,
        k=k,
        how=how,
        threads=data.draw(st.sampled_from([1, 2, 3])),
    )
    predicate = make_predicate(kind, KEYS[equal], ends)
    rank = make_rank(kind, keep, names, is_timed)
    kept = keep_pairs(left, right, predicate, rank, k)
    assert ids(result, how) == give(kept, left, right, how)
    for row in result.to_pylist() if "id_right" in result.schema.names else ():
        for side, rows, ending in ((row["id"], left, ""), (row["id_right"], right, "_right")):
            for name in ("k", "s", "w", "t"):
                assert row[name + ending] == (None if side is None else rows[side][name])
    if left and right and not kind.is_open:
        assert all(found is not None for found in searches)
        assert k > 1 or all(found.is_open is None for found in searches)
    searches.clear()


@pytest.mark.parametrize("name", ["int64", "timestamp", "double"])
@random
@given(data=st.data())
def test_a_distance_that_no_condition_bounds(searches, name, data):
    kind = KINDS[name]
    left, right = data.draw(sides(kind))
    right = [row for row in right if row["v"] is not None]
    left = [row for row in left if row["v"] is not None]
    names = ["w", "t", "v", "id", "k", "s"]
    tables = [
        pa.Table.from_pylist(rows, make_schema(kind, side, names))
        for side, rows in enumerate((left, right))
    ]
    result = sj.join_tables(
        *tables, on="l.k = r.k", keep="nearest", nearest="abs(r.v - l.v)", how="left", threads=2
    )
    predicate = make_predicate(kind, ["k"], (-1e300, 1e300))
    kept = keep_pairs(left, right, predicate, make_rank(kind, "nearest", names, False), 1)
    assert ids(result, "left") == give(kept, left, right, "left")
    assert searches[-1:] == [] or searches[-1] is not None


@random
@given(data=st.data(), length=st.integers(1, 4), k=st.integers(1, 3))
def test_time_windows(data, length, k):
    kind = KINDS["int64"]
    left, right = data.draw(sides(kind))
    names = ["id", "v", "k", "s", "t", "w"]
    tables = [pa.Table.from_pylist(rows, make_schema(kind, 0, names)) for rows in (left, right)]
    for window, is_inside in (
        (
            sj.TimeWindow(before=length, after=1),
            lambda one, other: one - length <= other <= one + 1,
        ),
        (sj.TumblingWindow(length), lambda one, other: one // length == other // length),
    ):
        for keep in ("nearest", "first", "last"):
            result = sj.join_tables(
                *tables, on="l.k = r.k", window=window, time="v", keep=keep, k=k, how="full"
            )

            def predicate(one, other, is_inside=is_inside):
                known = None not in (one["v"], other["v"], one["k"], other["k"])
                return known and one["k"] == other["k"] and is_inside(one["v"], other["v"])

            rank = make_rank(kind, keep, names, False)

            def ranked(one, other, rank=rank, keep=keep):
                first = rank(one, other)
                return (first[0], other["v"], first[-1]) if keep == "nearest" else first

            kept = keep_pairs(left, right, predicate, ranked, k)
            assert ids(result, "full") == give(kept, left, right, "full"), (window, keep)


@pytest.mark.parametrize("sign", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("equal", sorted(KEYS))
@pytest.mark.parametrize("is_sorted", [True, False])
def test_many_rows_agree_with_duckdb(monkeypatch, searches, sign, equal, is_sorted):
    monkeypatch.setattr(key_codes, "STRETCH", 1 << 10)
    monkeypatch.setattr(search, "STRETCH", 1 << 10)
    random = np.random.default_rng(len(equal) + len(sign))
    tables = []
    for size in (7_000, 9_000):
        times = random.permutation(40_000)[:size]  # none twice
        numbers = random.integers(0, 300, size)
        table = pa.table(
            {
                "id": np.arange(size),
                "v": np.sort(times) if is_sorted else times,
                "k": numbers,
                "s": pa.array([f"symbol {number}" for number in numbers]),
                "w": numbers * 10_000_000_000_000,
            }
        )
        tables.append(table)
    on = f"{equal} and l.v {sign} r.v" if equal else f"l.v {sign} r.v"
    with use_limits(Limits()):
        ours = [
            sj.join_tables(*tables, on=on, keep="nearest", how="left", threads=threads)
            for threads in (1, 2, 5)
        ]
    with duckdb.connect() as connection:
        connection.register("l", tables[0])
        connection.register("r", tables[1])
        rows = connection.sql(f"select l.id, r.id from l asof left join r on {on}").fetchall()
    for result in ours:
        assert ids(result, "left") == Counter(rows)
        assert result["id"].to_pylist() == tables[0]["id"].to_pylist()
    assert all(found is not None for found in searches)


def test_equal_hashes_of_other_values_are_noticed(monkeypatch):
    left = pa.table({"s": ["a", "b", "c"], "v": [5, 5, 5]})
    right = pa.table({"s": ["a", "b", "d"], "v": [1, 2, 3]})
    monkeypatch.setattr(
        "streamjoin.keys.bound_terms.hash_values", lambda values, seed: np.zeros(len(values), int)
    )
    result = sj.join_tables(left, right, "l.s = r.s and l.v >= r.v", keep="nearest", how="left")
    assert sorted(result["v_right"].to_pylist(), key=str) == [1, 2, None]


def test_values_are_compared_whatever_their_type():
    texts = ["", "a", None, "long enough", "a"]
    kept = np.array([0, 1, -1, 3, 4], np.int32)
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.decimal128(30, 2)):
        values = pa.array([None if kind == pa.decimal128(30, 2) else each for each in texts], kind)
        if kind == pa.decimal128(30, 2):
            values = pa.array([Decimal(each) for each in range(5)], kind)
        assert not unequal_values.has_other_values(values, values, kept, 2)
        assert unequal_values.has_other_values(values, values, np.roll(kept, 1), 2)
        part = values.slice(3)
        assert not unequal_values.has_other_values(part, values, np.array([3, 4], np.int32), 1)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), min_size=1),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)),
)
def test_equal_keys_have_equal_codes(right, left):
    codes = key_codes.make_codes(np.array(left, np.int64), np.array(right, np.int64), 2)

    def number(keys):
        return [int(key) - codes.base for key in keys]

    known = dict(zip(right, number(codes.right), strict=True))
    assert len(set(known.values())) == len(known)
    assert all(0 <= code < codes.number for code in known.values())
    for key, code in zip(left, number(codes.left), strict=True):
        assert known.get(key, code) == code
        assert key in known or code not in known.values()


def test_many_codes_move_to_larger_tables():
    right = np.random.default_rng(1).integers(-(2**62), 2**62, 30_000)
    codes = key_codes.make_codes(right[::-1].copy(), right, 2)
    assert codes.number == np.unique(right).size
    assert (codes.left[::-1] == codes.right).all()


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1)))
def test_the_first_of_each_group_is_picked(groups):
    flat = [row for group in groups for row in group]
    rows = (
        pa.record_batch({"a": [a for a, _ in flat], "b": [b for _, b in flat]})
        if flat
        else pa.record_batch({"a": [], "b": []})
    )
    starts = np.cumsum([0, *map(len, groups)])
    picked = pick_first(rows, np.arange(len(flat), dtype=np.int32), starts)
    assert [flat[row] for row in picked] == [min(group) for group in groups]


def test_left_columns_are_used_as_they_are():
    left = pa.table({"v": np.arange(100_000), "p": np.arange(100_000.0)})
    right = pa.table({"v": np.arange(0, 100_000, 2), "q": np.arange(50_000.0)})
    with use_limits(Limits()):
        result = sj.join_tables(left, right, "l.v >= r.v", keep="nearest", how="left")
    for name in left.column_names:
        ours, theirs = (each[name].chunk(0).buffers()[1] for each in (result, left))
        assert ours.address == theirs.address
    assert (result["q"].to_numpy() == np.arange(100_000) // 2).all()


def test_a_row_without_a_match_has_no_key_of_the_other_side():
    left = pa.table({"k": [1, 2], "s": ["a", "b"], "v": [1, 2]})
    right = pa.table({"k": [2], "s": ["b"], "v": [0]})
    on = "l.k = r.k and l.s = r.s and l.v >= r.v"
    result = sj.join_tables(left, right, on, keep="nearest", how="left").to_pylist()
    found = [tuple(row[f"{name}_right"] for name in left.column_names) for row in result]
    assert found == [(None, None, None), (2, "b", 0)]


DICTIONARY = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("types", [(DICTIONARY, DICTIONARY), (DICTIONARY, pa.string())])
def test_dictionaries_are_keys(types, how):
    left = pa.table({"k": pa.array(["a", "b"], types[0]), "v": [1, 2]})
    right = pa.table({"k": pa.array(["z", "a"], types[1]), "v": [0, 0]})
    result = sj.join_tables(left, right, "l.k = r.k and l.v >= r.v", keep="nearest", how=how)
    result.validate(full=True)
    assert result.schema.types == [types[0], pa.int64(), types[1], pa.int64()]
    assert result["k_right"].to_pylist() == ["a", None][: result.num_rows]
    assert result.num_rows == (2 if how == "left" else 1)


@pytest.mark.parametrize("value", [INF, -INF])
def test_all_numbers_are_nearer_to_infinity_than_itself(value):
    left, right = pa.table({"v": [value]}), pa.table({"v": [7.0, value]})
    on = "l.v >= r.v" if value > 0 else "l.v <= r.v"
    assert sj.join_tables(left, right, on, keep="nearest")["v_right"].to_pylist() == [7.0]
