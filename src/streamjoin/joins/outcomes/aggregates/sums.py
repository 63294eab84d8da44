"""Sums of doubles in twice the precision, sums of integers and decimals exactly.

**Doubles.** A sum is a pair ``high + low`` of doubles that do not overlap (Dekker 1971; accurate
addition of Li et al., "Design, implementation and testing of extended and mixed precision BLAS",
2002). Its error is about 2**-104 of the sum of magnitudes, so the rounded result is nearly always
the same in any order of pairs. Over ranges it is a tree, not prefix sums: a range is put together
from O(log n) nodes inside it, so nothing outside affects it, neither an infinity nor a huge value::

    values      1    2    inf    4    5    6    7    8
    nodes       [  3 ]    [ inf  ]    [ 11 ]    [ 15 ]
                [      inf       ]    [      26      ]
    [3, 7)      4 + 11 + 7

**Whole numbers.** Unscaled integers are cut into *chunks* of 32 bits, of which the last is signed.
Chunks are summed up apart in int64, which takes 2**31 values, so no carries are needed, and prefix
sums are exact::

    -1          chunks  4294967295, -1
    5           chunks  5, 0
    sum         chunks  4294967300, -1      4294967300 - 1 * 2**32 = 4

Where all sums fit into int64 anyway, one chunk has the whole number.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.expressions.values import nulls_of
from streamjoin.joins.outcomes.aggregates.states import Counts, Places, add_at, add_differences
from streamjoin.kernels.compile import Flags, Keys, Positions, RowIds, kernel
from streamjoin.keys.sort_keys import numpy_of, words_of

Doubles = NDArray[np.float64]
CHUNK_BITS = 32
CHUNK_MASK = (1 << CHUNK_BITS) - 1


@kernel
def add_twice(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """Add two numbers of twice the precision."""
    total = high + other_high
    if not np.isfinite(total):
        return total, 0.0
    part = total - high
    error = (high - (total - part)) + (other_high - part)
    lows = low + other_low
    part = lows - low
    low_error = (low - (lows - part)) + (other_low - part)
    error += lows
    high = total + error
    error = low_error + (error - (high - total))
    total = high + error
    return total, error - (total - high)


@kernel
def scatter_doubles(
    places: Places, values: Doubles, missing: Flags, high: Doubles, low: Doubles
) -> None:
    """Add each value to the sum of its left row."""
    for i in range(places.size):
        if not missing.size or not missing[i]:
            place = places[i]
            high[place], low[place] = add_twice(high[place], low[place], values[i], 0.0)


@kernel
def merge_doubles(
    places: Positions, other_high: Doubles, other_low: Doubles, high: Doubles, low: Doubles
) -> None:
    """Add sums to those of left rows."""
    for i in range(places.size):
        place = places[i]
        high[place], low[place] = add_twice(high[place], low[place], other_high[i], other_low[i])


@kernel
def build_doubles(values: Doubles) -> tuple[Doubles, Doubles]:
    """Build a tree: node i has the sum of nodes 2i and 2i + 1, the last half are the values."""
    size = values.size
    high, low = np.zeros(2 * size, np.float64), np.zeros(2 * size, np.float64)
    high[size:] = values
    for i in range(size - 1, 0, -1):
        high[i], low[i] = add_twice(high[2 * i], low[2 * i], high[2 * i + 1], low[2 * i + 1])
    return high, low


@kernel
def sum_ranges(
    rows: RowIds,
    high: Doubles,
    low: Doubles,
    starts: Positions,
    ends: Positions,
    total_high: Doubles,
    total_low: Doubles,
) -> None:
    """Add the sum of each range; O(log of its length) nodes each."""
    size = high.size // 2
    for i in rows:
        first, last = starts[i] + size, ends[i] + size
        total, rest = total_high[i], total_low[i]
        while first < last:
            if first & 1:
                total, rest = add_twice(total, rest, high[first], low[first])
                first += 1
            if last & 1:
                last -= 1
                total, rest = add_twice(total, rest, high[last], low[last])
            first >>= 1
            last >>= 1
        total_high[i], total_low[i] = total, rest


class DoubleTree(NamedTuple):
    """Sums of nodes over an order of values, and how many there are before each place."""

    high: Doubles
    low: Doubles
    before: Keys | None


class DoubleSums:
    """Sums of doubles, and how many values there are."""

    candidates = None

    def __init__(self, size: int) -> None:
        self.counted = Counts(size)
        self.high, self.low = np.zeros(size), np.zeros(size)

    @property
    def counts(self) -> Keys:
        """How many values there are."""
        return self.counted.counts

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """What is known of left rows."""
        return [self.counts, self.high, self.low]

    def add_pairs(self, places: Places, values: pa.Array) -> None:
        """Add values, one per pair."""
        self.counted.add_pairs(places, values)
        missing = nulls_of(values) if values.null_count else np.empty(0, np.bool_)
        scatter_doubles(places, numpy_of(values, 0.0), missing, self.high, self.low)

    def merge(self, other: "DoubleSums", places: Positions) -> None:
        """Add another state, whose entries are of these left rows."""
        self.counted.merge(other.counted, places)
        merge_doubles(places, other.high, other.low, self.high, self.low)

    def index(self, values: pa.Array) -> DoubleTree:
        """Build a tree over values; O(n)."""
        return DoubleTree(*build_doubles(numpy_of(values, 0.0)), self.counted.index(values))

    def add_ranges(
        self, index: DoubleTree, starts: Positions, ends: Positions, rows: RowIds
    ) -> None:
        """Add the values in the ranges of some left rows."""
        self.counted.add_ranges(index.before, starts, ends, rows)
        sum_ranges(rows, index.high, index.low, starts, ends, self.high, self.low)

    @property
    def totals(self) -> Doubles:
        """The sums, rounded once; ``low`` is already less than half a digit of ``high``."""
        return self.high


@kernel
def scatter_chunks(
    places: Places, low: Keys, high: Keys, missing: Flags, chunks: NDArray[np.int64]
) -> None:
    """Add the chunks of each number to those of its left row; ``high`` is empty for int64."""
    mask = np.int64(CHUNK_MASK)
    for i in range(places.size):
        if missing.size and missing[i]:
            continue
        place = places[i]
        chunks[0, place] += low[i] & mask
        if high.size:
            chunks[1, place] += (low[i] >> CHUNK_BITS) & mask
            chunks[2, place] += high[i] & mask
            chunks[3, place] += high[i] >> CHUNK_BITS
        else:
            chunks[1, place] += low[i] >> CHUNK_BITS


@kernel
def sum_chunks_before(low: Keys, high: Keys, count: int) -> NDArray[np.int64]:
    """Return prefix sums of so many chunks, each an array: entry i sums up what is before i."""
    mask = np.int64(CHUNK_MASK)
    sums = np.zeros((count, low.size + 1), np.int64)
    for i in range(low.size):
        if count == 1:
            sums[0, i + 1] = sums[0, i] + low[i]
            continue
        sums[0, i + 1] = sums[0, i] + (low[i] & mask)
        if count == 2:
            sums[1, i + 1] = sums[1, i] + (low[i] >> CHUNK_BITS)
        else:
            sums[1, i + 1] = sums[1, i] + ((low[i] >> CHUNK_BITS) & mask)
            sums[2, i + 1] = sums[2, i] + (high[i] & mask)
            sums[3, i + 1] = sums[3, i] + (high[i] >> CHUNK_BITS)
    return sums


def words(values: pa.Array) -> tuple[Keys, Keys]:
    """Return unscaled integers as int64, or as two words if 18 digits are not enough."""
    kind = values.type
    if pa.types.is_decimal(kind):
        low, high = words_of(values)
        empty = np.empty(0, np.int64)
        return np.ascontiguousarray(low), empty if kind.precision <= 18 else high.copy()
    if pa.types.is_duration(kind):
        values = values.view(pa.int64())
    return numpy_of(values, 0), np.empty(0, np.int64)


class Prefixes(NamedTuple):
    """Chunks of the sums, and the number, of what is before each place of an order."""

    chunks: NDArray[np.int64]
    before: Keys | None


class WholeSums:
    """Exact sums of integers, decimals or durations, and how many values there are."""

    candidates = None

    def __init__(self, size: int, kind: pa.DataType) -> None:
        self.counted = Counts(size)
        self.chunks = np.zeros((4 if is_long(kind) else 2, size), np.int64)

    @property
    def counts(self) -> Keys:
        """How many values there are."""
        return self.counted.counts

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """What is known of left rows."""
        return [self.counts, *self.chunks]

    def add_pairs(self, places: Places, values: pa.Array) -> None:
        """Add values, one per pair."""
        self.counted.add_pairs(places, values)
        missing = nulls_of(values) if values.null_count else np.empty(0, np.bool_)
        scatter_chunks(places, *words(values), missing, self.chunks)

    def merge(self, other: "WholeSums", places: Positions) -> None:
        """Add another state, whose entries are of these left rows."""
        self.counted.merge(other.counted, places)
        for own, added in zip(self.chunks, other.chunks, strict=True):
            add_at(places, added, own)

    def index(self, values: pa.Array) -> Prefixes:
        """Build prefix sums over values; O(n)."""
        low, high = words(values)
        count = len(self.chunks)
        if not high.size and low.size:
            most = max(abs(int(low.min())), abs(int(low.max())))
            count = 1 if most * low.size < 1 << 63 else count
        return Prefixes(sum_chunks_before(low, high, count), self.counted.index(values))

    def add_ranges(self, index: Prefixes, starts: Positions, ends: Positions, rows: RowIds) -> None:
        """Add the values in the ranges of some left rows; O(1) each."""
        self.counted.add_ranges(index.before, starts, ends, rows)
        for own, sums in zip(self.chunks, index.chunks, strict=False):
            add_differences(rows, sums, starts, ends, own)

    @property
    def totals(self) -> NDArray[Any]:
        """The sums: int64 if all of them fit, else Python integers."""
        return combine(self.chunks)


def combine(chunks: NDArray[np.int64]) -> NDArray[Any]:
    """Put sums of chunks together: int64 if all of them fit, else Python integers.

    >>> combine(np.array([[4294967300, 0], [-1, 2**31]])).tolist()
    [4, 9223372036854775808]
    """
    parts = list(chunks)
    for place in range(len(parts) - 1):
        parts[place + 1] = parts[place + 1] + (parts[place] >> CHUNK_BITS)
        parts[place] = parts[place] & CHUNK_MASK
    sign = parts[1] << CHUNK_BITS >> 63  # of the lower two chunks, read as an int64
    if len(parts) == 2:
        fits = parts[1] >> (CHUNK_BITS - 1) == sign
    else:
        fits = (parts[2] == sign & CHUNK_MASK) & (parts[3] == sign)
    if fits.all():
        return parts[0] | (parts[1] << CHUNK_BITS)
    total = np.zeros(sign.size, object)
    for part in reversed(parts):
        total = (total << CHUNK_BITS) + part.astype(object)
    return total


def is_long(kind: pa.DataType) -> bool:
    """Whether values of a type may need more than 64 bits."""
    return pa.types.is_decimal(kind) and kind.precision > 18
