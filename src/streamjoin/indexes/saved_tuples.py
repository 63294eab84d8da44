"""The tuples of a saved index, checked before any kernel trusts them.

Kernels follow row ids into the rows without checking bounds, and search keys as if they ascend, so
what is read back must be exactly what the rows give::

    rows' keys   [ 9 4 7 ]        saved   keys [ 4 7 9 ]   row ids [ 1 2 0 ]

Each row id occurs once (an index and its side index share ``seen``), with its row's key, and keys
ascend where a structure relies on that. It takes one pass over the tuples, and no sort.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.errors import SnapshotError
from streamjoin.kernels.compile import Flags, Keys, RowIds, kernel

FIRST = pa.schema({"keys": pa.int64(), "row_ids": pa.int32()})
SECOND = pa.schema({"second_keys": pa.int64(), "places": pa.int32()})  # only of two-key indexes


@kernel
def are_of_rows(keys: Keys, row_ids: RowIds, expected: Keys, seen: Flags) -> bool:
    """Whether each row id is a row not seen before, with that row's key; marks them as seen."""
    for i in range(row_ids.size):
        row = row_ids[i]
        if row < 0 or row >= expected.size or seen[row] or expected[row] != keys[i]:
            return False
        seen[row] = True
    return True


def is_ascending(keys: Keys) -> bool:
    """Whether no key is below the one before it."""
    return bool((keys[:-1] <= keys[1:]).all())


def check_tuples(batch: pa.RecordBatch, expected: list[Keys], seen: Flags, ascend: bool) -> None:
    """Refuse tuples other than those of rows with these keys, one array per order."""
    schema = FIRST if len(expected) == 1 else pa.schema([*FIRST, *SECOND])
    refuse_unless(batch.schema.equals(schema), f"an index has the columns {batch.schema}")
    columns = [read_numbers(column) for column in batch.columns]
    keys, row_ids = columns[:2]
    refuse_unless(are_of_rows(keys, row_ids, expected[0], seen), "an index is not of its rows")
    refuse_unless(not ascend or is_ascending(keys), "the keys of an index do not ascend")
    if len(expected) > 1:
        second_keys, places = columns[2:]
        in_first = expected[1][row_ids]  # the second keys, in the order of the first ones
        are_same = are_of_rows(second_keys, places, in_first, np.zeros(places.size, np.bool_))
        refuse_unless(are_same and is_ascending(second_keys), "an index is not of its rows")


def read_numbers(column: pa.Array) -> Any:
    """Return a column's numbers; none may be missing."""
    refuse_unless(column.null_count == 0, "a number is NULL")
    return column.to_numpy()


def refuse_unless(is_so: Any, otherwise: str) -> None:
    """Raise unless a condition holds that is true of everything we write."""
    if not is_so:
        raise SnapshotError(otherwise)
