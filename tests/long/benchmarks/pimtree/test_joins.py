"""Joins that take one tuple at a time find what comparing every pair finds, whatever the index."""

from functools import partial

import numpy as np
import pytest

from benchmarks.pimtree import workloads
from benchmarks.pimtree.joins import BChainJoin, BTreeJoin, NestedJoin, PIMTreeJoin
from benchmarks.pimtree.race import Race
from benchmarks.pimtree.workloads import TupleLoad
from streamjoin.indexes.trees.chained_index import BChain, IBChain
from streamjoin.indexes.trees.im_tree import IMTree
from streamjoin.indexes.trees.pim_tree import PIMTree

JOINS = {
    "b_tree": BTreeJoin,
    "nested_loop": NestedJoin,
    "im_tree": partial(PIMTreeJoin, make=partial(IMTree, merge_ratio=0.25)),
    "pim_tree": partial(PIMTreeJoin, make=partial(PIMTree, merge_ratio=0.25)),
    "b_chain": partial(BChainJoin, make=partial(BChain, length=3)),
    "ib_chain": partial(BChainJoin, make=partial(IBChain, length=3)),
}
LOADS = {
    "two streams": TupleLoad(3000, 3000),
    "windows of two sizes": TupleLoad(3000, 4201, matches=3),
    "two rates": TupleLoad(3000, 3000, share=0.8),
    "a stream with itself": TupleLoad(3000, 3000, itself=True),
    "skewed": TupleLoad(3000, 3000, spread=workloads.GAMMA),
}
TUPLES = 16_000


def expected(race, bases, order):
    """Compare every tuple with all of the window that it meets."""
    streams, load, bases = race.streams, race.load, list(bases)
    matches = 0
    for side in order.tolist():
        across = 0 if load.itself else 1 - side
        window, other = streams.windows[side], streams.windows[across]
        (key,) = streams.take(side, bases[side] + window, 1)
        met = streams.take(across, bases[across], other)
        matches += np.count_nonzero(np.abs(met - key) <= load.reach)
        bases[side] += 1
    return matches


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_all_joins_find_what_every_pair_shows(load):
    race = Race(load, JOINS, slides=0.5)
    bases = race.joins["b_tree"].bases.tolist()
    race.run(1, 2000)
    assert race.matches == expected(race, bases, load.order(2000))
    for _ in range(2):  # long enough for every index to be merged and every link to be dropped
        race.run(1, TUPLES // 2)
    assert race.match_rate == pytest.approx(load.matches, rel=0.1)
    for name, join in race.joins.items():
        if name != "nested_loop":
            for side in race.sides:
                join.indexes[side].check()


@pytest.mark.parametrize("share", [0.5, 0.75, 15 / 16])
def test_the_order_of_streams_is_even(share):
    order = TupleLoad(10, 10, share=share).order(1600)
    assert np.count_nonzero(order == 0) == 1600 * share
    assert np.count_nonzero(order[:800] == 0) == 800 * share


@pytest.mark.parametrize(
    "spread",
    [workloads.UNIFORM, workloads.GAUSSIAN, workloads.GAMMA, workloads.EXPONENTIAL],
    ids=lambda each: each.name,
)
def test_a_tuple_has_as_many_matches_as_asked_for_however_keys_are_spread(spread):
    load, rng = TupleLoad(1 << 14, 1 << 14, spread=spread), np.random.default_rng(1)
    window, probes = np.sort(spread.keys(rng, load.right)), spread.keys(rng, 1 << 14)
    lower = np.searchsorted(window, probes - load.reach)
    upper = np.searchsorted(window, probes + load.reach, "right")
    assert (upper - lower).mean() == pytest.approx(load.matches, rel=0.05)
