"""What cores share: the rows that look for matches, and how they are sorted."""

import numpy as np
import pytest

import streamjoin as sj
from streamjoin.plans import prepared
from tests.joins.small_streams import table


def rows(size, first=0):
    return [
        {"id": first + place, "t": place, "k": place % 3, "a": place % 5, "o": 0}
        for place in range(size)
    ]


def test_a_batch_may_be_sorted_anew_while_its_rows_are_selected(monkeypatch):
    # Once: a core died of "dictionary changed size during iteration" when another one had just
    # begun to sort by another layout.
    join = sj.StreamJoin("l.a < r.a", sj.TimeWindow(5), time="t", cores=2)
    join.push(table(rows(4)), table(rows(4)))
    batch = join._state.engine.prepare({"left": table(rows(8)).to_batches()[0]}).prepared["left"]
    one, other = batch.plan.layouts()[:2]
    batch.sorted_rows(one)
    ordered = prepared.SortedRows

    def sort_meanwhile(*fields):
        batch._sorted[other] = ordered(*fields)
        return ordered(*fields)

    monkeypatch.setattr(prepared, "SortedRows", sort_meanwhile)
    assert len(batch.select(np.arange(8) % 2 == 0)) == 4


@pytest.mark.parametrize("ordered", ["none", "inner"])
def test_statistics_between_a_find_and_the_next_push(ordered):
    # Once: the cores forgot the rows that they had yet to store.
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(10), cores=2, ordered=ordered)
    join.push(table(rows(1)), table(rows(1)))
    assert join.find(left=table(rows(6))).count() == 2
    assert join.stats.live_left == 1
    assert join.push(right=table(rows(1))).num_rows == 3
    assert (join.stats.live_left, join.stats.live_right) == (7, 2)
