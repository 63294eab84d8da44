"""Deep trees, shallow channels and tiny parts: the same results, in the same order."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.split import gathering
from streamjoin.joins.split.distribution import group_evenly
from tests.joins.small_streams import CONDITIONS, conditions, steps_of, streams, table
from tests.joins.split.running import (
    as_source,
    orders,
    push,
    random,
    run,
    sequence,
    slow_cores,
    trees,
)
from tests.joins.split.test_stream import check_stars
from tests.oracle import Arrivals, join_by_count, join_by_time


@random
@given(
    data=st.data(),
    name=conditions,
    size=st.one_of(st.none(), st.integers(1, 12)),
    order=st.sampled_from([None, "o"]),
    cores=st.integers(5, 9),
    ordered=orders,
    block=st.sampled_from([1, 2, 7]),
    streamed=st.booleans(),
    seed=st.integers(0, 999),
)
def test_deep_trees(data, name, size, order, cores, ordered, block, streamed, seed):
    left, right = data.draw(streams())
    steps, (text, predicate) = data.draw(steps_of(left, right)), CONDITIONS[name]
    order = None if size is None else order
    window = sj.TimeWindow(4) if size is None else sj.CountWindow(size)
    time = "t" if size is None else None
    with trees(fanout=2, depth=1, block=block), slow_cores(seed):
        join = sj.StreamJoin(text, window, time, order=order, cores=cores, ordered=ordered)
        if streamed:
            pieces = list(join.stream(as_source(steps)))
            found = [pair for piece in pieces for pair in sequence(piece.rows)]
        else:
            pieces, (found, _) = [], run(join, steps)
    arrivals = Arrivals(steps, order)
    if size is None:
        assert Counter(found) == join_by_time(left, right, predicate, 4, 4)
    else:
        assert Counter(found) == join_by_count(steps, predicate, size, size, order)
    arrivals.check(found, ordered)
    if ordered != "none":
        check_stars(pieces, arrivals)


@random
@given(
    data=st.data(), name=conditions, cores=st.integers(1, 4), ordered=orders,
    block=st.sampled_from([1, 2, 3, 10, 30]), seed=st.integers(0, 999),
)  # fmt: skip
def test_parts_that_are_cut_at_other_places_in_every_core(data, name, cores, ordered, block, seed):
    # Few large steps: these are cut into many parts, and cores send different numbers of them.
    left, right = data.draw(streams())
    steps, (text, predicate) = [(left[:5], right), (left[5:], right[:0])], CONDITIONS[name]
    with trees(fanout=8, depth=2, block=block), slow_cores(seed):
        join = sj.StreamJoin(text, sj.CountWindow(20), cores=cores, ordered=ordered)
        pieces = list(join.stream(as_source([([], []), *steps])))
    found = [pair for piece in pieces for pair in sequence(piece.rows)]
    assert Counter(found) == join_by_count(steps, predicate, 20, 20)
    Arrivals(steps).check(found, ordered)
    if ordered != "none":
        check_stars(pieces, Arrivals(steps))


def test_a_step_really_is_cut():
    rows = [{"id": place, "k": 1, "o": 0} for place in range(8)]
    others = [{**row, "id": 100 + row["id"]} for row in rows]
    with trees(fanout=2, depth=1, block=4):
        join = sj.StreamJoin("l.k = r.k", sj.CountWindow(20), cores=5, ordered="outer")
        pieces = list(join.stream(as_source([([], []), (rows, others)])))
    assert len([piece for piece in pieces if piece.rows.num_rows]) > 2
    assert sum(piece.rows.num_rows for piece in pieces) == 64
    check_stars(pieces, Arrivals([(rows, others)]))


@pytest.mark.parametrize("fanout", [2, 3, 8])
def test_groups_are_few_and_even(fanout):
    for count in range(1, 40):
        groups = group_evenly(list(range(count)), fanout)
        assert [item for group in groups for item in group] == list(range(count))
        sizes = [len(group) for group in groups]
        assert max(sizes) <= fanout
        assert max(sizes) - min(sizes) <= 1
        assert len(groups) == -(-count // fanout)


@pytest.mark.parametrize("fanout", [2, 8])
def test_a_merger_that_fails(fanout, monkeypatch):
    # Once: its thread ended, and everybody waited for it for ever.
    rows = [{"id": place, "k": 1, "o": 0} for place in range(8)]
    with trees(fanout=fanout, depth=1):
        join = sj.StreamJoin("l.k = r.k", sj.CountWindow(20), cores=5, ordered="inner")
        push(join, (rows, []), both=True)

        def fail(*_):
            raise MemoryError("no room")

        with monkeypatch.context() as broken:
            broken.setattr(gathering, "arrange", fail)
            for _ in range(3):
                with pytest.raises(sj.StreamJoinError, match="no room"):
                    join.push(right=table(rows))
            with pytest.raises(MemoryError, match="no room"):
                list(join.stream([(None, table([])), (None, table(rows[:1]))]))
        assert join.stats.rows_right == 1
        assert len(push(join, ([], rows))) == 64
