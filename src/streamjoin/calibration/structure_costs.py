"""Measures the constants of the cost model on this machine, in a few seconds.

The cost of a node comes from a tree that fits the cache, the cost of a miss from one that does not;
keys come in random order, like rows that arrive one by one. The fixed cost of a push comes from two
joins over a small window, one that keeps it in subwindows and one that keeps it whole, with and
without matches.

Of many short measurements, the lower quartile counts: other activity on the machine makes them
longer, never shorter.
"""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from streamjoin.api.stream_join import StreamJoin
from streamjoin.choice.structure_costs import (
    B_BYTES,
    B_FANOUT,
    CONCAT_PIECES,
    DEFAULT_COSTS,
    IB_BYTES,
    Costs,
    height,
    hit,
    pieces_of,
    steps_of,
)
from streamjoin.indexes.runs.sorted_run import SortedRun
from streamjoin.indexes.trees import b_tree, blocks, chained_index, immutable_tree, pim_tree
from streamjoin.indexes.trees.immutable_tree import FANOUT as IB_FANOUT
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.windows import CountWindow

SPAN = 1 << 40
SMALL_TREE = 1 << 13  # tuples of a tree that fits any cache
CALLS, TURNS = 1 << 12, 15  # operations per measurement, and how often it is repeated
SCANNED = 48  # matches per search, to measure their cost
WINDOW, BATCH, PUSHES, ROUNDS = 1 << 12, 64, 10, 40  # of the joins
LEAST_SPILLED = 0.2  # share of a level that must not fit the cache for a miss to be measurable


def quartile(times: list[float]) -> float:
    """Return the lower quartile."""
    return float(np.percentile(times, 25))


def time_calls(call: Callable[[], object], prepare: Callable[[], object] | None = None) -> float:
    """Return the nanoseconds per operation, of `CALLS` operations; ``prepare`` is not counted."""
    times = []
    for _ in range(TURNS):
        if prepare is not None:
            prepare()
        begin = perf_counter()
        call()
        times.append(1e9 * (perf_counter() - begin) / CALLS)
    return quartile(times)


class Trees:
    """One tree of each kind over the same random keys, to measure searches in them."""

    def __init__(self, random: np.random.Generator, tuples: int) -> None:
        self.random, self.tuples = random, tuples
        self.keys = random.integers(0, SPAN, tuples)
        self.rows = np.arange(tuples, dtype=np.int32)
        self.forest = blocks.make_forest(1, tuples + 4 * CALLS)
        b_tree.insert_batch(self.forest, self.keys, self.rows, 0)
        order = np.argsort(self.keys, kind="stable")
        self.ascending: tuple[Keys, RowIds] = self.keys[order], self.rows[order]
        self.fixed = immutable_tree.make_immutable(tuples)
        pim_tree.fill(self.fixed, *self.ascending)
        self.run = SortedRun.from_sorted(*self.ascending)
        self.found = np.empty(CALLS * 4 * SCANNED, np.int32)
        self.starts, self.ends = np.zeros(CALLS, np.int64), np.zeros(CALLS, np.int64)
        self.draw()

    def draw(self) -> None:
        """Draw keys that no measurement has used yet."""
        self.probes = self.random.integers(0, SPAN, CALLS)

    def search(self, matches: int = 0) -> float:
        """Return the cost of a search in the B+-tree."""
        reach = SPAN // self.tuples * matches // 2
        place = self.found, self.starts, self.ends

        def find() -> None:
            lower, upper = self.probes - reach, self.probes + reach
            b_tree.find_batch(self.forest, 0, lower, upper, 0, *place)

        return time_calls(find, self.draw)

    def search_fixed(self) -> float:
        """Return the cost of a search in the immutable tree."""
        place = self.found, self.starts, self.ends

        def find() -> None:
            chained_index.find_batch(self.fixed, 0, self.probes, self.probes, 0, *place)

        return time_calls(find, self.draw)

    def search_run(self) -> float:
        """Return the cost of a search in the sorted run, in ascending batches."""

        def prepare() -> None:
            self.draw()
            self.probes.sort()

        return time_calls(lambda: self.run.probe(self.probes, self.probes), prepare)

    def change(self) -> tuple[float, float]:
        """Return the costs of inserting into the B+-tree and of removing from it."""
        rows = np.arange(self.tuples, self.tuples + CALLS, dtype=np.int32)
        insertions, removals = [], []
        for _ in range(TURNS):
            self.draw()
            begin = perf_counter()
            b_tree.insert_batch(self.forest, self.probes, rows, 0)
            middle = perf_counter()
            b_tree.remove_batch(self.forest, self.probes, rows)
            insertions.append(1e9 * (middle - begin) / CALLS)
            removals.append(1e9 * (perf_counter() - middle) / CALLS)
        return quartile(insertions), quartile(removals)

    def merge(self) -> tuple[float, float]:
        """Return the cost of merging per tuple: of T_S with an eighth more, and of runs."""
        count = self.tuples // 8
        fresh = blocks.make_forest(1, count)
        keys, rows = np.sort(self.random.integers(0, SPAN, count)), self.rows[:count]
        b_tree.insert_batch(fresh, keys, rows, 0)
        merged = immutable_tree.make_immutable(self.tuples + count)
        times: tuple[list[float], list[float]] = [], []
        for _ in range(TURNS):
            begin = perf_counter()
            immutable_tree.merge(self.fixed, fresh, 1, 0, merged)
            times[0].append(1e9 * (perf_counter() - begin) / self.tuples)
            run = SortedRun(self.tuples + count)
            run.merge(*self.ascending)
            begin = perf_counter()
            run.merge(keys, rows)
            times[1].append(1e9 * (perf_counter() - begin) / (self.tuples + count))
        return quartile(times[0]), quartile(times[1])


def measure_costs(rows: int = 1 << 20, seed: int = 1) -> Costs:
    """Measure all constants; ``rows`` is the size of the tree that does not fit the cache."""
    return measure_pushes(measure_nodes(rows, seed), seed)


def measure_nodes(rows: int, seed: int) -> Costs:
    """Measure the costs of nodes, comparisons and merges; the rest keeps its defaults."""
    random = np.random.default_rng(seed)
    small, large = Trees(random, SMALL_TREE), Trees(random, rows)
    for compiles in (small.search, small.change, small.search_fixed, small.search_run):
        compiles()
    levels = height(SMALL_TREE, B_FANOUT)
    search, (insert, delete) = small.search(), small.change()
    run_search, merges = small.search_run(), large.merge()
    costs = replace(
        DEFAULT_COSTS,
        b_search=search / levels,
        b_insert=insert / levels,
        b_delete=delete / levels,
        ib_search=small.search_fixed() / height(SMALL_TREE, IB_FANOUT),
        compare=max(small.search(SCANNED) - search, 0) / SCANNED,
        merge=merges[0],
        run_search=run_search,
        run_merge=merges[1],
    )
    # This measures one window, but two share the cache.
    beyond, run_beyond = (costs.spill(rows / 2, width) for width in (B_BYTES, IB_BYTES))
    if run_beyond < LEAST_SPILLED:
        return costs
    waited = large.search() - height(rows, B_FANOUT) * costs.b_search
    run_waited = large.search_run() - run_search
    return replace(
        costs, miss=max(waited / beyond, 0.0), run_miss=max(run_waited / run_beyond, 0.0)
    )


def batch_of(random: np.random.Generator, rows: int) -> pa.RecordBatch:
    """Return rows with random keys."""
    return pa.record_batch({"x": random.integers(0, SPAN, rows)})


def measure_pushes(costs: Costs, seed: int) -> Costs:
    """Measure the fixed cost of a push, apart from its rows.

    Without matches, there are four runs in subwindows and one in a whole window. With many matches,
    every run and every piece has some.
    """
    band = f"abs(l.x - r.x) <= {SPAN // WINDOW}"
    joins = {
        (name, found): Pushes(name, band if found else "l.x = r.x", BATCH if found else 1, seed)
        for name in ("bi_sort", "pim_tree")
        for found in (False, True)
    }
    for turn in range(ROUNDS + 1):
        for join in joins.values():  # in turns, so that they share the machine's bad moments
            join.run(kept=turn > 0)
    few, many = (
        {name: join.quartiles() for (name, found), join in joins.items() if found == wanted}
        for wanted in (False, True)
    )
    look = max(few["bi_sort"][1] - few["pim_tree"][1], 0.0) / 3
    forget = max(few["pim_tree"][2] - few["bi_sort"][2], 0.0)
    given = {
        name: many[name][0] - few[name][0] - BATCH * steps_of(costs, name, WINDOW, 2, BATCH).total
        for name in few
    }
    pieces = pieces_of(WINDOW) * hit(2 * BATCH / pieces_of(WINDOW)) + CONCAT_PIECES
    counts = np.array([[4.0, 5.0], [1.0, pieces]])  # deliveries and pieces, of each join
    give, take = np.linalg.solve(counts, [given["bi_sort"], given["pim_tree"]])
    return replace(
        costs,
        push=max(few["bi_sort"][0] - 4 * look, 0.0),
        look=look,
        give=max(float(give), 0.0),
        take=max(float(take), 0.0),
        forget=forget,
    )


class Pushes:
    """A join over a full window, and the times of its pushes."""

    def __init__(self, structure: str, on: str, batch: int, seed: int) -> None:
        self.random, self.batch = np.random.default_rng(seed), batch
        self.times: list[tuple[float, float, float]] = []
        self.join = StreamJoin(on, CountWindow(WINDOW), algorithm=structure, threads=1)
        for _ in range(7):
            quarters = (batch_of(self.random, WINDOW // 4) for _ in range(2))
            self.join.push(*quarters)

    def run(self, kept: bool) -> None:
        """Push a few batches of either side."""
        batches = [batch_of(self.random, self.batch) for _ in range(2 * PUSHES)]
        before, begin = dict(self.join.stats.seconds), perf_counter()
        for left, right in zip(batches[::2], batches[1::2], strict=True):
            self.join.push(left)
            self.join.push(right=right)
        seconds, after = perf_counter() - begin, self.join.stats.seconds
        spent = {name: after[name] - before[name] for name in after}
        if kept:
            self.times.append((seconds, spent["probe"], spent["insert"] + spent["expire"]))

    def quartiles(self) -> list[float]:
        """Return the nanoseconds of a push: in all, for probing, and for changing the window."""
        return [1e9 * quartile(list(each)) / 2 / PUSHES for each in zip(*self.times, strict=True)]
