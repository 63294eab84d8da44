"""The bytes of a snapshot: a header and named parts, all of them under checksums.

::

    8 bytes    b"sj-state"
    4 bytes    the format number
    4 bytes    CRC-32 of the header
    8 bytes    the length of the header
    header     JSON: what the writer puts there, and each part's name, length and CRC-32
    parts      one after the other; Arrow IPC, so that each begins at a multiple of 8 bytes

Numbers are little-endian and unsigned. Reading copies nothing: a part is a view of the bytes.
CRC-32 detects every change within 32 consecutive bits, and misses one in four billion of the
others. It guards against damage, not against an attacker, who can recompute it, so `snapshots`
checks what it reads as well. Cost: the checksums of 1 GB take half a second; parts are summed in
parallel. (BLAKE2b takes four times as long, SHA-256 nearly twice.)
"""

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any
from zlib import crc32

import pyarrow as pa

from streamjoin.errors import SnapshotError
from streamjoin.kernels.threads import share

MAGIC = b"sj-state"
PREFIX = Struct("<8sIIQ")
OLD = b"\xff\xff\xff\xff"  # formats up to 4 began with this, as all Arrow IPC streams do
OLD_KEY = b"streamjoin"
NO_SNAPSHOT = (
    "these {:,} bytes are no snapshot of a StreamJoin, or not all of one; pass what snapshot() gave"
)
DAMAGED = (
    "this snapshot is damaged: {} is not as it was written; take another copy of what snapshot() "
    "gave, or an older snapshot"
)
Parts = Mapping[str, memoryview]


def write_parts(
    header: dict[str, Any], parts: Mapping[str, pa.Buffer], form: int, threads: int = 1
) -> bytes:
    """Return the bytes of a header and parts."""
    views = [memoryview(part) for part in parts.values()]
    sums = share(crc32, views, threads)
    sizes = [view.nbytes for view in views]
    contents = [list(each) for each in zip(parts, sizes, sums, strict=True)]
    text = json.dumps(header | {"parts": contents}).encode()
    text += b" " * (-len(text) % 8)
    prefix = PREFIX.pack(MAGIC, form, crc32(text), len(text))
    return b"".join([prefix, text, *views])


def read_parts(data: Any, form: int, threads: int = 1) -> tuple[dict[str, Any], Parts]:
    """Return header and parts exactly as they were written; refuse anything else."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SnapshotError(
            f"a snapshot is bytes, and this is a {type(data).__name__}: {data!r:.100}"
        )
    view = memoryview(data)
    if not (view.readonly and view.c_contiguous):  # parts are views, so the bytes must not change
        view = memoryview(view.tobytes())
    view = view.cast("B") if view.nbytes else memoryview(b"")
    prefix = view[: PREFIX.size].tobytes()
    if prefix[:4] == OLD and OLD_KEY in view[: 1 << 20].tobytes():
        raise SnapshotError(refuse_format("4 or lower", form))
    if len(prefix) < PREFIX.size or not prefix.startswith(MAGIC):
        raise SnapshotError(NO_SNAPSHOT.format(view.nbytes))
    _, found, checksum, size = PREFIX.unpack(prefix)
    if found != form:
        raise SnapshotError(refuse_format(found, form))
    text = view[PREFIX.size : PREFIX.size + size]
    if text.nbytes < size:
        raise SnapshotError(NO_SNAPSHOT.format(view.nbytes))
    if crc32(text) != checksum:
        raise SnapshotError(DAMAGED.format("its header"))
    return _cut_parts(view, PREFIX.size + size, text.tobytes(), threads)


def _cut_parts(
    view: memoryview, at: int, text: bytes, threads: int
) -> tuple[dict[str, Any], Parts]:
    """Cut what follows the header into parts, and compare their checksums."""
    try:
        header = json.loads(text)
        contents = [(str(name), int(size), crc) for name, size, crc in header.pop("parts")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SnapshotError(DAMAGED.format("its header")) from error
    parts: dict[str, memoryview] = {}
    for name, size, _ in contents:
        parts[name] = view[at : at + max(size, 0)]
        at += max(size, 0)
    if at != view.nbytes or len(parts) < len(contents):
        raise SnapshotError(NO_SNAPSHOT.format(view.nbytes))
    sums = share(crc32, list(parts.values()), threads)
    for (name, _, crc), found in zip(contents, sums, strict=True):
        if crc != found:
            raise SnapshotError(DAMAGED.format(f"its part {name!r}"))
    return header, parts


def refuse_format(found: int | str, form: int) -> str:
    """Say that a snapshot is of another version."""
    return (
        f"the snapshot has format {found}, and this version of streamjoin reads {form}; restore it "
        "with the version that wrote it"
    )
