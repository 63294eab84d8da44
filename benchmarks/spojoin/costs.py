"""What SPO-Join's structure costs: insertion, merging, memory.

Insertion (the paper's figure 12): the same batches, sorted beforehand, go into a mutable part, into
two PIM-Trees and into two B+-trees over a full window. Merging (20): how long it takes to make a
permutation of a mutable part, and to search it for a batch that waited. Memory (13): the indexes of
a window at their most while it slides, as the join has them, and cut into tenths as in the paper::

    SPO-Join     [ subwindow ] [ subwindow ] [ newest ]     the oldest is kept whole until all left
    PIM-Trees    one for each predicate, T_S, T_I and what a merge takes

What SPO-Join takes while it merges is not in these bytes: it is given back at once.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.series import make_series
from benchmarks.harness.turns import repeat, take_turns, time_call
from benchmarks.spojoin.chains import ChainJoin
from benchmarks.spojoin.ours import (
    BATCH,
    Column,
    EngineJoin,
    count_matches,
    order_probes,
    sort_rows,
)
from benchmarks.spojoin.races import WINDOW
from benchmarks.spojoin.sizes import ROUNDS, WINDOWS, share_of
from benchmarks.spojoin.workloads import SEED, Query, Ranges, Rows
from streamjoin.indexes.trees.b_tree import BTree
from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.indexes.trees.window_index import WindowIndex
from streamjoin.indexes.two_keys.spo_join import SPOJoin

OURS, MERGED, PIM, B_TREE = "SPO-Join", "SPO-Join, and merged", "PIM-Trees", "B+-Trees"
TENTHS, BARE = "SPO-Join in tenths", "PIM-Trees without memory for merges"
CHAIN = "chained index"
MEMORY = 2 / 3
COLUMNS = 2


def sorted_batches(rows: Rows, base: int, size: int = BATCH) -> Iterator[tuple[Column, Column]]:
    """Yield rows in batches that are sorted by either column, numbered from ``base`` on."""
    for begin in range(0, rows.first.size, size):
        yield sort_rows(rows.part(begin, begin + size), base + begin)


def insert_batches(index: SPOJoin, batches: Iterable[tuple[Column, Column]]) -> None:
    """Insert batches into a mutable part."""
    for first, second in batches:
        index.insert(first, second)


def insert_into_trees(trees: list[WindowIndex], batches: Iterable[tuple[Column, Column]]) -> None:
    """Insert batches into a tree for each predicate."""
    for batch in batches:
        for tree, (keys, row_ids) in zip(trees, batch, strict=True):
            tree.insert(keys, row_ids)


def fill_trees(make: Callable[[int], WindowIndex], window: Rows) -> list[WindowIndex]:
    """Return a tree for each predicate, full."""
    trees = [make(window.first.size) for _ in range(COLUMNS)]
    insert_into_trees(trees, sorted_batches(window, 0, 1 << 18))
    return trees


def time_permutation(batches: list[tuple[Column, Column]], merges: bool) -> float:
    """Return the seconds that inserting batches takes, with the merge that follows if asked."""
    index = SPOJoin(sum(keys.size for (keys, _), _ in batches))
    seconds = time_call(insert_batches, index, batches)
    return seconds + (time_call(index.seal) if merges else 0.0)


def time_trees(
    make: Callable[[int], WindowIndex], window: Rows, batches: list[tuple[Column, Column]]
) -> float:
    """Return the seconds that inserting batches into the trees of a full window takes."""
    return time_call(insert_into_trees, fill_trees(make, window), batches)


def measure_insertion(report: Report, scale: Scale, query: Query) -> None:
    """Figure 12: a tenth of a window is inserted, in batches."""
    figure = Figure("spo12", f"{query.name}: insertion", WINDOW, "us a tuple", ("log", "linear"))
    rng = np.random.default_rng(SEED)
    for window in scale.pick(WINDOWS):
        with report.step(f"figure 12: insertion, windows of {window:,}"):
            stored, coming = query.rows(rng, window), query.rows(rng, share_of(window))
            fresh, later = list(sorted_batches(coming, 0)), list(sorted_batches(coming, window))
            rivals: dict[str, Callable[[], float]] = {
                OURS: partial(time_permutation, fresh, merges=False),
                MERGED: partial(time_permutation, fresh, merges=True),
                PIM: partial(time_trees, PIMTree, stored, later),
                B_TREE: partial(time_trees, BTree, stored, later),
            }
            seconds = take_turns(rivals, scale.pick(ROUNDS))
        micros = {
            name: [one / coming.first.size * 1e6 for one in each] for name, each in seconds.items()
        }
        title = f"insertion, {{}}, windows of {window:,}"
        for name, series in make_series(micros, "us/tuple", title).items():
            figure.add(name, window, series.median)
            report.add(series)
    report.figures.append(figure)


def measure_merging(report: Report, scale: Scale, query: Query) -> None:
    """Figure 20: merging parts of several sizes, and the tuples that wait for it."""
    figure = Figure("spo20", f"{query.name}: merging", "tuples that are merged", "ms")
    rng = np.random.default_rng(SEED)
    waiting = query.rows(rng, BATCH)
    sought = query.ranges(waiting, 0)
    for window in scale.pick(WINDOWS):
        rows = query.rows(rng, share_of(window))

        def merge(rows: Rows = rows) -> tuple[float, float]:
            index = SPOJoin(rows.first.size)
            insert_batches(index, sorted_batches(rows, 0))
            return time_call(index.seal) * 1e3, time_call(search, index, waiting, sought) * 1e3

        with report.step(f"figure 20: merging {rows.first.size:,} tuples"):
            merges, waits = zip(*repeat(merge, scale.pick(ROUNDS)), strict=True)
        measured = {"merge": merges, f"{BATCH:,} tuples that waited": waits}
        title = f"{{}}, {rows.first.size:,} tuples merged"
        for name, series in make_series(measured, "ms", title).items():
            figure.add(name, rows.first.size, series.median)
            report.add(series)
    report.figures.append(figure)


def search(index: SPOJoin, rows: Rows, ranges: Ranges) -> int:
    """Search for a batch of tuples, and write down their matches."""
    return count_matches(index.probe(*order_probes(rows, ranges)), writes=True)


def measure_join_bytes(query: Query, rows: Rows, window: int) -> int:
    """Return the bytes of the indexes that the join keeps of one stream, at their most."""
    join, most = EngineJoin(query, window, threads=1), 0
    for begin in range(0, rows.first.size, BATCH):
        join.fill(0, rows.part(begin, begin + BATCH))
        join.engine.manager.expire(join.engine.clock)
        chain = join.engine.chains["left"]
        most = max(most, sum(subwindow.index.nbytes for subwindow in chain.subwindows))
    return most


def measure_tenths_bytes(rows: Rows, window: int) -> int:
    """Return the bytes of a full window as the paper has it, at their most between two merges."""
    share = share_of(window)
    sealed = SPOJoin(share)
    insert_batches(sealed, sorted_batches(rows.part(0, share), 0))
    sealed.seal()
    # As long as some rows of the oldest permutation are alive it is kept whole.
    return (1 + -(-window // share)) * int(sealed.nbytes)


def measure_tree_bytes(rows: Rows, window: int) -> tuple[int, int]:
    """Return the bytes of two PIM-Trees, at their most while the window slides by a quarter.

    The second number is without the memory that they keep for the next merge.
    """
    trees = fill_trees(PIMTree, rows.part(0, window))
    most = bare = 0
    for batch in sorted_batches(rows.part(window, rows.first.size), window):
        for tree, (keys, row_ids) in zip(trees, batch, strict=True):
            tree.insert(keys, row_ids - np.int32(tree.base))
            tree.expire(keys)  # not the keys that expire, but as many
        held = sum(tree.nbytes for tree in trees)
        most, bare = max(most, held), max(bare, held - sum(map(count_spare_bytes, trees)))
    return most, bare


def count_spare_bytes(tree: WindowIndex) -> int:
    """Return the bytes that a PIM-Tree keeps for its next merge."""
    assert isinstance(tree, PIMTree)
    return 0 if tree.spare is None else tree.spare.keys.nbytes + tree.spare.inners.nbytes


def measure_chain_bytes(rows: Rows) -> int:
    """Return the bytes of a chained index."""
    chain = ChainJoin(rows.first.size, hashed=True)
    chain.fill(0, rows)
    return chain.nbytes


def measure_memory(report: Report, scale: Scale, query: Query) -> None:
    """Figure 13: bytes of one window."""
    figure = Figure("spo13", f"{query.name}: memory of one window", WINDOW, "MiB")
    ratios: dict[str, list[float]] = {OURS: [], TENTHS: [], BARE: []}
    with report.step("figure 13: memory"):
        for window in scale.pick(WINDOWS):
            rows = query.rows(np.random.default_rng(SEED), 2 * window)
            theirs, bare = measure_tree_bytes(rows.part(0, window + window // 4), window)
            held = {
                OURS: measure_join_bytes(query, rows, window),
                TENTHS: measure_tenths_bytes(rows, window),
                PIM: theirs,
                BARE: bare,
                CHAIN: measure_chain_bytes(rows.part(0, window)),
            }
            for name, each in held.items():
                figure.add(name, window, each / 2**20)
            ratios[OURS].append(held[OURS] / theirs)
            ratios[TENTHS].append(held[TENTHS] / theirs)
            ratios[BARE].append(held[OURS] / bare)
    report.figures.append(figure)
    report.at_most(
        "memory: SPO-Join vs two PIM-Trees",
        max(ratios[OURS]),
        MEMORY,
        note="indexes of one window at their most, as the join has them; in tenths of a window: "
        f"{max(ratios[TENTHS]):.2f}; vs {BARE}: {max(ratios[BARE]):.2f}",
    )
