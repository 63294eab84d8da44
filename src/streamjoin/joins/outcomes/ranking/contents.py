"""The order of rows by their columns, from the first on: what decides where ranks are level.

The values of a column become dense numbers: equal ones have equal numbers, and one that comes
earlier has a lower one. NULL comes first, NaN after all numbers; texts go by their bytes. Arrow
ranks most types; the others are taken apart until it can::

    struct        its fields, one after the other
    list, map     the numbers of its elements, written so that bytes compare as they do
    dictionary    its values
    interval      months, then days, then nanoseconds

-0.0 equals 0.0, as in SQL; rows that differ in nothing else are ordered by the sign at last, so
that which of them comes first does not depend on how they came.

Cost: a sort per column, of the rows that are level so far.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.expressions.datatypes import without_extension
from streamjoin.kernels.compile import Keys
from streamjoin.keys.bound_terms import validity
from streamjoin.keys.sort_keys import encode, numpy_of

FetchColumns = Callable[[tuple[str, ...]], pa.RecordBatch]
INTERVAL = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])


def order_of_columns(schema: pa.Schema) -> Iterator[Callable[[FetchColumns], Keys]]:
    """Give what numbers rows by each column in turn, and by the signs of zeros at last."""
    for name in schema.names:
        yield partial(number_column, name)
    for each in schema:
        if pa.types.is_floating(each.type):
            yield partial(number_signs, each.name)


def number_column(name: str, fetch: FetchColumns) -> Keys:
    """Return the place of each row in the order of a column."""
    return number_values(fetch((name,)).column(0))


def number_signs(name: str, fetch: FetchColumns) -> Keys:
    """Return 1 for 0.0, and 0 for -0.0; other values that are level have the same sign."""
    values = numpy_of(fetch((name,)).column(0).cast(pa.float64()), 0.0)
    return (~np.signbit(values)).astype(np.int64)


def number_tuples(columns: list[Keys], size: int) -> Keys:
    """Return the place of each tuple in their order; equal tuples share one."""
    numbers = np.zeros(size, np.int64)
    if not columns or not size:
        return numbers
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(size, np.bool_)
    for column in columns:
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    numbers[order] = np.cumsum(is_new)
    return numbers


def number_values(values: pa.Array) -> Keys:
    """Return the place of each value in their order, from 1; that of NULL is 0."""
    values = without_extension(values)
    kind = values.type
    numbers = np.zeros(len(values), np.int64)
    if pa.types.is_null(kind) or not len(values):
        return numbers
    valid = validity(values)
    places = slice(None) if valid is None else np.flatnonzero(valid)
    present = values if valid is None else values.drop_null()
    if pa.types.is_dictionary(kind):
        numbers[places] = number_values(present.cast(kind.value_type))
    elif pa.types.is_struct(kind):
        fields = [number_values(each) for each in present.flatten()]
        numbers[places] = number_tuples(fields, len(present)) + 1
    elif pa.types.is_nested(kind):
        numbers[places] = rank(write_lists(present))
    elif kind == pa.month_day_nano_interval():
        parts = np.frombuffer(present.buffers()[1] or b"", INTERVAL)
        parts = parts[present.offset : present.offset + len(present)]
        columns = [parts[name].astype(np.int64) for name in INTERVAL.names or ()]
        numbers[places] = number_tuples(columns, len(present)) + 1
    elif pa.types.is_floating(kind):
        numbers[places] = rank(pa.array(encode(present)))
    else:
        numbers[places] = rank(present)
    return numbers


def rank(values: pa.Array) -> Keys:
    """Return dense ranks, from 1, of values of which none is NULL."""
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    return ranks.to_numpy(zero_copy_only=False).astype(np.int64)


def write_lists(lists: pa.Array) -> pa.Array:
    """Return bytes that compare as lists do, element by element."""
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.large_list(lists.type.value_type))
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    values = lists.values[offsets[0] : offsets[-1]]
    numbers = number_values(values).astype(">i8")
    size = pa.array(8 * (offsets - offsets[0]))
    buffers = [None, size.buffers()[1], pa.py_buffer(numbers.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lists), buffers)
