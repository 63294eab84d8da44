"""Sources: what comes when they end, and what cannot be read."""

import pyarrow as pa
import pytest

import streamjoin as sj

TUMBLING, SESSION = sj.TumblingWindow(10), sj.SessionWindow(10)


def rows(*times, key=1):
    return pa.table({"k": pa.array([key] * len(times), pa.int64()), "t": pa.array(times, "int64")})


def count(parts):
    return sum(part.rows.num_rows for part in parts)


@pytest.mark.parametrize("batch_rows", [None, 3, 1000])
@pytest.mark.parametrize("emit", ["close", "eager"])
@pytest.mark.parametrize("window", [TUMBLING, SESSION], ids=str)
def test_an_exhausted_source_gives_all_matches(window, emit, batch_rows):
    """Once: the windows that were open at the end of the source gave nothing."""
    join = sj.StreamJoin("l.k = r.k", window, "t", emit=emit, delay=0, batch_rows=batch_rows)
    steps = [(rows(1), None), (rows(25), rows(2)), (None, rows(26, 29)), (rows(80), rows(80))]
    assert count(join.stream(steps)) == 1 + 2 + 1
    assert join.stats.matches == 4
    assert join.finish().num_rows == 0
    assert (join.stats.live_left, join.stats.live_right) == (0, 0)


@pytest.mark.parametrize("window", [TUMBLING, SESSION], ids=str)
def test_a_source_that_is_followed_by_another_leaves_windows_open(window):
    join = sj.StreamJoin("l.k = r.k", window, "t")
    assert count(join.stream([(rows(1), rows(2))], finish=False)) == 0
    assert count(join.stream([(rows(3), None)], finish=False)) == 0
    join = sj.StreamJoin.restore(join.snapshot())
    assert join.push(right=rows(4)).num_rows == 0
    assert count(join.stream([])) == 4


@pytest.mark.parametrize("steps", [[], [(rows(1), None)], [(rows(1), rows(1))]], ids=len)
def test_a_join_that_has_finished_takes_no_source(steps):
    join = sj.StreamJoin("l.k = r.k", TUMBLING, "t")
    list(join.stream(steps))
    for each in (join, sj.StreamJoin.restore(join.snapshot())):
        with pytest.raises(sj.StreamJoinError, match=r"finished.*finish=False"):
            list(each.stream([(rows(5), rows(5))]))


@pytest.mark.parametrize(
    "window", [sj.TimeWindow(5), sj.CountWindow(9)], ids=lambda window: type(window).__name__
)
def test_sliding_windows_take_one_source_after_the_other(window):
    join = sj.StreamJoin("l.k = r.k", window, "t" if isinstance(window, sj.TimeWindow) else None)
    assert count(join.stream([(rows(1), rows(2))])) == 1
    assert count(join.stream([(rows(3), None)])) == 1


def test_a_source_that_fails_or_is_left_closes_nothing():
    def source():
        yield rows(1), rows(2)
        yield rows(3), None
        raise RuntimeError("the disk is gone")

    join = sj.StreamJoin("l.k = r.k", TUMBLING, "t")
    with pytest.raises(RuntimeError, match="disk"):
        list(join.stream(source()))
    parts = join.stream([(rows(4), None), (None, rows(100)), (rows(100), None)])
    parts.close()
    assert join.finish().num_rows == 2


def test_matches_before_an_error_at_the_end_come():
    join = sj.StreamJoin("l.k = r.k and 10 / (l.t + r.t - 42) < 9", TUMBLING, "t")
    parts = join.stream([(rows(1, 21), rows(2, 21))])
    assert next(parts).rows["t"].to_pylist() == [1]
    with pytest.raises(sj.EvaluationError, match="division by zero"):
        next(parts)


async def pairs():
    yield rows(1), rows(1)


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        (pairs(), ["asynchronous", "async for"]),
        (5, ["source=5", "iterate over"]),
        (None, ["source=None", "pairs (left, right)"]),
    ],
    ids=["async", "number", "nothing"],
)
def test_what_is_no_source(source, texts):
    with pytest.raises(sj.StreamJoinError) as error:
        list(sj.StreamJoin("l.k = r.k", TUMBLING, "t").stream(source))
    for text in texts:
        assert text in str(error.value)
