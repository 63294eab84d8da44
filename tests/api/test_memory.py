"""More matches than fit into memory: an error that names the way out, and the state as it was."""

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.pairs import deliver as gather
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.subwindow import Subwindow

ROWS = pa.table({"x": range(100), "t": range(100)})


@pytest.fixture
def little_memory(monkeypatch):
    """Let no joined rows be fetched."""

    def fail(*_):
        raise pa.ArrowMemoryError("malloc of size 2097152 failed")

    monkeypatch.setattr(gather, "concat_columns", fail)
    return monkeypatch


@pytest.mark.parametrize("window", [None, sj.CountWindow(1000), sj.TumblingWindow("1 day")])
def test_tables_name_the_other_function(window, little_memory):
    # Once: ArrowMemoryError, and not a word of what to do.
    time = "t" if isinstance(window, sj.TumblingWindow) else None
    with pytest.raises(sj.StreamJoinError, match=r"100 and 100 rows .* find_matches"):
        sj.join_tables(ROWS, ROWS, on="l.x <= r.x", window=window, time=time)
    found = sj.find_matches(ROWS, ROWS, on="l.x <= r.x", window=window, time=time)
    assert found.count() == 5050
    with pytest.raises(sj.StreamJoinError, match="iterate over the results"):
        found.to_table()


@pytest.mark.parametrize("options", [{}, {"algorithm": "pim_tree"}, {"batch_rows": 1}], ids=str)
def test_a_push_names_find_and_changes_nothing(options, little_memory):
    join = sj.StreamJoin("l.x <= r.x", sj.CountWindow(1000), **options)
    join.push(left=ROWS, right=ROWS.slice(0, 0))
    with pytest.raises(sj.StreamJoinError, match=r"push fewer rows .* find\(\)"):
        join.push(right=ROWS)
    little_memory.undo()
    rows = 200 if "batch_rows" in options else 100  # in batch mode they were taken, and dropped
    assert join.push(right=ROWS).num_rows == 5050
    assert join.stats.rows_left == 100
    assert join.stats.rows_right == rows


def test_an_eager_window_that_runs_out_of_memory(little_memory):
    join = sj.StreamJoin("l.x = r.x", sj.TumblingWindow("1 day"), "t", algorithm="shj_jm")
    with pytest.raises(sj.StreamJoinError, match="push fewer rows"):
        join.push(ROWS, ROWS.slice(0))
    little_memory.undo()
    assert join.push(ROWS, ROWS.slice(0)).num_rows == 100


WINDOWS = [
    {"window": "1 minute", "time": "t"},
    {"window": "count 1000"},
    {"window": "count 1000", "algorithm": "pim_tree"},
]


def fail_at(number, monkeypatch):
    """Let memory run out in an insert, when the tuples are in the index and the rows are not."""
    insert, count = Chain.insert, [0]

    def fail(*_):
        raise MemoryError("no room for rows")

    def insert_or_fail(chain, batch):
        count[0] += 1
        with monkeypatch.context() as patched:
            if count[0] == number:
                patched.setattr(Subwindow, "append", fail)
            return insert(chain, batch)

    monkeypatch.setattr(Chain, "insert", insert_or_fail)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_rows_that_are_half_stored_are_not_used(options, number, monkeypatch):
    # Once: the next push went on, with an index whose row ids led beyond the rows.
    join = sj.StreamJoin("l.x <= r.x", threads=1, **options)
    join.push(ROWS, ROWS.slice(0))
    kept = join.snapshot()
    fail_at(number, monkeypatch)
    with pytest.raises(MemoryError):
        join.push(ROWS, ROWS.slice(0))
    monkeypatch.undo()
    for call in (lambda: join.push(right=ROWS), join.snapshot, join.finish, lambda: join.find(ROWS),
                 lambda: [*join.stream([(ROWS, None)])]):  # fmt: skip
        with pytest.raises(sj.StreamJoinError, match=r"not whole; .* snapshot"):
            call()
    assert sj.StreamJoin.restore(kept).push(right=ROWS).num_rows == 5050


def test_found_rows_that_are_half_stored_are_not_stored_again(monkeypatch):
    join = sj.StreamJoin("l.x <= r.x", "count 1000", threads=1)
    join.push(ROWS, ROWS.slice(0))
    assert join.find(ROWS, ROWS.slice(0)).count() == 3 * 5050
    fail_at(2, monkeypatch)
    with pytest.raises(MemoryError):
        join.push(right=ROWS)
    monkeypatch.undo()
    with pytest.raises(sj.StreamJoinError, match="not whole"):
        join.push(right=ROWS)
