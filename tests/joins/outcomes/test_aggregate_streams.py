"""``aggregate`` in streams: what tables give, whatever the cut, each left row once, and in time."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import ONE_KEY, TWO_KEYS, WHOLE_WINDOWS
from streamjoin.joins.outcomes.aggregates import reduction
from streamjoin.plans.limits import use_limits
from tests.joins.outcomes.aggregated import ASKED, WITHOUT_LEFT, aggregate_all, read_rows
from tests.joins.outcomes.kept import open_join
from tests.joins.outcomes.test_keep_streams import (
    CLOSING,
    in_window,
    number_sessions,
    push,
    split_late,
)
from tests.joins.small_streams import CONDITIONS, TINY, check, fitting, steps_of, streams, table
from tests.oracle import join_by_count

random = settings(max_examples=20, suppress_health_check=list(HealthCheck))
names = st.sampled_from(sorted(CONDITIONS))
hows = st.sampled_from(["inner", "left"])
asking = st.sampled_from([ASKED, WITHOUT_LEFT])


@pytest.fixture(autouse=True)
def tiny_subwindows():
    with use_limits(TINY):
        yield


@pytest.mark.parametrize("algorithm", ["auto", *ONE_KEY, *TWO_KEYS, *WHOLE_WINDOWS])
@random
@given(data=st.data(), name=names, how=hows, asked=asking, before=st.integers(0, 8))
def test_time_windows_give_each_left_row_once_it_is_final(
    algorithm, data, name, how, asked, before
):
    name, after = fitting(name, algorithm, timed=True), data.draw(st.integers(1, 6))
    text, predicate = CONDITIONS[name]
    inside = in_window(predicate, before, after)
    join = open_join(
        text, sj.TimeWindow(before=before, after=after), time="t", algorithm=algorithm, how=how,
        threads=data.draw(st.sampled_from([1, 2])), aggregate=asked,
    )  # fmt: skip
    saves = data.draw(st.booleans())
    left, right = data.draw(streams(most=25))
    came, found, watermark = ([], []), Counter(), -1
    for step in data.draw(steps_of(left, right)):
        if saves:
            join = sj.StreamJoin.restore(join.snapshot())
        found += read_rows(push(join, *step), asked)
        for rows, side in zip(step, came, strict=True):
            side += split_late(rows, watermark)[0]
        if data.draw(st.booleans()):
            moved = data.draw(st.integers(0, 30))
            found += read_rows(join.advance(moved), asked)
            watermark = max(watermark, moved)
            check(join)
            if join.schema is not None:
                final = [row for row in came[0] if row["t"] is not None]
                final = [row for row in final if row["t"] + after < watermark]
                must = aggregate_all(final, came[1], inside, how, asked)
                assert must <= found
                others = {row["id"] for row in came[0]} - {row["id"] for row in final}
                assert all(row[0] in others and row[1] == 0 for row in found - must)
    found += read_rows(join.finish(), asked)
    if join.schema is not None:
        assert found == aggregate_all(came[0], came[1], inside, how, asked)
        assert not read_rows(join.finish(), asked)


@random
@given(data=st.data(), name=names, how=hows, asked=asking, before=st.integers(0, 8))
def test_batch_mode_and_streams_give_the_same(data, name, how, asked, before):
    text, predicate = CONDITIONS[name]
    window = sj.TimeWindow(before=before, after=3)
    left, right = data.draw(streams(most=25))
    if not left or not right:
        return
    expected = aggregate_all(left, right, in_window(predicate, before, 3), how, asked)
    tables = sj.join_tables(table(left), table(right), text, window, "t", how=how, aggregate=asked)
    assert read_rows(tables, asked) == expected
    steps = [
        {side: table(rows) for side, rows in zip(("left", "right"), step, strict=True)}
        for step in data.draw(steps_of(left, right))
    ]
    for batch_rows in (None, 7):
        join = open_join(text, window, "t", batch_rows=batch_rows, how=how, aggregate=asked)
        found = Counter()
        for part in join.stream(steps):
            found += read_rows(part.rows, asked)
        assert found == expected


@pytest.mark.parametrize("way", ["ranges", "pairs"])
@pytest.mark.parametrize("kind", sorted(CLOSING))
@random
@given(data=st.data(), name=names, how=hows, asked=asking)
def test_windows_that_close(kind, way, data, name, how, asked):
    window, same = CLOSING[kind]
    if same is None:
        name = "equality and band"
    text, predicate = CONDITIONS[name]
    left, right = data.draw(streams(most=25))
    sessions = number_sessions(left + right, 2) if same is None else {}

    def inside(one, other):
        if one["t"] is None or other["t"] is None:
            return False
        if same:
            is_one = same(one["t"], other["t"])
        else:
            is_one = sessions.get(one["id"]) == sessions.get(other["id"])
        return is_one and predicate(one, other)

    expected = aggregate_all(left, right, inside, how, asked)
    options = {"how": how, "aggregate": asked}
    with pytest.MonkeyPatch.context() as patch:
        if way == "pairs":
            patch.setattr(reduction, "gives_ranges", lambda plan: False)
        tables = sj.join_tables(table(left), table(right), text, window, "t", **options)
        assert read_rows(tables, asked) == expected
        join = open_join(text, window, "t", threads=2, **options)
        found = Counter()
        for step in data.draw(steps_of(left, right)):
            join = sj.StreamJoin.restore(join.snapshot())
            found += read_rows(push(join, *step), asked)
        found += read_rows(join.finish(), asked)
    if join.schema is not None:
        assert found == expected


@pytest.mark.parametrize("algorithm", ["auto", "bi_sort", *TWO_KEYS, *WHOLE_WINDOWS])
@random
@given(
    data=st.data(), name=names, how=hows, asked=asking,
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)  # fmt: skip
def test_count_windows_give_each_left_row_when_it_leaves(algorithm, data, name, how, asked, sizes):
    name = fitting(name, algorithm)
    text, predicate = CONDITIONS[name]
    left, right = data.draw(streams(most=40))
    steps = data.draw(steps_of(left, right))
    matches = join_by_count(steps, predicate, *sizes)
    arrivals = {row["id"]: place for place, row in enumerate(right)}
    when = lambda other: arrivals[other["id"]]  # noqa: E731
    met = lambda one, other: (one["id"], other["id"]) in matches  # noqa: E731
    join = open_join(
        text, sj.CountWindow(left=sizes[0], right=sizes[1]), algorithm=algorithm, how=how,
        threads=data.draw(st.sampled_from([1, 2])), aggregate=asked,
    )  # fmt: skip
    saves = data.draw(st.booleans())
    found, came = Counter(), 0
    for one, other in steps:
        if saves:
            join = sj.StreamJoin.restore(join.snapshot())
        found += read_rows(push(join, one, other), asked)
        came += len(one)
        if join.schema is not None:
            join._state.engine.executor.store.check()
            final = left[: max(came - sizes[0], 0)]
            must = aggregate_all(final, right, met, how, asked, when)
            assert must <= found
            others = {row["id"] for row in left[len(final) :]}
            assert all(row[0] in others and row[1] == 0 for row in found - must)
    found += read_rows(join.finish(), asked)
    if join.schema is not None:
        assert found == aggregate_all(left, right, met, how, asked, when)


@random
@given(data=st.data(), name=names, how=hows, asked=asking)
def test_tables_in_a_count_window(data, name, how, asked):
    text, predicate = CONDITIONS[name]
    left, right = data.draw(streams(most=25))
    order = data.draw(st.sampled_from([None, "o"]))
    matches = join_by_count([(left, right)], predicate, 5, 4, order)
    rights = right if order is None else sorted(right, key=lambda row: row["o"])
    arrivals = {row["id"]: place for place, row in enumerate(rights)}
    met = lambda one, other: (one["id"], other["id"]) in matches  # noqa: E731
    window = sj.CountWindow(left=5, right=4)
    result = sj.join_tables(
        table(left), table(right), text, window, order=order, how=how, aggregate=asked
    )
    when = lambda other: arrivals[other["id"]]  # noqa: E731
    assert read_rows(result, asked) == aggregate_all(left, right, met, how, asked, when)


def test_late_rows_are_given_without_matches():
    join = sj.StreamJoin(
        "l.k = r.k", sj.TimeWindow("5 ms"), "t", how="left", late="keep",
        aggregate={"n": "count(*)", "sum": "sum(r.x)"},
    )  # fmt: skip
    join.push(left=[{"k": 1, "t": 10}], right=[{"k": 1, "x": 2, "t": 9}])
    assert join.advance(12).to_pylist() == []
    late = join.push(left=[{"k": 1, "t": 3}], right=[{"k": 1, "x": 5, "t": 4}])
    assert late.to_pylist() == [{"k": 1, "t": 3, "n": 0, "sum": None, "_late": True}]
    assert join.finish().to_pylist() == [{"k": 1, "t": 10, "n": 1, "sum": 2, "_late": False}]
    assert (join.stats.late_left, join.stats.late_right) == (1, 1)


def test_a_left_row_whose_sum_does_not_fit_is_dropped_alone():
    join = sj.StreamJoin(
        "l.k = r.k", sj.TimeWindow("50 ms"), "t", aggregate={"sum": "sum(r.x)"},
    )  # fmt: skip
    right = [{"k": 1, "x": 2**62, "t": 9}] * 2 + [{"k": 2, "x": 5, "t": 9}]
    join.push(left=[{"k": 1, "t": 10}, {"k": 2, "t": 10}, {"k": 2, "t": 11}], right=right)
    with pytest.raises(sj.EvaluationError, match="does not fit bigint") as caught:
        join.finish()
    assert [row["sum"] for row in caught.value.results.to_pylist()] == [5, 5]
