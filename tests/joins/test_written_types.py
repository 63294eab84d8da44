"""A band is computed in the types in which it is written, whatever the index makes of it.

Each case is joined as written, and as a residual that no index sees (``(condition) or false``, by a
scan); the expected pairs were worked out by Spark and by DuckDB, where both read the text alike.
"""

from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import streamjoin as sj

BIG = 2**53
NEAR = 0.30000000000000004  # of 0.1 + 0.2 in doubles; 0.10 + 0.2 as decimals is 0.3


def decimals(*values: str, digits: int = 5, scale: int = 2) -> pa.Array:
    return pa.array([Decimal(value) for value in values], pa.decimal128(digits, scale))


def integers(*values: int) -> pa.Array:
    return pa.array(values, pa.int64())


def doubles(*values: float) -> pa.Array:
    return pa.array(values, pa.float64())


CASES: list[tuple[str, pa.Array, pa.Array, int]] = [
    # A difference of exact numbers is exact, and is then compared with the double.
    ("abs(l.v - r.v) <= 5e-2", decimals("1.00"), decimals("1.05"), 1),
    ("abs(l.v - r.v) <= 0.05D", decimals("1.00"), decimals("1.05"), 1),
    ("abs(l.v - r.v) = 0.05D", decimals("1.00"), decimals("1.05"), 1),
    ("abs(l.v - r.v) < 5e-2", decimals("1.00"), decimals("1.05"), 0),
    ("l.v - r.v >= -5e-2 and l.v - r.v < 0e0", decimals("1.00"), decimals("1.05"), 1),
    ("l.v - r.v >= 1e0", integers(BIG + 1), integers(BIG), 1),
    ("l.v - r.v = 1e0", integers(BIG + 1), integers(BIG), 1),
    ("l.v - r.v <> 0e0", integers(BIG + 1), integers(BIG), 1),
    ("l.v - r.v > 9007199254740992e0", integers(BIG + 1), integers(0), 0),  # rounds to 2^53
    ("l.v - r.v >= 9007199254740993e0", integers(BIG), integers(0), 1),
    # A shift of exact numbers is exact, and is then compared with the double.
    ("l.v between r.v - 0.3 and r.v + 0.2", doubles(NEAR), decimals("0.10"), 0),
    ("l.v > r.v + 0.2 and l.v < r.v + 9.9", doubles(NEAR), decimals("0.10"), 1),
    ("l.v + 0.2 < r.v and l.v + 9.9 > r.v", decimals("0.10"), doubles(NEAR), 1),
    ("l.v not between r.v - 0.3 and r.v + 0.2", doubles(NEAR), decimals("0.10"), 1),
    ("l.v between r.v - 1 and r.v + 1", doubles(float(BIG)), integers(BIG + 1), 1),
    ("l.v > r.v + 1 and l.v < r.v + 5", doubles(float(BIG)), integers(BIG - 1), 0),
    ("l.v > r.v - 5 and l.v < r.v + 2", doubles(float(BIG + 2)), integers(BIG + 1), 1),
    # One end exact, the other in doubles: neither decides how the other is computed.
    ("l.v <= r.v and l.v >= r.v - 10.0D", integers(BIG + 1), integers(BIG), 0),
    ("l.v < r.v and l.v >= r.v - 10.0D", integers(BIG), integers(BIG + 1), 1),
    ("l.v >= r.v and l.v <= r.v + 0e0", integers(BIG + 1), integers(BIG), 1),
    ("l.v <= r.v + 1e0 and l.v >= r.v + 1", integers(BIG + 1), integers(BIG), 1),
    # Text is compared as text, unless arithmetic made it a number.
    ("l.v <= r.v and l.v >= r.v - 1", pa.array(["10"]), pa.array(["9"]), 1),
    ("l.v <= r.v and l.v <= r.v + 0.5D", pa.array(["10"]), pa.array(["9"]), 0),
    ("l.v <= r.v and l.v >= r.v + 0", pa.array(["10"]), pa.array(["9"]), 1),
    # A wide decimal gives up scale when something is added to it, even a zero.
    (
        "l.v >= r.v + 0 and l.v <= r.v + 1",
        decimals("0.0000000001", digits=38, scale=10),
        decimals("0.0000000004", digits=38, scale=10),
        1,
    ),
    (
        "l.v >= r.v and l.v <= r.v + 1",
        decimals("1.4", scale=1),
        decimals("1", digits=38, scale=0),
        1,
    ),
]


@pytest.mark.parametrize(("on", "left", "right", "pairs"), CASES)
def test_a_condition_means_what_it_says(on: str, left: Any, right: Any, pairs: int) -> None:
    tables = pa.table({"v": left}), pa.table({"v": right})
    assert sj.join_tables(*tables, on=f"({on}) or false", algorithm="scan").num_rows == pairs
    for algorithm in ("auto", "scan"):
        assert sj.join_tables(*tables, on=on, algorithm=algorithm).num_rows == pairs
    found = sj.find_matches(*tables, on=on)
    assert found.count() == pairs


@pytest.mark.parametrize(("on", "left", "right", "pairs"), CASES)
def test_a_stream_means_the_same(on: str, left: Any, right: Any, pairs: int) -> None:
    join = sj.StreamJoin(on=on, window=sj.CountWindow(10))
    tables = pa.table({"v": left}), pa.table({"v": right})
    assert join.push(left=tables[0]).num_rows == 0
    assert join.push(right=tables[1]).num_rows == pairs
    mirrored = sj.StreamJoin(on=on, window=sj.CountWindow(10))
    assert mirrored.push(right=tables[1]).num_rows == 0
    assert mirrored.push(left=tables[0]).num_rows == pairs


@pytest.mark.parametrize("constant", ["0.3", "3e-1", "0.30D", "1", "1e0", "100.005", "1.005e2"])
@pytest.mark.parametrize(
    "shape",
    [
        "abs(l.v - r.v) <= {c}",
        "abs(l.v - r.v) > {c}",
        "l.v - r.v < {c}",
        "r.v - l.v >= {c}",
        "l.v between r.v - {c} and r.v + {c}",
        "l.v - {c} <= r.v and l.v + {c} > r.v",
        "l.v not between r.v - {c} and r.v + {c}",
        "(l.v < r.v - {c} or l.v = r.v or l.v = r.v + {c})",
        "l.v <= r.v and l.v >= r.v - {c}",
        "l.v > r.v and l.v < r.v + {c}",
    ],
)
def test_every_pair_of_types_agrees_with_duckdb(shape: str, constant: str) -> None:
    numbers = ["0", "0.1", "0.3", "0.4", "-0.2", "1", "1.3", "100", "100.3", "100.1", "-100"]
    whole = [str(BIG), str(BIG + 1), str(BIG + 2), str(-BIG - 1)]
    kinds = {
        "decimal(5,2)": decimals(*numbers),
        "decimal(20,1)": decimals(*numbers, *whole, digits=20, scale=1),
        "decimal(30,9)": decimals(*numbers, *whole, digits=30, scale=9),
        "bigint": integers(0, 1, 100, -100, *map(int, whole)),
        "int": pa.array([0, 1, 100, -100, 2**30, -(2**30) + 1], pa.int32()),
        "double": doubles(*map(float, numbers + whole), NEAR, float("nan"), float("inf")),
    }
    on = shape.format(c=constant)
    text = on.replace("D", "::double").replace("::double::double", "::double")
    database = duckdb.connect()
    for (left_kind, left), (right_kind, right) in product(kinds.items(), kinds.items()):
        tables = [pa.table({"v": values, "id": range(len(values))}) for values in (left, right)]
        database.register("l", tables[0])
        database.register("r", tables[1])
        expected = sorted(database.sql(f"select l.id, r.id from l, r where {text}").fetchall())
        joined = sj.join_tables(*tables, on=on)
        pairs = sorted(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True))
        assert pairs == expected, (on, left_kind, right_kind)


def test_columns_that_differ_in_case_are_two() -> None:
    left, right = pa.table({"d": [1], "D": [10]}), pa.table({"d": [2], "D": [5]})
    for on in (
        "l.d < r.d and l.D < r.D",
        "l.`d` < r.`d` and l.`D` < r.`D`",
        "(l.d < r.d - 100 or l.D < r.D)",
    ):
        algorithm = "scan" if " or " in on else "auto"
        assert sj.join_tables(left, right, on=on, algorithm=algorithm).num_rows == 0
    assert sj.parse_condition("l.d < r.d and l.D < r.D").sql() == "l.d < r.d AND l.D < r.D"
    typed = pa.table({"d": pa.array([0], pa.date32()), "D": decimals("0.05")})
    assert sj.join_tables(typed, typed, on="l.d <= r.d and l.D >= r.D - 0.05").num_rows == 1


def test_columns_that_differ_in_case_are_one_where_there_is_one() -> None:
    table = pa.table({"x": [1, 5, 9]})
    condition = sj.parse_condition("l.X <= r.x + 1 and L.x >= R.X - 1", table.schema, table.schema)
    assert len(condition.bands) == 1
    assert sj.join_tables(table, table, on="l.X <= r.x + 1 and L.x >= R.X - 1").num_rows == 3


@pytest.mark.parametrize(
    "on",
    [
        "l.t <= r.t and l.t < r.t + interval '0' second",
        "l.t < r.t + interval '0' second and l.t <= r.t",
        "l.t >= r.t and l.t > r.t - interval 0 second",
        "l.t <= r.t and l.t not between r.t - interval '0' second and r.t + interval '0' second",
        "l.t - r.t < interval '0' second and l.t - r.t <= interval '0' second",
        "l.t <= r.t and l.t - r.t < interval '0' second",
        "(l.t < r.t + interval '0' second or l.t > r.t) and l.t <= r.t",
    ],
)
def test_an_interval_of_zero_is_no_exception(on: str) -> None:
    times = pa.table({"t": pa.array([0, 1_000_000], pa.timestamp("us"))})
    strict = sum(one < other for one, other in product(range(2), range(2)))
    if "l.t >= r.t" in on:
        strict = sum(one > other for one, other in product(range(2), range(2)))
    assert sj.join_tables(times, times, on=on).num_rows == strict


@pytest.mark.parametrize(
    "on", ["l.a <= r.a and l.a >= r.a", "l.a - r.a <= 0 and l.a - r.a >= 0", "abs(l.a - r.a) <= 0"]
)
@pytest.mark.parametrize("emit", ["close", "eager"])
def test_sessions_are_cut_by_what_is_written_as_an_equality(on: str, emit: str) -> None:
    """Rows of other keys bridge the pause, unless the condition says ``l.a = r.a``."""
    left = pa.table({"a": [1, 2], "t": [0, 600]})
    right = pa.table({"a": [1], "t": [1200]})
    window = sj.SessionWindow("700 ms")
    bridged = sj.StreamJoin(on=on, window=window, time="t", emit=emit)
    found = bridged.push(left=left, right=right).num_rows + bridged.finish().num_rows
    assert found == 1
    assert sj.join_tables(left, right, on=on, window=window, time="t").num_rows == 1
    for equality in ("l.a = r.a", "l.a <=> r.a", "not l.a <> r.a"):
        apart = sj.StreamJoin(on=equality, window=window, time="t", emit=emit)
        found = apart.push(left=left, right=right).num_rows + apart.finish().num_rows
        assert found == 0


def test_outside_of_sessions_a_band_of_one_point_is_an_equality() -> None:
    table = pa.table({"a": [1, 2, 3], "t": [0, 0, 0]})
    on = "l.a <= r.a + 1 and l.a >= r.a + 1"
    joined = sj.join_tables(table, table, on=on, algorithm="npj")
    assert sorted(joined["a"].to_pylist()) == [2, 3]


WORDS = [
    "",
    "a",
    "a\0",
    "abcdefgh",
    "abcdefgh\0",
    "abcdefgha",
    "abcdefghb",
    "abcdefg",
    "é",
    "z",
    None,
]


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "<>", "="])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_text_is_ordered_by_its_bytes(operator: str, kind: pa.DataType) -> None:
    """By the first eight bytes, and a look at the others where these are equal."""
    table = pa.table({"s": pa.array(WORDS).cast(kind), "id": range(len(WORDS))})
    algorithm = "scan" if operator == "<>" else "auto"
    joined = sj.join_tables(table, table, on=f"l.s {operator} r.s", algorithm=algorithm)
    pairs = set(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True))
    compare = {"=": "==", "<>": "!="}.get(operator, operator)
    coded = [None if word is None else word.encode() for word in WORDS]
    assert pairs == {
        (i, j)
        for (i, one), (j, other) in product(enumerate(coded), enumerate(coded))
        if one is not None and other is not None and eval(f"one {compare} other")
    }


def test_a_range_of_text_needs_nothing_else() -> None:
    ranges = pa.table({"low": ["a", "prefix-a", "x"], "high": ["b", "prefix-k", "z"]})
    names = pa.table({"name": ["apple", "prefix-b", "prefix-z", "y"]})
    join = sj.StreamJoin(on="l.name between r.low and r.high", window=sj.CountWindow(10))
    join.push(right=ranges)
    assert join.push(left=names)["low"].to_pylist() == ["a", "prefix-a", "x"]


@pytest.mark.parametrize(
    "on",
    [
        "l.v < r.v",
        "l.v <= r.v",
        "l.v >= r.v",
        "abs(l.v - r.v) <= 0.25",
        "abs(l.v - r.v) > 0.25",
        "l.v between r.v - 0.25 and r.v + 1",
        "l.v between r.v - 1e-1 and r.v + 1e0",
        "l.v <= r.v and l.v > r.v - 1",
    ],
)
def test_decimals_of_any_length_are_ordered(on: str) -> None:
    values = ["0", "0.1", "0.25", "0.3", "-0.05", "1", "1.25"]
    long = [f"{10**15}{value.lstrip('-')}" for value in values]
    long += [f"-{value}" for value in long]
    for (left_digits, left_scale), (right_digits, right_scale) in product(
        [(20, 2), (23, 1), (38, 10), (38, 18)], repeat=2
    ):
        tables = [
            pa.table(
                {"v": decimals(*fitting, digits=digits, scale=scale), "id": range(len(fitting))}
            )
            for digits, scale in ((left_digits, left_scale), (right_digits, right_scale))
            for fitting in [[v for v in (*values, *long) if len(v.partition(".")[2]) <= scale]]
        ]
        found = sj.join_tables(*tables, on=on)
        expected = sj.join_tables(*tables, on=f"({on}) or false", algorithm="scan")
        key = [("id", "ascending"), ("id_right", "ascending")]
        assert found.sort_by(key) == expected.sort_by(key)
        assert expected.num_rows


@pytest.mark.parametrize("units", [("us", "us"), ("us", "ns"), ("ns", "us")])
@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("l.c = r.c", 2),
        ("l.c <=> r.c", 3),
        ("l.c < r.c", 1),
        ("coalesce(l.c, l.c) = r.c", 2),
        ("l.c = r.c and case when l.c >= r.c then true else false end", 2),
    ],
)
def test_times_of_day_compare_like_other_times(on: str, pairs: int, units: tuple[str, str]) -> None:
    tables = [
        pa.table({"c": pa.array([1000, 5000, None]).cast(pa.time64("us")).cast(pa.time64(unit))})
        for unit in units
    ]
    assert sj.join_tables(*tables, on=on).num_rows == pairs


LAST = 2**63 - 1
NANOSECONDS = [LAST, LAST - 1, LAST - 800, LAST // 1000 * 1000, 0, 1, 999, 1000, -1, -1000,
               -(LAST // 1000) * 1000, -LAST, -LAST - 1, None]  # fmt: skip
MICROSECONDS = [LAST // 1000, LAST // 1000 + 1, 253_402_300_799_999_999, 0, 1, -1,
                -62_135_596_800_000_000, -(LAST // 1000), -(LAST // 1000) - 1, None]  # fmt: skip
DAYS = [0, 1, 2_932_896, -719_162, 106_751, 106_752, -106_752, None]  # the years 9999 and 1
COMPARED: dict[str, Any] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("swaps", [False, True])
@pytest.mark.parametrize("operator", COMPARED)
@pytest.mark.parametrize(
    ("fine", "coarse"),
    [
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("ns", "UTC"), pa.timestamp("us", "America/New_York")),
        (pa.duration("ns"), pa.duration("us")),
        (pa.timestamp("ns"), pa.date32()),
    ],
    ids=str,
)
def test_times_that_nanoseconds_do_not_hold_are_compared(fine, coarse, operator, swaps):
    # Once: an error, such as for the years 1 and 9999 that stand for "always".
    is_date = pa.types.is_date(coarse)
    values = [NANOSECONDS, DAYS if is_date else MICROSECONDS]
    whole = pa.array(values[1], pa.int32() if is_date else pa.int64())
    factor = 86_400 * 10**9 if is_date else 1000
    exact = [NANOSECONDS, [None if each is None else each * factor for each in values[1]]]
    arrays = [pa.array(NANOSECONDS, pa.int64()).view(fine), whole.view(coarse)]
    if swaps:
        exact, arrays = exact[::-1], arrays[::-1]
    left, right = (pa.table({"id": range(len(each)), "t": each}) for each in arrays)
    expected = [
        (one, other)
        for (one, a), (other, b) in product(enumerate(exact[0]), enumerate(exact[1]))
        if a is not None and b is not None and COMPARED[operator](a, b)
    ]
    for on in (f"l.t {operator} r.t", f"(l.t {operator} r.t) or false"):
        found = sj.join_tables(left, right, on=on, algorithm="scan")
        ids = (found[name].to_pylist() for name in ("id", "id_right"))
        assert sorted(zip(*ids, strict=True)) == expected


def test_a_band_of_times_that_nanoseconds_do_not_hold_is_refused():
    left = pa.table({"t": pa.array([0], pa.timestamp("ns"))})
    right = pa.table({"t": pa.array([253_402_300_799_999_999]).view(pa.timestamp("us"))})
    on = "l.t >= r.t and l.t <= r.t + interval 1 day"
    with pytest.raises(sj.EvaluationError, match=r"too far from 1970.*cast the nanosecond column"):
        sj.join_tables(left, right, on=on)
