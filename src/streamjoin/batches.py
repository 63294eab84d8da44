"""Arrow data at the edge: anything Arrow-like in, one record batch; names of the joined columns."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamjoin.errors import SchemaError


def as_batch(data: Any) -> pa.RecordBatch:
    """Return ``data`` as one record batch, without a copy where it is in one piece already.

    Takes a RecordBatch, a Table, or whatever has the Arrow PyCapsule interface: pandas and polars
    DataFrames, DuckDB relations, and more.
    """
    if not isinstance(data, pa.RecordBatch | pa.Table):
        if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
            raise SchemaError(
                f"a batch of type {type(data).__name__} holds no Arrow data; pass a pyarrow "
                "RecordBatch or Table, or a pandas, polars or DuckDB frame"
            )
        try:
            data = pa.table(data)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise SchemaError(
                f"a batch of type {type(data).__name__} is no table of columns ({error}); pass "
                "named columns, such as a pyarrow Table or a pandas frame"
            ) from error
    plain = pa.schema([field.with_type(plain_type(field.type)) for field in data.schema])
    if plain.types != data.schema.types:
        data = data.cast(plain)
    if isinstance(data, pa.Table):
        data = in_one_piece(data.to_batches(), data.schema)
    return data.replace_schema_metadata(None)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with plain strings and binaries instead of views, which cannot be gathered.

    >>> plain_type(pa.list_(pa.string_view()))
    ListType(list<item: large_string>)
    """
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(plain_type(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        item = kind.value_field.with_type(plain_type(kind.value_type))
        return pa.list_(item, kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)))
    return kind


def take_rows(batch: pa.RecordBatch, rows: NDArray[Any]) -> pa.RecordBatch:
    """Gather rows by numbers that are known to be right: to check them takes as long again."""
    return pc.take(batch, pa.array(rows), boundscheck=False)


def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
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


def together(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together, so that all but the last have ``least`` rows or more."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= least:
            yield in_one_piece(waiting, waiting[0].schema)
            waiting, rows = [], 0
    if waiting:
        yield in_one_piece(waiting, waiting[0].schema)


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


def describe_change(expected: pa.Schema, found: pa.Schema) -> str:
    """Say how one schema differs from another, for an error message."""
    before = {field.name: field.type for field in expected}
    after = {field.name: field.type for field in found}
    changes = [f"{name!r} is missing" for name in before if name not in after]
    changes += [f"{name!r} is new" for name in after if name not in before]
    changes += [
        f"{name!r} was {before[name]} and is {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    return "; ".join(changes) or f"the order of the columns was {list(before)} and is {list(after)}"
