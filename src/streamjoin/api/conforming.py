"""Casts later batches of a stream to the schema of the first.

Code that cuts a stream into frames does not control the types of each frame: pandas turns an
integer column with a gap into doubles, a text column without a value into NULLs, and gives a
category as many bits as this frame needs. So a later batch need not have the first one's schema. It
needs the same columns, in any order, with values that the first one's types hold unchanged::

    first     k int64        s string           t timestamp[us]
    later     t timestamp[ns]   k double        s null             columns found by name
              ... 000           1.0, NULL       NULL               cast: nothing is lost
    refused   ... 001           1.5             1                  named with the value and its row

A column without a value fits any type.

Invariant: a value that is cast and cast back is what it was. Where values cannot show that the
meaning is the same (text for a number, a local time for an instant), nothing is cast.

Cost: one comparison of schemas per batch while they are equal.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from streamjoin.errors import SchemaError

_LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list)


def _is_instant(kind: pa.DataType) -> bool:
    return types.is_timestamp(kind) and kind.tz is not None


def _is_local(kind: pa.DataType) -> bool:
    return types.is_timestamp(kind) and kind.tz is None


def _is_text(kind: pa.DataType) -> bool:
    return types.is_string(kind) or types.is_large_string(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return types.is_binary(kind) or types.is_large_binary(kind)


def _is_integer_or_float(kind: pa.DataType) -> bool:
    return types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind)


def _is_integer_or_decimal(kind: pa.DataType) -> bool:
    return types.is_integer(kind) or types.is_decimal(kind)


_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (  # Arrow checks each value between these
    _is_integer_or_float,
    _is_integer_or_decimal,
    _is_text,
    _is_bytes,
    _is_instant,
    _is_local,
    types.is_date,
    types.is_time,
    types.is_duration,
)


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema, side: str) -> pa.RecordBatch:
    """Cast the batch to the schema; refuse other columns, and values that would change."""
    if batch.schema == schema:
        return batch
    missing = [f"{name!r} is missing" for name in schema.names if name not in batch.schema.names]
    new = [f"{name!r} is new" for name in batch.schema.names if name not in schema.names]
    if missing or new or batch.num_columns != len(schema):
        raise _refusal(side, "; ".join(missing + new) or "a column came twice")
    columns = [_conform_column(batch.column(field.name), field, side) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def adopt_types(schema: pa.Schema, later: pa.Schema) -> pa.Schema:
    """Return the schema with types for the columns that have held only NULL so far.

    >>> adopt_types(pa.schema({"k": "int64", "s": "null"}), pa.schema({"s": "string", "k": "int8"}))
    k: int64
    s: string
    """
    known = {field.name: field.type for field in later}
    fields = []
    for field in schema:
        kind = known.get(field.name, field.type)
        adopts = _is_unknown(field.type) and _may_cast(field.type, kind)
        fields.append(field.with_type(kind) if adopts else field)
    return pa.schema(fields)


def has_unknown_types(schema: pa.Schema) -> bool:
    """Whether some column has held only NULL, or nothing at all, so far."""
    return any(_is_unknown(field.type) for field in schema)


def _is_unknown(kind: pa.DataType) -> bool:
    """Whether no value has shown the type yet, or none inside: empty lists."""
    if types.is_dictionary(kind):
        return _is_unknown(kind.value_type)
    parts = range(kind.num_fields) if types.is_nested(kind) else ()
    return types.is_null(kind) or any(_is_unknown(kind.field(part).type) for part in parts)


def _conform_column(array: pa.Array, field: pa.Field, side: str) -> pa.Array:
    if array.null_count == len(array):  # pandas stores such columns as doubles
        array = pa.nulls(len(array), field.type)
    change = f"{field.name!r} was {field.type} and is {array.type}"
    if not _may_cast(array.type, field.type):
        if _is_unknown(field.type):
            change += (
                " (in the first batches it had nothing but NULL, so its type was not known: give "
                "it one there, such as frame.astype({...}) in pandas or cast in Arrow)"
            )
        row = next(row for row, value in enumerate(array) if value.is_valid)
        raise _refusal(side, f"{change}, such as {_show(array[row])} in row {row}")
    cast = _try_cast(array, field.type)
    if cast is None:
        row = _find_misfit(array, field.type)
        value = _show(array[row])
        raise _refusal(side, f"{change}, and {value} in row {row} does not fit {field.type}")
    if cast.null_count and not field.nullable:
        raise _refusal(side, f"{field.name!r} was declared to have no NULL, and has some")
    return cast


def _may_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can become the other, unchanged and with the same meaning."""
    if given == wanted or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return _may_cast(given.value_type, wanted)
    if types.is_dictionary(wanted):
        return _may_cast(given, wanted.value_type)
    if all(any(is_list(kind) for is_list in _LISTS) for kind in (given, wanted)):
        return _may_cast(given.value_type, wanted.value_type)
    if types.is_struct(given) and types.is_struct(wanted):
        if [field.name for field in given] != [field.name for field in wanted]:
            return False
        return all(_may_cast(a.type, b.type) for a, b in zip(given, wanted, strict=True))
    if types.is_map(given) and types.is_map(wanted):
        keys = _may_cast(given.key_type, wanted.key_type)
        return keys and _may_cast(given.item_type, wanted.item_type)
    if types.is_floating(given) and types.is_floating(wanted):  # Arrow would round
        return given.bit_width <= wanted.bit_width
    return any(fits(given) and fits(wanted) for fits in _FAMILIES)


def _try_cast(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Cast, unless a value would change."""
    if array.type == wanted:
        return array
    try:
        if types.is_dictionary(array.type):
            return _try_cast(array.dictionary_decode(), wanted)
        if types.is_dictionary(wanted):
            values = _try_cast(array, wanted.value_type)
            return None if values is None else values.dictionary_encode().cast(wanted)
        if types.is_integer(array.type) and types.is_decimal(wanted):
            # Arrow wants room for any integer of the type, not just for the ones present.
            array = array.cast(pa.decimal256(76, 0))
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _find_misfit(array: pa.Array, wanted: pa.DataType) -> int:
    """Return a row that cannot be cast, by halving; there must be one."""
    first, count = 0, len(array)
    while count > 1:
        half = count // 2
        rows = array.take(pa.array(range(first, first + half)))  # casts of a slice of lists see all
        if _try_cast(rows, wanted) is None:
            count = half
        else:
            first, count = first + half, count - half
    return first


def _show(value: Any) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refusal(side: str, change: str) -> SchemaError:
    return SchemaError(
        f"the {side} batch's schema changed: {change}; cast the batch to the first one's schema, "
        "or make a new StreamJoin"
    )
