"""What the structures of whole windows owe to their parameters, one thread, one tuple at a time.

The lengths of chains (the paper's figure 8b), insertion depth (8c) and merge ratio (9c, 9d); what
each step of a join costs (9b), and what memory the structures hold (11a).
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.turns import repeat, time_call
from benchmarks.pimtree.joins import (
    B_TREE,
    BChainJoin,
    BTreeJoin,
    Make,
    PIMTreeJoin,
    TupleJoin,
    choose_im_tree,
    choose_pim_tree,
)
from benchmarks.pimtree.race import RATE, WINDOW, Race
from benchmarks.pimtree.sizes import (
    CHAIN_LENGTHS,
    MERGE_RATIOS,
    MIDDLE_WINDOW,
    POINT_SECONDS,
    SOME_WINDOWS,
)
from benchmarks.pimtree.workloads import UNIFORM, make_square
from streamjoin.indexes.trees import b_tree
from streamjoin.indexes.trees import pim_tree as pims
from streamjoin.indexes.trees.blocks import used_bytes
from streamjoin.indexes.trees.chained_index import BChain, IBChain
from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.kernels.compile import Keys, RowIds

CHAINS: dict[str, type[BChain]] = {"B-chain": BChain, "IB-chain": IBChain}
DEPTHS = (0, 1, 2, 3)
PROBES = 1 << 15  # tuples for which one step is measured
TIMES = 5
BATCH = 1 << 18
MEMORY = 2.2


def measure_chains(report: Report, scale: Scale) -> None:
    """Figure 8b: chains of several lengths, and the B+-Tree beside them."""
    window, lengths = scale.pick(MIDDLE_WINDOW), scale.pick(CHAIN_LENGTHS)
    figure = Figure(
        "pim8b",
        f"chained index, windows of {window:,}",
        "length of the chain",
        RATE,
        ("linear",) * 2,
    )
    joins: dict[str, Make] = {B_TREE: BTreeJoin}
    for name, kind in CHAINS.items():
        for length in lengths:
            make = partial(kind, length=length)
            joins[f"{name} of {length}"] = partial(BChainJoin, make=make)
    with report.step(f"figure 8b: chains, windows of {window:,}"):
        race = Race(make_square(window), joins)
        rates = race.measure(scale.pick(POINT_SECONDS))
    for length in lengths:
        figure.add(B_TREE, length, rates[B_TREE])
        for name in CHAINS:
            figure.add(name, length, rates[f"{name} of {length}"])
    report.figures.append(figure)
    plain, frozen = ([rates[f"{name} of {each}"] for each in lengths] for name in CHAINS)
    ratios = [ours / theirs for ours, theirs in zip(frozen, plain, strict=True)]
    report.at_least(
        f"IB-chain vs B-chain, windows of {window:,}",
        float(np.mean(ratios)),
        1.0,
        race.series("IB-chain of 2"),
        race.series("B-chain of 2"),
        "mean over lengths; the paper has 1.5",
    )
    for name, each in zip(CHAINS, (plain, frozen), strict=True):
        report.at_least(
            f"{name} of 2 vs the best longer one", each[0] / max(each[1:]), 1.0, note="throughput"
        )


def measure_insertion_depths(report: Report, scale: Scale) -> None:
    """Figure 8c: where the trees of T_I are attached; only depths that T_S has."""
    figure = Figure("pim8c", "PIM-Tree: insertion depth", WINDOW, RATE, ("log", "linear"))
    for window in scale.pick(SOME_WINDOWS):
        with report.step(f"figure 8c: insertion depths, windows of {window:,}"):
            joins = {f"depth {depth}": choose_pim_tree(depth=depth) for depth in DEPTHS}
            race = Race(make_square(window), joins)
            for name, rate in race.measure(scale.pick(POINT_SECONDS)).items():
                index = race.joins[name].indexes[0]
                if f"depth {index.pim.shape[pims.ENTRY]}" == name:
                    figure.add(name, window, rate)
    report.figures.append(figure)


def measure_merge_ratios(report: Report, scale: Scale) -> None:
    """Figures 9c and 9d: how much of the window T_I holds before it is merged."""
    ratios = scale.pick(MERGE_RATIOS)
    kinds = {"9c": ("IM-Tree", choose_im_tree), "9d": ("PIM-Tree", choose_pim_tree)}
    figures = {
        name: Figure(f"pim{number}", f"{name}: merge ratio", "merge ratio", RATE, ("log", "linear"))
        for number, (name, _) in kinds.items()
    }
    best: dict[str, dict[str, float]] = {name: {} for name in figures}
    for window in scale.pick(SOME_WINDOWS):
        with report.step(f"figures 9c, 9d: merge ratios, windows of {window:,}"):
            joins = {
                (name, ratio): make(ratio) for name, make in kinds.values() for ratio in ratios
            }
            race = Race(
                make_square(window),
                {f"{name} {ratio}": joins[name, ratio] for name, ratio in joins},
            )
            rates = race.measure(scale.pick(POINT_SECONDS))
        for name, ratio in joins:
            figures[name].add(f"windows of {window:,}", ratio, rates[f"{name} {ratio}"])
        for name in figures:
            top = max(ratios, key=lambda ratio: rates[f"{name} {ratio}"])
            best[name][f"{window:,}"] = top
    report.figures += figures.values()
    report.detail("the best merge ratio", best)


def draw_next(join: TupleJoin[Any], count: int) -> tuple[Keys, RowIds, Keys, RowIds]:
    """Return tuples that may come into the left window, and the oldest ones, which they replace."""
    streams, base = join.streams, int(join.bases[0])
    row = base + int(streams.windows[0])
    keys = UNIFORM.keys(streams.rng, count)
    rows, old = (np.arange(at, at + count, dtype=np.int32) for at in (row, base))
    return keys, rows, streams.take(0, base, count), old


def measure_search(join: TupleJoin[Any], find: Callable[..., object]) -> dict[str, float]:
    """Return what it costs to find the lowest key of a band, and to go on; ns a tuple."""
    index, reach = join.indexes[0], join.streams.load.reach
    keys = UNIFORM.keys(join.streams.rng, PROBES)
    lower, upper = keys - reach, keys + reach
    places = np.empty(1 << 20, np.int32), *(np.empty(PROBES, np.int64) for _ in "se")
    down = time_call(find, index.base, lower, lower, 0, *places)
    all_in_all = time_call(find, index.base, lower, upper, 0, *places)
    return {"search": down / PROBES * 1e9, "scan": (all_in_all - down) / PROBES * 1e9}


def measure_b_tree_steps(join: BTreeJoin) -> dict[str, float]:
    """Return what each step costs, ns a tuple."""
    index = join.indexes[0]
    keys, rows, old_keys, old = draw_next(join, PROBES)
    costs = {
        "delete": time_call(b_tree.remove_batch, index.forest, old_keys, old) / PROBES * 1e9,
        "insert": time_call(b_tree.insert_batch, index.forest, keys, rows, 0) / PROBES * 1e9,
        **measure_search(join, partial(b_tree.find_batch, index.forest)),
    }
    # Back to what it was, for the next time.
    b_tree.remove_batch(index.forest, keys, rows)
    b_tree.insert_batch(index.forest, old_keys, old, 0)
    return costs


def measure_pim_tree_steps(join: PIMTreeJoin) -> dict[str, float]:
    """Return what each step costs, ns a tuple; searches while T_I is half full."""
    index = join.indexes[0]
    index.merge()
    count = index.limit
    keys, rows, _, _ = draw_next(join, count)
    first = time_call(pims.insert_batch, index.pim, keys, rows, 0, count // 2)
    costs = measure_search(join, partial(pims.find_batch, index.pim))
    second = time_call(pims.insert_batch, index.pim, keys, rows, count // 2, count)
    costs["insert"] = (first + second) / count * 1e9
    # As many expire as have come.
    index.base += count
    join.bases[0] += count
    costs["merge"] = time_call(index.merge) / count * 1e9
    return costs


def measure_steps(join: TupleJoin[Any]) -> dict[str, float]:
    """Return what each step costs, ns a tuple."""
    if isinstance(join, PIMTreeJoin):
        return measure_pim_tree_steps(join)
    assert isinstance(join, BTreeJoin)
    return measure_b_tree_steps(join)


def report_steps(report: Report, race: Race) -> None:
    """Figure 9b: what each step costs, with many tuples for one step after the other."""
    costs: dict[str, dict[str, float]] = {}
    with report.step(f"figure 9b: each step, windows of {race.load.left:,}"):
        for name, join in race.joins.items():
            each = repeat(partial(measure_steps, join), TIMES)
            costs[name] = {step: median(one[step] for one in each) for step in each[0]}
    report.detail(f"figure 9b: ns a tuple, windows of {race.load.left:,}", costs)


def measure_pim_tree_parts(window: int, seed: int) -> dict[str, int]:
    """Return the bytes of a PIM-Tree with merge ratio 1, when T_I is about to be merged."""
    index, rng = PIMTree(window, merge_ratio=1.0), np.random.default_rng(seed)

    def come(count: int) -> None:
        for left in range(count, 0, -BATCH):
            keys = UNIFORM.keys(rng, min(left, BATCH))
            order = np.argsort(keys)
            index.insert(keys[order], (len(index) + order).astype(np.int32))
            index.expire(keys[: len(index) - window])  # it is not they that expire, but as many

    for _ in range(2):
        come(window)
        index.merge()
    come(window - 1)
    assert index.fresh_count == window - 1
    assert index.spare is not None
    fixed, spare = (
        each.keys.nbytes + each.inners.nbytes for each in (index.pim.fixed, index.spare)
    )
    return {
        "T_S": fixed,
        "T_I": used_bytes(index.pim.fresh),
        "merge buffer": spare,
        "ranges and versions": 2 * index.pim.uppers.nbytes,
    }


def measure_memory(report: Report, b_trees: dict[int, int]) -> None:
    """Figure 11a: bytes of a PIM-Tree at its largest, and of a B+-Tree after many removals."""
    figure = Figure("pim11a", "memory of one index, merge ratio 1", WINDOW, "MiB")
    worst = 0.0
    with report.step("figure 11a: memory"):
        for window, b_tree_bytes in b_trees.items():
            parts = measure_pim_tree_parts(window, seed=3)
            figure.add(B_TREE, window, b_tree_bytes / 2**20)
            figure.add("PIM-Tree", window, sum(parts.values()) / 2**20)
            for part in ("T_S", "T_I", "merge buffer"):
                figure.add(f"PIM-Tree: {part}", window, parts[part] / 2**20)
            worst = max(worst, sum(parts.values()) / b_tree_bytes)
    report.figures.append(figure)
    report.at_most(
        "memory: PIM-Tree with merge ratio 1 vs B+-Tree",
        worst,
        MEMORY,
        note="bytes, the worst window",
    )
