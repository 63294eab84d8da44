"""`find`: the matches stay where they are, from the first call on, and until the join is used."""

from collections import Counter

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.pairs import deliver as gather

MANY = 20_000  # rows of each side: 200 million matches, some gigabytes if they were fetched
COUNT, TIME = sj.CountWindow(10**6), sj.TimeWindow("1 day")


@pytest.fixture
def fetches_nothing(monkeypatch):
    def fetch(*_):
        raise AssertionError("joined rows were fetched")

    monkeypatch.setattr(gather, "concat_columns", fetch)


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64()), "t": pa.array([0] * len(values))})


def make(window=COUNT, on="l.x <= r.x", **options):
    timed = {} if isinstance(window, sj.CountWindow) else {"time": "t"}
    return sj.StreamJoin(on, window, **timed, **options)


KINDS = [
    {},
    {"window": TIME},
    {"window": TIME, "delay": "1 s"},
    {"batch_rows": 10},
    {"batch_rows": 10**6},
    {"cores": 2},
    {"algorithm": "pim_tree"},
    {"window": sj.TumblingWindow("1 day"), "emit": "eager"},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("waiting", ["nothing", "left", "right", "both schemas"])
def test_the_first_call_leaves_matches_where_they_are(options, waiting, fetches_nothing):
    # Once: the first find was a push, which ran out of memory.
    join, rows = make(**options), numbers(*range(MANY))
    sides = {"left": rows, "right": rows.slice(0)}
    if waiting == "both schemas":
        join.push(rows.slice(0, 0), rows.slice(0, 0))
    elif waiting != "nothing":
        join.push(**{waiting: sides.pop(waiting)})
    assert join.find(**sides).count() == MANY * (MANY + 1) // 2


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_what_the_first_find_stored_is_met_later(options):
    join, pushed = make(**options), make(**options)
    first, more = numbers(3, 1, 2), numbers(2, 5)
    found = Counter(map(str, join.find(first, first.slice(0)).to_table().to_pylist()))
    expected = [pushed.push(first, first.slice(0)), pushed.flush()]
    assert found == Counter(str(row) for table in expected for row in table.to_pylist())
    later = [
        each.push(more, more.slice(0)).num_rows + each.flush().num_rows for each in (join, pushed)
    ]
    assert later[0] == later[1] > 0


def test_one_side_alone_finds_nothing():
    join = make()
    found = join.find(left=numbers(1, 2))
    assert (found.count(), found.schema.names) == (0, ["x", "t"])
    assert join.find().count() == 0
    assert join.find(right=numbers(2)).count() == 2


def test_a_first_find_that_fails_leaves_everything_as_it_was():
    join = make(on="l.x = 10 / r.x")
    join.push(left=numbers(5))
    with pytest.raises(sj.EvaluationError):
        join.find(right=numbers(2, 0))
    assert (join.schema, join.stats.rows_left, join.stats.rows_right) == (None, 1, 0)
    assert join.find(right=numbers(2)).count() == 1


USES = {
    "push": lambda join: join.push(left=numbers(7)),
    "find": lambda join: join.find(left=numbers(7)),
    "flush": lambda join: join.flush(),
    "snapshot": lambda join: join.snapshot(),
    "stream": lambda join: list(join.stream([(numbers(7), None)])),
}


@pytest.mark.parametrize("use", USES)
def test_results_that_are_being_read_end_with_the_next_use(use):
    # Once: whoever had begun to read went on, over windows that had changed.
    join = make()
    found = join.find(numbers(*range(300)), numbers(*range(300)))
    batches, reader = iter(found), found.to_reader()
    assert found.count() == 300 * 301 // 2
    assert next(batches).num_rows
    USES[use](join)
    with pytest.raises(sj.StreamJoinError, match="these results are gone"):
        next(batches)
    with pytest.raises(sj.StreamJoinError, match="these results are gone"):
        reader.read_all()
