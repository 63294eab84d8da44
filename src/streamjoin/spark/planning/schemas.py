"""Spark's types and Arrow's: what a DataFrame's columns are when they reach Python."""

import inspect
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
)

from streamjoin.errors import SchemaError

# PySpark 4.3 has to be given the time zone that labels timestamps; before, it was always UTC.
_ZONE: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: StructType, side: str) -> pa.Schema:
    """Return the Arrow schema in which rows of a DataFrame reach Python."""
    try:
        return to_arrow_schema(schema, **_ZONE)
    except Exception as error:
        raise SchemaError(
            f"the {side} input has a column that cannot be passed to Python ({error}); drop it, "
            "or cast it to a type that Arrow has"
        ) from error


def joined_names(left: Iterable[str], right: Iterable[str]) -> list[str]:
    """Return left's names, then right's; right names that clash get ``_right``.

    Names clash here as they do in Spark, whatever their case. In Arrow, where `joined_schema` does
    the same, ``id`` and ``ID`` are two columns.

    >>> joined_names(["id"], ["ID", "x"])
    ['id', 'ID_right', 'x']
    """
    names = list(left)
    taken = {name.lower() for name in names}
    for name in right:
        while name.lower() in taken:
            name += "_right"
        taken.add(name.lower())
        names.append(name)
    return names


def plain_names(count: int) -> list[str]:
    """Return names for columns on their way through Python.

    There, Spark looks columns up by their bare names, which fails for ``a.b``.
    """
    return [f"c{number}" for number in range(count)]


def name_plainly(schema: StructType) -> StructType:
    """Return the same types under `plain_names`."""
    names = plain_names(len(schema))
    return StructType(
        [StructField(name, field.dataType) for name, field in zip(names, schema, strict=True)]
    )


def is_flat(schema: StructType) -> bool:
    """Whether pandas can carry every column as an Arrow array, without looking at values."""
    nested = (ArrayType, MapType, StructType, UserDefinedType, VariantType)
    return not any(isinstance(field.dataType, nested) for field in schema)


def is_collated(kind: DataType) -> bool:
    """Whether values are text that is not compared byte by byte."""
    return isinstance(kind, StringType) and kind.collation not in (None, "UTF8_BINARY")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the schema of the plan: time zones and large types are labels only."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ],
        schema=schema,
    )
