"""What a join on Spark gives: the names and types of its columns, for Arrow and for Spark.

::

    pairs             left's columns, then right's        rows that match nothing: the same
    semi, anti        those of one side
    aggregates        left's, then the aggregates
    after these       _match, _late ... if asked for, and the columns that order pairs

Computed keys stand behind the user's columns in the rows that the cores have, and are never given.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from streamjoin.joins.build import make_outcome
from streamjoin.joins.pairs.deliver import Names
from streamjoin.keys.operands import Schemas, Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.ordering import Ordering
from streamjoin.spark.planning.schemas import joined_names


def list_sides(config: JoinOptions) -> tuple[Side, ...]:
    """Return the sides whose columns are in the result."""
    return ("left",) if config.aggregate else config.how.sides


def result_schema(
    config: JoinOptions, schemas: Schemas, names: Names, ordering: Ordering | None
) -> pa.Schema:
    """Return the Arrow schema of results; ``names`` are the user's columns.

    Right names that clash with left's get ``_right``, in whatever case they are written.
    """
    fields = list(make_outcome(config, schemas, names).schema)
    if len(list_sides(config)) > 1:
        joined = joined_names(names["left"], names["right"])
        fields[: len(joined)] = [
            field.with_name(name) for field, name in zip(fields, joined, strict=False)
        ]
    return pa.schema([*fields, *([] if ordering is None else ordering.fields())])


def result_struct(structs: Mapping[Side, StructType], result: pa.Schema) -> StructType:
    """Return Spark's types of results; ``structs`` are those of the sides whose columns they have.

    Every column may be NULL: rows that carry metrics have no values.
    """
    kinds = [field.dataType for struct in structs.values() for field in struct.fields]
    kinds += [from_arrow_type(field.type, True) for field in list(result)[len(kinds) :]]
    return StructType([StructField(*field) for field in zip(result.names, kinds, strict=True)])
