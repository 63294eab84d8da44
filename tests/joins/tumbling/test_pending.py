"""Rows that wait for the end of their windows: in which order, and how often they are copied."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.conditions import parse_condition
from streamjoin.joins.tumbling.pending import Pending
from streamjoin.plans import prepared
from streamjoin.plans.binding import bind
from streamjoin.plans.preparing import prepare
from streamjoin.plans.window_keys import window_numbers

SCHEMA = pa.schema({"id": "int64", "t": "int64"})
WINDOW = sj.TumblingWindow(10)
PLAN = bind(
    parse_condition("l.id = r.id", SCHEMA, SCHEMA),
    WINDOW,
    ("t", "t"),
    {"left": SCHEMA, "right": SCHEMA},
)


def batch(ids, times):
    columns = [pa.array(np.asarray(each, np.int64)) for each in (ids, times)]
    return prepare(PLAN, "left", pa.record_batch(columns, schema=SCHEMA))


steps = st.lists(
    st.one_of(st.lists(st.integers(-30, 60), max_size=12), st.integers(-4, 8)), max_size=12
)


@given(steps=steps)
def test_what_waits_is_in_the_order_of_arrival_within_a_window(steps):
    """Lists are times of rows that come, numbers are bounds; beside it, a plain list."""
    waits, plain, count = Pending(), [], 0
    for step in steps:
        if isinstance(step, list):
            waits.insert(batch(range(count, count + len(step)), step))
            plain += [(time // 10, id_) for id_, time in enumerate(step, count)]
            count += len(step)
        else:
            for first in (-(2**63), step - 2):
                due = waits.select_windows(first, step)
                ids = [] if due is None else due.rows["id"].to_pylist()
                assert Counter(ids) == Counter(
                    id_ for window, id_ in plain if first <= window < step
                )
            waits.expire(step)
            plain = [each for each in plain if each[0] >= step]
        waits.check()
        held = [
            (int(window), id_)
            for each in waits.waiting
            for window, id_ in zip(
                window_numbers(each.batch), each.batch.rows["id"].to_pylist(), strict=True
            )
        ]
        assert sorted(held, key=lambda each: each[0]) == sorted(plain, key=lambda each: each[0])
        assert len(waits) == len(plain)


def test_rows_are_copied_twice_however_many_windows_they_are_in(monkeypatch):
    """One batch of 200 windows, which close one by one; bytes fall with them."""
    copied, take = [], prepared.take_rows

    def counting(rows, places):
        copied.append(len(places))
        return take(rows, places)

    monkeypatch.setattr(prepared, "take_rows", counting)
    count = 20_000
    times = np.random.default_rng(5).integers(0, 2_000, count)
    waits = Pending()
    waits.insert(batch(range(count), times))
    whole, found = waits.nbytes, 0
    for bound in range(1, 201):
        due = waits.select_windows(0, bound)
        found += len(due)
        waits.expire(bound)
        waits.check()
        assert waits.nbytes <= 2 * whole * (count - found) / count
    assert (found, waits.nbytes) == (count, 0)
    assert sum(copied) <= 2 * count
