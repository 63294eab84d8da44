"""What cores share: the rows that look for matches, and how they are sorted."""

import numpy as np
from joins.small_streams import table

import streamjoin as sj
from streamjoin.joins import prepared


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
    batch = join._engine._preprocess({"left": table(rows(8)).to_batches()[0]}).prepared["left"]
    one, other = batch.plan.layouts()[:2]
    batch.ordered(one)
    ordered = prepared.Ordered

    def sort_meanwhile(*fields):
        batch._ordered[other] = ordered(*fields)
        return ordered(*fields)

    monkeypatch.setattr(prepared, "Ordered", sort_meanwhile)
    assert len(batch.select(np.arange(8) % 2 == 0)) == 4
