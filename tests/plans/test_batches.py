"""What comes in: frames of others, and types that Arrow cannot gather as they are."""

import uuid

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import dataset

import streamjoin as sj

WINDOW = sj.CountWindow(1000)
NAMES = ["a", "b", None, "a"]
SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["b", "a"])], ids=["categorical", "enum"])
@pytest.mark.parametrize("on", ["l.c = r.c", "l.n = r.n"])
def test_categories_of_polars_are_keys_and_payload(kind, on):
    frame = pl.DataFrame({"c": NAMES, "n": range(4)}, schema={"c": kind, "n": pl.Int64})
    plain = pl.DataFrame({"c": NAMES, "n": range(4)})
    expected = sj.join_tables(plain, plain, on=on).sort_by(
        [("n", "ascending"), ("n_right", "ascending")]
    )
    for other in (frame, plain):
        join = sj.StreamJoin(on, WINDOW)
        found = [join.push(left=frame[:2], right=other[:1]), join.push(frame[2:], other[1:])]
        table = pa.concat_tables(found).sort_by([("n", "ascending"), ("n_right", "ascending")])
        assert table.to_pylist() == expected.to_pylist()
        assert pl.DataFrame(table)["c"].cast(str).to_list() == expected["c"].to_pylist()


def test_lists_of_categories_are_payload():
    frame = pl.DataFrame(
        {"k": [1], "c": [["a", "b"]]}, schema_overrides={"c": pl.List(pl.Categorical)}
    )
    assert sj.join_tables(frame, frame, on="l.k = r.k")["c_right"].to_pylist() == [["a", "b"]]


def test_categories_of_pandas_may_be_more_than_a_byte_holds():
    """Once: 100 categories here and 100 others there were too many for indices of 8 bits."""
    join = sj.StreamJoin("l.s = r.s", WINDOW)
    names = [str(number) for number in range(400)]
    for first in range(0, 400, 100):
        frame = pd.DataFrame({"s": pd.Categorical(names[first : first + 100])})
        join.push(left=frame, right=frame.copy())
    large = pd.DataFrame({"s": pd.Categorical(names)})  # indices of 16 bits
    found = join.push(right=large)
    assert sorted(found["s"].to_pylist()) == sorted(found["s_right"].to_pylist()) == sorted(names)


def test_runs_are_written_out():
    runs = pc.run_end_encode(pa.array(["a", "a", "b"]))
    table = pa.table({"k": [1, 2, 3], "v": runs})
    pieces = pa.concat_tables([table, table.slice(1, 1)])
    for each in (table, pieces, pa.record_batch({"k": [1, 2, 3], "v": runs})):
        found = sj.join_tables(each, table, on="l.v = r.v and l.k = r.k")
        assert found.schema.field("v").type == pa.string()
        assert set(found["v"].to_pylist()) == {"a", "b"}
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    join.push(left={"k": [1], "v": ["x"]}, right=table)
    assert join.push(left=table)["v"].to_pylist() == ["a", "a", "b"]


@pytest.mark.parametrize(
    "column",
    [
        SPARSE,
        pa.UnionArray.from_dense(
            pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])]
        ),
        pa.ListArray.from_arrays([0, 1, 2], SPARSE),
        pa.StructArray.from_arrays([pc.run_end_encode(pa.array([1, 1]))], ["a"]),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_what_cannot_be_gathered_is_named(column):
    table = pa.table({"k": [1, 2], "odd": column})
    with pytest.raises(sj.SchemaError, match=r"'odd' is .*leave the column out"):
        sj.join_tables(table, table, on="l.k = r.k")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.uuid(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes, None]),
        (pa.json_(), ['{"a": 1}', "[]", None]),
        (pa.bool8(), [1, 0, None]),
        (pa.opaque(pa.int64(), "a", "b"), [5, 6, None]),
    ],
    ids=str,
)
def test_extensions_are_compared_as_they_are_stored(kind, values):
    """Once: ArrowNotImplementedError."""
    column = pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    table = pa.table({"k": column, "n": range(3)})
    for on in ("l.k = r.k", "l.k = r.k and l.n <= r.n", "l.k <=> r.k"):
        for algorithm in ("auto", "scan"):
            found = sj.join_tables(table, table, on=on, algorithm=algorithm)
            assert sorted(found["n"].to_pylist()) == ([0, 1, 2] if ">" in on else [0, 1])
            assert found.schema.field("k_right").type == kind
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    join.push(table, table.slice(0, 1))
    join = sj.StreamJoin.restore(join.snapshot())
    assert join.push(right=table.slice(1))["n"].to_pylist() == [1]


def test_records_may_lack_names():
    found = sj.join_tables([{"k": 1}, {"k": 2, "s": "b"}], {"k": [1, 2]}, on="l.k = r.k")
    rows = [{"k": 1, "s": None, "k_right": 1}, {"k": 2, "s": "b", "k_right": 2}]
    assert found.sort_by("k").to_pylist() == rows


class Frame:
    """What Spark and others call a DataFrame."""

    def toArrow(self):  # noqa: N802
        raise AssertionError


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (pl.LazyFrame({"k": [1]}), ["LazyFrame", ".collect()"]),
        (dataset.dataset(pa.table({"k": [1]})), ["Dataset", ".to_table()"]),
        (Frame(), ["Frame", ".toArrow()", "streamjoin.spark"]),
        ((each for each in [pa.table({"k": [1]})]), ["generator", "stream()"]),
        ([1, 2, 3], ["list", "pyarrow", "dict of lists"]),
        ({"k": 5}, ["dict", "dict of lists"]),
        ({"k": [1], "x": [1, 2]}, ["dict", "length"]),
        (pd.DataFrame({"odd": [1, "a"]}), ["DataFrame", "odd", "'a'", "one type each"]),
        (pd.Series([1]), ["Series"]),
        ("k", ["str", "pandas"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_batch_tells_the_way_out(data, texts):
    join = sj.StreamJoin("l.k = r.k", WINDOW)
    with pytest.raises(sj.SchemaError) as error:
        join.push(left=data)
    for text in texts:
        assert text in str(error.value)
    assert '("' not in str(error.value)
    assert join.stats.rows_left == 0
