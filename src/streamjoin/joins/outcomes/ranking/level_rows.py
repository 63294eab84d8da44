"""The first of some rows that are level: by their columns, one after the other.

Groups get smaller with each column, and a column is fetched for the rows that are left::

    rows      3   8   9  |  4   5        groups of rows that are level
    time     10  10  10  |  7   7
    price     2   1   1  |  6   8        3 is out; 5 is out, and 4 is the first of its group
    size          5   5  |               8 and 9 are equal: either will do

Most groups are decided by the first column in which rows differ at all.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from streamjoin.expressions.datatypes import without_extension
from streamjoin.joins.outcomes.ranking.contents import number_signs, number_values
from streamjoin.kernels.compile import Keys, Positions, RowIds, kernel
from streamjoin.keys.bound_terms import validity
from streamjoin.keys.sort_keys import encode


@kernel
def narrow(members: RowIds, starts: Positions, keys: Keys) -> tuple[int, int]:
    """Keep the members with the least key of each group; return how many, and the largest group.

    Group g has the members from ``starts[g]`` to ``starts[g + 1]``, before and after.
    """
    kept = largest = first = 0
    for group in range(starts.size - 1):
        last, begin = starts[group + 1], kept
        least = keys[first]
        for i in range(first, last):
            if keys[i] < least:
                least, kept = keys[i], begin
            if keys[i] == least:
                members[kept] = members[i]
                kept += 1
        first, starts[group + 1] = last, kept
        largest = max(largest, kept - begin)
    return kept, largest


def pick_first(
    rows: pa.RecordBatch, members: RowIds, starts: Positions, ranks: tuple[Keys, ...] = ()
) -> RowIds:
    """Return the first member of each group by ``ranks``, then by all columns of the rows.

    >>> rows = pa.record_batch({"price": [2, 1, 1], "size": [5, 6, 4]})
    >>> members, starts = np.array([0, 1, 2], np.int32), np.array([0, 3])
    >>> pick_first(rows, members, starts).tolist()
    [2]
    """
    members, starts = members.copy(), starts.copy()
    for column in (*ranks, *rows.columns, None):
        signs = find_signs(rows, members) if column is None else [order_of(column, members)]
        for keys in signs:
            kept, largest = narrow(members, starts, keys)
            members = members[:kept]
            if largest <= 1:
                return members
    return members[starts[:-1]]


def order_of(column: Keys | pa.Array, members: RowIds) -> Keys:
    """Return keys that ascend as the values of some rows do, NULL first."""
    if isinstance(column, np.ndarray):
        return column[members]
    values = without_extension(column.take(pa.array(members)))
    kind = values.type
    is_simple = (
        pa.types.is_temporal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    )
    if not is_simple or kind in (pa.uint64(), pa.month_day_nano_interval()):
        return number_values(values)
    valid = validity(values)
    keys = encode(values)
    # A key at the edge would be level with NULL: no number has it but the least of int64.
    if valid is None:
        return keys
    if keys.size and int(keys.min()) == np.iinfo(np.int64).min:
        return number_values(values)
    return np.where(valid, keys, np.iinfo(np.int64).min)


def find_signs(rows: pa.RecordBatch, members: RowIds) -> Iterator[Keys]:
    """Give the signs of zeros, which come last of all that tells rows apart."""
    chosen = pa.array(members)
    for each in rows.schema:
        if pa.types.is_floating(each.type):
            yield number_signs(each.name, lambda names: rows.select(names).take(chosen))
