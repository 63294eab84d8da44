"""What a core keeps in Spark's state store: immutable segments, and a manifest that lists them.

::

    manifest            segments [id, side, rows, bytes, size, last], routing table, ...
    segments   7-left-0-8f3a..  -> rows that micro-batch 7 stored, as a frame
               7-right-0-c07e.. -> ...

A micro-batch writes its rows as new segments and the manifest, and removes the segments whose rows
have all left the window. It reads only those segments that the worker's engine does not hold.

**Two attempts of one task write the same bytes.** Spark may run a task again after its state was
committed: the sink failed behind the join, or a speculative copy was as fast. Its older checkpoint
format (version 1) then goes on with the state of either attempt, and reads the files of the other.
So all that is written follows from the state before and the rows of the batch: an id is made of
batch, side, a running number and a digest of the data.

**Nothing damaged is taken for rows.** The digest in an id is compared with what is read, and the
manifest carries one of itself. A copy of a segment that is damaged is read from the state store
instead; what is damaged there is a `SnapshotError`.

Many small segments are put together: when there are more than `MANY` of a side, the newest ones
that are together no smaller than the next older one become one, so a row is written O(log n) times.
No segment has more than `MOST_BYTES`, so that any of them fits into one Arrow column of text (2
GiB) and five times into the heap of an executor: so often it is there, as a message, a pickle and
a row, while it is written. Those with more than half of it stay as they are.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.errors import SnapshotError
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Histogram
from streamjoin.plans.batches import cut
from streamjoin.spark.routing import parcels as frames
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.state import shared_files as folders
from streamjoin.spark.state.facts import differ
from streamjoin.spark.state.sealing import digest, seal, unseal
from streamjoin.spark.tasks import Moment

MANY = 32  # segments of a side that are small enough to be put together
MOST_BYTES = 1 << 24  # of a segment's rows, before compression
WAY_OUT = "restore the checkpoint from a copy, or start with a new checkpointLocation"
MANIFEST, SEGMENTS = "manifest", "segments"  # the state variables
ORDINAL = "__streamjoin_ordinal"  # where rows are numbered: each one's place in its stream


class Segment(NamedTuple):
    """Some stored rows: where they are, and the greatest time or ordinal among them."""

    id: str
    side: Side
    rows: int
    bytes: int  # in the state store, compressed
    size: int  # in memory, in bytes
    last: int


@dataclass
class Manifest:
    """All of a core's state but the rows."""

    facts: dict[str, Any]  # of the join that wrote it
    segments: list[Segment] = field(default_factory=list)
    arrived: dict[Side, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    table: RoutingTable | None = None
    histogram: Histogram | None = None
    newest: int | None = None  # the latest time of a row that any core has stored
    timer: int | None = None
    batch: int = -1  # that wrote it last, and the watermark of that batch
    watermark_ms: int = 0
    windows: dict[str, Any] = field(default_factory=dict)  # that are open, and joined eagerly

    def to_bytes(self) -> bytes:
        """Write as JSON, together with a digest of it."""
        saved = {
            **asdict(self),
            "segments": [list(segment) for segment in self.segments],
            "table": self.table and self.table.to_json(),
            "histogram": self.histogram
            and [each.tolist() for each in vars(self.histogram).values()],
        }
        return seal(json.dumps(saved, sort_keys=True).encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """Read what `to_bytes` wrote."""
        content = unseal(data)
        if content is None:
            raise SnapshotError(
                f"the manifest of the state, {len(data)} bytes, is damaged, or another version of "
                f"streamjoin wrote it; {WAY_OUT}"
            )
        saved = json.loads(content)
        saved["segments"] = [Segment(*segment) for segment in saved["segments"]]
        saved["table"] = saved["table"] and RoutingTable.from_json(saved["table"])
        saved["histogram"] = saved["histogram"] and histogram_of(saved["histogram"])
        return cls(**saved)

    def check(self, facts: dict[str, Any]) -> None:
        """Refuse to go on with a state that another join has written."""
        changes = differ(self.facts, facts)
        if changes:
            raise SnapshotError(
                f"this checkpoint belongs to another join: {'; '.join(changes)}. Its state cannot "
                "serve this one: go back to the join that began it, or start this one with a new "
                "checkpointLocation"
            )
        self.facts = facts  # where they are worded differently

    def of(self, side: Side) -> list[Segment]:
        """Return the segments of one side, oldest first."""
        return [segment for segment in self.segments if segment.side == side]


def histogram_of(saved: list[list[int]]) -> Histogram:
    """Make a histogram from its lists."""
    return Histogram(*(np.array(each, np.int64) for each in saved))


class Store(Protocol):
    """Spark's state store as a core sees it."""

    def read_manifest(self) -> bytes | None:
        """Return the manifest, if there is one."""

    def write_manifest(self, data: bytes | None) -> None:
        """Replace or, with None, remove it."""

    def read(self, id_: str) -> bytes | None:
        """Return a segment, if it is there."""

    def find_copy(self, id_: str) -> bytes | None:
        """Return what may be a segment, from where it is read faster."""

    def write(self, id_: str, data: bytes) -> None:
        """Add a segment."""

    def remove(self, id_: str) -> None:
        """Remove a segment."""

    def keep_copies(self, ids: Collection[str]) -> None:
        """Remove the copies of other segments than these."""

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""


class SparkStore:
    """The two state variables of the processor, for the core whose rows it was given.

    A segment also goes to a file, where the executor's other workers find it: reading from the
    state store takes ten times as long.
    """

    def __init__(self, handle: Any, name: str) -> None:
        self.handle, self.name = handle, name
        self.folder: Path | None = None  # for copies
        self.manifest = handle.getValueState(MANIFEST, "data binary")
        self.segments = handle.getMapState(SEGMENTS, "id string", "data binary")

    def open_core(self, label: int, moment: Moment) -> None:
        """Find the folder for the copies of a core's segments."""
        name = sha256(f"{self.name}/{label}".encode()).hexdigest()[:32]
        self.folder = folders.folder(moment.owner, name)

    def read_manifest(self) -> bytes | None:
        """Return the manifest, if there is one."""
        found = self.manifest.get()
        return None if found is None else bytes(found[0])

    def write_manifest(self, data: bytes | None) -> None:
        """Replace or, with None, remove it."""
        if data is None:
            self.manifest.clear()
        else:
            self.manifest.update((data,))

    def read(self, id_: str) -> bytes | None:
        """Return a segment, if it is there."""
        found = self.segments.getValue((id_,))
        return None if found is None else bytes(found[0])

    def find_copy(self, id_: str) -> bytes | None:
        """Return what may be a segment, from a file."""
        return None if self.folder is None else folders.read(self.folder / id_)

    def write(self, id_: str, data: bytes) -> None:
        """Add a segment."""
        self.segments.updateValue((id_,), (data,))
        if self.folder is not None:
            folders.write(self.folder / id_, data)

    def remove(self, id_: str) -> None:
        """Remove a segment."""
        self.segments.removeKey((id_,))
        if self.folder is not None:
            folders.remove(self.folder / id_)

    def keep_copies(self, ids: Collection[str]) -> None:
        """Remove the files of other segments than these; the core may have been elsewhere."""
        if self.folder is not None:
            folders.remove_others(self.folder, ids)

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""
        if instead_of is not None:
            self.handle.deleteTimer(instead_of)
        self.handle.registerTimer(milliseconds)


def add(
    store: Store, manifest: Manifest, batch: int, side: Side, rows: pa.RecordBatch, last: int
) -> None:
    """Write rows as a new segment of a micro-batch, or as several if they are many."""
    for part in cut(rows, MOST_BYTES):
        data = frames.pack(part, codec="lz4")
        prefix = f"{batch}-{side}-"
        number = sum(each.id.startswith(prefix) for each in manifest.segments)
        id_ = f"{prefix}{number}-{digest(data)}"
        store.write(id_, data)
        manifest.segments.append(Segment(id_, side, part.num_rows, len(data), part.nbytes, last))


def expire(store: Store, manifest: Manifest, needed: dict[Side, int]) -> None:
    """Remove the segments whose rows all come before the time, or the ordinal, that is needed."""
    for segment in manifest.segments:
        if segment.last < needed[segment.side]:
            store.remove(segment.id)
    manifest.segments = [each for each in manifest.segments if each.last >= needed[each.side]]


def compact(store: Store, manifest: Manifest, batch: int, side: Side) -> None:
    """Put small segments together if there are many, in this micro-batch."""
    held = small(manifest.of(side))
    if len(held) <= MANY:
        return
    count, rows, size = 1, held[-1].rows, held[-1].size
    while count < len(held):
        older = held[-count - 1]
        if older.rows > rows or size + older.size > MOST_BYTES:
            break
        count, rows, size = count + 1, rows + older.rows, size + older.size
    joined = held[-max(count, 2) :]  # two are never too large
    whole = pa.concat_batches([read(store, segment) for segment in joined])
    manifest.segments = [each for each in manifest.segments if each not in joined]
    for segment in joined:
        store.remove(segment.id)
    add(store, manifest, batch, side, whole, max(each.last for each in joined))


def small(segments: list[Segment]) -> list[Segment]:
    """Return the newest segments, up to one that stays as it is."""
    for place in range(len(segments), 0, -1):
        if 2 * segments[place - 1].size > MOST_BYTES:
            return segments[place:]
    return segments


def share(segments: list[Segment], most: int) -> list[list[Segment]]:
    """Divide segments into neighbours that have at most so many bytes together."""
    shares: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if not shares or size + segment.size > most:
            shares.append([])
            size = 0
        shares[-1].append(segment)
        size += segment.size
    return shares


def read(store: Store, segment: Segment) -> pa.RecordBatch:
    """Return the rows of a segment, as they were written."""
    wanted = segment.id.rpartition("-")[2]
    data = store.find_copy(segment.id)
    if data is None or digest(data) != wanted:
        data = store.read(segment.id)
        if data is None:
            raise SnapshotError(
                f"segment {segment.id} is listed in the state but not there: the checkpoint is "
                f"damaged; {WAY_OUT}"
            )
        if digest(data) != wanted:
            raise SnapshotError(
                f"segment {segment.id}, {len(data)} bytes, is not what was written: the checkpoint "
                f"is damaged; {WAY_OUT}"
            )
    return frames.unpack(data)[0]
