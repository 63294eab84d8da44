"""Routing: a probe goes to every core that holds a row in its range, whatever came before."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.splitters import Histogram
from streamjoin.spark.routing import table as routing
from streamjoin.spark.routing.table import ALL, Epoch, RoutingTable

ENDS = [MIN_KEY, MIN_KEY + 1, MIN_KEY + 2, MAX_KEY - 2, MAX_KEY - 1, MAX_KEY]


def owners_of(table, keys):
    """Return the cores that store rows of these keys, which all differ in another column."""
    rows = pa.record_batch({"id": np.arange(keys.size), "key": keys})
    return table.owners(table.cells(keys), rows)


def saturated(value):
    return min(max(value, MIN_KEY), MAX_KEY)


@st.composite
def batches(draw):
    """Batches of keys that drift, crowd, repeat one key, or lie at the ends."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    found = []
    for number in range(draw(st.integers(1, 8))):
        rows = draw(st.sampled_from([0, 1, 30, 60]))
        kind = draw(st.sampled_from(["drift", "crowd", "hot", "ends", "wide"]))
        keys = {
            "drift": rng.integers(0, 100, rows) + 60 * number,
            "crowd": rng.integers(0, 4, rows),
            "hot": np.where(rng.random(rows) < 0.9, 7, rng.integers(-1000, 1000, rows)),
            "ends": rng.choice(ENDS, rows) if rows else np.empty(0, np.int64),
            "wide": rng.integers(MIN_KEY, MAX_KEY, rows),
        }[kind]
        found.append(keys.astype(np.int64))
    return found


@settings(max_examples=80)
@given(
    steps=batches(),
    cores=st.integers(1, 5),
    below=st.sampled_from([0, 1, 30, 2**62]),
    above=st.sampled_from([0, 2, 50, 2**63]),
    extent=st.integers(1, 4),
    first=st.sampled_from(["split", "all", "more comes"]),
)
def test_a_probe_goes_wherever_a_row_of_its_range_lies(steps, cores, below, above, extent, first):
    routing_enough, routing.HISTOGRAM_ROWS = routing.HISTOGRAM_ROWS, 20
    try:
        table = RoutingTable.from_sample(steps[0], cores, more_comes=first == "more comes")
        if first == "split":
            table = RoutingTable.split(cores)
        stored, most = [], 1  # (key, core, time)
        for time, keys in enumerate(steps):
            owners = owners_of(table, keys)
            assert np.all((owners >= 0) & (owners < cores))
            shares = table.share_stored(owners)
            assert sorted(shares.rows) == list(range(keys.size))
            stored += [(int(key), int(core), time) for key, core in zip(keys, owners, strict=True)]
            lower = np.array([saturated(int(key) - below) for key in keys], np.int64)
            upper = np.array([saturated(int(key) + above) for key in keys], np.int64)
            probing = table.share_probing([(lower, upper)], table.cells(keys), owners)
            for core in range(cores):
                assert np.all(owners[shares.of(core)] == core)
                assert not np.any(owners[probing.of(core)] == core)
            goes = [{int(owner)} for owner in owners]
            for core in range(cores):
                for row in probing.of(core):
                    goes[row].add(core)
            for row in range(keys.size):
                met = {
                    core
                    for key, core, when in stored
                    if when > time - extent and lower[row] <= key <= upper[row]
                }
                assert met <= goes[row]
            table, _ = table.advance(
                Histogram.of(keys, table.splitters), time, expired=time + 2 - extent
            )
            most = max(most, len(table.epochs))
            assert json.loads(json.dumps(table.to_json())) == table.to_json()
            table = RoutingTable.from_json(json.loads(json.dumps(table.to_json())))
    finally:
        routing.HISTOGRAM_ROWS = routing_enough
    event(f"{most} epochs")


def test_an_empty_range_goes_nowhere():
    table = RoutingTable.from_sample(np.arange(100), 3)
    keys = np.array([5, 50, 95])
    owners = owners_of(table, keys)
    nothing = table.share_probing([(keys, keys - 1)], table.cells(keys), owners)
    assert nothing.rows.size == 0
    several = table.share_probing(
        [(keys, keys - 1), (np.zeros(3, np.int64), np.full(3, 99))], table.cells(keys), owners
    )
    assert [several.of(core).size + (owners == core).sum() for core in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("cores", [2, 3, 4])
def test_a_heavy_key_is_shared_and_the_others_are_not(cores):
    rng = np.random.default_rng(1)
    keys = np.where(rng.random(10_000) < 0.9, 7, rng.integers(0, 10**6, 10_000))
    table = RoutingTable.from_sample(keys[::7], cores)
    assert np.bincount(owners_of(table, keys)).max() / keys.size < 1 / cores + 0.1
    light = keys[keys != 7][:100]
    cells = table.cells(light)
    probing = table.share_probing([(light, light)], cells, owners_of(table, light))
    assert probing.rows.size < 0.2 * light.size * cores


@pytest.mark.parametrize("cores", [2, 3, 4])
def test_even_keys_lie_on_one_core_or_two(cores):
    rng = np.random.default_rng(2)
    keys = rng.integers(-(10**9), 10**9, 10_000)
    table = RoutingTable.from_sample(keys[::10], cores)
    assert ALL not in table.epochs[-1].owners
    owners = owners_of(table, keys)
    assert np.bincount(owners).max() / keys.size < 1 / cores + 0.05
    assert (
        table.share_probing([(keys - 1000, keys + 1000)], table.cells(keys), owners).rows.size < 100
    )


@pytest.mark.parametrize("cores", [2, 3, 4])
def test_keys_beyond_all_seen_before_are_shared(cores):
    keys = np.arange(1000)
    table = RoutingTable.from_sample(keys, cores, more_comes=True)
    cells = table.cells(keys)
    assert table.share_probing([(keys, keys)], cells, owners_of(table, keys)).rows.size == 0
    for beyond in (keys + 1000, keys - 1000):
        assert np.bincount(owners_of(table, beyond)).max() <= 1000 / cores + 60
    later = Histogram.of(np.tile(keys + 1000, 20), table.splitters)
    table, is_new = table.advance(later, newest=5, expired=None)
    assert is_new
    owners = owners_of(table, keys + 1000)
    assert np.array_equal(owners, np.sort(owners))  # neighbours are together again
    assert np.bincount(owners).max() <= 1000 / cores + 100


def skewed(rows=20_000):
    return np.random.default_rng(4).integers(0, 1000, rows)


def test_a_new_epoch_begins_when_the_load_is_uneven():
    table = RoutingTable.from_sample(np.arange(10**6), 3)  # all of the keys below are in one cell
    table, is_new = table.advance(Histogram.of(skewed(), table.splitters), newest=5, expired=None)
    assert is_new
    assert [epoch.newest for epoch in table.epochs] == [5, MIN_KEY]
    assert np.bincount(owners_of(table, skewed())).max() / 20_000 < 0.4


def test_no_epoch_begins_without_need():
    table = RoutingTable.from_sample(skewed(), 3)
    for keys in (skewed(), skewed(100), np.empty(0, np.int64)):  # even, few, none
        table, is_new = table.advance(Histogram.of(keys, table.splitters), 1, None)
        assert not is_new
    one = RoutingTable.from_sample(np.arange(10**6), 1)
    assert not one.advance(Histogram.of(skewed(), one.splitters), 1, None)[1]


def test_epochs_end_when_their_rows_have_expired_and_never_are_many():
    table = RoutingTable.from_sample(np.arange(10**6), 3)
    for time in range(6):
        keys = skewed() + 10**6 * time
        table, _ = table.advance(Histogram.of(keys, table.splitters), newest=time, expired=None)
        assert len(table.epochs) <= routing.MOST_EPOCHS
    even = np.empty(0, np.int64)
    table, _ = table.advance(Histogram.of(even, table.splitters), newest=9, expired=9)
    assert len(table.epochs) == 1


def test_epochs_share_out_light_cells_only():
    epoch = Epoch.make(np.array([10, 20, 20, 20, 20, 20, 30]), 2)
    assert epoch.owners.tolist()[6] == ALL  # the cell of key 20 has the weight of five
    assert set(epoch.owners.tolist()) == {0, 1, ALL}


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
def test_hashes_are_spread_evenly_before_anything_is_known(cores):
    table = RoutingTable.spread(cores)
    keys = np.random.default_rng(cores).integers(MIN_KEY, MAX_KEY, 50_000, endpoint=True)
    keys[:2] = MIN_KEY, MAX_KEY
    counts = np.bincount(owners_of(table, keys), minlength=cores)
    assert counts.max() * cores < 1.1 * keys.size
    assert table.is_spread
    histogram = Histogram.of(keys, table.splitters)
    assert not table.advance(histogram, newest=1, expired=None)[1]  # evenness is no reason
    assert RoutingTable.from_json(table.to_json()).is_spread


def test_a_sample_tells_a_hot_key_at_once():
    table, rng = RoutingTable.spread(4), np.random.default_rng(3)
    keys = rng.integers(MIN_KEY, MAX_KEY, 40_000)
    keys[::2] = keys[0]
    histogram = Histogram.of(keys, table.splitters)
    table, is_new = table.advance(histogram, newest=1, expired=None, sample=keys[::37])
    assert is_new
    assert not table.is_spread
    assert np.bincount(owners_of(table, keys)).max() < 0.3 * keys.size
