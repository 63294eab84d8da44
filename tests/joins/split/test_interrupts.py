"""A push that is interrupted, by Ctrl-C say, has not happened; the next one finds nothing left."""

import threading
from collections import Counter
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.kernels.channels import Channel
from tests.joins.small_streams import CONDITIONS, conditions, steps_of, streams, table
from tests.joins.split.running import as_source, cores, orders, push, random, sequence, trees
from tests.oracle import Arrivals, join_by_count


@contextmanager
def interrupted(after):
    """Interrupt this thread when it has taken so many things from channels."""
    get, here, left = Channel.get, threading.get_ident(), [after]

    def interrupt(self):
        if threading.get_ident() == here:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        return get(self)

    with patch.object(Channel, "get", interrupt):
        yield


@random
@given(
    data=st.data(),
    name=conditions,
    size=st.integers(1, 12),
    cores=cores,
    ordered=orders,
    fanout=st.sampled_from([2, 8]),
    depth=st.sampled_from([1, 4]),
)
def test_an_interrupted_push_can_be_pushed_again(data, name, size, cores, ordered, fanout, depth):
    text, predicate = CONDITIONS[name]
    steps = data.draw(steps_of(*data.draw(streams())))
    found = []
    with trees(fanout, depth, block=5):
        join = sj.StreamJoin(text, sj.CountWindow(size), cores=cores, ordered=ordered)
        push(join, ([], []), both=True)
        for number, step in enumerate(steps):
            for after in data.draw(st.lists(st.integers(0, 6), max_size=6)):
                try:
                    with interrupted(after):
                        result = join.push(*map(table, step))
                except KeyboardInterrupt:
                    continue
                found += sequence(result)
                break
            else:
                if number % 4 == 3:  # what was interrupted has no place in a stream
                    pieces = join.stream(as_source([step]))
                    found += [pair for each in pieces for pair in sequence(each.rows)]
                else:
                    found += push(join, step)
    assert Counter(found) == join_by_count(steps, predicate, size, size)
    Arrivals(steps).check(found, ordered)


@pytest.mark.parametrize("ordered", ["none", "inner"])
def test_watermarks_after_an_interrupted_push(ordered):
    # Once: the cores waited for somebody to take their matches, and the watermark for the cores.
    rows = [{"id": place, "t": 1, "k": 1, "o": 0} for place in range(50)]
    with trees(fanout=2, depth=1, block=1):
        join = sj.StreamJoin("l.k = r.k", sj.TimeWindow(5), "t", cores=3, ordered=ordered)
        join.push(table(rows), table([]))
        with interrupted(1), pytest.raises(KeyboardInterrupt):
            join.push(right=table(rows))
        for time in range(12):
            join.advance(time)
        assert join.stats.live_left == 0
