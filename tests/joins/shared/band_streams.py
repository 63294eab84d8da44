"""Two streams of keys joined by a band, and what they must give: for joins over shared indexes."""

from typing import Any

import numpy as np

from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.joins.shared.shared_join import SharedJoin
from streamjoin.joins.shared.work_queue import Entries


def entries_of(
    sides: np.ndarray, keys: np.ndarray, windows: tuple[int, int], reach: int
) -> Entries:
    """Entries in the order given; each sees the last rows of the other window."""
    counts = [np.cumsum(sides == side) for side in (0, 1)]
    rows = np.where(sides == 0, counts[0], counts[1]) - 1
    others = np.where(sides == 0, counts[1], counts[0])
    sizes = np.where(sides == 0, windows[1], windows[0])
    firsts = np.maximum(others - sizes, 0)
    lowers, uppers = (keys - reach)[:, None], (keys + reach)[:, None]
    return Entries(sides, keys, rows, lowers, uppers, firsts, others - 1)


def self_entries(keys: np.ndarray, window: int, reach: int) -> Entries:
    """Entries of one stream; each sees the rows before it."""
    rows = np.arange(keys.size)
    lowers, uppers = (keys - reach)[:, None], (keys + reach)[:, None]
    firsts = np.maximum(rows - window, 0)
    return Entries(np.zeros(keys.size, np.int64), keys, rows, lowers, uppers, firsts, rows - 1)


def expected(entries: Entries, alone: bool = False) -> list[list[int]]:
    """What each entry must find, by comparing all that it sees."""
    keys = [entries.keys[entries.sides == side] for side in (0, 1)]
    answers = []
    for i in range(len(entries)):
        first, last = entries.firsts[i], entries.lasts[i]
        stored = keys[0 if alone else 1 - entries.sides[i]][first : last + 1]
        inside = (stored >= entries.lowers[i, 0]) & (stored <= entries.uppers[i, 0])
        answers.append((np.flatnonzero(inside) + first).tolist())
    return answers


class Recorder:
    """Takes results as they are propagated; lets rows expire as a count window does."""

    join: SharedJoin  # once `make_join` has made it

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.answers: list[list[int]] = []

    def __call__(self, first: int, rows: np.ndarray, ends: np.ndarray) -> None:
        assert first == len(self.answers)
        parts = np.split(rows, ends[:-1])
        self.answers += [sorted(part.tolist()) for part in parts]
        done = first + ends.size
        later = self.entries.part(done, len(self.entries))
        for number, side in enumerate(self.join.sides):
            sees = (
                later.firsts if len(self.join.sides) == 1 else later.firsts[later.sides != number]
            )
            if sees.size:
                side.dropped = max(side.dropped, int(sees[0]))


def make_join(
    recorder: Recorder,
    threads: int,
    sides: int = 2,
    kind: type[SharedJoin] = SharedJoin,
    merge_ratio: float = 1 / 8,
    depth: int = 99,
    **options: Any,
) -> SharedJoin:
    indexes = [PIMTree(merge_ratio=merge_ratio, depth=depth) for _ in range(sides)]
    join = kind.__new__(kind)
    recorder.join = join
    join.__init__(indexes, recorder, threads, **options)  # type: ignore[misc]
    return join


def run(
    entries: Entries, threads: int, steps: int = 1, sides: int = 2, **options: Any
) -> tuple[list[list[int]], SharedJoin]:
    """Join entries, published in some steps; return what each has found, and the settled join."""
    recorder = Recorder(entries)
    join = make_join(recorder, threads, sides, **options)
    try:
        for cut in np.array_split(np.arange(len(entries)), steps):
            join.publish(entries.take(cut))
        join.settle()
    finally:
        join.stop()
    return recorder.answers, join
