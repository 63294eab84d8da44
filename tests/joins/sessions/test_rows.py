"""The rows of sessions against lists: rings that grow, become one, are forgotten and compacted."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.build import make_engine
from streamjoin.joins.sessions.rows import SessionRows
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.limits import Limits
from streamjoin.plans.preparing import prepare

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "a": pa.int64()})
CONDITIONS = ["l.k = r.k", "l.k = r.k and l.a < r.a"]
SESSIONS = 6


def plan_of(on):
    config = JoinOptions.check(on, sj.SessionWindow(10), "t", threads=1)
    return make_engine(config, {"left": SCHEMA, "right": SCHEMA}).plan


PLANS = {on: plan_of(on) for on in CONDITIONS}


def batch(plan, first, nulls):
    """Rows whose k tells when they came; some of them cannot match."""
    count = len(nulls)
    k = np.arange(first, first + count)
    a = pa.array([None if null else 1 for null in nulls], pa.int64())
    made = pa.record_batch({"k": k, "t": np.zeros(count, np.int64), "a": a}, SCHEMA)
    return prepare(plan, "left", made)


acts = st.one_of(
    st.lists(st.tuples(st.integers(0, SESSIONS - 1), st.booleans()), min_size=1, max_size=8),
    st.tuples(st.integers(0, SESSIONS - 1), st.integers(0, SESSIONS - 1)),
    st.sets(st.integers(0, SESSIONS - 1)),
)


@pytest.mark.parametrize("on", CONDITIONS)
@given(steps=st.lists(acts, max_size=15), few=st.sampled_from([0, 5, 1000]))
def test_any_steps(on, steps, few):
    plan, known, came = replace(PLANS[on], limits=Limits(most_gone=few)), defaultdict(dict), 0
    held = SessionRows(plan, "left")
    held.open(SESSIONS)
    for step in steps:
        if isinstance(step, list):
            sessions, nulls = zip(*step, strict=True)
            held.append(batch(plan, came, nulls))
            held.add_last(np.array(sessions, np.int64))
            for session, null in step:
                known[session][came] = not null or on == CONDITIONS[0]
                came += 1
        elif isinstance(step, tuple):
            gone, into = step
            if gone != into:
                held.merge(np.array([gone]), np.array([into]))
                known[into] |= known.pop(gone, {})
        else:
            ended = np.array(sorted(step), np.int64)
            held.expire(ended, held.of(ended)[0])
            for session in step:
                known.pop(session, None)
        held.check()
        for session in range(SESSIONS):
            rows, found = held.of(np.array([session]))
            assert (found == 0).all()
            able, _ = held.can_match(rows, found)
            keys = held.held.keys().equalities[0]
            assert set(keys[rows].tolist()) == set(known[session])
            assert set(keys[able].tolist()) == {k for k, fits in known[session].items() if fits}
            if rows.size:
                taken = held.take(rows)
                assert taken.rows["k"].to_pylist() == keys[rows].tolist()
                assert taken.keys.equalities[0].tolist() == keys[rows].tolist()
        assert held.count == sum(map(len, known.values()))


def test_sessions_with_new_ids_keep_their_rows():
    held = SessionRows(PLANS[CONDITIONS[0]], "left")
    held.open(4)
    held.append(batch(held.plan, 0, [False] * 8))
    held.add_last(np.array([0, 1, 2, 3, 0, 1, 2, 3]))
    gone = np.array([0, 2])
    held.expire(gone, held.of(gone)[0])
    held.renumber(np.array([1, 3]))
    held.check()
    rows, found = held.of(np.array([1, 0]))
    keys = held.held.keys().equalities[0]
    assert dict(zip(keys[rows].tolist(), found.tolist(), strict=True)) == {3: 0, 7: 0, 1: 1, 5: 1}


def test_memory_falls_when_rows_are_forgotten():
    held = SessionRows(PLANS[CONDITIONS[0]], "left")
    held.open(100)
    held.append(batch(held.plan, 0, [False] * 20_000))
    held.add_last(np.arange(20_000) % 100)
    most = held.nbytes
    gone = np.arange(95)
    held.expire(gone, held.of(gone)[0])
    assert held.count == 1_000
    assert held.nbytes < most / 10
    held.check()
