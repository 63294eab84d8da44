"""Runs of joins by threads that share indexes, over windows that are full before anything counts.

A run owns a `SharedJoin` and draws the same streams as a `Race` over the same load. Windows are
loaded at once into T_S; entries are made before a round begins; a round ends when the results of
all its entries are delivered. How many threads there are, how large tasks are and whether merges
block may change between rounds, so that ways that are compared share one join and its luck::

    one run    | 1 thread | 2 threads | 2, blocking | 1 thread | 2 threads | ...      rounds

Every tuple that is delivered lets one of its stream expire.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np

from benchmarks.pimtree.joins import PIMTreeJoin
from benchmarks.pimtree.workloads import KeyRings, TupleLoad
from streamjoin.indexes.trees import pim_tree as pims
from streamjoin.indexes.trees.pim_tree import LOWEST, MERGE_RATIO, PIMTree
from streamjoin.joins.shared.shared_join import TASK_TUPLES, SharedJoin
from streamjoin.joins.shared.work_queue import Entries
from streamjoin.kernels.compile import Keys, Positions

CHUNK = 1 << 16  # entries that are made at once
FEWEST, LEAST = 1 << 16, 1 << 18  # entries of a round, in small windows and in others


def full_index(keys: Keys, ratio: float = MERGE_RATIO, depth: int = LOWEST) -> PIMTree:
    """Return the index of a full window, all of it in T_S; keys in the order of arrival."""
    index = PIMTree(keys.size, ratio, depth)
    index.size = keys.size
    order = np.argsort(keys, kind="stable").astype(np.int32)
    fixed = index.next_fixed()
    pims.fill(fixed, keys[order], order)
    index.adopt(fixed)
    # As if it had been merged before: the memory of the next T_S has been used.
    index.spare = index.next_fixed()
    index.spare.keys.fill(0)
    index.spare.inners.fill(0)
    return index


class LoadedPIMTreeJoin(PIMTreeJoin):
    """One thread without concurrency control, whose windows are loaded at once."""

    def __init__(self, streams: KeyRings) -> None:
        super().__init__(streams, PIMTree)
        self.parts: list[list[Keys]] = [[], []]

    def insert(self, side: int, keys: Keys, order: Positions) -> None:
        """Keep tuples until all of a window are there."""
        unsorted = np.empty_like(keys)
        unsorted[order] = keys
        self.parts[side].append(unsorted)

    def prepare(self) -> None:
        """Load the windows."""
        for side in self.sides:
            self.indexes[side] = full_index(np.concatenate(self.parts[side]))
        if self.streams.load.itself:
            self.indexes[1] = self.indexes[0]
        self.parts = [[], []]
        super().prepare()


class TimedJoin(SharedJoin):
    """A shared join that notes when it merged."""

    def _merge(self) -> None:
        begin, before = perf_counter(), sum(side.merges for side in self.sides)
        super()._merge()
        if sum(side.merges for side in self.sides) > before:
            self.merge_times.append((begin, perf_counter()))

    @property
    def merge_times(self) -> list[tuple[float, float]]:
        """Begin and end of every merge."""
        times: list[tuple[float, float]] = self.__dict__.setdefault("_merge_times", [])
        return times


@dataclass(frozen=True)
class Way:
    """How a round is run."""

    threads: int = 2
    blocking: bool = False
    task: int = TASK_TUPLES


class SharedRun:
    """A shared join over full windows, and what it has found."""

    def __init__(
        self,
        load: TupleLoad,
        ratio: float = MERGE_RATIO,
        depth: int = LOWEST,
        fill: Callable[[int], Keys] | None = None,
    ) -> None:
        """Load the windows with keys of the load, or with those that ``fill`` gives."""
        self.load, self.rng = load, np.random.default_rng(load.seed)
        draw = fill or (lambda count: load.spread.keys(self.rng, count))
        self.windows = [load.left] if load.itself else [load.left, load.right]
        self.rows = list(self.windows)  # the next of each stream
        self.matches, self.delivered = 0, 0
        self.processors = 0.0  # that the latest round had: fewer than threads if others need them
        self.times: list[tuple[float, int]] = []  # when how many entries had been delivered
        indexes = [full_index(draw(window), ratio, depth) for window in self.windows]
        self.join = TimedJoin(indexes, self._deliver, 0)

    def _deliver(self, first: int, rows: Positions, ends: Positions) -> None:
        self.matches += rows.size
        self.delivered = first + ends.size
        self.times.append((perf_counter(), self.delivered))
        for side in self.join.sides:  # tuples come in turns, windows were full
            side.dropped = max(side.dropped, self.delivered // len(self.windows))

    def draw(self, count: int) -> list[Entries]:
        """Draw the next tuples, and return them as entries."""
        chunks = []
        for begin in range(0, count, CHUNK):
            order = self.load.order(min(CHUNK, count - begin))
            keys = np.empty(order.size, np.int64)
            for side in range(len(self.windows)):
                mine = order == side
                keys[mine] = self.load.spread.keys(self.rng, int(mine.sum()))
            chunks.append(self.entries(keys))
        return chunks

    def entries(self, keys: Keys) -> Entries:
        """Make entries of the next tuples, given their keys in the order of arrival."""
        sides = self.load.order(keys.size).astype(np.int64)
        rows, others = np.empty((2, keys.size), np.int64)
        for side in range(len(self.windows)):
            mine = sides == side
            came = self.rows[side] + np.cumsum(mine)  # behind each entry
            rows[mine] = came[mine] - 1
            theirs = sides == (0 if self.load.itself else 1 - side)
            others[theirs] = came[theirs] - (1 if self.load.itself else 0)
            self.rows[side] = int(came[-1])
        across = np.array([self.windows[-1], self.windows[0]])
        firsts = np.maximum(others - across[sides], 0)
        reach = self.load.reach
        lowers, uppers = (keys - reach)[:, None], (keys + reach)[:, None]
        return Entries(sides, keys, rows, lowers, uppers, firsts, others - 1)

    def change(self, way: Way) -> None:
        """Go on in another way."""
        self.join.task, self.join.blocking = way.task, way.blocking
        self.join.crew.resize(way.threads)

    def pass_through(self, chunks: list[Entries]) -> float:
        """Publish entries as fast as they go; return the seconds until all are delivered."""
        self.times.clear()
        begin, used = perf_counter(), process_time()
        for entries in chunks:
            self.join.publish(entries)
        self.join.wait()
        seconds = perf_counter() - begin
        self.processors = (process_time() - used) / seconds
        return seconds

    @property
    def round(self) -> int:
        """How many entries let every index be merged once, and no fewer than some."""
        period = max(side.index.limit for side in self.join.sides) * len(self.windows)
        return max(period, min(max(self.windows), LEAST), FEWEST) // 2 * 2

    def rate(self, way: Way, count: int | None = None) -> float:
        """Run a round; return M tuples/s."""
        chunks = self.draw(count or self.round)
        self.change(way)
        return sum(map(len, chunks)) / self.pass_through(chunks) / 1e6

    def close(self) -> None:
        """Let the threads go."""
        self.join.stop()
