"""Arrow data at the edge: anything Arrow-like in, one record batch; names of the joined columns.

What comes in is brought to types that can be gathered, row by row, from several batches: texts that
are views become plain, dictionaries get indices of 32 bits (two batches together may have more
values than fit into 8), runs are written out. pandas' index is a column if it has a name: one
without, which is what filtering leaves, counts rows and tells nothing about them.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamjoin.errors import SchemaError
from streamjoin.plans.layouts import change_type

_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")  # as pyarrow calls it
_WAYS_OUT = {  # what has a method of this name is no table yet
    "collect": "call its .collect() first",
    "to_table": "call its .to_table() first",
    "toArrow": "call its .toArrow() first, or join on Spark: streamjoin.spark.join",
    "__next__": "push what it gives one by one, or pass pairs (left, right) of it to stream()",
    "__aiter__": "push what it gives one by one, in an async for loop",
}
_SIMPLE = {  # of most columns, with nothing to change
    kind.id
    for kind in (
        *(pa.null(), pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.decimal128(1), pa.date32()),
        *(pa.timestamp("us"), pa.duration("us"), pa.date64()),
    )
}
_SHORT = {
    each.id
    for each in (pa.string(), pa.binary(), pa.list_(pa.null()), pa.map_(pa.int8(), pa.int8()))
}
_LONG = {each.id for each in (pa.large_string(), pa.large_binary(), pa.large_list(pa.null()))}
_TABLES = (
    "pass a pyarrow RecordBatch or Table, a pandas, polars or DuckDB frame, a dict of lists or a "
    "list of dicts"
)


def as_batch(data: Any) -> pa.RecordBatch:
    """Return ``data`` as one record batch, without a copy where it is in one piece already.

    Takes a RecordBatch, a Table, or whatever has the Arrow PyCapsule interface: pandas and polars
    DataFrames, DuckDB relations, and more; and a dict of lists or a list of dicts.
    """
    if not isinstance(data, pa.RecordBatch | pa.Table):
        data = _as_table(data)
    if data.schema.metadata and b"pandas" in data.schema.metadata:
        data = data.select([name for name in data.schema.names if not _is_nameless_index(name)])
    if any(kind.id not in _SIMPLE for kind in data.schema.types):
        data = _with_plain_types(data)
    if isinstance(data, pa.Table):
        data = in_one_piece(data.to_batches(), data.schema)
    return data.replace_schema_metadata(None)


def _as_table(data: Any) -> pa.Table:
    pandas = sys.modules.get("pandas")  # whoever has a frame of it has loaded it
    try:
        if pandas is not None and isinstance(data, pandas.DataFrame):
            has_name = any(name is not None for name in data.index.names)
            return pa.Table.from_pandas(data, preserve_index=has_name)
        if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
            names = dict.fromkeys(name for row in data for name in row)
            return pa.table({name: [row.get(name) for row in data] for name in names})
        if isinstance(data, Mapping):
            return pa.table(dict(data))
        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            return pa.table(data)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = ". ".join(str(each) for each in error.args)
        raise SchemaError(
            f"a batch of type {type(data).__name__} is not a table of columns: {reason}; pass "
            "named columns of one type each: a pyarrow Table, a pandas frame, a dict of lists"
        ) from error
    ways = (way for name, way in _WAYS_OUT.items() if hasattr(data, name))
    raise SchemaError(
        f"a batch of type {type(data).__name__} is not a table; {next(ways, _TABLES)}"
    )


def _with_plain_types(data: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """Return rows that can be gathered; no copy of what can be already."""
    changed = False
    fields = list(data.schema)
    for place, field in enumerate(fields):
        if field.type.id in _SIMPLE:
            continue
        if pa.types.is_run_end_encoded(field.type):
            data = data.set_column(place, field.name, _decode_runs(data.column(place)))
            field = data.schema.field(place)
        fields[place] = _plain_field(field)
        changed |= fields[place] is not field
    return data.cast(pa.schema(fields)) if changed else data


def _is_nameless_index(name: str) -> bool:
    return _NAMELESS_INDEX.fullmatch(name) is not None


def _decode_runs(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, column.type.value_type)
    return pc.run_end_decode(column)


def _plain_field(field: pa.Field) -> pa.Field:
    if pa.types.is_nested(field.type) and _has_odd_part(field.type):
        raise SchemaError(
            f"column {field.name!r} is {field.type}, and values of unions, or of runs inside other "
            "values, cannot be gathered; leave the column out, or cast it to another type"
        )
    kind = plain_type(field.type)
    # What others have noted about a field, such as polars its categories, tells of the old type.
    return field if kind == field.type else field.with_type(kind).remove_metadata()


def _has_odd_part(kind: pa.DataType) -> bool:
    if pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind):
        return True
    return any(_has_odd_part(kind.field(place).type) for place in range(kind.num_fields))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with plain strings and binaries instead of views, which cannot be gathered.

    >>> plain_type(pa.list_(pa.string_view()))
    ListType(list<item: large_string>)
    >>> plain_type(pa.dictionary(pa.uint8(), pa.string_view()))
    DictionaryType(dictionary<values=large_string, indices=int32, ordered=0>)
    """
    return change_type(kind, _plain, _plain_index)


def _plain(kind: pa.DataType) -> pa.DataType:
    if kind == pa.string_view():
        return pa.large_string()
    return pa.large_binary() if kind == pa.binary_view() else kind


def _plain_index(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if kind.bit_width == 64 else pa.int32()


def take_rows(batch: pa.RecordBatch, rows: NDArray[Any]) -> pa.RecordBatch:
    """Gather rows by numbers that are known to be right: to check them takes as long again."""
    return pc.take(batch, pa.array(rows), boundscheck=False)


def take_array(values: pa.Array, rows: NDArray[Any]) -> pa.Array:
    """Gather values by numbers that are known to be right."""
    return pc.take(values, pa.array(rows), boundscheck=False)


def copy_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy that shares no memory with anything else."""
    return pa.concat_batches([batch, batch.slice(0, 0)])


def in_one_piece(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Concatenate batches, copying only if there is more than one."""
    batches = list(batches)
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in schema], schema=schema
        )
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"{sum(batch.num_rows for batch in batches):,} rows cannot be one batch of Arrow data "
            f"({error}): a column of strings or lists holds 2 GiB; cast such columns to "
            "large_string, large_binary or large_list, which hold more"
        ) from error


def coalesce_batches(
    batches: Iterable[pa.RecordBatch], least: int, enough_bytes: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Put small batches together, so that all but the last have ``least`` rows or more.

    Fewer are enough if they have ``enough_bytes``.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += 0 if enough_bytes is None else batch.nbytes
        if rows >= least or (enough_bytes is not None and size >= enough_bytes):
            yield in_one_piece(waiting, waiting[0].schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield in_one_piece(waiting, waiting[0].schema)


def measure_rows(batch: pa.RecordBatch) -> int:
    """Return how many bytes the values of a batch have.

    It follows from the values alone, unlike ``nbytes``, which also counts what buffers have beyond
    them: rows that were sent, and rows that were picked out of others, are equal and measure alike.
    """
    return sum(measure_values(column) for column in batch.columns)


def measure_values(column: pa.Array) -> int:
    """Return how many bytes the values of a column have, offsets included but not validity."""
    kind, rows = column.type, len(column)
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_struct(kind):
        fields = (column.field(place) for place in range(kind.num_fields))
        return sum(measure_values(field.slice(0, rows)) for field in fields)
    if pa.types.is_fixed_size_list(kind):
        return measure_values(
            column.values.slice(column.offset * kind.list_size, rows * kind.list_size)
        )
    is_long = kind.id in _LONG
    if is_long or kind.id in _SHORT:
        width = 8 if is_long else 4
        first, last = _ends_of(column, width)
        inner = last - first
        if pa.types.is_nested(kind):
            inner = measure_values(column.values.slice(first, inner))
        return rows * width + inner
    if (
        pa.types.is_primitive(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return -(-rows * kind.bit_width // 8)
    return int(column.nbytes)


def _ends_of(column: pa.Array, width: int) -> tuple[int, int]:
    """Return where the values of texts or lists begin and end."""
    offsets = column.buffers()[1]
    if not len(column) or offsets is None:
        return 0, 0
    ends = np.frombuffer(offsets, f"i{width}")
    return int(ends[column.offset]), int(ends[column.offset + len(column)])


def split_by_bytes(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch in halves until each part has so many bytes at most, or a single row."""
    if measure_rows(batch) <= most_bytes or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from split_by_bytes(batch.slice(0, half), most_bytes)
    yield from split_by_bytes(batch.slice(half), most_bytes)


def group_by_bytes(
    batches: Iterable[pa.RecordBatch], most_bytes: int
) -> Iterator[list[pa.RecordBatch]]:
    """Group neighbouring batches; a group of several has at most so many bytes."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        added = measure_rows(batch)
        if group and size + added > most_bytes:
            yield group
            group, size = [], 0
        group.append(batch)
        size += added
    if group:
        yield group


def check_unique(schema: pa.Schema, side: str) -> None:
    """Refuse a batch that has two columns of one name."""
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise SchemaError(
            f"the {side} batch has more than one column named {repeated[0]!r}; rename one of them"
        )


def joined_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """Return left's fields, then right's; right names that clash get ``_right``.

    >>> joined_schema(pa.schema({"id": "int64"}), pa.schema({"id": "int64", "x": "int8"})).names
    ['id', 'id_right', 'x']
    """
    fields, taken = list(left), set(left.names)
    for field in right:
        name = field.name
        while name in taken:
            name += "_right"
        taken.add(name)
        fields.append(field.with_name(name))
    return pa.schema(fields)
