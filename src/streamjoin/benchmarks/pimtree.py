"""IM-Tree and PIM-Tree: index-based joins of whole windows (the paper's section 5).

Two streams, whose tuples come in turns and are joined one by one, by a band that gives each two
matches; windows from 2^16 to 2^23 tuples. Keys have 64 bits, the paper's 32, and rows 32. What is
claimed is what the paper found: how much faster than the B+-Tree the merge trees are on average
over the windows, that short chains are the best, that skew does no harm, and what memory it takes.
"""

from streamjoin.benchmarks import pimtree_structures as structures
from streamjoin.benchmarks import pimtree_windows as windows
from streamjoin.benchmarks.harness import Report
from streamjoin.benchmarks.pimtree_scale import RIVALS, scale_of
from streamjoin.benchmarks.tuple_joins import BChainJoin, NestedJoin
from streamjoin.benchmarks.tuple_races import Race
from streamjoin.benchmarks.tuple_streams import square
from streamjoin.indexes.pim_tree import MERGE_RATIO


def run(report: Report, quick: bool) -> None:
    """Run the suite; ``quick`` has smaller windows and less time."""
    scale = scale_of(quick)
    report.settings.update(threads=1, windows=scale.windows, merge_ratio=MERGE_RATIO)
    report.seed("streams", square(1).seed)
    with report.step("compiling"):
        compile_all()
    one_thread(report, quick)


def compile_all() -> None:
    """Compile what is going to be measured."""
    chains = {
        name: lambda streams, kind=kind: BChainJoin(streams, kind)
        for name, kind in structures.CHAINS.items()
    }
    Race(square(1 << 12), RIVALS | chains | {"nested loop": NestedJoin}).run(1, 1 << 14)


def one_thread(report: Report, quick: bool) -> None:
    """Measure joins of one thread."""
    scale = scale_of(quick)
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
