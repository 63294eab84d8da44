"""Options and sources that make no sense: the value, the rule and the way out."""

import pyarrow as pa
import pytest

import streamjoin as sj

ROWS = pa.table({"x": [1]})


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"cores": 0}, ["cores=0", "from 1"]),
        ({"cores": -3}, ["cores=-3", "from 1"]),
        ({"cores": 1.5}, ["cores=1.5", "from 1"]),
        ({"cores": "two"}, ["cores='two'", "from 1"]),
        ({"cores": True}, ["cores=True", "from 1"]),
        ({"ordered": "outside"}, ["ordered='outside'", "'none'", "'outer'", "'inner'"]),
        ({"ordered": 0}, ["ordered=0", "from 1"]),
        ({"ordered": -1}, ["ordered=-1", "from 1"]),
        ({"ordered": 2.0}, ["ordered=2.0", "from 1"]),
        ({"ordered": True}, ["ordered=True", "'outer'"]),
        ({"ordered": None}, ["ordered=None", "'none'"]),
        ({"ordered": ["outer"]}, ["ordered=['outer']", "'outer'"]),
    ],
    ids=str,
)
def test_options(options, texts):
    with pytest.raises(sj.StreamJoinError) as error:
        sj.StreamJoin("l.x = r.x", sj.CountWindow(10), **options)
    for text in texts:
        assert text in str(error.value)


@pytest.mark.parametrize("cores", [None, 2])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("item", "texts"),
    [
        (5, ["type int", "pairs (left, right)"]),
        (None, ["NoneType", "None where there is nothing"]),
        (ROWS, ["type Table", "pairs (left, right)"]),
        ((ROWS,), ["tuple of 1", "pairs (left, right)"]),
        ((ROWS, ROWS, ROWS), ["tuple of 3", "pairs (left, right)"]),
        ({"lefft": ROWS}, ["lefft", "'left'"]),
        ("lr", ["type str", "pairs (left, right)"]),
        ((1, None), ["type int", "pyarrow"]),
    ],
    ids=lambda value: str(type(value)),
)
def test_items_of_a_source(item, texts, begun, cores):
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), cores=cores)
    with pytest.raises(sj.StreamJoinError) as error:
        list(join.stream([(ROWS, ROWS), item] if begun else [item]))
    for text in texts:
        assert text in str(error.value)
    assert join.push(ROWS, ROWS).num_rows == (3 if begun else 1)


@pytest.mark.parametrize("source", [None, 5])
def test_a_source_that_is_none(source):
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), cores=2)
    with pytest.raises(sj.StreamJoinError, match="iterate over"):
        list(join.stream(source))
