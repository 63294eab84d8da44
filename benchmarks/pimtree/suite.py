"""IM-Tree and PIM-Tree: index-based joins of whole windows (the paper's section 5).

Two streams, whose tuples come in turns and are joined one by one, by a band that gives each two
matches; windows from 2^16 to 2^23 tuples. Keys have 64 bits, the paper's 32, and rows 32. What is
claimed is what the paper found: how much faster than the B+-Tree the merge trees are on average
over the windows, that short chains are the best, that skew does no harm, and what memory it takes;
what two threads are worth that share the indexes, how long tuples wait when these are merged, and
that keys may drift. At the end, what the cost model predicts is held against what is measured.
"""

from functools import partial

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.pimtree import cost_model, drift, latency, one_thread, structures, threads
from benchmarks.pimtree.joins import (
    B_TREE,
    IM_TREE,
    PIM_TREE,
    RIVALS,
    BChainJoin,
    Make,
    NestedJoin,
)
from benchmarks.pimtree.race import Race
from benchmarks.pimtree.shared_runs import SharedRun, Way
from benchmarks.pimtree.sizes import POINT_SECONDS, WINDOWS
from benchmarks.pimtree.workloads import make_square
from streamjoin.indexes.trees.pim_tree import MERGE_RATIO

# The structures by their names in the cost model.
MODELLED: dict[str, tuple[str, Make]] = {
    "b_tree": (B_TREE, RIVALS[B_TREE]),
    "im_tree": (IM_TREE, RIVALS[IM_TREE]),
    "pim_tree": (PIM_TREE, RIVALS[PIM_TREE]),
    "b_chain": ("B-chain", partial(BChainJoin, make=structures.CHAINS["B-chain"])),
    "ib_chain": ("IB-chain", partial(BChainJoin, make=structures.CHAINS["IB-chain"])),
}


def run(report: Report, scale: Scale) -> None:
    """Run the suite."""
    report.settings.update(threads=(1, 2), windows=scale.pick(WINDOWS), merge_ratio=MERGE_RATIO)
    report.seed("streams", make_square(1).seed)
    with report.step("compiling"):
        compile_all()
    measure_one_thread(report, scale)
    measure_two_threads(report, scale)
    measure_cost_model(report, scale)


def compile_all() -> None:
    """Compile what is going to be measured."""
    chains = {
        name: lambda streams, kind=kind: BChainJoin(streams, kind)
        for name, kind in structures.CHAINS.items()
    }
    Race(make_square(1 << 12), RIVALS | chains | {"nested loop": NestedJoin}).run(1, 1 << 14)
    shared = SharedRun(make_square(1 << 12))
    shared.rate(Way(2), 1 << 14)
    shared.close()


def measure_one_thread(report: Report, scale: Scale) -> None:
    """Measure joins of one thread."""
    structures.measure_memory(report, one_thread.measure_windows(report, scale))
    structures.measure_chains(report, scale)
    structures.measure_insertion_depths(report, scale)
    structures.measure_merge_ratios(report, scale)
    one_thread.measure_match_rates(report, scale)
    one_thread.measure_nested_loops(report, scale)
    one_thread.measure_two_rates(report, scale)
    one_thread.measure_two_windows(report, scale)
    one_thread.measure_skewed_keys(report, scale)
    one_thread.measure_self_join(report, scale)


def measure_two_threads(report: Report, scale: Scale) -> None:
    """Measure joins by threads that share indexes."""
    threads.measure_windows(report, scale)
    latency.measure_merges(report, scale)
    threads.measure_skewed_keys(report, scale)
    drift.measure_drifts(report, scale)
    threads.measure_insertion_depths(report, scale)
    threads.measure_merge_ratios(report, scale)
    threads.measure_task_sizes(report, scale)
    latency.measure_task_sizes(report, scale)
    threads.measure_numbers(report, scale)
    threads.measure_self_join(report, scale)


def measure_cost_model(report: Report, scale: Scale) -> None:
    """Hold the cost model against measurements; those of figure 10a serve again."""
    measured = next(each.lines for each in report.figures if each.name == "pim10a")
    cost_model.measure_predictions(report, scale, partial(measure_tuple_ns, scale, measured))


def measure_tuple_ns(
    scale: Scale, measured: dict[str, list[tuple[float, float]]], structure: str, window: int
) -> float:
    """Return what a tuple takes, if it has been measured already or else now."""
    name, make = MODELLED[structure]
    rate = dict(measured.get(name, [])).get(window)
    if rate is None:
        race = Race(make_square(window), {name: make}, slides=1)
        rate = race.measure(scale.pick(POINT_SECONDS) / 4)[name]
    return 1e3 / rate
