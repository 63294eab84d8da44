"""Rows with more text than Arrow puts into one batch: here, more than a few rows."""

from collections import Counter

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.tumbling import eager_window
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.closing.small_rows import SESSION, both_emits, both_windows, pairs, rows

MOST = 20  # rows of a batch
OVERFLOW = "offset overflow while concatenating arrays"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Let few rows be all that a batch can hold, and a few of these be many bytes."""
    concatenate = pa.concat_batches

    def limited(batches):
        if sum(batch.num_rows for batch in batches) > MOST:
            raise pa.ArrowInvalid(OVERFLOW)
        return concatenate(batches)

    monkeypatch.setattr(pa, "concat_batches", limited)
    with use_limits(Limits(join_bytes=300)):
        yield


def pushed(join, windows, each=3):
    """Push some rows of each window, a few at a time; return what is found, and what is right."""
    found, expected = [], Counter()
    for number in range(windows):
        for part in range(each):
            id_ = number * each + part
            found.append(
                join.push(rows((1, 30 * number), first=id_), rows((1, 30 * number), first=id_))
            )
            expected.update(
                (number * each + i, number * each + j)
                for i in range(each)
                for j in range(each)
                if max(i, j) == part
            )
    return found, expected


@both_windows
@both_emits
def test_windows_that_are_too_large_together(window, emit):
    join = sj.StreamJoin("l.k = r.k", window, "t", emit=emit)
    found, expected = pushed(join, windows=12)
    assert pairs(*found, join.finish()) == expected


@pytest.mark.parametrize(
    "window", [{"window": sj.TimeWindow(5), "time": "t"}, {"window": sj.CountWindow(40)}]
)
def test_sliding_windows(window):
    join = sj.StreamJoin("l.k = r.k and l.t = r.t", **window)
    found, expected = pushed(join, windows=12)
    assert pairs(*found) == expected


@both_windows
def test_a_window_that_is_too_large_fails_alone(window):
    join = sj.StreamJoin("l.k = r.k", window, "t")
    first = join.push(rows((1, 1)), rows((1, 1)))
    for part in range(3):
        join.push(rows(*[(1, 101)] * 9, first=10 * part), rows((1, 101)))
    join.push(rows((1, 201), first=7), rows((1, 201), first=8))
    with pytest.raises(
        sj.SchemaError, match=r"27 rows cannot be one batch .* large_string"
    ) as caught:
        join.finish()
    assert "the window that failed is dropped" in caught.value.__notes__[-1]
    assert pairs(first, caught.value.results) == Counter([(0, 0), (7, 8)])


@pytest.mark.parametrize("side", ["left", "right"])
def test_sessions_whose_rows_cannot_be_stored_are_as_they_were(side, monkeypatch):
    join = sj.StreamJoin("l.k = r.k", SESSION, "t", emit="eager")
    found = [join.push(rows((1, 1)), rows((1, 2), first=10))]
    store = eager_window.WindowSide.append

    def failing(held, batch):
        store(held, batch)
        if batch.side == side:
            raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(eager_window.WindowSide, "append", failing)
        with pytest.raises(MemoryError):
            join.push(rows((1, 5), (2, 5), first=1), rows((1, 6), first=11))
    join._state.engine.executor.check()
    assert (join.stats.live_left, join.stats.live_right) == (1, 1)
    found += [join.push(rows((1, 5), first=1), rows((1, 6), first=11)), join.finish()]
    assert pairs(*found) == Counter([(0, 10), (0, 11), (1, 10), (1, 11)])
