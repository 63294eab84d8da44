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
from benchmarks.pimtree import drift, latency, model, structures, threads, windows
from benchmarks.pimtree.shared_runs import SharedRun, Way
from benchmarks.pimtree.sizes import POINT_SECONDS, WINDOWS
from benchmarks.pimtree.tuple_joins import (
    B_TREE,
    IM_TREE,
    PIM_TREE,
    RIVALS,
    BChainJoin,
    Make,
    NestedJoin,
)
from benchmarks.pimtree.tuple_races import Race
from benchmarks.pimtree.tuple_streams import square
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
    report.seed("streams", square(1).seed)
    with report.step("compiling"):
        compile_all()
    one_thread(report, scale)
    two_threads(report, scale)
    cost_model(report, scale)


def compile_all() -> None:
    """Compile what is going to be measured."""
    chains = {
        name: lambda streams, kind=kind: BChainJoin(streams, kind)
        for name, kind in structures.CHAINS.items()
    }
    Race(square(1 << 12), RIVALS | chains | {"nested loop": NestedJoin}).run(1, 1 << 14)
    shared = SharedRun(square(1 << 12))
    shared.rate(Way(2), 1 << 14)
    shared.close()


def one_thread(report: Report, scale: Scale) -> None:
    """Measure joins of one thread."""
    structures.memory(report, windows.by_window(report, scale))
    structures.chains(report, scale)
    structures.insertion_depths(report, scale)
    structures.merge_ratios(report, scale)
    windows.match_rates(report, scale)
    windows.nested_loops(report, scale)
    windows.two_rates(report, scale)
    windows.two_windows(report, scale)
    windows.skewed_keys(report, scale)
    windows.self_join(report, scale)


def two_threads(report: Report, scale: Scale) -> None:
    """Measure joins by threads that share indexes."""
    threads.by_window(report, scale)
    latency.measure_merges(report, scale)
    threads.skewed_keys(report, scale)
    drift.drifts(report, scale)
    threads.insertion_depths(report, scale)
    threads.merge_ratios(report, scale)
    threads.task_sizes(report, scale)
    latency.task_sizes(report, scale)
    threads.numbers_of_threads(report, scale)
    threads.self_join(report, scale)


def cost_model(report: Report, scale: Scale) -> None:
    """Hold the cost model against measurements; those of figure 10a serve again."""
    measured = next(each.lines for each in report.figures if each.name == "pim10a")
    model.predictions(report, scale, partial(nanoseconds, scale, measured))


def nanoseconds(
    scale: Scale, measured: dict[str, list[tuple[float, float]]], structure: str, window: int
) -> float:
    """Return what a tuple takes, if it has been measured already or else now."""
    name, make = MODELLED[structure]
    rate = dict(measured.get(name, [])).get(window)
    if rate is None:
        race = Race(square(window), {name: make}, slides=1)
        rate = race.measure(scale.pick(POINT_SECONDS) / 4)[name]
    return 1e3 / rate
