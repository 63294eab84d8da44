"""The public API: what it takes, what it returns, and its names."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streamjoin as sj

DATA = {"k": [1, 2, 3], "s": ["a", "b", None], "x": [0.5, 1.5, 2.5]}
TABLE = pa.table(DATA)
WINDOW = sj.CountWindow(100)
INPUTS = {
    "table": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "chunked table": lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "sliced table": lambda: pa.concat_tables([TABLE, TABLE]).combine_chunks().slice(3),
    "reader": lambda: TABLE.to_reader(),
    "pandas": lambda: pd.DataFrame(DATA),
    "polars": lambda: pl.DataFrame(DATA),
    "duckdb": lambda: duckdb.sql("select * from TABLE_FOR_DUCKDB"),
}


@pytest.fixture(autouse=True)
def duckdb_table():
    duckdb.register("TABLE_FOR_DUCKDB", TABLE)
    yield
    duckdb.unregister("TABLE_FOR_DUCKDB")


def rows(result):
    return sorted(result.to_pylist(), key=str)


@pytest.mark.parametrize("left", INPUTS.values(), ids=INPUTS.keys())
@pytest.mark.parametrize("right", INPUTS.values(), ids=INPUTS.keys())
def test_anything_arrow_is_taken(left, right):
    for on, ids in {"l.k = r.k": [1, 2, 3], "l.s = r.s": [1, 2]}.items():
        result = sj.join_tables(left(), right(), on=on)
        assert isinstance(result, pa.Table)
        assert sorted(result["k"].to_pylist()) == sorted(result["k_right"].to_pylist()) == ids
        join = sj.StreamJoin(on, WINDOW)
        join.push(left=left())
        assert sorted(join.push(right=right())["k"].to_pylist()) == ids


def test_polars_texts_are_keys_and_payload():
    frame = pl.DataFrame({"s": ["a", "long enough not to be inlined", None], "n": [1, 2, 3]})
    join = sj.StreamJoin("l.s = r.s and length(l.s) > 1", WINDOW)
    for _ in range(2):  # the schema does not change from push to push
        join.push(left=frame)
    result = join.push(right=frame)
    assert result["s"].to_pylist() == result["s_right"].to_pylist() == [frame["s"][1]] * 2


def test_polars_nested_texts_are_payload():
    frame = pl.DataFrame({"k": [1, 2], "tags": [["a", "some text that is long"], []]})
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    join.push(left=frame)
    join.push(left=frame)
    result = sj.StreamJoin.restore(join.snapshot()).push(right=frame)
    assert sorted(result["tags_right"].to_pylist()) == sorted(frame["tags"].to_list() * 2)


# Results.


def test_until_both_sides_are_seen_rows_wait():
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    assert join.schema is None
    empty = join.push()
    assert (empty.num_rows, empty.num_columns) == (0, 0)
    waiting = join.push(left=TABLE)
    assert waiting.num_rows == 0
    assert join.schema is None
    assert (join.stats.rows_left, join.stats.live_left, join.stats.rows_right) == (3, 3, 0)
    assert join.stats.bytes > 0
    result = join.push(right=TABLE.slice(1))
    assert sorted(result["k"].to_pylist()) == [2, 3]
    assert join.schema == result.schema
    assert join.stats.matches == 2


def test_the_result_has_the_same_schema_with_and_without_rows():
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    first = join.push(TABLE, TABLE.slice(0))
    for result in (join.push(), join.push(left=TABLE.slice(0, 0)), join.push(right=TABLE.slice(1))):
        assert result.schema == first.schema == join.schema
    assert first.schema.types == TABLE.schema.types * 2


@pytest.mark.parametrize(
    ("left", "right", "names"),
    [
        (["k", "x"], ["k", "y"], ["k", "x", "k_right", "y"]),
        (["k", "k_right"], ["k"], ["k", "k_right", "k_right_right"]),
        (["k"], ["k", "k_right"], ["k", "k_right", "k_right_right"]),
        (["k"], ["k_right", "k"], ["k", "k_right", "k_right_right"]),
        (["k", "K"], ["k"], ["k", "K", "k_right"]),
    ],
)
def test_clashing_names(left, right, names):
    def make(columns):
        return pa.table({name: [len(name) % 2] for name in columns})

    result = sj.join_tables(make(left), make(right), on="l.`k` = r.`k`", algorithm="scan")
    assert result.schema.names == names
    assert len(set(names)) == len(names)


def test_empty_batches():
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), time="x_ms")
    empty = TABLE.slice(0, 0).append_column("x_ms", pa.array([], pa.int64()))
    full = TABLE.append_column("x_ms", pa.array([1, 2, 3]))
    assert join.push(left=empty).num_rows == 0
    assert join.push(right=empty).num_rows == 0
    assert join.push(empty, empty.slice(0)).num_rows == 0
    join.advance(0)
    assert join.push(full, empty).num_rows == 0
    assert join.push(empty, full).num_rows == 3
    no_batches = pa.Table.from_batches([], full.schema)
    assert join.push(no_batches, no_batches.slice(0)).num_rows == 0
    assert sj.join_tables(empty, full, on="l.k = r.k").num_rows == 0
    assert sj.join_tables(empty, empty, on="l.k = r.k").num_columns == 8


def test_a_table_without_columns():
    with pytest.raises(sj.StreamJoinError, match="k"):
        sj.join_tables(pa.table({}), TABLE, on="l.k = r.k")


def test_stats_count_rows_and_phases():
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    join.push(TABLE, TABLE.slice(1))
    stats = join.stats
    assert (stats.rows_left, stats.rows_right, stats.matches) == (3, 2, 2)
    assert (stats.live_left, stats.live_right, stats.subwindows) == (3, 2, 2)
    assert (stats.late, stats.null_times) == (0, 0)
    assert stats.bytes > 0
    assert set(stats.seconds) == {"keys", "sort", "probe", "insert", "expire"}
    assert all(second >= 0 for second in stats.seconds.values())


def test_the_example_of_the_issue():
    def batch(prices, second):
        at = [datetime(2024, 1, 1, 0, 0, second)] * len(prices)
        return pa.table({"symbol": ["ACME"] * len(prices), "price": prices, "ts": at})

    join = sj.StreamJoin(
        on="l.symbol = r.symbol and abs(l.price - r.price) <= 0.05",
        window=sj.TimeWindow("10 minutes"),
        time=("ts", "ts"),
        algorithm="auto",
    )
    join.push(left=batch([1.0, 2.0], 0))
    assert join.push(right=batch([1.04, 5.0], 30))["price"].to_pylist() == [1.0]
    join.advance(datetime(2024, 1, 1, 1))
    assert join.stats.live_left == join.stats.live_right == 0
    join.push(left=batch([1.0], 0))
    assert join.stats.late == 1
    assert sj.StreamJoin.restore(join.snapshot()).stats.late == 1
    assert "band" in sj.explain(on="abs(l.x - r.x) <= 5")


# Types.


def keyed(kind, values, **more):
    return pa.table({"k": pa.array(values, kind), "n": range(len(values)), **more})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.large_string(), ["a", "b", None]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None]),
        (pa.binary(), [b"a", b"", None]),
        (pa.bool_(), [True, False, None]),
        (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("2.00"), None]),
        (pa.decimal128(30, 2), [Decimal("-1.50"), Decimal("2e20"), None]),
        (pa.date32(), [date(1969, 1, 1), date(2024, 2, 29), None]),
        (pa.timestamp("ns"), [datetime(1969, 1, 1), datetime(2024, 1, 1), None]),
        (pa.uint32(), [0, 2**32 - 1, None]),
        (pa.int8(), [-128, 127, None]),
        (pa.float32(), [0.1, float("nan"), None]),
    ],
    ids=str,
)
def test_keys_of_any_type(kind, values):
    for algorithm in ("bi_sort", "scan"):
        result = sj.join_tables(
            keyed(kind, values), keyed(kind, values[::-1]), on="l.k = r.k", algorithm=algorithm
        )
        assert sorted(zip(result["n"].to_pylist(), result["n_right"].to_pylist(), strict=True)) == [
            (0, 2), (1, 1),
        ]  # fmt: skip
        assert result.schema.field("k").type == kind


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.int64()), [[1, 2], [], None]),
        (
            pa.struct({"a": pa.int64(), "b": pa.string()}),
            [{"a": 1, "b": "x"}, None, {"a": 2, "b": ""}],
        ),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None]),
        (pa.list_(pa.struct({"a": pa.list_(pa.string())})), [[{"a": ["x"]}], [], None]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", None, "a"]),
        (pa.null(), [None, None, None]),
        (pa.uint64(), [2**64 - 1, 0, None]),
        (pa.decimal256(60, 3), [Decimal("1.5"), None, Decimal("-9e40")]),
        (pa.month_day_nano_interval(), [(1, 2, 3), None, (0, 0, 0)]),
        (pa.binary(4), [b"abcd", None, b"1234"]),
    ],
    ids=str,
)
def test_payload_of_any_type(kind, values):
    payload = pa.array(values, kind)
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    for place in range(3):  # one row at a time: rows come from several pieces
        join.push(left=pa.table({"k": [place], "p": payload.slice(place, 1)}))
        join = sj.StreamJoin.restore(join.snapshot())
    result = join.push(right=pa.table({"k": range(3), "p": payload})).sort_by("k")
    assert result["p"].to_pylist() == result["p_right"].to_pylist() == payload.to_pylist()
    assert result.schema.field("p_right").type == kind
    join = sj.StreamJoin.restore(join.snapshot())
    again = join.push(left=pa.table({"k": range(3), "p": payload})).sort_by("k")
    assert again["p_right"].to_pylist() == payload.to_pylist()


def test_dictionaries_may_differ_from_batch_to_batch():
    def batch(values):
        return pa.table({"k": pa.array(values).dictionary_encode()})

    join = sj.StreamJoin("l.k = r.k", WINDOW)
    for values in (["a", "b"], ["c"], ["b", "a", "a"]):
        join.push(left=batch(values))
    join = sj.StreamJoin.restore(join.snapshot())
    result = join.push(right=batch(["a", "c", "d"]))
    assert sorted(result["k"].to_pylist()) == sorted(result["k_right"].to_pylist()) == list("aaac")


# Times.

NOON = datetime(2024, 1, 1, 12)


def timed(kind, seconds):
    moments = [NOON + timedelta(seconds=second) for second in seconds]
    if pa.types.is_timestamp(kind) and kind.tz:
        moments = [moment.replace(tzinfo=UTC) for moment in moments]
    return pa.table({"t": pa.array(moments, kind), "n": seconds})


TIME_TYPES = [
    pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"),
    pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin"),
]  # fmt: skip


# With a zone on one side and none on the other is another matter.
TIME_PAIRS = [
    (left, right) for left in TIME_TYPES for right in TIME_TYPES if bool(left.tz) == bool(right.tz)
]


@pytest.mark.parametrize(("left", "right"), TIME_PAIRS, ids=str)
def test_timestamps_of_any_unit_on_either_side(left, right):
    window = sj.TimeWindow(before="2 seconds", after="1 second")
    join = sj.StreamJoin("l.n >= 0 and r.n >= 0", window, time="t", delay="1 second")
    result = join.push(timed(left, [10, 20]), timed(right, [7, 8, 10, 11, 12, 19]))
    assert sorted(zip(result["n"].to_pylist(), result["n_right"].to_pylist(), strict=True)) == [
        (10, 8), (10, 10), (10, 11), (20, 19),
    ]  # fmt: skip
    join.push(left=timed(left, [17, 18]))  # the watermark is 19 - 1
    assert join.stats.late == 1
    moment = NOON + timedelta(seconds=100)
    join.advance(moment.replace(tzinfo=UTC) if left.tz else moment)
    assert join.stats.live_left == 0


def test_dates_as_times():
    def make(days):
        return pa.table({"d": pa.array([date(2024, 1, day) for day in days]), "n": days})

    join = sj.StreamJoin("l.n <= r.n", sj.TimeWindow(before=0, after="2 days"), time="d")
    result = join.push(make([1, 5]), make([1, 3, 4, 7, 8]))
    assert sorted(zip(result["n"].to_pylist(), result["n_right"].to_pylist(), strict=True)) == [
        (1, 1), (1, 3), (5, 7),
    ]  # fmt: skip
    join.advance(date(2024, 1, 7))
    join.push(left=make([6, 7]))
    assert join.stats.late == 1


def test_a_date_and_a_timestamp():
    left = pa.table({"t": pa.array([date(2024, 1, 1)]), "n": [1]})
    right = pa.table({"t": pa.array([NOON - timedelta(hours=3), NOON]), "n": [1, 1]})
    window = sj.TimeWindow("10 hours")
    assert sj.join_tables(left, right, on="l.n = r.n", window=window, time="t").num_rows == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint32(), pa.int16()], ids=str)
def test_integers_are_milliseconds(kind):
    left = pa.table({"t": pa.array([5000], kind), "n": [1]})
    right = pa.table({"t": pa.array([3999, 4000, 6000, 6001], kind), "n": [1, 1, 1, 1]})
    window = sj.TimeWindow("1 second")
    result = sj.join_tables(left, right, on="l.n = r.n", window=window, time="t")
    assert sorted(result["t_right"].to_pylist()) == [4000, 6000]


def test_a_watermark_in_milliseconds_for_timestamps():
    join = sj.StreamJoin("l.n = r.n", sj.TimeWindow("1 second"), time="t")
    join.push(timed(pa.timestamp("us"), [0]), timed(pa.timestamp("us"), [0]))
    join.advance(int((NOON - datetime(1970, 1, 1)).total_seconds() * 1000) + 1001)
    assert join.stats.live_left == 0


def test_watermarks_wait_for_both_sides_too():
    join = sj.StreamJoin("l.n = r.n", sj.TimeWindow(5), time="t")
    rows_at = [pa.table({"t": [second], "n": [1]}) for second in (1, 9)]
    join.push(left=rows_at[0])
    join.advance(8)
    join.push(left=rows_at[0])  # late
    join.push(left=rows_at[1])
    join = sj.StreamJoin.restore(join.snapshot())
    assert join.push(right=rows_at[1]).num_rows == 1
    assert (join.stats.late, join.stats.rows_left) == (1, 3)


def test_a_watermark_never_moves_back():
    join = sj.StreamJoin("l.n = r.n", sj.TimeWindow(5), time="t")
    batch = pa.table({"t": [10], "n": [1]})
    join.push(batch, batch.slice(0))
    join.advance(12)
    join.advance(3)
    join.push(left=batch)
    assert join.stats.late == 1


def test_importing_is_cheap():
    code = (
        "import sys, streamjoin\n"
        "heavy = {'numba', 'pyarrow', 'numpy', 'sqlglot', 'pyspark'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# Windows as text.


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("3 ms", sj.TimeWindow(3)),
        ("before 1 ms, after 5 ms", sj.TimeWindow(before=1, after=5)),
        ("tumbling 10 ms offset 5 ms", sj.TumblingWindow(10, offset=5)),
        ("session 3 ms", sj.SessionWindow(3)),
        ("count 2", sj.CountWindow(2)),
        ("count 1, 3", sj.CountWindow(left=1, right=3)),
    ],
)
def test_a_window_may_be_written_as_text(text, window):
    table = pa.table({"k": [1] * 6, "t": [1, 3, 6, 12, 14, 19]})
    time = None if isinstance(window, sj.CountWindow) else "t"

    def results(window):
        options = {"on": "l.k = r.k", "window": window, "time": time}
        join = sj.StreamJoin(**options)
        pushed = [join.push(table, table.slice(0)), join.push(left=table), join.finish()]
        yield from (sorted(map(str, each.to_pylist())) for each in pushed)
        yield sorted(map(str, sj.join_tables(table, table, **options).to_pylist()))
        yield sj.find_matches(table, table, **options).count()
        yield sj.explain(**options, threads=1)
        yield sj.StreamJoin.restore(join.snapshot()).stats.rows_left

    assert list(results(text)) == list(results(window))
