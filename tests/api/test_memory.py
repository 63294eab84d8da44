"""More matches than fit into memory: an error that names the way out, and the state as it was."""

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins import deliver as gather

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
