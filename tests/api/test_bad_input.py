"""Bad input: the error names the value and the way out, and the join goes on as if nothing was.

A comment that begins with ``Once`` tells what went wrong before the test was there.
"""

from collections import Counter
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj

TABLE = pa.table(
    {"id": [1, 2, 3], "t": [10, 20, 30], "k": [1, 2, 2], "x": [1.0, 2.0, 3.0], "s": ["a", "b", "c"]}
)
TIMES = sj.TimeWindow(100)


def make(on="l.k = r.k", window=TIMES, **options):
    options = {"time": "t"} | options if isinstance(window, sj.TimeWindow) else options
    return sj.StreamJoin(on, window, threads=1, **options)


def with_column(name, values, table=TABLE):
    array = values if isinstance(values, pa.Array) else pa.array(values)
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, array)
    return table.append_column(name, array)


def rows(result):
    return Counter(tuple(row.items()) for row in result.to_pylist())


def says(error, *texts):
    message = str(error.value)
    for text in texts:
        assert text in message, f"{text!r} is not in: {message}"


# What is refused when the join is made.


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"algorithm": "magic"}, ["'magic'", "'auto'", "'bi_sort'", "'scan'"]),
        ({"threads": 0}, ["threads=0", "from 1"]),
        ({"threads": -2}, ["threads=-2", "from 1"]),
        ({"threads": 1.5}, ["threads=1.5", "from 1"]),
        ({"time": ("t",)}, ["('t',)", "pair"]),
        ({"time": ("t", "t", "t")}, ["('t', 't', 't')", "pair"]),
        ({"time": ("t", 5)}, ["5", "pair"]),
        ({"time": None}, ["TimeWindow", "time="]),
        ({"order": "t"}, ["order='t'", "CountWindow"]),
        ({"window": sj.CountWindow(5)}, ["time='t'", "leave"]),
        ({"window": sj.CountWindow(5), "time": None, "delay": "5 s"}, ["delay='5 s'", "leave"]),
        ({"window": None, "time": None}, ["needs a window", "join_tables"]),
        ({"window": "soon"}, ["'soon'", "10 minutes"]),
        ({"window": ""}, ["''", "10 minutes"]),
        ({"window": 10}, ["10", "TimeWindow"]),
        ({"delay": "soon"}, ["'soon'", "10 minutes"]),
        ({"delay": -5}, ["-5", "negative"]),
        ({"on": ""}, ["empty", "abs(l.x - r.x)"]),
        ({"on": 5}, ["5", "l and r"]),
        ({"on": "l.k = "}, ["l.k ="]),
        ({"on": "l.k + r.k"}, ["l.k + r.k", "compare"]),
        ({"on": "l.k = q.k"}, ["'q'", "l for the left"]),
        ({"on": "l.k = :key"}, ["a placeholder, ':key'", "write the value itself"]),
        ({"on": "l.k = r.k and l.s = ?"}, ["a placeholder", "write the value itself"]),
        ({"threads": 1025}, ["threads=1025", "from 1 to 1,024"]),
        ({"cores": 10**6}, ["cores=1000000", "from 1 to 1,024"]),
        ({"cores": 0}, ["cores=0", "from 1"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_options_that_make_no_sense(options, texts):
    options = {"on": "l.k = r.k", "window": TIMES, "time": "t"} | options
    with pytest.raises(sj.StreamJoinError) as error:
        sj.StreamJoin(**options)
    says(error, *texts)


def test_time_that_is_no_name():
    # Once: a bare TypeError
    with pytest.raises(sj.StreamJoinError) as error:
        make(time=5)
    says(error, "time=5", "pair")


@pytest.mark.parametrize("make_window", [
    lambda: sj.TimeWindow(0), lambda: sj.TimeWindow(-5), lambda: sj.TimeWindow("0 s"),
    lambda: sj.TimeWindow("-5 minutes"), lambda: sj.CountWindow(0), lambda: sj.CountWindow(-1),
    lambda: sj.CountWindow(left=5, right=0), lambda: sj.CountWindow(2.5),
])  # fmt: skip
def test_windows_that_are_not_positive(make_window):
    with pytest.raises(sj.WindowError, match=r"e\.g\.|give"):
        make_window()


@pytest.mark.parametrize("on", ["l.x + r.x > 3", "length(l.s) + length(r.s) = 2"])
def test_a_condition_without_a_usable_part(on):
    with pytest.raises(sj.ConditionError) as error:
        sj.StreamJoin(on, sj.CountWindow(5))
    says(error, "equality", "band", "inequality", "algorithm='scan'")
    sj.StreamJoin(on, sj.CountWindow(5), algorithm="scan")
    sj.StreamJoin(on, TIMES, time="t")


@pytest.mark.parametrize(
    ("on", "texts"),
    [
        ("l.k = r.k or l.s = r.s", ["OR", "each side of the OR", "each pair once", "'scan'"]),
        ("(l.k = r.k or l.s = r.s)", ["each side of the OR"]),
        ("l.k + r.k > 2 and (l.k = r.k or l.s = r.s)", ["each side of the OR"]),
        ("(l.k = r.k) & (l.s = r.s)", ["& combines the bits of numbers", "write and"]),
        ("(l.k = r.k) | (l.s = r.s)", ["| combines the bits of numbers", "write or"]),
    ],
)
def test_a_condition_combined_by_what_no_index_finds(on, texts):
    """Once: told to add an equality, which was there."""
    with pytest.raises(sj.ConditionError) as error:
        sj.StreamJoin(on, sj.CountWindow(5))
    says(error, *texts)
    if "R" in texts[0]:
        assert sj.join_tables(TABLE, TABLE, on=on, algorithm="scan").num_rows > 1
        sj.StreamJoin(on, TIMES, time="t")
        sj.StreamJoin(f"l.id = r.id and ({on})", sj.CountWindow(5))


@pytest.mark.parametrize(
    "parts",
    [{"equalities": ("l.x = r.x",)}, {"bands": "abs(l.x - r.x) < 5"}, {"residuals": None},
     {"inequalities": [sj.Inequality("l.x", "<", "r.x")]}],
    ids=lambda parts: next(iter(parts)),
)  # fmt: skip
def test_a_condition_made_of_texts(parts):
    # Once: a bare AttributeError, when the join was made.
    with pytest.raises(sj.ConditionError) as error:
        sj.Condition(**parts)
    says(error, next(iter(parts)), "tuple", "parse_condition")


def test_a_name_of_both_sides_alone():
    with pytest.raises(sj.SchemaError) as error:
        sj.join_tables(TABLE, TABLE, on="k")
    says(error, "'k' is ambiguous", "l.k = r.k")


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.nulls(2), ["null", "nothing but NULL", "cast one"]),
        (pa.array([pa.MonthDayNano([1, 2, 3]), None]), ["month_day_nano", "no fixed length"]),
        (pa.array([[1], [2]]), ["list", "compare their fields"]),
    ],
    ids=["null", "months", "lists"],
)
def test_values_that_are_no_keys(column, texts):
    table = pa.table({"v": column})
    with pytest.raises(sj.SchemaError) as error:
        sj.join_tables(table, table, on="l.v = r.v")
    says(error, "l.v = r.v", *texts)


# What is refused when the schemas are known; at the push that makes them known.

SCHEMA_CASES = {
    "unknown column": ("l.k = r.nothing", {}, TABLE, ["nothing", "id, t, k, x, s"]),
    "no alias": ("k = r.k", {}, TABLE, ["k", "l.k", "r.k"]),
    "types do not compare": (
        "l.k = r.l", {}, with_column("l", pa.array([[1]] * 3)), ["list", "cast"]
    ),
    "unknown time": ("l.k = r.k", {"time": "when"}, TABLE, ["'when'", "id, t, k, x, s"]),
    "time that is no time": ("l.k = r.k", {"time": "s"}, TABLE, ["'s'", "string", "cast"]),
    "time that is a double": ("l.k = r.k", {"time": "x"}, TABLE, ["'x'", "double", "cast"]),
    "two kinds of time": (
        "l.k = r.k", {"time": ("t", "ts")},
        with_column("ts", pa.array([1, 2, 3], pa.timestamp("us"))), ["integer", "timestamp"],
    ),
    "unknown order": (
        "l.k = r.k", {"window": sj.CountWindow(5), "order": "o"}, TABLE, ["'o'", "id, t, k, x, s"]
    ),
    "order without order": (
        "l.k = r.k", {"window": sj.CountWindow(5), "order": "s"}, TABLE, ["'s'", "string", "number"]
    ),
    "no condition": ("l.k = r.k and l.s || r.s", {}, TABLE, ["true or false"]),
    "unknown function": ("l.k = r.k and foo(l.s, r.s)", {}, TABLE, ["FOO", "Spark"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("on", "options", "right", "texts"), SCHEMA_CASES.values(), ids=SCHEMA_CASES.keys()
)
def test_what_does_not_fit_the_schemas(on, options, right, texts):
    join = make(on, **options)
    join.push(left=with_column("l", pa.array([[1]] * 3)) if "r.l" in on else TABLE)
    before = join.stats
    with pytest.raises(sj.StreamJoinError) as error:
        join.push(right=right)
    says(error, *texts)
    assert join.stats == before
    window = options.get("window", TIMES)
    time = options.get("time", "t") if isinstance(window, sj.TimeWindow) else None
    with pytest.raises(sj.StreamJoinError):
        sj.join_tables(TABLE, right, on=on, window=window, time=time, order=options.get("order"))


def test_a_time_column_of_uint64():
    # Once: an AssertionError
    table = with_column("t", pa.array([1, 2, 3], pa.uint64()))
    with pytest.raises(sj.SchemaError) as error:
        make().push(table, table)
    says(error, "'t'", "uint64", "cast")


@pytest.mark.parametrize(
    ("one", "other", "arrivals"),
    [
        (
            pa.array([2, 3, 4], pa.timestamp("s")),
            pa.array([1000, 2500, 9000], pa.timestamp("ms")),
            "right 1, left 1, right 2, left 2, left 3, right 3",
        ),
        (
            pa.array([1, 2, 3]),
            pa.array([0.5, 2.5, 3.5]),
            "right 1, left 1, left 2, right 2, left 3, right 3",
        ),
    ],
    ids=["units", "int and double"],
)
def test_order_columns_of_two_types(one, other, arrivals):
    # Once: raw keys of different types are compared, so the arrival order is wrong.
    last, expected = {}, Counter()
    for side, row in (arrival.split() for arrival in arrivals.split(", ")):
        last[side] = int(row)
        if len(last) == 2:
            expected[last["left"], last["right"]] += 1
    join = sj.StreamJoin("l.k <= r.k + 100", sj.CountWindow(1), order="o", threads=1)
    try:
        result = join.push(with_column("o", one), with_column("o", other))
    except sj.SchemaError:
        return  # refusing is fine
    found = zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True)
    assert Counter(found) == expected


def test_a_null_in_the_order_column():
    # Once: a NULL order sorts as the number 0. To be refused, or first, as Spark sorts NULL.
    left = with_column("o", pa.array([-5, None, 5]))
    join = sj.StreamJoin("l.k <= r.k + 100", sj.CountWindow(1), order="o", threads=1)
    try:
        result = join.push(left, with_column("o", pa.array([-9, -8, 9])))
    except sj.StreamJoinError:
        return
    found = zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True)
    assert sorted(found) == [(1, 2), (2, 1), (2, 2), (3, 2), (3, 3)]


# What is refused while the join runs.

GOOD = with_column("t", [11, 21, 31])
PUSHES = {
    "not Arrow": ([1, 2, 3], ["list", "pyarrow"]),
    "a dict": ({"k": [1]}, ["'id' is missing", "'s' is missing"]),
    "a text": ("k", ["str", "pyarrow"]),
    "missing column": (TABLE.drop_columns(["x"]), ["'x'", "missing", "new StreamJoin"]),
    "new column": (with_column("y", [1, 2, 3]), ["'y'", "new", "cast"]),
    "other type": (with_column("k", [1.0, 2.0, 2.5]), ["'k'", "int64", "double", "2.5", "cast"]),
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("bad", "texts"), PUSHES.values(), ids=PUSHES.keys())
def test_bad_batches_change_nothing(bad, texts, side):
    join, other = make(), make()
    for each in (join, other):
        each.push(TABLE, GOOD)
    before = join.stats
    with pytest.raises(sj.StreamJoinError) as error:
        join.push(**{side: bad})
    says(error, *texts)
    assert join.stats == before
    with pytest.raises(sj.StreamJoinError):
        join.push(**{side: bad, "left" if side == "right" else "right": GOOD})
    assert join.stats == before
    assert rows(join.push(GOOD, TABLE)) == rows(other.push(GOOD, TABLE))


def test_a_lone_array_is_no_batch():
    # Once: a bare ArrowInvalid
    with pytest.raises(sj.SchemaError) as error:
        make().push(left=pa.array([1, 2]))
    says(error, "pyarrow")


def test_two_columns_of_one_name():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["k", "k"])
    with pytest.raises(sj.SchemaError) as error:
        make().push(left=twice)
    says(error, "'k'", "left", "rename")
    with pytest.raises(sj.SchemaError) as error:
        sj.join_tables(TABLE, twice, on="l.k = r.k")
    says(error, "'k'", "right", "rename")


@pytest.mark.parametrize("algorithm", ["bi_sort", "scan", "spo_join"])
@pytest.mark.parametrize("window", [TIMES, sj.CountWindow(100)], ids=str)
def test_an_error_in_the_middle_of_a_push(window, algorithm):
    # Whether a pair fails is known only after others have been found.
    on = "abs(l.k - r.k) <= 0 and l.id <= r.id + 9 and l.id / r.d > 0"
    left, right = TABLE, with_column("d", [1, 1, 2])
    join, other = make(on, window, algorithm=algorithm), make(on, window, algorithm=algorithm)
    for each in (join, other):
        each.push(left, right)
    before = replace(join.stats, seconds={})
    with pytest.raises(sj.EvaluationError) as error:
        join.push(left, with_column("d", [1, 1, 0]))
    says(error, "division by zero", "try_divide")
    assert replace(join.stats, seconds={}) == before
    for chain in join._state.engine.chains.values():
        chain.check()
    assert rows(join.push(GOOD, right)) == rows(other.push(GOOD, right))
    assert join.snapshot() == other.snapshot()


def test_an_error_in_a_key():
    on = "l.k + 9223372036854775807 > r.k"
    join = make(on)
    join.push(with_column("k", [0, 0, -1]), TABLE)
    before = replace(join.stats, seconds={})
    with pytest.raises(sj.EvaluationError, match="overflow"):
        join.push(TABLE, TABLE.slice(1))
    assert replace(join.stats, seconds={}) == before


def test_a_guard_keeps_a_residual_from_failing():
    # Once: Spark's `and` stops at the first false; here every residual is computed for every pair.
    on = "l.k = r.k and l.id + r.id <> 2 and 1 / (l.id + r.id - 2) > 0"
    assert sj.join_tables(TABLE, TABLE, on=on).num_rows == 4


def test_a_self_join_goes_on_as_one():
    join = make()
    join.push(TABLE, TABLE)
    with pytest.raises(sj.StreamJoinError, match="self-join"):
        join.push(left=GOOD)
    with pytest.raises(sj.StreamJoinError, match="self-join"):
        join.push(GOOD, TABLE)
    assert join.push(GOOD, GOOD).num_rows == 15


def test_a_reader_on_both_sides():
    # Once: read once for left, and nothing is left of it for right; a bare ValueError.
    reader = TABLE.to_reader()
    try:
        result = sj.StreamJoin("l.k = r.k", sj.CountWindow(5)).push(reader, reader)
    except sj.StreamJoinError:
        return
    assert result.num_rows == 5


# Watermarks.


def test_a_watermark_needs_a_time_window():
    with pytest.raises(sj.WindowError, match="CountWindow"):
        make(window=sj.CountWindow(5)).advance(5)


@pytest.mark.parametrize("watermark", ["noon", None, 1.5, True, [1]], ids=repr)
@pytest.mark.parametrize("seen", [True, False], ids=["both sides seen", "nothing seen"])
def test_a_watermark_that_is_no_time(watermark, seen):
    # Once: before both sides are seen anything is taken, and every later push fails.
    join = make()
    if seen:
        join.push(TABLE, GOOD)
    with pytest.raises(sj.WindowError) as error:
        join.advance(watermark)
    says(error, repr(watermark), "integer")
    assert rows(join.push(GOOD, TABLE))
    join.snapshot()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("watermark", [datetime(9999, 1, 1), 10**18], ids=str)
def test_a_watermark_past_the_end_of_time(unit, watermark):
    # Once: a bare ArrowInvalid (ns) or OverflowError (milliseconds past the year 9999).
    join, table = make(), with_column("t", pa.array([1, 2, 3], pa.timestamp(unit)))
    join.push(table, table.slice(0))
    try:
        join.advance(watermark)
    except sj.WindowError:
        return
    assert join.stats.live_left == 0


def test_a_watermark_between_two_ticks():
    join, table = make(), with_column("t", pa.array([9, 10, 11], pa.timestamp("s")))
    join.push(table, table.slice(0))
    join.advance(datetime(1970, 1, 1, 0, 0, 10, 500_000))
    join.push(left=table)
    assert join.stats.late == 2


def test_a_numpy_integer_is_a_watermark():
    # Once: refused, while windows take NumPy integers.
    join = make()
    join.push(TABLE, GOOD)
    join.advance(np.int64(10_000))
    assert join.stats.live_left == 0


def test_huge_integer_watermarks():
    join = make()
    join.push(TABLE, GOOD)
    join.advance(10**30)
    join.push(left=TABLE)
    assert (join.stats.live_left, join.stats.late) == (0, 3)
    assert sj.StreamJoin.restore(join.snapshot()).stats.late == 3


# Snapshots.


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_bytes_that_are_not_all_of_a_snapshot(seen):
    # Once: truncated bytes gave a bare OSError or KeyError.
    join = make()
    if seen:
        join.push(left=TABLE)
    if seen == 2:
        join.push(right=TABLE)
    data = join.snapshot()
    for size in range(len(data) - 8):  # the last 8 bytes only tell that the stream ends
        with pytest.raises(sj.SnapshotError, match=r"snapshot\(\)"):
            sj.StreamJoin.restore(data[:size])


@pytest.mark.parametrize("data", [b"", b"garbage", b"\0" * 100, "abc", None, 5], ids=repr)
def test_what_is_no_snapshot(data):
    # Once: a text was taken as a file's path.
    with pytest.raises(sj.SnapshotError):
        sj.StreamJoin.restore(data)


def test_arrow_bytes_of_something_else():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write(TABLE)
    with pytest.raises(sj.SnapshotError, match="snapshot"):
        sj.StreamJoin.restore(sink.getvalue().to_pybytes())


# Fine, though it may look bad.


def test_null_times_match_nothing_and_are_counted():
    join = make()
    result = join.push(with_column("t", [None, 20, None]), with_column("t", [20, None, 20]))
    assert result["id"].to_pylist() == [2]
    assert join.stats.null_times == 3
    assert join.stats.late == 0


def test_a_time_column_with_an_odd_name():
    # Once: a backtick in a name is not escaped.
    table = TABLE.rename_columns(["id", "a`b", "k", "x", "s"])
    result = sj.join_tables(table, table, on="l.k = r.k", window=TIMES, time="a`b")
    assert result.num_rows == 5


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"window": sj.CountWindow(10)},
        {"window": sj.TimeWindow(10), "time": "t"},
        {"window": sj.TumblingWindow(10), "time": "t"},
        {"window": sj.TumblingWindow(10), "time": "t", "emit": "eager"},
        {"window": sj.SessionWindow(10), "time": "t"},
        {"window": sj.SessionWindow(10), "time": "t", "emit": "eager"},
    ],
    ids=lambda options: f"{options['window']}, {options.get('emit')}",
)
def test_a_caller_may_reuse_its_buffers(options, both):
    # Once: NumPy memory behind a batch is kept, not copied, so stored rows change with it; and the
    # keys of rows that wait for the end of a window.
    values, times = np.array([1, 2, 3]), np.array([1, 2, 3])
    left = pa.table({"k": pa.array(values), "t": pa.array(times), "x": pa.array(values)})
    other = pa.table({"k": [7], "t": [1], "y": [7]})
    join = sj.StreamJoin("l.k = r.k", **options)
    join.push(left, other if both else None)
    values[:], times[:] = 7, 100
    results = [join.push(right=pa.table({"k": [1, 2, 3], "t": [1, 2, 3], "y": [1, 2, 3]}))]
    results.append(join.finish())
    assert sorted(x for each in results for x in each["x"].to_pylist()) == [1, 2, 3]


NINES = "9" * 5000


@pytest.mark.parametrize(
    ("on", "window", "message"),
    [
        ("l.t = r.t", f"count {NINES}", "a whole number of rows"),
        ("l.t = r.t", f"{NINES} seconds", "5,000 digits"),
        (f"l.t <= r.t + {NINES}", "1 second", "5000 digits"),
    ],
    ids=["count", "duration", "condition"],
)
def test_numbers_longer_than_python_reads(on, window, message):
    # Once: ValueError, "Exceeds the limit (4300 digits) for integer string conversion".
    rows = pa.table({"t": [1]})
    time = None if window.startswith("count") else "t"
    with pytest.raises(sj.StreamJoinError, match=message):
        sj.StreamJoin(on, window, time).push(rows, rows)
