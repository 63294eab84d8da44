"""`StreamJoin.stream`: a source pushed through the cores, and the punctuation of its results."""

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from tests.joins.small_streams import CONDITIONS, check, conditions, steps_of, streams
from tests.joins.split.running import as_source, cores, orders, push, random, sequence, slow_cores
from tests.oracle import Arrivals, join_by_count, join_by_time


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64())})


def check_stars(pieces, arrivals):
    """Assert that each star has exactly its row's matches, and no match comes after its star."""
    of_row, seen, upto = defaultdict(Counter), set(), 0
    for piece in pieces:
        for pair in sequence(piece.rows):
            of_row[arrivals.finder(pair)][pair] += 1
    sides = {arrival: side for (side, _), arrival in arrivals.among_both.items()}
    for piece in pieces:
        found = sequence(piece.rows)
        assert piece.arrivals.tolist() == [arrivals.finder(pair) for pair in found]
        stars, begin = piece.stars.to_pylist(), 0
        for star in stars:
            arrival, end = star["arrival"], star["end"]
            assert upto <= arrival < piece.upto
            assert star["side"] == sides[arrival]
            assert Counter(found[begin:end]) == of_row[arrival]
            begin = end
            seen.add(arrival)
        assert begin == len(found)
        assert [star["arrival"] for star in stars] == sorted({star["arrival"] for star in stars})
        upto = piece.upto
    assert seen >= of_row.keys()


@random
@given(
    data=st.data(),
    name=conditions,
    size=st.one_of(st.none(), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
    rows=st.sampled_from([None, None, 3, 10, 1000]),
    cores=cores,
    ordered=orders,
    seed=st.integers(0, 999),
)
def test_a_stream_gives_what_pushes_give(data, name, size, order, rows, cores, ordered, seed):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[name]
    order = None if size is None else order
    window = sj.TimeWindow(before=2, after=4) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    join = sj.StreamJoin(
        text, window, time, order=order, batch_rows=rows, cores=cores, ordered=ordered
    )
    steps, begun = data.draw(steps_of(left, right)), data.draw(st.integers(0, 3))
    found = [pair for step in steps[:begun] for pair in push(join, step)]
    with slow_cores(seed):
        pieces = list(join.stream(as_source(steps[begun:])))
    check(join)
    found += [pair for piece in pieces for pair in sequence(piece.rows)]
    found += sequence(join.flush())
    if size is None:
        assert Counter(found) == join_by_time(left, right, predicate, 2, 4)
    else:
        assert Counter(found) == join_by_count(steps, predicate, size, size, order)
    arrivals = Arrivals(steps, order)
    arrivals.check(found, ordered)
    if ordered != "none":
        check_stars(pieces, arrivals)
    if join._state.engine is not None:
        assert (join.stats.matches, join.stats.waiting) == (len(found), 0)


@random
@given(data=st.data(), name=conditions, delay=st.integers(0, 10), cores=cores, ordered=orders)
def test_a_watermark_follows_a_stream(data, name, delay, cores, ordered):
    steps = data.draw(steps_of(*data.draw(streams(most=25))))
    text, _ = CONDITIONS[name]
    alone = sj.StreamJoin(text, sj.TimeWindow(3), "t", delay=delay, threads=1)
    split = sj.StreamJoin(text, sj.TimeWindow(3), "t", delay=delay, cores=cores, ordered=ordered)
    expected = [pair for step in steps for pair in push(alone, step)]
    with slow_cores(delay):
        found = [pair for each in split.stream(as_source(steps)) for pair in sequence(each.rows)]
    assert Counter(found) == Counter(expected)
    Arrivals(steps).check(found, ordered)
    if split._state.engine is not None:
        assert split.stats.late == alone.stats.late


def test_stars_after_rows_that_were_refused():
    # Once: they counted as arrived, so the next stars promised too much and rows had none.
    on = "l.x <= r.x and 10 / (l.x + r.x) > 0"
    join = sj.StreamJoin(on, sj.CountWindow(10), cores=2, ordered="outer")
    join.push(numbers(1), numbers(1))
    with pytest.raises(sj.EvaluationError):
        join.push(numbers(*[-5] * 5), numbers(*[5] * 5))
    source = [(numbers(2), None), (None, None), (None, numbers(3))]
    pieces = list(join.stream(source))
    assert [piece.upto for piece in pieces] == [3, 3, 4]
    assert [star["arrival"] for piece in pieces for star in piece.stars.to_pylist()] == [2, 3]
    assert pieces[-1].arrivals.tolist() == [3, 3]


def test_results_without_order_have_no_stars():
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(10), cores=2)
    [piece] = join.stream([(numbers(1), numbers(1))])
    assert (piece.rows.num_rows, piece.upto, piece.arrivals) == (1, None, None)
    with pytest.raises(sj.StreamJoinError, match="ordered='outer'"):
        _ = piece.stars
