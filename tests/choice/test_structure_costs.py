"""The cost model: the equations by hand, what they say of each other, and the choice by them."""

from dataclasses import asdict, replace
from math import inf

import pytest

from streamjoin.calibration import structure_costs as cost_measurement
from streamjoin.choice import structure_costs as cost_model
from streamjoin.choice.structure_costs import (
    DEFAULT_COSTS,
    Costs,
    Steps,
    b_tree_join,
    bi_sort_join,
    chain_join,
    describe_choice,
    height,
    im_tree_join,
    pim_tree_join,
    prefer_index,
    push_cost,
    steps_of,
)
from streamjoin.indexes.catalogue import ALGORITHMS, WHOLE_WINDOWS
from streamjoin.indexes.trees import blocks

PLAIN = Costs(
    b_search=1, b_insert=10, b_delete=100, ib_search=2, compare=3, merge=5, miss=0,
    run_search=7, run_miss=0, run_merge=4,
)  # fmt: skip
NO_INDEX = Costs(forget=inf)  # constants under which no index of a whole window is ever chosen
SIZES = [1 << shift for shift in range(10, 24, 2)]


def near(steps, search, delete, insert):
    assert steps == pytest.approx((search, delete, insert))


def test_the_structures_are_those_of_the_model():
    assert all(ALGORITHMS[name].cost for name in WHOLE_WINDOWS)
    assert pytest.approx(blocks.WIDTH * 2 / 3, rel=0.1) == cost_model.B_FANOUT


def test_equations_1_and_2_a_b_tree_of_two_levels():
    assert Steps(1, 20, 300).total == 321
    near(b_tree_join(PLAIN, 1600, matches=4), 2 * 1 + 4 * 3, 2 * 100, 2 * 10)


def test_equation_3_three_links_of_two_levels():
    scan = 4 * 3 * (1 + 1 / 4)
    near(chain_join(PLAIN, 3200, 4, length=3), 3 * 2 * 1 + scan, 0, 2 * 10)


def test_equation_3_with_links_that_are_frozen():
    frozen = 2 * height(1600, 65) * 2
    scan = 4 * 3 * (1 + 1 / 4)
    near(chain_join(PLAIN, 3200, 4, length=3, frozen=True), 2 + frozen + scan, 0, 2 * 10 + 5)


def test_equation_5_a_merge_tree():
    window = 65**2  # T_S has two levels; T_I half of a quarter, which is two thirds of 40 ** 2
    levels = height(window / 8, 40)
    search = 2 * 2 + levels * 1 + 4 * 3 * (1 + 1 / 8)
    near(im_tree_join(PLAIN, window, 4, ratio=1 / 4), search, 5 * 4, levels * 10)


def test_equation_6_a_partitioned_one():
    window = 65**3  # three levels, trees below the first: 65 of them
    levels = height(window / 8 / 65, 40)
    search = 3 * 2 + levels * 1 + 4 * 3 * (1 + 1 / 8)
    near(pim_tree_join(PLAIN, window, 4, ratio=1 / 4), search, 5 * 4, 1 * 2 + levels * 10)


def test_bi_sort_through_its_buffer_and_directly():
    small = bi_sort_join(
        PLAIN, 1 << 14, matches=4, batch=64
    )  # 4,096 in the main array, 1,024 beside
    near(small, 4 * 7 + 4 * 3, 0, 4 * (1 + 512 / 64 + 1 + 4))
    large = bi_sort_join(PLAIN, 1 << 14, matches=4, batch=1024)
    near(large, 3 * 7 + 4 * 3, 0, 4 * (1 + 4))


def test_longer_chains_cost_more():
    chains = [chain_join(PLAIN, 1 << 20, 2, length).total for length in (3, 4, 6, 10)]
    assert chains == sorted(chains)


@pytest.mark.parametrize("structure", [*WHOLE_WINDOWS, "bi_sort"])
def test_larger_windows_and_more_matches_cost_more(structure):
    windows = [steps_of(DEFAULT_COSTS, structure, size, 2, 64).search for size in SIZES]
    assert windows == sorted(windows)
    found = [push_cost(DEFAULT_COSTS, structure, 1 << 16, each, 64) for each in (0, 1, 4, 64)]
    assert found == sorted(found)


def test_the_best_merge_ratio_is_neither_the_least_nor_the_greatest():
    ratios = [2.0**-shift for shift in range(8, -1, -1)]
    for join in (im_tree_join, pim_tree_join):
        costs = [join(DEFAULT_COSTS, 1 << 22, 2, ratio=ratio).total for ratio in ratios]
        assert 0 < costs.index(min(costs)) < len(costs) - 1


def test_no_level_that_fits_the_cache_is_waited_for():
    fits = replace(DEFAULT_COSTS, cache=2**40)
    assert b_tree_join(fits, 1 << 22, 2).total < b_tree_join(DEFAULT_COSTS, 1 << 22, 2).total / 2
    assert b_tree_join(fits, 1 << 12, 2) == b_tree_join(DEFAULT_COSTS, 1 << 12, 2)


def test_small_batches_in_small_windows_go_into_an_index_and_large_ones_never():
    assert prefer_index(DEFAULT_COSTS, 1 << 12, 2, 64) in WHOLE_WINDOWS
    assert prefer_index(DEFAULT_COSTS, 1 << 16, 2, 64) in WHOLE_WINDOWS
    for window in SIZES:
        assert prefer_index(DEFAULT_COSTS, window, 2, 1 << 15) is None
    assert all(prefer_index(NO_INDEX, window, 2, 8) is None for window in SIZES)


def test_near_the_border_everything_stays_as_it_is():
    sizes = range(1, 5000, 50)
    window = 1 << 16
    outside = {size for size in sizes if prefer_index(DEFAULT_COSTS, window, 2, size)}
    inside = {size for size in sizes if prefer_index(DEFAULT_COSTS, window, 2, size, "pim_tree")}
    assert outside < inside


def test_the_choice_in_words():
    assert describe_choice(NO_INDEX) == ""
    assert "rows in windows of 65,536" in describe_choice(DEFAULT_COSTS)


def test_constants_are_measured_and_read_again(monkeypatch):
    monkeypatch.setattr(cost_measurement, "TURNS", 2)
    monkeypatch.setattr(cost_measurement, "ROUNDS", 2)
    costs = cost_measurement.measure_costs(rows=1 << 14)
    assert Costs.from_dict(asdict(costs)) == costs
    assert costs.miss == DEFAULT_COSTS.miss  # so few rows fit any cache
    assert min(costs.b_search, costs.b_insert, costs.b_delete, costs.merge, costs.push) > 0
    with pytest.raises(ValueError, match="the costs should be"):
        Costs.from_dict({"b_search": 1})
