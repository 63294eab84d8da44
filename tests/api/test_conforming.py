"""Later batches: cast to the schema of the first where nothing is lost, else refused by name."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.api.conforming import conform_batch

WINDOW = sj.CountWindow(1000)


def join_of(*lefts, right=None):
    """Push one left batch after the other, then all keys at once; return the rows as they came."""
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    right = pa.table({"k": range(20)}) if right is None else right
    for left in lefts:
        join.push(left=left)
    return join.push(right=right).drop_columns(["k_right"]).sort_by("k").to_pylist()


def bound_join(first, right=None):
    """A join whose schemas are bound by its first push."""
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    join.push(left=first, right=pa.table({"k": range(20)}) if right is None else right)
    return join


FRAME = pd.DataFrame({"k": [1, 2, 3], "s": ["a", "b", "c"], "x": [1, 2, 3]})


@pytest.mark.parametrize("is_bound", [False, True])
@pytest.mark.parametrize(
    ("later", "rows"),
    [
        (FRAME[FRAME.k > 1], [(2, "b", 2), (3, "c", 3)]),
        (FRAME[FRAME.k > 5], []),
        (FRAME.assign(s=None), [(1, None, 1), (2, None, 2), (3, None, 3)]),
        (FRAME.assign(x=[1, None, 3]), [(1, "a", 1), (2, "b", None), (3, "c", 3)]),
        (FRAME[["x", "s", "k"]], [(1, "a", 1), (2, "b", 2), (3, "c", 3)]),
        (FRAME.set_index(np.array([7, 8, 9])), [(1, "a", 1), (2, "b", 2), (3, "c", 3)]),
        (FRAME.astype({"s": "category"}), [(1, "a", 1), (2, "b", 2), (3, "c", 3)]),
        (FRAME.astype({"s": "string", "k": "Int8"}), [(1, "a", 1), (2, "b", 2), (3, "c", 3)]),
        (pl.DataFrame(FRAME.to_dict("list")), [(1, "a", 1), (2, "b", 2), (3, "c", 3)]),
        (FRAME.to_dict("list"), [(1, "a", 1), (2, "b", 2), (3, "c", 3)]),
        (FRAME.to_dict("records"), [(1, "a", 1), (2, "b", 2), (3, "c", 3)]),
        ([], []),
        (pd.DataFrame(), []),
        (pd.DataFrame(columns=["k", "s", "x"]), []),
    ],
    ids=[
        "filtered", "empty slice", "all None", "gap", "other order", "other index", "category",
        "other dtypes", "polars", "dict", "records", "empty list", "empty frame", "columns only",
    ],
)  # fmt: skip
def test_frames_of_any_kind_may_follow_one_another(later, rows, is_bound):
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    keys = pa.table({"k": range(20)})
    join.push(left=FRAME, right=keys if is_bound else None)
    found = [join.push(left=later)]
    found.append(join.push(right=pa.table({"k": [] if is_bound else range(20)})))
    names = ["k", "s", "x"]
    table = pa.concat_tables([each for each in found if each.num_rows] or found[:1])
    assert table.schema.names[: len(names)] == names
    assert table.schema.types[: len(names)] == [pa.int64(), pa.string(), pa.int64()]
    expected = rows if is_bound else [*FRAME.itertuples(index=False, name=None), *rows]
    found = [tuple(row[name] for name in names) for row in table.to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_frame_may_be_the_odd_one_at_first():
    """Until the schemas are bound, a column of NULLs takes the type of the first that has one."""
    rows = [{"k": 1, "s": None}, {"k": 2, "s": "b"}]
    frame = pd.DataFrame(rows)
    assert join_of(frame[:1], frame[1:]) == rows
    assert join_of(frame[:0], frame[1:]) == rows[1:]
    assert join_of(frame.assign(k=None)[:0], frame[:0], frame) == rows
    lists = [{"k": 1, "s": []}, {"k": 2, "s": [1.5]}]
    assert join_of(lists[:1], lists[1:]) == lists
    categories = {"k": [1], "s": pa.nulls(1).dictionary_encode()}
    assert join_of(categories, frame[1:].astype({"s": "category"})) == rows
    again = join_of(pd.DataFrame({"s": [], "k": []}, dtype=object), frame, right={"k": [2]})
    assert again == rows[1:]


def test_rows_wait_for_a_side_that_had_neither_rows_nor_types():
    join = sj.StreamJoin("l.s = r.s", WINDOW)
    empty = pd.DataFrame({"s": ["a"], "x": [1]})[:0]
    assert join.push(left=empty, right={"s": ["a"]}).num_rows == 0
    assert join.schema is None
    join = sj.StreamJoin.restore(join.snapshot())
    assert join.push(left={"s": ["a", "b"], "x": [1, 2]})["x"].to_pylist() == [1]
    assert join.schema.types == [pa.string(), pa.int64(), pa.string()]


def test_a_self_join_may_begin_without_rows():
    frame = pd.DataFrame({"s": ["a", "a"]})
    join = sj.StreamJoin("l.s = r.s", sj.TimeWindow(5), time="t")
    frame["t"] = [1, 2]
    empty = frame[:0]
    join.push(empty, empty)
    assert join.push(frame, frame).num_rows == 4
    assert join.stats.live_left + join.stats.live_right == 2 * 2
    with pytest.raises(sj.StreamJoinError, match="self-join"):
        join.push(left=frame)


def test_rows_that_wait_get_the_types_that_came_later():
    join = sj.StreamJoin("l.s = r.s and l.k = r.k", sj.TimeWindow(5), time="t", delay=1)
    join.push(left={"s": [None], "k": [1], "t": [1]})
    join.advance(0)
    join.push(left={"t": [1], "k": [2], "s": ["a"]})
    join = sj.StreamJoin.restore(join.snapshot())
    found = join.push(right={"s": ["a", None], "k": [2, 1], "t": [1, 1]})
    assert found["k"].to_pylist() == [2]
    assert found.schema.field("s").type == pa.string()


def test_a_column_of_nulls_that_was_bound_tells_the_way_out():
    join = bound_join(pd.DataFrame({"k": [1], "s": [None]}))
    before = join.stats
    with pytest.raises(sj.SchemaError) as error:
        join.push(left=pd.DataFrame({"k": [1], "s": ["a"]}))
    for text in ("'s'", "null", "string", "nothing but NULL", "astype"):
        assert text in str(error.value)
    assert join.stats == before
    assert join.push(left=pd.DataFrame({"k": [1], "s": [None]})).num_rows == 1


def test_a_named_index_is_a_column_always():
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=pd.Index([1, 2, 3], name="k"))
    counted = pd.DataFrame({"x": [1, 2, 3]}, index=pd.RangeIndex(1, 4, name="k"))
    rows = [{"x": 1, "k": 1}, {"x": 2, "k": 2}, {"x": 3, "k": 3}]
    assert join_of(frame) == join_of(counted) == rows
    assert join_of(counted[:1], counted[counted.x > 1]) == rows
    several = frame.reset_index().set_index([pd.Index([4, 5, 6]), "k"])
    assert join_of(several) == rows
    both = frame.reset_index().set_index("k", drop=False)
    assert [row["k"] for row in join_of(both)] == [1, 2, 3]


def test_an_index_without_a_name_is_nowhere():
    frame = FRAME[FRAME.k > 1]
    for each in (frame, pa.Table.from_pandas(frame), pa.RecordBatch.from_pandas(frame)):
        found = sj.join_tables(each, each, on="l.k = r.k")
        assert found.schema.names == ["k", "s", "x", "k_right", "s_right", "x_right"]
    kept = pa.table({"k": [1], "__index_level_0__": [2]})  # not of pandas
    assert sj.join_tables(kept, kept, on="l.k = r.k").num_columns == 4


# Type by type.

EXACT = {
    "null": (pa.array([None, None]), pa.array([1, 2]), [None, None]),
    "null doubles": (pa.array([None, None], pa.float64()), pa.array(["a"]), [None, None]),
    "empty text": (pa.array([], pa.string()), pa.array([1]), []),
    "no lists": (pa.array([], pa.list_(pa.int8())), pa.array([], pa.list_(pa.int8(), 2)), []),
    "no categories": (pa.nulls(2).dictionary_encode(), pa.array(["a"]), [None, None]),
    "null uuid": (pa.nulls(1), pa.nulls(1, pa.uuid()), [None]),
    "null map": (pa.nulls(1), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), [None]),
    "null struct": (pa.nulls(1), pa.array([{"a": "x"}]), [None]),
    "int to double": (pa.array([1, None]), pa.array([0.5]), [1.0, None]),
    "double to int": (pa.array([1.0, None]), pa.array([5]), [1, None]),
    "wider": (pa.array([1, 2**31], pa.int64()), pa.array([1], pa.uint32()), [1, 2**31]),
    "narrower": (pa.array([-128], pa.int64()), pa.array([1], pa.int8()), [-128]),
    "float to double": (pa.array([0.5], pa.float32()), pa.array([0.1]), [0.5]),
    "int to decimal": (pa.array([12]), pa.array([Decimal("10.5")]), None),
    "large text": (pa.array(["a"], pa.large_string()), pa.array(["b"]), ["a"]),
    "text view": (pa.array(["a"], pa.string_view()), pa.array(["b"]), ["a"]),
    "view first": (pa.array(["a"]), pa.array(["b"], pa.string_view()), ["a"]),
    "bytes": (pa.array([b"a"], pa.large_binary()), pa.array([b"b"]), [b"a"]),
    "dictionary": (pa.array(["a", None]).dictionary_encode(), pa.array(["b"]), ["a", None]),
    "to dictionary": (pa.array(["a", None]), pa.array(["b"]).dictionary_encode(), ["a", None]),
    "nulls to dictionary": (pa.nulls(1), pa.array(["b"]).dictionary_encode(), [None]),
    "dictionary of ints": (pa.array([3]).dictionary_encode(), pa.array([0.5]), [3.0]),
    "ns to us": (
        pa.array([1000], pa.timestamp("ns")), pa.array([1], pa.timestamp("us")),
        [datetime(1970, 1, 1, 0, 0, 0, 1)],
    ),
    "zones": (
        pa.array([0], pa.timestamp("us", "Europe/Berlin")), pa.array([1], pa.timestamp("s", "UTC")),
        [datetime(1970, 1, 1, tzinfo=UTC)],
    ),
    "empty lists": (pa.array([[], None]), pa.array([[1]]), [[], None]),
    "struct": (
        pa.array([{"a": None, "b": 1.0}]), pa.array([{"a": "x", "b": 1}]), [{"a": None, "b": 1}],
    ),
    "map": (
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.array([[("a", 1)]], pa.map_(pa.large_string(), pa.int64())), [[("a", 1)]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("later", "first", "values"), EXACT.values(), ids=EXACT.keys())
def test_what_can_be_cast_is_cast(later, first, values):
    def table(array):
        return pa.table({"k": pa.array([1] * len(array), pa.int64()), "v": array})

    join = bound_join(table(first))
    kind = join.schema.field("v").type
    found = join.push(left=table(later))
    assert found.schema == join.schema
    assert found.schema.field("v").type == kind
    assert found["v"].to_pylist() == ([Decimal("12.0")] if values is None else values)
    both = join.push(right=pa.table({"k": [1]}))  # rows of both batches, together
    assert both.num_rows == len(first) + len(later)


REFUSED = {
    "fraction": (pa.array([1.0, 2.5]), pa.array([1]), "2.5 in row 1"),
    "NaN": (pa.array([None, float("nan")]), pa.array([1]), "nan in row 1"),
    "large": (pa.array([0, 2**53 + 1]), pa.array([0.5]), "9007199254740993 in row 1"),
    "negative": (pa.array([-1]), pa.array([1], pa.uint64()), "-1 in row 0"),
    "too wide": (pa.array([1, 2, 300, 4]), pa.array([1], pa.int8()), "300 in row 2"),
    "text": (pa.array([None, "7"]), pa.array([1]), "'7' in row 1"),
    "to text": (pa.array([7]), pa.array(["1"]), "7 in row 0"),
    "truth": (pa.array([True]), pa.array([1]), "True in row 0"),
    "bytes": (pa.array([b"a"]), pa.array(["a"]), "b'a' in row 0"),
    "double to float": (pa.array([0.5]), pa.array([0.5], pa.float32()), "0.5 in row 0"),
    "double to decimal": (pa.array([0.5]), pa.array([Decimal("0.5")]), "0.5 in row 0"),
    "decimal": (pa.array([Decimal("10.25")]), pa.array([Decimal("0.5")]), "Decimal('10.25')"),
    "ns": (pa.array([1], pa.timestamp("ns")), pa.array([1], pa.timestamp("us")), "in row 0"),
    "local": (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC")), "row 0"),
    "date": (pa.array([1], pa.timestamp("us")), pa.array([1], pa.date32()), "row 0"),
    "fields": (pa.array([{"b": 1}]), pa.array([{"a": 1}]), "{'b': 1} in row 0"),
    "in lists": (pa.array([[1], [1.5]]), pa.array([[1]]), "[1.5] in row 1"),
    "long": (pa.array(["x" * 500]), pa.array([1]), "xxx... in row 0"),
}


@pytest.mark.parametrize(("later", "first", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_cast_is_named(later, first, text):
    join = bound_join({"k": [1], "v": first})
    before = join.stats
    with pytest.raises(sj.SchemaError) as error:
        join.push(left={"v": later, "k": pa.array(range(len(later)), pa.int64())})
    kinds = (f"was {first.type}", f"is {later.type}")
    for each in ("left", "'v'", text, *kinds, "cast", "new StreamJoin"):
        assert each in str(error.value)
    assert join.stats == before


def test_a_first_batch_without_nulls_by_declaration():
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.string())])
    join = bound_join(pa.table({"k": [1], "s": ["a"]}, schema=schema))
    assert join.push(left={"k": [2], "s": ["b"]}).num_rows == 1
    with pytest.raises(sj.SchemaError, match="'k' was declared to have no NULL"):
        join.push(left={"k": [2, None], "s": ["b", "c"]})


NUMBERS = [
    pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
    pa.decimal128(20, 3), pa.decimal128(5, 1),
]  # fmt: skip


@pytest.mark.parametrize(("given_as", "wanted"), [*permutations(NUMBERS, 2)], ids=str)
@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.none() | st.integers(-300, 300) | st.integers(2**53 - 2, 2**53 + 9)
                       | st.floats(allow_infinity=False), max_size=4))  # fmt: skip
def test_numbers_are_never_changed(given_as, wanted, values):
    fitting = []
    for value in values:
        is_exact = not pa.types.is_decimal(given_as) or isinstance(value, int)
        try:
            fitting += pa.array([value if is_exact else 1]).cast(given_as).to_pylist()
        except pa.ArrowInvalid:
            continue
    batch = pa.record_batch({"v": pa.array(fitting, given_as)})
    try:
        cast = conform_batch(batch, pa.schema({"v": wanted}), "left")
    except sj.SchemaError:
        return
    for before, after in zip(fitting, cast["v"].to_pylist(), strict=True):
        assert before == after or (before != before and after != after)
