"""SPO-Join's index: any cut into inserts, merges in other threads, snapshots and sealing."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.indexes.catalogue import make_index
from streamjoin.indexes.two_keys import spo_join
from streamjoin.indexes.two_keys.crossing import Crossing
from streamjoin.indexes.two_keys.mutable_part import Intersection
from streamjoin.indexes.two_keys.spo_join import FEW_PROBES, FEW_ROWS, SPOJoin
from tests.indexes.two_keys.crossed_tuples import (
    KEYS,
    RANGES,
    asked,
    columns,
    expected,
    found,
    listed,
    orders,
)

PAIRS = st.tuples(KEYS, KEYS)
# Few go into the mutable part, many become permutation arrays at once.
BATCHES = st.lists(
    st.one_of(
        st.lists(PAIRS, max_size=5),
        st.lists(PAIRS, min_size=FEW_ROWS, max_size=FEW_ROWS + 9),
        st.builds(lambda pair, size: [pair] * size, PAIRS, st.sampled_from([63, 64, 300])),
    ),
    max_size=8,
)
WHERE = [(-1, 9, -1, 9), (0, 4, 2, 9), (3, 3, 0, 9), (5, 1, 0, 9), (8, 9, 0, 0)]


def insert(index, tuples, rows):
    index.insert(*orders(*columns(tuples), rows))
    index.check()


def fill(index, batches):
    """Insert batches, row ids neither dense nor ascending; return what is stored."""
    stored = []
    for batch in batches:
        rows = 3 + 2 * np.arange(len(stored), len(stored) + len(batch))[::-1]
        insert(index, batch, rows)
        stored += [(*keys, row) for keys, row in zip(batch, rows.tolist(), strict=True)]
    assert len(index) == len(stored)
    return stored


def some_tuples(seed, size):
    return [tuple(each) for each in np.random.default_rng(seed).integers(0, 10, (size, 2)).tolist()]


@settings(max_examples=60)
@given(batches=BATCHES, ranges=RANGES, merge_rows=st.sampled_from([1, 5, 64, 4096]))
def test_finds_each_tuple_in_both_ranges_exactly_once(batches, ranges, merge_rows):
    index = SPOJoin(merge_rows=merge_rows)
    stored = fill(index, batches)
    assert len(index.mutable) < merge_rows
    pairs = expected(stored, ranges)
    assert found(index, ranges) == pairs
    assert found(index, ranges, scans=False) == found(index, ranges, scans=True) == pairs
    for first in range(0, len(ranges), 7):  # few probes look into the mutable part as it is
        some = ranges[first : first + 7]
        assert found(index, some) == expected(stored, some)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(0, 400), max_size=9),
    merge_rows=st.sampled_from([1, 20, 4096]),
)
def test_any_cut_into_inserts_gives_the_same_matches(seed, cuts, merge_rows):
    tuples, index = some_tuples(seed, 400), SPOJoin(merge_rows=merge_rows)
    for first, last in pairwise(sorted([0, *cuts, 400])):
        insert(index, tuples[first:last], np.arange(first, last))
    whole = SPOJoin.from_sorted(*orders(*columns(tuples), np.arange(400)))
    whole.check()
    stored = [(*keys, row) for row, keys in enumerate(tuples)]
    pairs = expected(stored, WHERE)
    assert found(index, WHERE) == found(whole, WHERE) == pairs
    index.seal()
    index.check()
    assert len(index.parts) == 1
    # Rows stay in the order of their arrival where keys are equal, however they came.
    assert index.to_arrow().equals(whole.to_arrow())


def test_few_rows_and_few_probes():
    index = SPOJoin()
    insert(index, some_tuples(0, FEW_ROWS - 1), np.arange(FEW_ROWS - 1))
    assert (len(index.mutable), index.parts) == (FEW_ROWS - 1, [])
    kinds = [
        [type(matches) for matches in index.probe(*asked(WHERE[:1] * probes))]
        for probes in (FEW_PROBES - 1, FEW_PROBES)
    ]
    assert kinds == [[Intersection], [Crossing]]
    insert(index, some_tuples(1, FEW_ROWS), np.arange(FEW_ROWS, 2 * FEW_ROWS))
    assert len(index.mutable) == 0
    assert sum(map(len, index.parts)) == 2 * FEW_ROWS - 1
    assert found(index, WHERE * 4) == {
        (probe + number * len(WHERE), row): 1
        for probe, row in found(index, WHERE)
        for number in range(4)
    }


def test_what_many_probes_made_of_the_mutable_part_is_not_kept_too_long():
    index, stored, many = SPOJoin(), [], WHERE * 4
    for batch in range(20):
        tuples = some_tuples(batch, 3)
        insert(index, tuples, np.arange(3 * batch, 3 * batch + 3))
        stored += [(*keys, 3 * batch + place) for place, keys in enumerate(tuples)]
        assert found(index, many) == expected(stored, many)
        assert found(index, WHERE) == expected(stored, WHERE)
    assert index._frozen is not None
    index.seal()
    assert index._frozen is None
    assert found(index, many) == expected(stored, many)


def test_the_list_stays_short():
    index, longest = SPOJoin(merge_rows=64), 0
    for first in range(0, 64 * 200, 64):
        insert_quickly(index, first, 64)
        longest = max(longest, len(index.parts))
    index.check()
    assert longest <= 6
    assert len(index) == 64 * 200


def insert_quickly(index, first, size):
    keys = np.random.default_rng(first).integers(0, 10, (2, size))
    index.insert(*orders(*keys, np.arange(first, first + size)))


@settings(max_examples=30)
@given(batches=BATCHES, more=st.lists(PAIRS, max_size=80), ranges=RANGES)
def test_a_snapshot_gives_an_equal_index_that_goes_on(batches, more, ranges):
    index = SPOJoin(merge_rows=20)
    stored = fill(index, batches)
    snapshot = index.to_arrow()
    assert snapshot.schema.names == ["keys", "row_ids", "second_keys", "places"]
    assert sorted(snapshot["row_ids"].to_pylist()) == sorted(row for _, _, row in stored)
    back = SPOJoin.from_arrow(snapshot)
    back.check()
    assert back.to_arrow().equals(snapshot)
    assert found(back, ranges) == found(index, ranges) == expected(stored, ranges)
    rows = 10_000 + np.arange(len(more))
    insert(back, more, rows)
    after = stored + [(*keys, row) for keys, row in zip(more, rows.tolist(), strict=True)]
    assert found(back, ranges) == expected(after, ranges)
    # What came after did not reach the snapshot.
    assert found(SPOJoin.from_arrow(snapshot), ranges) == expected(stored, ranges)


def test_an_empty_index():
    empty = orders([], [], [])
    for index in (SPOJoin(), SPOJoin.from_sorted(*empty), SPOJoin().successor(5)):
        index.insert(*empty)
        index.check()
        assert (len(index), index.to_arrow().num_rows) == (0, 0)
        assert not found(index, WHERE)
        assert not found(index, [])
        index.seal()
        index.check()
        assert not found(index, WHERE * 5)
        assert len(SPOJoin.from_arrow(index.to_arrow())) == 0


def test_no_probes_in_permutation_arrays():
    # Once: a ValueError, for a sample of every 0th probe.
    index = SPOJoin()
    insert(index, some_tuples(0, 200), np.arange(200))
    assert not found(index, [])


def test_a_successor_works_as_its_predecessor_did():
    index = make_index("spo_join", 100, threads=3)
    assert isinstance(index, SPOJoin)
    assert (index.threads, index.successor(5).threads) == (3, 3)
    assert SPOJoin(merge_rows=9).successor(5).merge_rows == 9


def test_bytes_follow_the_tuples():
    index, size = SPOJoin(), 20_000
    insert_quickly(index, 0, size)
    index.seal()
    assert 24 * size <= index.nbytes <= 1.2 * 26 * size + 4096


# Merges in other threads.


@pytest.fixture
def gate(monkeypatch):
    """Large is small, and a merge begins when the gate is opened."""
    opened, merge_all = Event(), spo_join.merge_all

    def wait_and_merge(parts):
        assert opened.wait(20)
        return merge_all(parts)

    monkeypatch.setattr(spo_join, "THREAD_TUPLES", 100)
    monkeypatch.setattr(spo_join, "merge_all", wait_and_merge)
    yield opened
    opened.set()


def wait_for(index):
    """Wait until the merge is done, and is taken up."""
    assert index.merging is not None
    index.merging[1].result(20)
    found(index, WHERE)


def test_probing_goes_on_while_parts_are_merged(gate):
    index, stored = SPOJoin(threads=2, merge_rows=10), []
    for batch, size in enumerate([80, 70, 5, 66, 9, 9, 64, 3]):
        tuples, first = some_tuples(batch, size), len(stored)
        insert(index, tuples, np.arange(first, first + size))
        stored += [(*keys, first + place) for place, keys in enumerate(tuples)]
        assert found(index, WHERE) == expected(stored, WHERE)
    assert index.merging is not None
    held = index.parts
    assert len(held) > 2  # behind: they wait for the first two
    probing = index.probe(*asked(WHERE))  # in the middle of the old list
    pairs = listed(next(probing))
    gate.set()
    wait_for(index)
    assert index.parts is not held
    assert len(index.parts) == len(held) - 1
    for matches in probing:
        pairs += listed(matches)
    assert pairs == found(index, WHERE) == expected(stored, WHERE)
    while True:  # the others are merged as more comes
        insert(index, [(0, 0)], [len(stored)])
        stored.append((0, 0, len(stored)))
        if index.merging is None:
            break
        wait_for(index)
    assert found(index, WHERE) == expected(stored, WHERE)
    SPOJoin.check(index)


def test_sealing_waits_for_a_merge_and_begins_the_last(gate):
    index = SPOJoin(threads=2)
    for batch in range(3):
        insert(index, some_tuples(batch, 100), np.arange(100 * batch, 100 * batch + 100))
    stored = [
        (*keys, 100 * batch + place)
        for batch in range(3)
        for place, keys in enumerate(some_tuples(batch, 100))
    ]
    snapshot = SPOJoin.to_arrow  # while the merge has not begun
    gate.set()
    assert snapshot(index).num_rows == 300
    index.seal()
    assert len(index) == 300
    assert found(index, WHERE) == expected(stored, WHERE)
    if index.merging is not None:
        wait_for(index)
    assert len(index.parts) == 1
    index.check()
    assert found(index, WHERE) == expected(stored, WHERE)


def test_sealing_in_one_of_the_threads_that_merge(monkeypatch):
    # Once: whoever sealed waited for a merge that waited for its thread, for ever.
    monkeypatch.setattr(spo_join, "THREAD_TUPLES", 10)
    with ThreadPoolExecutor(1) as only:
        monkeypatch.setattr(spo_join, "helpers", lambda: only)

        def insert_and_seal():
            index = SPOJoin(threads=2)
            for first in (0, 100):
                insert_quickly(index, first, 100)
            index.seal()
            return index

        index = only.submit(insert_and_seal).result(20)
    wait_for(index)
    index.check()
    assert len(index) == 200
    assert len(index.parts) == 1


def test_threads_probe_side_by_side_while_merges_end(monkeypatch):
    monkeypatch.setattr(spo_join, "THREAD_TUPLES", 64)
    index, stored = SPOJoin(threads=2, merge_rows=30), []
    with ThreadPoolExecutor(4) as pool:
        for batch, size in enumerate([100, 64, 20, 20, 90, 64, 1, 300, 64, 64] * 2):
            tuples, first = some_tuples(batch, size), len(stored)
            insert(index, tuples, np.arange(first, first + size))
            stored += [(*keys, first + place) for place, keys in enumerate(tuples)]
            answers = [pool.submit(found, index, WHERE * times) for times in (1, 4, 1, 4)]
            assert answers[0].result() == answers[2].result() == expected(stored, WHERE)
            assert answers[1].result() == answers[3].result() == expected(stored, WHERE * 4)
    index.seal()
    assert found(index, WHERE) == expected(stored, WHERE)
