"""What a core keeps in Spark's state store: immutable segments, and a manifest that lists them.

::

    manifest          token, segments [id, side, rows, bytes, first, last], routing table, ...
    segments   17  -> rows that one micro-batch stored, as a frame
               18  -> ...

A micro-batch writes its rows as new segments and the manifest, and removes the segments whose rows
have all left the window. It reads no segment as long as the worker still has the core's engine in
memory: the manifest's token, new with every commit, tells whether that engine is the one that goes
with the state.

Many small segments are put together: when there are more than `MANY` of a side, the newest ones
that are together no smaller than the next older one become one, so a row is written O(log n) times.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.errors import SnapshotError
from streamjoin.joins.routing import RoutingTable
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Histogram
from streamjoin.spark import frames

MANY = 32  # segments of a side
ORDINAL = "__streamjoin_ordinal"  # count windows: each row's place in its stream


Span = tuple[int, int]  # the least and the greatest time or ordinal


class Segment(NamedTuple):
    """Some stored rows: where they are, and the least and the greatest time or ordinal."""

    id: int
    side: Side
    rows: int
    bytes: int
    first: int
    last: int


@dataclass
class Manifest:
    """All of a core's state but the rows."""

    facts: dict[str, Any]  # of the join that wrote it
    token: str = ""
    segments: list[Segment] = field(default_factory=list)
    next_id: int = 0
    arrived: dict[Side, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    table: RoutingTable | None = None
    histogram: Histogram | None = None
    newest: int | None = None  # the latest time of a row that any core has stored
    timer: int | None = None

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
        changes = [
            f"{name} was {self.facts.get(name)} and is {value}"
            for name, value in facts.items()
            if self.facts.get(name) != value
        ]
        if changes:
            raise SnapshotError(
                f"this checkpoint belongs to another join: {'; '.join(changes)}. Its state cannot "
                "serve this one: go back to the join that began it, or start this one with a new "
                "checkpointLocation"
            )

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

    def read(self, id_: int) -> bytes:
        """Return a segment."""

    def write(self, id_: int, data: bytes) -> None:
        """Add a segment."""

    def remove(self, id_: int) -> None:
        """Remove a segment."""

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""


class SparkStore:
    """The two state variables of the processor, for the core whose rows it was given."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.manifest = handle.getValueState("manifest", "data binary")
        self.segments = handle.getMapState("segments", "id long", "data binary")

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

    def read(self, id_: int) -> bytes:
        """Return a segment."""
        found = self.segments.getValue((id_,))
        if found is None:
            raise SnapshotError(
                f"segment {id_} is listed in the state but not there; the checkpoint is damaged: "
                "restore it from a copy, or start with a new checkpointLocation"
            )
        return bytes(found[0])

    def write(self, id_: int, data: bytes) -> None:
        """Add a segment."""
        self.segments.updateValue((id_,), (data,))

    def remove(self, id_: int) -> None:
        """Remove a segment."""
        self.segments.removeKey((id_,))

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""
        if instead_of is not None:
            self.handle.deleteTimer(instead_of)
        self.handle.registerTimer(milliseconds)


def add(store: Store, manifest: Manifest, side: Side, batch: pa.RecordBatch, span: Span) -> None:
    """Write rows as a new segment."""
    data = frames.pack(batch)
    segment = Segment(manifest.next_id, side, batch.num_rows, len(data), *span)
    manifest.next_id += 1
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
    rows = pa.concat_batches([batch for batch, _ in load(store, joined)])
    manifest.segments = [each for each in manifest.segments if each not in joined]
    for segment in joined:
        store.remove(segment.id)
    span = min(each.first for each in joined), max(each.last for each in joined)
    add(store, manifest, side, rows, span)


def load(store: Store, segments: list[Segment]) -> Iterator[tuple[pa.RecordBatch, Segment]]:
    """Read segments."""
    for segment in segments:
        yield frames.unpack(store.read(segment.id))[0], segment
