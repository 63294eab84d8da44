"""``keep`` in streams: what tables keep, whatever the cut, each left row once, and in time."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import ONE_KEY, TWO_KEYS, WHOLE_WINDOWS
from streamjoin.plans.limits import use_limits
from tests.joins.outcomes.kept import (
    COUNTED_HOWS,
    DISTANCES,
    HOWS,
    give,
    ids,
    keep_pairs,
    open_join,
    rank_of,
)
from tests.joins.small_streams import (
    CONDITIONS,
    TINY,
    check,
    fitting,
    steps_of,
    streams,
    table,
)
from tests.oracle import join_by_count

random = settings(max_examples=20, suppress_health_check=list(HealthCheck))
names = st.sampled_from(sorted(DISTANCES))
keeps = st.sampled_from(["nearest", "first", "last"])
ks = st.integers(1, 3)
hows = st.sampled_from(HOWS)


@pytest.fixture(autouse=True)
def tiny_subwindows():
    with use_limits(TINY):
        yield


def in_window(predicate, before, after):
    def inside(one, other):
        known = one["t"] is not None and other["t"] is not None
        is_near = known and one["t"] - before <= other["t"] <= one["t"] + after
        return is_near and predicate(one, other)

    return inside


def options_of(name, keep, k, how):
    nearest, distance = DISTANCES[name]
    options = {"keep": keep, "k": k, "how": how}
    if keep == "nearest":
        options["nearest"] = nearest
    return options, rank_of(keep, distance)


def push(join, left, right):
    sides = {"left": left, "right": right}
    result = join.push(**{side: table(rows) for side, rows in sides.items() if rows})
    check(join)
    return result


def split_late(rows, watermark):
    on_time = [row for row in rows if row["t"] is None or row["t"] >= watermark]
    return on_time, len(rows) - len(on_time)


@pytest.mark.parametrize("algorithm", ["auto", *ONE_KEY, *TWO_KEYS, *WHOLE_WINDOWS])
@random
@given(data=st.data(), name=names, keep=keeps, k=ks, how=hows, before=st.integers(0, 8))
def test_time_windows_give_each_left_row_once_it_is_final(
    algorithm, data, name, keep, k, how, before
):
    name, after = fitting(name, algorithm, timed=True), data.draw(st.integers(1, 6))
    text, predicate = CONDITIONS[name]
    inside = in_window(predicate, before, after)
    options, rank = options_of(name, keep, k, how)
    join = open_join(
        text, sj.TimeWindow(before=before, after=after), time="t", algorithm=algorithm,
        threads=data.draw(st.sampled_from([1, 2])), **options,
    )  # fmt: skip
    saves = data.draw(st.booleans())
    left, right = data.draw(streams(most=25))
    came, given_rows, watermark, late = ([], []), Counter(), -1, 0
    for step in data.draw(steps_of(left, right)):
        if saves:
            join = sj.StreamJoin.restore(join.snapshot())
        given_rows += ids(push(join, *step), how)
        for rows, side in zip(step, came, strict=True):
            on_time, too_late = split_late(rows, watermark)
            side += on_time
            late += too_late
        if data.draw(st.booleans()):
            moved = data.draw(st.integers(0, 30))
            given_rows += ids(join.advance(moved), how)
            watermark = max(watermark, moved)
            check(join)
            if join.schema is not None:
                check_given(given_rows, came, inside, rank, k, how, watermark, before, after)
    given_rows += ids(join.finish(), how)
    if join.schema is not None:
        kept = keep_pairs(came[0], came[1], inside, rank, k)
        assert given_rows == give(kept, *came, how)
        assert join.stats.late == late
        assert not ids(join.finish(), how)


def check_given(given_rows, came, inside, rank, k, how, watermark, before, after):
    """Assert that just what is final was given, but rows that match nothing in any case."""
    left = [row for row in came[0] if row["t"] is not None and row["t"] + after < watermark]
    gone = watermark - after - before
    right = [row for row in came[1] if row["t"] is not None and row["t"] < gone]
    kept = keep_pairs(left, came[1], inside, rank, k)
    expected = give(kept, left, right, how)
    assert expected <= given_rows
    others = {row["id"] for row in came[0] + came[1]} - {row["id"] for row in left + right}
    met = {other for _, other in kept}
    for one, other in given_rows - expected:
        assert (one is None) != (other is None)
        assert {one, other} & others
        assert other not in met


@random
@given(data=st.data(), name=names, keep=keeps, k=ks, how=hows, before=st.integers(0, 8))
def test_batch_mode_and_streams_give_the_same(data, name, keep, k, how, before):
    text, predicate = CONDITIONS[name]
    inside = in_window(predicate, before, 3)
    options, rank = options_of(name, keep, k, how)
    window = sj.TimeWindow(before=before, after=3)
    left, right = data.draw(streams(most=25))
    if not left or not right:
        return
    expected = give(keep_pairs(left, right, inside, rank, k), left, right, how)
    steps = [
        {side: table(rows) for side, rows in zip(("left", "right"), step, strict=True)}
        for step in data.draw(steps_of(left, right))
    ]
    for batch_rows in (None, 7):
        algorithm = data.draw(st.sampled_from(["auto", "pim_tree"]))
        join = open_join(text, window, "t", batch_rows=batch_rows, algorithm=algorithm, **options)
        found = Counter()
        for part in join.stream(steps):
            found += ids(part.rows, how)
        assert found == expected


@random
@given(data=st.data(), name=names, keep=keeps, k=ks, how=hows)
def test_delay_moves_the_watermark(data, name, keep, k, how):
    text, predicate = CONDITIONS[name]
    inside = in_window(predicate, 3, 3)
    options, rank = options_of(name, keep, k, how)
    left, right = data.draw(streams(most=25))
    join = open_join(text, sj.TimeWindow(before=3, after=3), "t", delay="1 s", **options)
    found = Counter()
    for step in data.draw(steps_of(left, right)):
        found += ids(push(join, *step), how)
    found += ids(join.finish(), how)
    if join.schema is not None:
        kept = keep_pairs(left, right, inside, rank, k)
        assert found == give(kept, left, right, how)


CLOSING = {
    "tumbling": (sj.TumblingWindow("10 ms"), lambda one, other: one // 10 == other // 10),
    "session": (sj.SessionWindow("2 ms"), None),
}


@pytest.mark.parametrize("kind", sorted(CLOSING))
@random
@given(data=st.data(), name=names, keep=keeps, k=ks, how=hows)
def test_windows_that_close(kind, data, name, keep, k, how):
    window, same = CLOSING[kind]
    if same is None:
        name = "equality and band"
    text, predicate = CONDITIONS[name]
    options, rank = options_of(name, keep, k, how)
    left, right = data.draw(streams(most=25))
    sessions = number_sessions(left + right, 2) if same is None else {}

    def inside(one, other):
        if one["t"] is None or other["t"] is None:
            return False
        is_one = (
            same(one["t"], other["t"])
            if same
            else sessions.get(one["id"]) == sessions.get(other["id"])
        )
        return is_one and predicate(one, other)

    expected = give(keep_pairs(left, right, inside, rank, k), left, right, how)
    tables = sj.join_tables(table(left), table(right), text, window, "t", **options)
    assert ids(tables, how) == expected
    join = open_join(text, window, "t", threads=data.draw(st.sampled_from([1, 2])), **options)
    found = Counter()
    for step in data.draw(steps_of(left, right)):
        join = sj.StreamJoin.restore(join.snapshot())
        found += ids(push(join, *step), how)
    found += ids(join.finish(), how)
    if join.schema is not None:
        assert found == expected


def number_sessions(rows, gap):
    """The session of each row: by the key, without a pause longer than the gap."""
    numbers, last = {}, {}
    ordered = sorted(
        (row for row in rows if row["t"] is not None and row["k"] is not None),
        key=lambda row: row["t"],
    )
    for row in ordered:
        before = last.get(row["k"])
        begins = before is None or row["t"] - before[0] > gap
        last[row["k"]] = row["t"], row["id"] if begins else before[1]
        numbers[row["id"]] = row["k"], last[row["k"]][1]
    return numbers


def count_rank(keep, distance, arrivals):
    def rank(one, other):
        place = arrivals[other["id"]]
        if keep == "nearest":
            return rank_of("nearest", distance, timed=False)(one, other)
        return -place if keep == "last" else place

    return rank


@pytest.mark.parametrize("algorithm", ["auto", "bi_sort", *TWO_KEYS, *WHOLE_WINDOWS])
@random
@given(
    data=st.data(), name=names, keep=keeps, k=ks, how=st.sampled_from(COUNTED_HOWS),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)  # fmt: skip
def test_count_windows_give_each_left_row_when_it_leaves(
    algorithm, data, name, keep, k, how, sizes
):
    name = fitting(name, algorithm)
    text, predicate = CONDITIONS[name]
    options, _ = options_of(name, keep, k, how)
    left, right = data.draw(streams(most=25))
    steps = data.draw(steps_of(left, right))
    matches = join_by_count(steps, predicate, *sizes)
    arrivals = {row["id"]: place for place, row in enumerate(right)}
    rank = count_rank(keep, DISTANCES[name][1], arrivals)
    met = lambda one, other: (one["id"], other["id"]) in matches  # noqa: E731
    join = open_join(
        text, sj.CountWindow(left=sizes[0], right=sizes[1]), algorithm=algorithm,
        threads=data.draw(st.sampled_from([1, 2])), **options,
    )  # fmt: skip
    found, came = Counter(), 0
    for one, other in steps:
        join = sj.StreamJoin.restore(join.snapshot())
        found += ids(push(join, one, other), how)
        came += len(one)
        if join.schema is not None:
            join._state.engine.executor.store.check()
            final = left[: max(came - sizes[0], 0)]
            expected = give(keep_pairs(final, right, met, rank, k), final, right, how)
            assert expected <= found
            others = {row["id"] for row in left[len(final) :]}
            assert all(row[0] in others and row[1] is None for row in found - expected)
    found += ids(join.finish(), how)
    if join.schema is not None:
        assert found == give(keep_pairs(left, right, met, rank, k), left, right, how)


@random
@given(data=st.data(), name=names, keep=keeps, k=ks, how=st.sampled_from(COUNTED_HOWS))
def test_streams_and_batches_in_a_count_window(data, name, keep, k, how):
    options, _ = options_of(name, keep, k, how)
    left, right = data.draw(streams(most=25))
    steps = data.draw(steps_of(left, right))
    window = sj.CountWindow(left=5, right=4)
    twin = open_join(CONDITIONS[name][0], window, **options)
    expected = sum((ids(push(twin, *step), how) for step in steps), Counter())
    expected += ids(twin.finish(), how)
    tables = [tuple(map(table, step)) for step in steps]
    for others in ({"algorithm": "pim_tree", "threads": 2}, {"batch_rows": 7}):
        join = open_join(CONDITIONS[name][0], window, **options, **others)
        given_rows = [ids(part.rows, how) for part in join.stream(tables)]
        assert sum(given_rows, Counter()) == expected


@random
@given(data=st.data(), name=names, keep=keeps, k=ks, how=hows)
def test_tables_in_a_count_window(data, name, keep, k, how):
    text, predicate = CONDITIONS[name]
    options, _ = options_of(name, keep, k, how)
    left, right = data.draw(streams(most=25))
    order = data.draw(st.sampled_from([None, "o"]))
    matches = join_by_count([(left, right)], predicate, 5, 4, order)
    rights = right if order is None else sorted(right, key=lambda row: row["o"])
    arrivals = {row["id"]: place for place, row in enumerate(rights)}
    rank = count_rank(keep, DISTANCES[name][1], arrivals)
    met = lambda one, other: (one["id"], other["id"]) in matches  # noqa: E731
    window = sj.CountWindow(left=5, right=4)
    result = sj.join_tables(table(left), table(right), text, window, order=order, **options)
    assert ids(result, how) == give(keep_pairs(left, right, met, rank, k), left, right, how)
