"""PIM-Tree (partitioned in-memory merge tree): an immutable tree with small trees for new tuples.

``T_S``, an immutable B+-tree, holds most of the window and is fast to search. New tuples go into
``T_I``, one small B+-tree for each node of T_S at the *insertion depth*, with the same range of
keys. When T_I has grown to a certain share of the window, the *merge ratio*, both are merged into a
new T_S, which leaves out expired tuples::

    T_S    depth 0                [ 20              50 ]
           depth 1        [ 5 9 20 ]   [ 31 44 50 ]   [ 77 80 - ]      insertion depth 1
                              |             |              |
    T_I                     B_0           B_1            B_2           trees of a `forest`
           uppers            20            50          MAX_KEY         the greatest key of each

The ranges of the trees are disjoint and hold about equal numbers of the keys in T_S, whatever their
distribution, so threads that work on different keys rarely collide. Each tree has a version, which
is odd while a thread changes it; nothing else in T_I needs one. T_S never changes. A search that
reaches the end of a tree's range goes on in the next.

Invariants, asserted by ``check``:
    1. T_S and every tree of T_I keep their own invariants.
    2. Tree i holds keys above ``uppers[i - 1]`` and up to ``uppers[i]``.
    3. Versions are even while no thread is at work.
Costs for n tuples: ``insert`` O(D_I) nodes of T_S and O(log) of one tree, and a merge of O(n) every
n * ratio tuples; ``collect`` O(log n + matches).

Source: Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU"
(arXiv:1903.00452), 3.3 and A. Departures: keys are 64 bits, so nodes have 64 separators; the last
inner level is the insertion depth; a tree's root has a fixed place, so the trees need no links from
one to the next; ``uppers`` say where a range ends. Searches take no lock: a locked instruction
waits for all earlier loads, and took as long as the search itself. They look at the version before
and after, and search again if it has changed, as in OLFIT. Errors of the algorithms:
docs/papers/pimtree.md.
"""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamjoin.indexes.hits import hand_over
from streamjoin.indexes.matches import Matches
from streamjoin.indexes.trees import blocks
from streamjoin.indexes.trees import forest as trees
from streamjoin.indexes.trees import immutable_tree as immutable
from streamjoin.indexes.trees.blocks import Forest
from streamjoin.indexes.trees.forest import NO_ROOM
from streamjoin.indexes.trees.immutable_tree import DEPTH, FANOUT, LEAF, OFFSETS, TUPLES, Immutable
from streamjoin.indexes.trees.window_index import LEAST_TUPLES, WindowIndex
from streamjoin.kernels import atomics
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Int, Keys, Positions, RowIds, bare, inlined

MERGE_RATIO = 1 / 8  # of the window: the best with one thread
LOWEST = 99  # the insertion depth that means: as deep as possible
ENTRY, TREES = 0, 1  # places in ``shape``


class Pim(NamedTuple):
    """Both components, as kernels take them."""

    fixed: Immutable  # T_S
    fresh: Forest  # T_I
    uppers: NDArray[np.int64]  # the greatest key that belongs to each tree
    versions: NDArray[np.int64]  # of each tree; odd while one changes
    shape: NDArray[np.int64]  # insertion depth, number of trees


@bare
def attach(pim: Pim, depth: int) -> None:
    """Restart T_I with an empty tree for each node of T_S at a depth."""
    fixed = pim.fixed
    # At most the last inner level: a tree per leaf would hold too few tuples.
    depth = max(min(depth, fixed.info[DEPTH] - 1), 0)
    count, span = np.int64(1), LEAF
    if depth > 0:
        count = fixed.info[OFFSETS + depth + 1] - fixed.info[OFFSETS + depth]
    for _ in range(fixed.info[DEPTH] - depth):
        span *= FANOUT
    for tree in range(count - 1):
        pim.uppers[tree] = immutable.key_at(fixed, (tree + 1) * span - 1)
    pim.uppers[count - 1] = MAX_KEY
    blocks.clear(pim.fresh, count)
    pim.shape[ENTRY], pim.shape[TREES] = depth, count


@inlined
def insert(pim: Pim, key: Int, row: Int, shared: bool) -> None:
    """Add a tuple to the tree of its key's range, exclusively if ``shared`` (Algorithm 1)."""
    tree = immutable.find_node(pim.fixed, key, 0, 0, pim.shape[ENTRY])
    if shared:
        atomics.begin_change(pim.versions, tree)
    trees.insert(pim.fresh, tree, key, row)
    if shared:
        atomics.end_change(pim.versions, tree)


@inlined
def collect(
    pim: Pim,
    lower: Int,
    upper: Int,
    base: Int,
    last: Int,
    found: RowIds,
    count: Int,
    shared: bool,
) -> Int:
    """Write down the rows in both components; see `forest.collect` (Algorithm 2)."""
    entry = pim.shape[ENTRY]
    tree = immutable.find_node(pim.fixed, lower, 0, 0, entry)
    leaf = immutable.find_node(pim.fixed, lower, tree, entry, pim.fixed.info[DEPTH])
    count = immutable.scan(pim.fixed, leaf, lower, upper, base, last, found, count)
    while count != NO_ROOM:
        version = atomics.stable(pim.versions, tree) if shared else np.int64(0)
        more = trees.collect(pim.fresh, tree, lower, upper, base, last, found, count)
        if shared and not atomics.is_same(pim.versions, tree, version):
            continue
        count = more
        if pim.uppers[tree] >= upper:
            break
        tree += 1
    return count


@bare
def insert_batch(pim: Pim, keys: Keys, rows: RowIds, first: int, last: int) -> int:
    """Insert tuples from ``first`` to ``last``; return the one for which there was no room."""
    for i in range(first, last):
        if not blocks.has_room(pim.fresh):
            return i
        insert(pim, keys[i], rows[i], False)
    return last


@bare
def find_batch(
    pim: Pim,
    base: int,
    lower: Keys,
    upper: Keys,
    first: int,
    found: RowIds,
    starts: Positions,
    ends: Positions,
) -> tuple[int, int]:
    """Search for the probes from ``first`` on; see `hits.Search`."""
    count = np.int64(0)
    for probe in range(first, lower.size):
        starts[probe] = ends[probe] = count
        if lower[probe] <= upper[probe]:
            count = collect(
                pim, lower[probe], upper[probe], base, trees.ALL_ROWS, found, count, False
            )
            if count == NO_ROOM:
                ends[probe] = starts[probe]
                return probe, 2 * found.size
            ends[probe] = count
    return lower.size, 0


@bare
def fill(fixed: Immutable, keys: Keys, rows: RowIds) -> None:
    """Load ascending keys."""
    for i in range(keys.size):
        immutable.put(fixed, i, keys[i], rows[i])
    immutable.build(fixed, keys.size)


def make_fresh(count: int, tuples: int) -> tuple[Forest, Keys, Positions]:
    """Allocate T_I for ``count`` trees and ``tuples``, with the trees' ranges and versions."""
    return blocks.make_forest(count, tuples), np.full(count, MAX_KEY), np.zeros(count, np.int64)


class PIMTree(WindowIndex):
    """The index of a window; the module docstring gives its layout and invariants."""

    def __init__(
        self, capacity: int = LEAST_TUPLES, merge_ratio: float = MERGE_RATIO, depth: int = LOWEST
    ) -> None:
        super().__init__(capacity)
        self.merge_ratio, self.depth = merge_ratio, depth
        self.fresh_count = 0  # tuples in T_I
        self.fresh_room = LEAST_TUPLES  # tuples that T_I has room for, whatever their keys
        self.slack = 0  # tuples that T_I must take beyond its limit
        self.spare: Immutable | None = None  # the previous T_S, whose memory the next one reuses
        fixed = immutable.make_immutable(0)
        self.pim = Pim(fixed, *make_fresh(1, LEAST_TUPLES), np.array([0, 1]))
        attach(self.pim, 0)

    @classmethod
    def from_sorted(cls, keys: Keys, row_ids: RowIds) -> Self:
        """Load ascending keys at once, into T_S. O(n)."""
        index = cls(max(keys.size, 1))
        index.size = keys.size
        fixed = immutable.make_immutable(keys.size)
        fill(fixed, keys, row_ids)
        index.adopt(fixed)
        return index

    def successor(self, capacity: int) -> Self:
        return type(self)(capacity, self.merge_ratio, self.depth)

    @property
    def limit(self) -> int:
        """How many tuples T_I takes before it is merged."""
        return max(int(self.merge_ratio * self.size), LEAST_TUPLES)

    def _insert(self, keys: Keys, rows: RowIds) -> None:
        first = 0
        while first < keys.size:
            # The limit may have fallen below the present count meanwhile.
            last = min(keys.size, first + max(self.limit - self.fresh_count, 0))
            reached = insert_batch(self.pim, keys, rows, first, last)
            self.fresh_count += reached - first
            first = reached
            if self.fresh_count >= self.limit or first < last:
                self.merge()

    def _expire(self, keys: Keys, rows: RowIds) -> None:
        if self.held > 2 * self.size + LEAST_TUPLES:
            self.merge()

    @property
    def held(self) -> int:
        """How many tuples there are, including expired ones."""
        return int(self.pim.fixed.info[TUPLES]) + self.fresh_count

    def merge(self) -> None:
        """Merge both components into a new T_S, without expired tuples. O(n)."""
        fixed = self.next_fixed()
        immutable.merge(*self.pim[:2], self.pim.shape[TREES], self.base, fixed)
        self.adopt(fixed)

    def next_fixed(self) -> Immutable:
        """Return an empty T_S with room for all live tuples: the previous one, if it fits."""
        spare, self.spare = self.spare, None
        if spare is not None and self.fits(spare):
            return spare
        return immutable.make_immutable(self.size + self.size // 16 + LEAF)

    def fits(self, fixed: Immutable) -> bool:
        """Whether the memory of a T_S is enough for all live tuples, and not far too much."""
        room = fixed.keys.size // immutable.WORDS * LEAF
        return self.size < room < 4 * self.size + LEAST_TUPLES

    def adopt(self, fixed: Immutable) -> None:
        """Go on with a new T_S, and an empty T_I."""
        pim = self.pim
        self.spare, self.fresh_count = pim.fixed if self.fits(pim.fixed) else None, 0
        levels, offsets = int(fixed.info[DEPTH]), fixed.info[OFFSETS:]
        entry = max(min(self.depth, levels - 1), 0)
        count = int(offsets[entry + 1] - offsets[entry]) if entry else 1
        parts, needed = (pim.fresh, pim.uppers, pim.versions), self.limit + self.slack
        if count > pim.uppers.size or not needed <= self.fresh_room <= 4 * needed:
            self.fresh_room = needed + needed // 8
            parts = make_fresh(count + count // 8, self.fresh_room)
        self.pim = Pim(fixed, *parts, pim.shape)
        attach(self.pim, self.depth)

    def reserve(self, slack: int) -> None:
        """Let T_I take ``slack`` tuples beyond its limit."""
        self.slack, needed = slack, self.limit + slack
        if needed > self.fresh_room:
            count = blocks.blocks_for(self.pim.uppers.size, needed)
            self.pim = self.pim._replace(fresh=blocks.grow_forest(self.pim.fresh, count))
            self.fresh_room = needed

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        if self.size:
            arguments = self.pim, self.base, lower, upper
            yield from hand_over(lower.size, lambda *place: find_batch(*arguments, *place))

    def _live(self) -> tuple[Keys, RowIds]:
        fixed = immutable.make_immutable(self.size)
        immutable.merge(*self.pim[:2], self.pim.shape[TREES], self.base, fixed)
        keys, row_ids = np.empty(self.size, np.int64), np.empty(self.size, np.int32)
        immutable.copy_out(fixed, self.base, keys, row_ids)
        return keys, row_ids

    @property
    def nbytes(self) -> int:
        """Bytes of both components, and of the memory that the next merge takes."""
        kept = [self.pim.fixed] if self.spare is None else [self.pim.fixed, self.spare]
        fixed = sum(each.keys.nbytes + each.inners.nbytes for each in kept)
        return fixed + blocks.used_bytes(self.pim.fresh) + 2 * self.pim.uppers.nbytes

    def check(self) -> None:
        super().check()
        immutable.check_immutable(self.pim.fixed)
        lower, fresh = MIN_KEY, self.pim.fresh
        for tree in range(self.pim.shape[TREES]):
            trees.check_tree(fresh, tree)
            keys = [
                key
                for leaf in trees.linked_leaves(fresh, tree)
                for key in blocks.keys_of(fresh, leaf)[: blocks.size_of(fresh, leaf)].tolist()
            ]
            upper = int(self.pim.uppers[tree])
            assert all(lower < key <= upper or key == lower == MIN_KEY for key in keys)
            lower = upper
        assert not np.any(self.pim.versions & 1)
