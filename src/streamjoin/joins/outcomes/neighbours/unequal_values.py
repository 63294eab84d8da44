"""Whether rows that were found by the hashes of their values have values that are equal."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamjoin.expressions.datatypes import without_extension
from streamjoin.joins.outcomes.neighbours.key_codes import cut
from streamjoin.kernels.compile import Keys, RowIds, kernel
from streamjoin.kernels.threads import share
from streamjoin.keys.hashing import WORD, read_word
from streamjoin.plans.prepared import Prepared


def has_unequal(left: Prepared, right: Prepared, kept: RowIds, threads: int) -> bool:
    """Tell whether an equality fails for a left row and the right row it has kept, -1 for none."""
    plan = left.plan
    if len(plan.equalities) == 1 and plan.equalities[0].exact:
        return False
    columns = zip(left.keys.equalities, right.keys.equalities, strict=True)
    for part, pair in zip(plan.equalities, columns, strict=True):
        if part.exact and has_other_keys(*pair, kept, threads):
            return True
    return any(
        has_other_values(left.rows[one], right.rows[other], kept, threads)
        for one, other in plan.compared
    )


def has_other_keys(left: Keys, right: Keys, kept: RowIds, threads: int) -> bool:
    """Tell whether a key differs from that of the row that is kept."""
    found = share(lambda s: count_other(left[s], right, kept[s]), cut(kept.size), threads)
    return any(found)


def has_other_values(left: pa.Array, right: pa.Array, kept: RowIds, threads: int) -> bool:
    """Tell whether a value differs from that of the row that is kept."""
    left, right = without_extension(left), without_extension(right)
    if not is_text(left.type) or left.type != right.type:
        lefts = np.flatnonzero(kept >= 0)
        pair = left.take(pa.array(lefts)), right.take(pa.array(kept[lefts]))
        return not pc.all(pc.equal(*pair), min_count=0).as_py()
    (ends, data), theirs = text_of(left), text_of(right)
    found = share(
        lambda s: count_other_texts(ends[s.start : s.stop + 1], data, *theirs, kept[s]),
        cut(kept.size),
        threads,
    )
    return any(found)


@kernel
def count_other(left: Keys, right: Keys, rows: RowIds) -> int:
    """Count the rows whose key differs from that of the row they have kept."""
    count = 0
    for i in range(rows.size):
        count += rows[i] >= 0 and left[i] != right[max(rows[i], 0)]
    return count


@kernel
def count_other_texts(
    offsets: NDArray[Any],
    data: NDArray[np.uint8],
    other_offsets: NDArray[Any],
    other_data: NDArray[np.uint8],
    rows: RowIds,
) -> int:
    """Do the same for texts."""
    count = 0
    for i in range(rows.size):
        if rows[i] < 0:
            continue
        at, there = offsets[i], other_offsets[rows[i]]
        length = offsets[i + 1] - at
        if other_offsets[rows[i] + 1] - there != length:
            count += 1
            continue
        for place in range(0, length, WORD):
            size = length - place
            if read_word(data, at + place, size) != read_word(other_data, there + place, size):
                count += 1
                break
    return count


def is_text(kind: pa.DataType) -> bool:
    """Tell whether values are bytes between offsets."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def offset_width(kind: pa.DataType) -> int:
    """Return the bytes of an offset."""
    return 8 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 4


def text_of(texts: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Return the offsets and the bytes of texts, as they are."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64 if offset_width(texts.type) == 8 else np.int32)
    return ends[texts.offset : texts.offset + len(texts) + 1], np.frombuffer(data or b"", np.uint8)
