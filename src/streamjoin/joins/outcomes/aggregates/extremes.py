"""The least or the greatest value of each left row.

Values become int64 keys that ascend with them, and the greatest is looked for; for the least, keys
are turned around. Most types have such keys (`keys.sort_keys`), which lead back to the value. Text,
binary and long decimals have none: over ranges, a key is the place of a value among all of them;
over pairs, which come in blocks, candidates are gathered (`best_rows`).

Over ranges it is a tree of greatest keys::

    keys        3    1    4    1    5    9    2    6
    nodes       [  3 ]    [  4 ]    [  9 ]    [  6 ]
                [      4       ]    [      9       ]
    [3, 7)      max(1, 9, 2)
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamjoin.expressions.decimals import from_unscaled
from streamjoin.expressions.values import nulls_of
from streamjoin.joins.outcomes.aggregates.best_rows import Candidates
from streamjoin.joins.outcomes.aggregates.states import Counts, Places
from streamjoin.joins.outcomes.ranking.contents import number_values
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Flags, Keys, Positions, RowIds, kernel
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.keys.sort_keys import encode, encode_coarse, key_type, numpy_of
from streamjoin.plans.batches import take_array, take_rows

NOTHING = np.empty(0, np.bool_)


@kernel
def scatter_greatest(places: Places, keys: Keys, missing: Flags, best: Keys) -> None:
    """Raise the best key of each left row to those of its pairs."""
    for i in range(places.size):
        if not missing.size or not missing[i]:
            best[places[i]] = max(best[places[i]], keys[i])


@kernel
def build_greatest(keys: Keys) -> Keys:
    """Build a tree: node i has the greater of nodes 2i and 2i + 1, the last half are the keys."""
    size = keys.size
    tree = np.empty(2 * size, np.int64)
    tree[size:] = keys
    for i in range(size - 1, 0, -1):
        tree[i] = max(tree[2 * i], tree[2 * i + 1])
    return tree


@kernel
def greatest_in_ranges(
    rows: RowIds, tree: Keys, starts: Positions, ends: Positions, best: Keys
) -> None:
    """Raise best keys to the greatest of each range; O(log of its length) each."""
    size = tree.size // 2
    for i in rows:
        first, last, greatest = starts[i] + size, ends[i] + size, best[i]
        while first < last:
            if first & 1:
                greatest = max(greatest, tree[first])
                first += 1
            if last & 1:
                last -= 1
                greatest = max(greatest, tree[last])
            first >>= 1
            last >>= 1
        best[i] = greatest


def has_keys(kind: pa.DataType) -> bool:
    """Whether values of a type have keys that lead back to them."""
    return key_type(kind) is not None


def encode_total(values: pa.Array) -> Keys:
    """Return keys that ascend with values and lead back to them; NULLs get arbitrary keys.

    Unlike in joins, -0.0 has a key of its own, below that of 0.0: which of the two is the result
    must not depend on the order of rows.
    """
    if not pa.types.is_floating(values.type):
        return encode(values)
    doubles = numpy_of(values.cast(pa.float64()), 0.0)
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return bits ^ ((bits >> 63) & MAX_KEY)


def values_of(keys: Keys, missing: Flags, kind: pa.DataType) -> pa.Array:
    """Return the values of keys: the inverse of `encode_total`.

    >>> kind = pa.timestamp("us")
    >>> values_of(encode_total(pa.array([5], kind)), np.zeros(1, bool), kind)[0].value
    5
    """
    mask = missing if missing.any() else None
    if pa.types.is_decimal(kind):
        return from_unscaled(keys, missing, kind)
    if pa.types.is_floating(kind):
        doubles = (keys ^ ((keys >> 63) & MAX_KEY)).view(np.float64)
        return pa.array(doubles, pa.float64(), mask=mask, from_pandas=False).cast(kind)
    whole = pa.array(np.where(missing, 0, keys), pa.int64(), mask=mask)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return whole.cast(kind)
    return whole.view(kind) if kind.bit_width == 64 else whole.cast(pa.int32()).view(kind)


class Tree(NamedTuple):
    """Greatest keys of nodes over an order of values, and how many there are before each place."""

    nodes: Keys
    before: Keys | None


class Extremes:
    """The least or the greatest value, of a type whose keys lead back to values."""

    candidates = None

    def __init__(self, size: int, kind: pa.DataType, is_least: bool) -> None:
        self.kind, self.is_least = kind, is_least
        self.counted = Counts(size)
        self.best = np.full(size, MIN_KEY)

    @property
    def counts(self) -> Keys:
        """How many values there are."""
        return self.counted.counts

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """What is known of left rows."""
        return [self.counts, self.best]

    def _keys(self, values: pa.Array) -> Keys:
        keys = encode_total(values)
        return ~keys if self.is_least else keys  # which cannot overflow

    def add_pairs(self, places: Places, values: pa.Array) -> None:
        """Add values, one per pair."""
        self.counted.add_pairs(places, values)
        missing = nulls_of(values) if values.null_count else NOTHING
        scatter_greatest(places, self._keys(values), missing, self.best)

    def merge(self, other: "Extremes", places: Positions) -> None:
        """Add another state, whose entries are of these left rows."""
        self.counted.merge(other.counted, places)
        scatter_greatest(places, other.best, NOTHING, self.best)

    def index(self, values: pa.Array) -> Tree:
        """Build a tree over values; O(n)."""
        keys = self._keys(values)
        if values.null_count:
            keys = np.where(nulls_of(values), MIN_KEY, keys)
        return Tree(build_greatest(keys), self.counted.index(values))

    def add_ranges(self, index: Tree, starts: Positions, ends: Positions, rows: RowIds) -> None:
        """Add the values in the ranges of some left rows."""
        self.counted.add_ranges(index.before, starts, ends, rows)
        greatest_in_ranges(rows, index.nodes, starts, ends, self.best)

    def values(self) -> pa.Array:
        """Return the value of each left row, NULL where there is none."""
        keys = ~self.best if self.is_least else self.best
        return values_of(keys, self.counts == 0, self.kind)


class RankTree(NamedTuple):
    """A tree over the ranks of values."""

    tree: Tree
    by_rank: RowIds  # the values, by their places
    values: pa.Array


class RankedExtremes:
    """The least or the greatest value, of a type that has no keys."""

    def __init__(self, size: int, kind: pa.DataType, is_least: bool) -> None:
        self.kind, self.is_least = kind, is_least
        self.counted = Counts(size)
        is_text = not pa.types.is_decimal(kind)
        self.candidates = Candidates(size, self._rank_rows, self._keys_of_rows if is_text else None)
        self.best = np.full(size, MIN_KEY)  # over ranges
        self._found: RankTree | None = None

    @property
    def counts(self) -> Keys:
        """How many values there are."""
        return self.counted.counts

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """What is known of left rows."""
        return [self.counts]

    def _ranks(self, values: pa.Array) -> Keys:
        """Return keys of which the least is the best; only good among these values."""
        encoded = values.dictionary_encode()  # which is faster than to sort all of them
        ranks = number_values(encoded.dictionary)
        if not len(ranks):
            return np.zeros(len(values), np.int64)
        ranks = ranks[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)]
        return ranks if self.is_least else ~ranks

    def _rank_rows(self, rows: pa.RecordBatch) -> Keys:
        return self._ranks(rows.column(0))

    def _keys_of_rows(self, rows: pa.RecordBatch) -> Keys:
        """Return the first bytes of texts, as keys of which the least is the best."""
        keys = encode_coarse(rows.column(0))
        return keys if self.is_least else ~keys

    def add_pairs(self, places: Places, values: pa.Array) -> None:
        """Add values, one per pair."""
        self.counted.add_pairs(places, values)
        if values.null_count:
            chosen = np.flatnonzero(~nulls_of(values))
            places, values = places[chosen], take_array(values, chosen)
        rows = pa.RecordBatch.from_arrays([values], ["value"])
        keys = self.candidates.keys or self.candidates.rank
        chosen = self.candidates.choose(places, keys(rows))
        self.candidates.add(places[chosen], take_rows(rows, chosen))

    def merge(self, other: "RankedExtremes", places: Positions) -> None:
        """Add another state, whose entries are of these left rows."""
        self.counted.merge(other.counted, places)
        self.candidates.merge(other.candidates, places)

    def index(self, values: pa.Array) -> RankTree:
        """Rank values, and build a tree over the ranks; O(n log n)."""
        missing = nulls_of(values)
        _, by_rank = sort_with_rows(~self._ranks(values))
        keys = np.empty(len(values), np.int64)
        keys[by_rank] = np.arange(len(values))
        tree = Tree(build_greatest(np.where(missing, MIN_KEY, keys)), self.counted.index(values))
        self._found = RankTree(tree, by_rank, values)
        return self._found

    def add_ranges(self, index: RankTree, starts: Positions, ends: Positions, rows: RowIds) -> None:
        """Add the values in the ranges of some left rows."""
        self.counted.add_ranges(index.tree.before, starts, ends, rows)
        greatest_in_ranges(rows, index.tree.nodes, starts, ends, self.best)

    def values(self) -> pa.Array:
        """Return the value of each left row, NULL where there is none."""
        has_value = self.counts > 0
        chosen = np.zeros(has_value.size, np.int64)
        if self._found is not None:
            source = self._found.values
            chosen[has_value] = self._found.by_rank[self.best[has_value]]
        else:
            places, rows = self.candidates.pick()
            source = pa.nulls(0, self.kind) if rows is None else rows["value"]
            chosen[places] = np.arange(places.size)
        return source.take(pa.array(chosen, mask=~has_value))
