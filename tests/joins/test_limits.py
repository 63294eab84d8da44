"""Limits reach every join that is made while they are in use, and no other."""

from contextlib import suppress

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.build import make_engine
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.limits import DEFAULT_LIMITS, Limits, limits_in_use, use_limits

TINY = Limits(least_counted_rows=2, block_pairs=3)
ROWS = pa.table({"k": [1, 2, 2, 3], "t": [1, 2, 3, 4]})
ON = "l.k <= r.k"


def limits_of(join):
    """The limits of all plans that an engine goes by."""
    engine = join._state.engine
    chains = [chain for pair in engine.executor.chain_pairs for chain in pair.values()]
    plans = [engine.plan, *(chain.plan for chain in chains)]
    if engine.executor.closing is not None:
        plans.append(engine.executor.closing.closed.plan)
    [limits] = {plan.limits for plan in plans}
    return limits


@pytest.mark.parametrize(
    "options",
    [
        {"window": sj.CountWindow(9)},
        {"window": sj.CountWindow(9), "cores": 2},
        {"window": sj.TimeWindow(9), "time": "t"},
        {"window": sj.TumblingWindow(9), "time": "t"},
        {"window": sj.SessionWindow(9), "time": "t"},
    ],
    ids=lambda options: str(options["window"]),
)
def test_a_join_keeps_the_limits_that_it_was_made_with(options):
    with use_limits(TINY):
        join = sj.StreamJoin("l.k = r.k", **options)
        streamed = sj.StreamJoin("l.k = r.k", **options)
    join.push(ROWS, ROWS)  # makes the engine
    list(streamed.stream([(ROWS, ROWS)]))
    assert limits_of(join) == limits_of(streamed) == TINY
    restored = sj.StreamJoin.restore(join.snapshot())
    assert limits_of(restored) == DEFAULT_LIMITS
    with use_limits(TINY):
        restored = sj.StreamJoin.restore(restored.snapshot())
    assert limits_of(restored) == TINY


def test_limits_may_be_given_to_an_engine():
    config = JoinOptions.check(ON, sj.CountWindow(9))
    schemas = {"left": ROWS.schema, "right": ROWS.schema}
    assert make_engine(config, schemas).plan.limits == DEFAULT_LIMITS
    assert make_engine(config, schemas, limits=TINY).plan.limits == TINY


def test_limits_decide_how_large_subwindows_are():
    with use_limits(TINY):
        join = sj.StreamJoin("l.k = r.k", sj.CountWindow(4), threads=1, algorithm="bi_sort")
    join.push(ROWS, ROWS)
    assert [len(each) for each in join._state.engine.chains["left"]] == [2, 2]


def test_what_was_in_use_before_comes_back():
    with suppress(ValueError), use_limits(TINY):
        with use_limits(Limits(slice_rows=7)):
            assert limits_in_use() == Limits(slice_rows=7)
        assert limits_in_use() == TINY
        raise ValueError
    assert limits_in_use() == DEFAULT_LIMITS
