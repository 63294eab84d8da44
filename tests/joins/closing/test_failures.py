"""Windows that close: what a failure leaves behind."""

from collections import Counter

import pyarrow as pa
import pytest

import streamjoin as sj
from tests.joins.closing.small_rows import (
    SESSION,
    TUMBLING,
    both_emits,
    both_windows,
    every_way,
    pairs,
    rows,
)

DIVIDES = "l.k = r.k and 10 / (l.x + r.x) > 1"


@every_way
@pytest.mark.parametrize("threads", [1, 2])
def test_a_push_that_fails_changes_nothing(algorithm, emit, threads):
    knobs = {"tuning": {"delta": 2}} if algorithm.startswith("pmj") else {}
    options = {"algorithm": algorithm, "emit": emit, "threads": threads, **knobs}
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", **options)
    results = [join.push(rows((1, 1), (2, 12)), rows((1, 2), first=100))]
    good, bad = rows((1, 3), (2, 13), first=200), rows((1, 4), (2, 14, -1), (5, 25), first=200)
    before = join.stats
    if join._state.config.emit == "close":  # only the end of the window can fail
        assert join.push(right=bad).num_rows == 0
        with pytest.raises(sj.EvaluationError) as caught:
            join.finish()
        assert "the window that failed is dropped" in caught.value.__notes__[-1]
        assert join.stats.live_left == 0
        assert pairs(caught.value.results) == Counter([(0, 100), (0, 200)])
        return
    # The row of window 1 that came with it is fine; those of windows 1 and 3 go too.
    if algorithm.startswith("pmj"):
        bad = pa.concat_tables([bad, bad])
    with pytest.raises(sj.EvaluationError):
        results.append(join.push(right=bad))
    after = join.stats
    assert (after.live_left, after.live_right) == (before.live_left, before.live_right)
    assert (after.subwindows, after.matches) == (before.subwindows, before.matches)
    assert (after.rows_right, after.late) == (before.rows_right, before.late)
    results.append(join.push(right=good))
    join = sj.StreamJoin.restore(join.snapshot())
    results += [join.push(left=rows((1, 9), (2, 19), first=10)), join.finish()]
    expected = {(0, 100), (0, 200), (1, 201), (10, 100), (10, 200), (11, 201)}
    assert pairs(*results) == Counter(expected)


@both_emits
def test_a_failed_push_into_sessions_changes_nothing(emit):
    join = sj.StreamJoin(DIVIDES, SESSION, "t", emit=emit, threads=1)
    results = [join.push(rows((1, 1)), rows((1, 2), first=100))]
    if emit == "eager":
        with pytest.raises(sj.EvaluationError):
            join.push(left=rows((1, 5), first=50), right=rows((1, 4, -1), first=200))
        assert (join.stats.live_left, join.stats.live_right, join.stats.subwindows) == (1, 1, 1)
    results += [join.push(right=rows((1, 12), first=300)), join.finish()]
    assert pairs(*results) == Counter([(0, 100), (0, 300)])


@both_windows
def test_windows_that_fail_when_they_close_are_dropped_and_the_join_goes_on(window):
    join = sj.StreamJoin(DIVIDES, window, "t", threads=1)
    join.push(rows((1, 1), (1, 101)), rows((1, 2, -1), (1, 102), first=100))
    with pytest.raises(sj.EvaluationError) as caught:
        join.advance(50)
    assert "the window that failed is dropped, with all" in caught.value.__notes__[-1]
    assert (join.stats.live_left, join.stats.live_right, join.stats.subwindows) == (1, 1, 1)
    join = sj.StreamJoin.restore(join.snapshot())
    assert join.push(left=rows((1, 49))).num_rows == 0
    assert join.stats.late == 1
    assert pairs(join.advance(200)) == Counter([(1, 101)])
    join.push(rows((1, 201)), rows((1, 202)))
    assert join.finish().num_rows == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("window", "algorithm"), [(TUMBLING, "auto"), (TUMBLING, "pmj_jb"), (SESSION, "auto")]
)
def test_windows_that_fail_take_no_others_with_them(window, algorithm, threads):
    """Of nine windows that close together the third and the eighth cannot be computed."""
    join = sj.StreamJoin(DIVIDES, window, "t", algorithm=algorithm, threads=threads)
    failing = [0 if number not in (2, 7) else -1 for number in range(9)]
    left = rows(*((1, 100 * number + 1) for number in range(9)))
    right = rows(*((1, 100 * number + 2, x) for number, x in enumerate(failing)), first=100)
    join.push(left, right)
    with pytest.raises(sj.EvaluationError) as caught:
        join.finish()
    assert "2 windows are dropped" in caught.value.__notes__[-1]
    assert pairs(caught.value.results) == Counter(
        (number, 100 + number) for number in range(9) if number not in (2, 7)
    )
    assert (join.stats.live_left, join.stats.live_right) == (0, 0)


def test_an_error_has_the_matches_that_were_found_before_it():
    """Of a push that closes a window which fails: its own, and those of windows that closed."""
    options = {"algorithm": "pmj_jb", "tuning": {"delta": 3}, "threads": 1, "delay": 0}
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", **options)
    join.push(rows((1, 1), (1, 11)), rows((1, 2), first=100))
    with pytest.raises(sj.EvaluationError) as caught:  # 0 and 1 close; 1 fails
        join.push(rows((1, 31), (1, 32), first=50), rows((1, 12, -1), (1, 33), first=200))
    assert pairs(caught.value.results) == Counter([(0, 100), (50, 201), (51, 201)])
    assert join.stats.matches == 3
    with pytest.raises(sj.StreamJoinError) as caught:
        join.push(left=pa.table({"other": [1]}))
    assert caught.value.results is None


@pytest.mark.parametrize("act", ["flush", "finish"])
def test_an_error_has_the_matches_of_rows_that_waited(act):
    options = {"emit": "eager", "algorithm": "pmj_jb", "tuning": {"delta": 3}, "threads": 1}
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", batch_rows=100, **options)
    join.push(rows((1, 1), (1, 21), (1, 22)), rows((1, 2, -1), (1, 23), first=100))
    join.advance(15)
    with pytest.raises(sj.EvaluationError) as caught:
        getattr(join, act)()
    assert pairs(caught.value.results) == Counter([(1, 101), (2, 101)])


def test_rows_that_wait_and_fail_are_dropped():
    for emit in ("close", "eager"):
        join = sj.StreamJoin(DIVIDES, TUMBLING, "t", threads=1, emit=emit, batch_rows=3)
        join.push(rows((1, 1)), rows((1, 2, -1), first=100))
        if emit == "close":
            join.push(left=rows((3, 3)))  # now none waits any more
        with pytest.raises(sj.EvaluationError):
            join.advance(10) if emit == "close" else join.flush()
        assert (join.stats.waiting, join.stats.live_left) == (0, 0)
        join.push(rows((1, 21)), rows((1, 22)))
        assert join.finish().num_rows == 1


def test_results_of_find_may_fail_later():
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", emit="eager")
    join.push(rows((1, 1)), rows((9, 1)))
    results = join.find(right=rows((1, 2, -1), (1, 3)))
    with pytest.raises(sj.EvaluationError):
        results.count()
    assert join.find(right=rows((1, 4))).count() == 1
    join.push()
    with pytest.raises(sj.StreamJoinError, match="these results are gone"):
        results.count()


@both_emits
def test_a_first_push_that_fails_may_be_repeated(emit):
    """Rows of left wait until right is known; what fails then is not taken in."""
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", threads=1, emit=emit, delay=0)
    join.push(left=rows((1, 1), (1, 12)))
    join = sj.StreamJoin.restore(join.snapshot())
    with pytest.raises(sj.EvaluationError):
        join.push(right=rows((1, 2, -1), (1, 12, 1), first=100))
    found = join.push(right=rows((1, 3), (1, 13), first=200))
    assert pairs(found, join.finish()) == Counter([(0, 200), (1, 201)])
