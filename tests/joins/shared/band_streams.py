"""Two streams of keys joined by a band, and what they must give: for joins over shared indexes."""

import numpy as np

from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.joins.shared.shared_join import SharedJoin
from streamjoin.joins.shared.work_queue import Entries


def entries_of(sides, keys, windows, reach):
    """Entries in the order given; each sees the last rows of the other window."""
    counts = [np.cumsum(sides == side) for side in (0, 1)]
    rows = np.where(sides == 0, counts[0], counts[1]) - 1
    others = np.where(sides == 0, counts[1], counts[0])
    sizes = np.where(sides == 0, windows[1], windows[0])
    firsts = np.maximum(others - sizes, 0)
    lowers, uppers = (keys - reach)[:, None], (keys + reach)[:, None]
    return Entries(sides, keys, rows, lowers, uppers, firsts, others - 1)


def self_entries(keys, window, reach):
    """Entries of one stream; each sees the rows before it."""
    rows = np.arange(keys.size)
    lowers, uppers = (keys - reach)[:, None], (keys + reach)[:, None]
    firsts = np.maximum(rows - window, 0)
    return Entries(np.zeros(keys.size, np.int64), keys, rows, lowers, uppers, firsts, rows - 1)


def expected(entries, alone=False):
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

    def __init__(self, entries):
        self.entries, self.answers = entries, []
        self.join = None

    def __call__(self, first, rows, ends):
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


def make_join(recorder, threads, sides=2, kind=SharedJoin, merge_ratio=1 / 8, depth=99, **options):
    indexes = [PIMTree(merge_ratio=merge_ratio, depth=depth) for _ in range(sides)]
    join = kind.__new__(kind)
    recorder.join = join
    join.__init__(indexes, recorder, threads, **options)
    return join


def run(entries, threads, steps=1, sides=2, **options):
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
