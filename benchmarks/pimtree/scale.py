"""How large the benchmarks of indexes over whole windows are, and which joins take part."""

from dataclasses import dataclass
from functools import partial

from benchmarks.pimtree.tuple_joins import BTreeJoin, PIMTreeJoin
from benchmarks.pimtree.tuple_races import Make
from streamjoin.indexes.trees.im_tree import IMTree
from streamjoin.indexes.trees.pim_tree import MERGE_RATIO, PIMTree

RATE, WINDOW = "M tuples/s, both streams", "tuples in a window"
B_TREE, IM_TREE, PIM_TREE = "B+-Tree", "IM-Tree", "PIM-Tree"


@dataclass(frozen=True)
class Scale:
    """Sizes, and the time for one point of a figure."""

    windows: list[int]
    some: list[int]  # of the windows, where not all are needed
    middle: int  # the window where it is not what varies
    dissected: list[int]  # windows whose steps are measured one by one
    nested: list[int]  # windows for the nested loop
    lengths: list[int]  # of chains
    ratios: list[float]  # merge ratios
    matches: list[float]  # match rates
    seconds: float


def powers(first: int, last: int, step: int = 1) -> list[int]:
    """Return powers of two, from 2^first to 2^last."""
    return [1 << shift for shift in range(first, last + 1, step)]


def scale_of(quick: bool) -> Scale:
    """Return the sizes; ``quick`` has windows that are 32 times smaller, and little time."""
    if quick:
        return Scale(
            powers(14, 18, 2),
            [1 << 16],
            1 << 16,
            [1 << 16],
            powers(10, 14, 2),
            [2, 4],
            [2.0**-6, 2.0**-3, 1.0],
            [2.0**-4, 2.0, 2.0**10],
            0.2,
        )
    return Scale(
        powers(16, 23),
        powers(16, 20, 2),
        1 << 20,
        [1 << 17, 1 << 23],
        powers(10, 20, 2),
        [2, 3, 4, 6, 8],
        [2.0**shift for shift in range(-6, 1)],
        [2.0**shift for shift in range(-4, 11)],
        1.0,
    )


def im_tree(ratio: float = MERGE_RATIO) -> Make:
    """Return how a join with IM-Trees is made."""
    return partial(PIMTreeJoin, make=partial(IMTree, merge_ratio=ratio))


def pim_tree(ratio: float = MERGE_RATIO, **options: int) -> Make:
    """Return how a join with PIM-Trees is made."""
    return partial(PIMTreeJoin, make=partial(PIMTree, merge_ratio=ratio, **options))


RIVALS: dict[str, Make] = {B_TREE: BTreeJoin, IM_TREE: im_tree(), PIM_TREE: pim_tree()}
