"""Frames: many rows as one binary value, so that they pass through Spark's operators as one.

A frame is an Arrow IPC stream with one record batch. What else its receiver needs to know stands
as JSON in the schema's metadata. On their way to the cores, frames are rows of these columns::

    core    side   role       part  number  frame
    label   0, 1   see Role   the task, and the frame's place in it: the same in every retry
"""

import json
from enum import IntEnum
from typing import Any

import pyarrow as pa

KEY = b"streamjoin"
COLUMNS = "core int, side int, role int, part int, number int, frame binary"
SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in ("core", "side", "role", "part", "number")),
        ("frame", pa.binary()),
    ]
)


class Role(IntEnum):
    """What a core does with the rows of a frame."""

    STORE = 0  # keep them, and let them probe
    PROBE = 1  # let them probe only
    PICK = 2  # every core gets these rows, and picks its own


def pack(
    batch: pa.RecordBatch, facts: dict[str, Any] | None = None, codec: str | None = None
) -> bytes:
    """Write rows, and facts about them, as a frame; Spark compresses what it shuffles itself."""
    if facts is not None:
        batch = batch.replace_schema_metadata({KEY: json.dumps(facts)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(frame: bytes | pa.Buffer) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """Read a frame."""
    reader = pa.ipc.open_stream(frame)
    facts = (reader.schema.metadata or {}).get(KEY)
    batch = reader.read_next_batch().replace_schema_metadata(None)
    return batch, {} if facts is None else json.loads(facts)


def envelope(rows: list[tuple[int, int, Role, int, int, bytes]]) -> pa.RecordBatch:
    """Return frames as rows for Spark."""
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(values), field.type) for values, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
