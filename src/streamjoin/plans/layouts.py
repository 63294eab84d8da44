"""Types of Arrow and how their data lie: whether every offset and index leads to a value.

Arrow also looks at the values: a time of day after midnight, text that is not UTF-8, a decimal with
too many digits. Such rows exist, joins take them as they come, and have to give them back.
"""

from collections.abc import Callable

import pyarrow as pa

Change = Callable[[pa.DataType], pa.DataType]


def same(kind: pa.DataType) -> pa.DataType:
    """Change nothing."""
    return kind


def check_layout(table: pa.Table | pa.RecordBatch) -> None:
    """Raise `pyarrow.ArrowInvalid` for what would be read beyond its memory."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        for column in table.columns:
            for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
                array.view(stored_type(array.type)).validate(full=True)


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return a type of the same layout for which every value is a good one.

    >>> stored_type(pa.list_(pa.time64("us")))
    ListType(list<item: int64>)
    """
    return change_type(kind, _stored)


def _stored(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_time32(kind):
        return pa.int32()
    if types.is_time64(kind) or types.is_date64(kind):
        return pa.int64()
    return pa.binary(kind.byte_width) if types.is_decimal(kind) else kind


def change_type(kind: pa.DataType, change: Change, change_index: Change = same) -> pa.DataType:
    """Return a type whose innermost parts, and the indices of dictionaries, are changed."""
    types = pa.types

    def changed(part: pa.DataType) -> pa.DataType:
        return change_type(part, change, change_index)

    def item() -> pa.Field:
        return kind.value_field.with_type(changed(kind.value_type))

    if types.is_dictionary(kind):
        index = change_index(kind.index_type)
        return pa.dictionary(index, changed(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return pa.struct([each.with_type(changed(each.type)) for each in kind])
    if types.is_map(kind):
        return pa.map_(changed(kind.key_type), changed(kind.item_type))
    if types.is_list(kind):
        return pa.list_(item())
    if types.is_large_list(kind):
        return pa.large_list(item())
    return pa.list_(item(), kind.list_size) if types.is_fixed_size_list(kind) else change(kind)
