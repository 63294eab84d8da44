"""The contract of `indexes/protocol.py`, held against every index there is."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamjoin.indexes.catalogue import ONE_KEY, kind_of
from streamjoin.indexes.matches import Matches
from streamjoin.indexes.runs.bi_sort import BISort
from streamjoin.indexes.runs.scan import Scan
from streamjoin.indexes.tables.rap_table import RaPTable
from streamjoin.indexes.tables.wib_tree import WiBTree
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

MAKERS = {name: kind_of(name) for name in ONE_KEY} | {
    "bi_sort, buffer of 1": lambda capacity=1: BISort(capacity, buffer_capacity=1),
    "bi_sort, buffer of 5": lambda capacity=1: BISort(capacity, buffer_capacity=5),
    "bi_sort, buffer of 64": lambda capacity=1: BISort(capacity, buffer_capacity=64),
    "rap_table, 3 partitions": lambda capacity=1: RaPTable(capacity, 3, np.array([-1, 1])),
    "rap_table, equal splitters": lambda capacity=1: RaPTable(capacity, 9, np.zeros(8, int)),
    "wib_tree, leaves of 4": lambda capacity=1: WiBTree(capacity, width=4),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
every_index = pytest.mark.parametrize("kind", [*map(kind_of, ONE_KEY)], ids=ONE_KEY)

SMALL = st.integers(-3, 3)
EXTREME = st.sampled_from([MIN_KEY, MIN_KEY + 1, -(2**40), -1, 0, 1, 2**40, MAX_KEY - 1, MAX_KEY])
KEYS = st.one_of(SMALL, EXTREME)
BATCHES = st.lists(st.lists(KEYS, max_size=40), max_size=6)
RANGES = st.lists(st.tuples(KEYS, KEYS), max_size=12)
SIZES = [0, 1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257, 300, 4095, 4096, 4097]


def columns(ranges):
    bounds = np.array(ranges, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])


def fill(index, batches):
    """Insert batches, row ids counting on; return the tuples as (key, row id)."""
    stored = []
    for batch in batches:
        keys = np.sort(np.array(batch, np.int64))
        rows = np.arange(len(stored), len(stored) + keys.size, dtype=np.int32)[::-1].copy()
        index.insert(keys, rows)
        index.check()
        stored += zip(keys.tolist(), rows.tolist(), strict=True)
    assert len(index) == len(stored)
    return stored


def found(index, ranges):
    """Every (probe, row) pair that a probe gives, as a multiset."""
    pairs = Counter()
    for matches in index.probe(*columns(ranges)):
        probes, rows = matches.pairs()
        assert probes.dtype == rows.dtype == np.int32
        assert len(matches) == probes.size
        pairs.update(zip(probes.tolist(), rows.tolist(), strict=True))
    return pairs


def expected(stored, ranges):
    return Counter(
        (probe, row)
        for probe, (lower, upper) in enumerate(ranges)
        for key, row in stored
        if lower <= key <= upper
    )


@every_maker
@settings(max_examples=40)
@given(batches=BATCHES, ranges=RANGES)
def test_finds_each_tuple_in_range_exactly_once(make, batches, ranges):
    index = make()
    stored = fill(index, batches)
    assert found(index, ranges) == expected(stored, ranges)


@every_maker
@settings(max_examples=25)
@given(st.lists(KEYS, max_size=80), st.lists(st.integers(0, 80), max_size=5), RANGES)
def test_any_cut_into_inserts_gives_the_same_matches(make, keys, cuts, ranges):
    keys, edges = sorted(keys), sorted([0, *cuts, 80])
    batches = [keys[first:last] for first, last in pairwise(edges)]
    index = make()
    stored = []
    for batch in batches:
        rows = np.arange(len(stored), len(stored) + len(batch), dtype=np.int32)
        index.insert(np.array(batch, np.int64), rows)
        index.check()
        stored += zip(batch, rows.tolist(), strict=True)
    whole = make()
    whole.insert(np.array(keys, np.int64), np.arange(len(keys), dtype=np.int32))
    assert found(index, ranges) == found(whole, ranges) == expected(stored, ranges)


@every_maker
@settings(max_examples=20)
@given(batches=BATCHES, ranges=RANGES)
def test_probing_is_pure(make, batches, ranges):
    index = make()
    fill(index, batches)
    lower, upper = columns(ranges)
    before, kept = index.to_arrow(), (lower.copy(), upper.copy())
    first = found(index, ranges)
    assert found(index, ranges) == first
    list(index.probe(lower, upper))
    index.check()
    assert index.to_arrow().equals(before)
    assert np.array_equal(lower, kept[0])
    assert np.array_equal(upper, kept[1])


@every_maker
@settings(max_examples=20)
@given(batches=BATCHES, ranges=RANGES, more=st.lists(KEYS, max_size=20))
def test_a_snapshot_gives_an_equal_index_that_goes_on(make, batches, ranges, more):
    index = make()
    stored = fill(index, batches)
    snapshot = index.to_arrow()
    assert snapshot.schema.names == ["keys", "row_ids"]
    back = type(index).from_arrow(snapshot)
    back.check()
    assert len(back) == len(index)
    assert back.to_arrow().equals(snapshot)
    assert found(back, ranges) == expected(stored, ranges)
    rows = np.arange(len(stored), len(stored) + len(more), dtype=np.int32)
    back.insert(np.sort(np.array(more, np.int64)), rows)
    back.check()
    stored += zip(sorted(more), rows.tolist(), strict=True)
    assert found(back, ranges) == expected(stored, ranges)
    # What came after did not reach the snapshot.
    assert found(type(index).from_arrow(snapshot), ranges) == found(index, ranges)


@every_maker
@settings(max_examples=20)
@given(batches=BATCHES, ranges=RANGES)
def test_sealing_changes_no_match(make, batches, ranges):
    index = make()
    stored = fill(index, batches)
    index.seal()
    index.check()
    assert len(index) == len(stored)
    assert found(index, ranges) == expected(stored, ranges)
    assert type(index).from_arrow(index.to_arrow()).to_arrow().equals(index.to_arrow())


@every_index
@settings(max_examples=20)
@given(keys=st.lists(KEYS, max_size=300), ranges=RANGES)
def test_loading_sorted_keys_equals_inserting_them(kind, keys, ranges):
    ordered, rows = np.sort(np.array(keys, np.int64)), np.arange(len(keys), dtype=np.int32)
    index = kind.from_sorted(ordered, rows)
    index.check()
    stored = list(zip(ordered.tolist(), rows.tolist(), strict=True))
    assert found(index, ranges) == expected(stored, ranges)


@every_maker
@pytest.mark.parametrize("size", SIZES)
def test_sizes_around_the_edges_of_blocks_and_levels(make, size):
    random = np.random.default_rng(size)
    keys = np.sort(random.integers(-size, size + 1, size))
    index = make(max(size, 1))
    index.insert(keys, np.arange(size, dtype=np.int32))
    index.check()
    lower = random.integers(-size - 2, size + 3, 301)  # not ascending; more than two blocks
    upper = lower + random.integers(-2, 40, lower.size)
    got = found(index, list(zip(lower, upper, strict=True)))
    starts, ends = np.searchsorted(keys, lower), np.searchsorted(keys, upper, side="right")
    assert got == Counter(
        (probe, row) for probe in range(lower.size) for row in range(starts[probe], ends[probe])
    )


@every_maker
@pytest.mark.parametrize("size", [1, 16, 17, 255, 256, 257, 3000])
@pytest.mark.parametrize("key", [MIN_KEY, 0, MAX_KEY])
def test_all_keys_equal(make, size, key):
    index = make()
    for first in range(0, size, 100):
        rows = np.arange(first, min(first + 100, size), dtype=np.int32)
        index.insert(np.full(rows.size, key), rows)
        index.check()
    everything = Counter((0, row) for row in range(size))
    assert found(index, [(key, key)]) == everything
    assert found(index, [(MIN_KEY, MAX_KEY)]) == everything
    if key > MIN_KEY:
        assert not found(index, [(MIN_KEY, key - 1)])
    if key < MAX_KEY:
        assert not found(index, [(key + 1, MAX_KEY)])
    assert not found(index, [(MAX_KEY, MIN_KEY)])


@every_maker
@pytest.mark.parametrize("step", [1, 3, 50])
def test_bounds_in_descending_order(make, step):
    keys = np.repeat(np.arange(0, 5000, step), 2)
    index = make()
    index.insert(keys, np.arange(keys.size, dtype=np.int32))
    lower = np.arange(5000, -10, -7)
    stored = list(zip(keys.tolist(), range(keys.size), strict=True))
    ranges = [(int(bound), int(bound) + 5) for bound in lower]
    assert found(index, ranges) == expected(stored, ranges)


@every_index
def test_an_empty_index(kind):
    for index in (kind(), kind(1), kind.from_sorted(np.empty(0, np.int64), np.empty(0, np.int32))):
        index.insert(np.empty(0, np.int64), np.empty(0, np.int32))
        index.check()
        assert len(index) == 0
        assert not found(index, [(MIN_KEY, MAX_KEY), (0, 0)])
        assert not found(index, [])
        assert index.to_arrow().num_rows == 0
        index.seal()
        index.check()
        assert not found(index, [(MIN_KEY, MAX_KEY)])


@every_index
def test_bytes_follow_the_tuples(kind):
    index, size = kind(), 20_000
    index.insert(np.arange(size), np.arange(size, dtype=np.int32))
    assert index.nbytes >= 12 * size
    index.seal()
    room = 1.2 if kind in (BISort, Scan) else 2.5  # entries and leaves are not full
    assert 12 * size <= index.nbytes <= room * 12 * size + 4096


@pytest.mark.parametrize("block", [1, 2, 3, 7, 100])
@settings(max_examples=40)
@given(lengths=st.lists(st.integers(-2, 5), max_size=20), data=st.data())
def test_blocks_of_any_size_make_up_the_whole(block, lengths, data):
    row_ids = np.arange(100, 130, dtype=np.int32)
    starts = np.array([data.draw(st.integers(2, 25)) for _ in lengths], np.int64)
    matches = Matches(starts, starts + np.array(lengths, np.int64), row_ids)
    probes, rows = matches.pairs()
    assert len(matches) == probes.size == sum(max(length, 0) for length in lengths)
    whole = [
        (probe, int(row_ids[start + offset]))
        for probe, (start, length) in enumerate(zip(starts.tolist(), lengths, strict=True))
        for offset in range(length)
    ]
    assert list(zip(probes.tolist(), rows.tolist(), strict=True)) == whole
    blocks = list(matches.blocks(block))
    assert all(1 <= part[0].size <= block for part in blocks)
    assert [int(probe) for part in blocks for probe in part[0]] == probes.tolist()
    assert [int(row) for part in blocks for row in part[1]] == rows.tolist()


class AgainstAList(RuleBasedStateMachine):
    """Any sequence of inserts, probes, seals and snapshots, against a plain list."""

    @initialize(make=st.sampled_from(list(MAKERS.values())))
    def start(self, make):
        self.index, self.stored, self.sealed = make(), [], False

    @precondition(lambda self: not self.sealed)
    @rule(keys=st.lists(KEYS, max_size=50))
    def insert(self, keys):
        rows = np.arange(len(self.stored), len(self.stored) + len(keys), dtype=np.int32)
        self.index.insert(np.sort(np.array(keys, np.int64)), rows)
        self.stored += zip(sorted(keys), rows.tolist(), strict=True)

    @rule(ranges=RANGES)
    def probe(self, ranges):
        assert found(self.index, ranges) == expected(self.stored, ranges)

    @rule()
    def seal(self):
        self.index.seal()
        self.sealed = True

    @rule()
    def restore(self):
        self.index = type(self.index).from_arrow(self.index.to_arrow())
        self.sealed = False

    @rule()
    def follow(self):
        index = self.index.successor(len(self.stored))
        assert len(index) == 0
        keys = sorted(key for key, _ in self.stored)
        index.insert(np.array(keys, np.int64), np.arange(len(keys), dtype=np.int32))
        self.index, self.sealed = index, False
        self.stored = list(zip(keys, range(len(keys)), strict=True))

    @invariant()
    def holds_what_was_inserted(self):
        self.index.check()
        snapshot = self.index.to_arrow()
        keys, rows = snapshot["keys"].to_pylist(), snapshot["row_ids"].to_pylist()
        assert sorted(zip(keys, rows, strict=True)) == sorted(self.stored)


AgainstAList.TestCase.settings = settings(max_examples=60, stateful_step_count=12)
test_any_sequence_of_steps = AgainstAList.TestCase


@every_maker
@pytest.mark.parametrize("rising", [False, True])
def test_many_batches(make, rising):
    """What grows, divides and overflows over thousands of tuples."""
    random = np.random.default_rng(7)
    index, scan = make(), Scan()
    for batch in range(30):
        low = batch * 300 if rising else 0
        keys = np.sort(random.integers(low, low + 500, 200))
        rows = np.arange(batch * 200, batch * 200 + 200, dtype=np.int32)
        index.insert(keys, rows)
        scan.insert(keys, rows)
    index.check()
    bounds = random.integers(-10, 10_000 if rising else 510, 200)
    ranges = [(int(bound), int(bound) + int(bound) % 90) for bound in bounds]
    assert found(index, ranges) == found(scan, ranges)
