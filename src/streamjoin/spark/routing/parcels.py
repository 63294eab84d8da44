"""Parcels: many rows as one binary value, so that they pass through Spark's operators as one.

The data of a parcel are an Arrow IPC stream with one record batch. A summary for the receiver may
stand in the schema's metadata, as JSON. On their way to the cores, parcels are rows of these
columns::

    core    side   role       task  number  data
    label   0, 1   see Role   the task, and the parcel's place among its own: the same in any retry
"""

import json
from enum import IntEnum
from typing import Any, NamedTuple

import pyarrow as pa

SUMMARY = b"streamjoin"  # the key in the metadata
COLUMNS = "core int, side int, role int, task int, number int, data binary"
SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in ("core", "side", "role", "task", "number")),
        ("data", pa.binary()),
    ]
)


class Role(IntEnum):
    """What a core does with the rows of a parcel."""

    GUEST = -1  # keep them for others to probe; they live at another core
    STORE = 0  # keep them, and let them probe: they are at home here
    PROBE = 1  # let them probe; keep them as well if their side is `JoinSpec.replicated`
    PICK = 2  # every core gets these rows, and picks its own
    LIVE = 3  # let them probe only, but they live here; see `joins.lives`


class Parcel(NamedTuple):
    """A parcel without its address; sorted, parcels stand in one order on every core and retry."""

    side: int
    task: int
    number: int
    role: int
    data: bytes


def pack_rows(
    batch: pa.RecordBatch, summary: dict[str, Any] | None = None, codec: str | None = None
) -> bytes:
    """Write rows, and a summary if any; Spark itself compresses what it shuffles."""
    if summary is not None:
        batch = batch.replace_schema_metadata({SUMMARY: json.dumps(summary)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack_rows(data: bytes | pa.Buffer) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """Read rows and their summary, which is empty if there is none."""
    reader = pa.ipc.open_stream(data)
    summary = (reader.schema.metadata or {}).get(SUMMARY)
    batch = reader.read_next_batch().replace_schema_metadata(None)
    return batch, {} if summary is None else json.loads(summary)


def address_parcel(core: int, parcel: Parcel) -> pa.RecordBatch:
    """Return a parcel as a row for Spark, addressed to the core with this label."""
    values = (core, parcel.side, parcel.role, parcel.task, parcel.number, parcel.data)
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(values, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
