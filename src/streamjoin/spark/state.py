"""What a core keeps in Spark's state store: immutable segments, and a manifest that lists them.

::

    manifest            segments [id, side, rows, bytes, last], routing table, ...
    segments   8f3a  -> rows that one micro-batch stored, as a frame
               c07e  -> ...

A micro-batch writes its rows as new segments and the manifest, and removes the segments whose rows
have all left the window. It reads only those segments that the worker's engine does not hold. Ids
are random, so that a segment which a failed task wrote is never taken for another.

Many small segments are put together: when there are more than `MANY` of a side, the newest ones
that are together no smaller than the next older one become one, so a row is written O(log n) times.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa

from streamjoin.errors import SnapshotError
from streamjoin.joins.routing import RoutingTable
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Histogram
from streamjoin.spark import folders, frames
from streamjoin.spark.facts import differ
from streamjoin.spark.hints import Moment

MANY = 32  # segments of a side
ORDINAL = "__streamjoin_ordinal"  # where rows are numbered: each one's place in its stream


class Segment(NamedTuple):
    """Some stored rows: where they are, and the greatest time or ordinal among them."""

    id: str
    side: Side
    rows: int
    bytes: int
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
        """Write as JSON."""
        saved = {
            **asdict(self),
            "segments": [list(segment) for segment in self.segments],
            "table": self.table and self.table.to_json(),
            "histogram": self.histogram
            and [each.tolist() for each in vars(self.histogram).values()],
        }
        return json.dumps(saved).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """Read what `to_bytes` wrote."""
        saved = json.loads(data)
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

    def read(self, id_: str) -> bytes:
        """Return a segment."""

    def write(self, id_: str, data: bytes) -> None:
        """Add a segment."""

    def remove(self, id_: str) -> None:
        """Remove a segment."""

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""


class SparkStore:
    """The two state variables of the processor, for the core whose rows it was given.

    A segment also goes to a file, where the executor's other workers find it: reading from the
    state store takes ten times as long.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.manifest = handle.getValueState("manifest", "data binary")
        self.segments = handle.getMapState("segments", "id string", "data binary")

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

    def read(self, id_: str) -> bytes:
        """Return a segment."""
        copy = folders.read(self._copy(id_))
        if copy is not None:
            return copy
        found = self.segments.getValue((id_,))
        if found is None:
            raise SnapshotError(
                f"segment {id_} is listed in the state but not there; the checkpoint is damaged: "
                "restore it from a copy, or start with a new checkpointLocation"
            )
        return bytes(found[0])

    def write(self, id_: str, data: bytes) -> None:
        """Add a segment."""
        self.segments.updateValue((id_,), (data,))
        folders.write(self._copy(id_), data)

    def remove(self, id_: str) -> None:
        """Remove a segment."""
        self.segments.removeKey((id_,))
        self._copy(id_).unlink(missing_ok=True)

    def _copy(self, id_: str) -> Path:
        moment = Moment.current()
        assert moment is not None
        return folders.folder(moment.owner) / id_

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""
        if instead_of is not None:
            self.handle.deleteTimer(instead_of)
        self.handle.registerTimer(milliseconds)


def add(store: Store, manifest: Manifest, side: Side, batch: pa.RecordBatch, last: int) -> None:
    """Write rows as a new segment."""
    data = frames.pack(batch, codec="lz4")
    segment = Segment(uuid4().hex, side, batch.num_rows, len(data), last)
    store.write(segment.id, data)
    manifest.segments.append(segment)


def expire(store: Store, manifest: Manifest, needed: dict[Side, int]) -> None:
    """Remove the segments whose rows all come before the time, or the ordinal, that is needed."""
    for segment in manifest.segments:
        if segment.last < needed[segment.side]:
            store.remove(segment.id)
    manifest.segments = [each for each in manifest.segments if each.last >= needed[each.side]]


def compact(store: Store, manifest: Manifest, side: Side) -> None:
    """Put small segments together if there are many."""
    held = manifest.of(side)
    if len(held) <= MANY:
        return
    count, size = 1, held[-1].rows
    while count < len(held) and held[-count - 1].rows <= size:
        size += held[-count - 1].rows
        count += 1
    joined = held[-max(count, 2) :]
    rows = pa.concat_batches(load(store, joined))
    manifest.segments = [each for each in manifest.segments if each not in joined]
    for segment in joined:
        store.remove(segment.id)
    add(store, manifest, side, rows, max(each.last for each in joined))


def load(store: Store, segments: list[Segment]) -> list[pa.RecordBatch]:
    """Read the rows of segments."""
    return [frames.unpack(store.read(segment.id))[0] for segment in segments]
