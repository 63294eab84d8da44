"""What a core keeps in Spark's state store: immutable segments, and a manifest that lists them.

::

    manifest            segments [id, side, rows, bytes, size, last, runs], routing table, ...
    segments   7-left-0-8f3a..     -> rows that micro-batch 7 stored, as in a parcel
               7-right-0-c07e..    -> ...
               marks-left-1-5d11.. -> which rows are settled, if that counts (`state.mark_pages`)

A micro-batch writes its rows as new segments and the manifest, and removes the segments whose rows
have all left the window. It reads only those segments that the worker's engine does not hold.

**Two attempts of one task write the same bytes.** Spark may run a task again after its state was
committed: the sink failed behind the join, or a speculative copy was as fast. With its older
checkpoint format (version 1), Spark then continues from the state of either attempt, and reads the
files of the other. So all that is written follows from the state before and the rows of the batch:
an id is made of batch, side, a running number and a digest of the data. Rows are copied before they
are written: equal rows may have come with different bytes behind their texts, or with flags that
say that no value is NULL, depending on how they were sent.

**Damage is never taken for rows.** The digest in an id is compared with what is read, and the
manifest carries one of itself. A segment whose copy is damaged is read from the state store
instead; damage there is a `SnapshotError`.

Many small segments are put together: when there are more than `SMALL_SEGMENTS` of a side, the
newest ones that are together no smaller than the next older one become one, so a row is written
O(log n) times. No segment has more than `SEGMENT_BYTES`, so that any of them fits into one Arrow
column of text (2 GiB) and five times into the heap of an executor, which holds it that often while
it is written: as a message, a pickle and a row. Segments of more than half of that stay as they
are.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamjoin.errors import SnapshotError
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Histogram
from streamjoin.plans.batches import copy_batch, measure_rows, split_by_bytes
from streamjoin.spark.routing.parcels import pack_rows, unpack_rows
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.state.digests import digest, seal, unseal
from streamjoin.spark.state.join_facts import find_changes
from streamjoin.spark.state.store import Store

SMALL_SEGMENTS = 32  # of a side, at most: if there are more, some are put together
SEGMENT_BYTES = 1 << 24  # of a segment's rows at most, before compression
WAY_OUT = "restore the checkpoint from a copy, or start with a new checkpointLocation"
ORDINAL = "__streamjoin_ordinal"  # where rows are numbered: each one's place in its stream


Run = tuple[int, int]  # the first of some numbers in a row, and how many there are


class Segment(NamedTuple):
    """Some stored rows: where they are, and the greatest time or ordinal among them."""

    id: str
    side: Side
    rows: int
    bytes: int  # in the state store, compressed
    size: int  # in memory, in bytes
    last: int
    runs: tuple[Run, ...] = ()  # of its rows' numbers, where these are numbered


class Page(NamedTuple):
    """Some marks of stored rows: where they are; see `state.mark_pages`."""

    id: str
    side: Side
    number: int


@dataclass
class Manifest:
    """All of a core's state except the rows; its fields are a format."""

    facts: dict[str, Any]  # of the join that wrote it
    segments: list[Segment] = field(default_factory=list)
    arrived: dict[Side, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    table: RoutingTable | None = None
    histogram: Histogram | None = None
    # The latest time of a row that any core has stored or, where rows may be given early, of any
    # row that has come: those whose patience has run out by it were given, if they had no match.
    newest: int | None = None
    timer: int | None = None
    batch: int = -1  # that wrote it last, and below, the watermark of that batch
    watermark_ms: int = 0
    windows: dict[str, Any] = field(default_factory=dict)  # that are open, and joined eagerly
    # Where it counts whether rows match: which are settled, how many rows were numbered so far, and
    # up to which watermark none that is not settled is due.
    marks: list[Page] = field(default_factory=list)
    numbered: dict[Side, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    due: int | None = None

    def to_bytes(self) -> bytes:
        """Write as JSON, together with a digest of it."""
        saved = {
            **asdict(self),
            "segments": [list(segment) for segment in self.segments],
            "marks": [list(page) for page in self.marks],
            "table": self.table and self.table.to_json(),
            "histogram": self.histogram and self.histogram.to_lists(),
        }
        return seal(json.dumps(saved, sort_keys=True).encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """Read what `to_bytes` wrote."""
        content = unseal(data)
        try:
            if content is not None:
                return cls._from_json(json.loads(content))
        except (TypeError, KeyError):
            pass  # it has other fields
        raise SnapshotError(
            f"the manifest of the state, {len(data)} bytes, is damaged, or another version of "
            f"streamjoin wrote it; {WAY_OUT}"
        )

    @classmethod
    def _from_json(cls, saved: dict[str, Any]) -> "Manifest":
        saved["segments"] = [read_entry(segment) for segment in saved["segments"]]
        saved["marks"] = [Page(*page) for page in saved.get("marks", ())]
        saved["table"] = saved["table"] and RoutingTable.from_json(saved["table"])
        saved["histogram"] = saved["histogram"] and Histogram.from_lists(saved["histogram"])
        return cls(**saved)

    def check(self, facts: dict[str, Any]) -> None:
        """Refuse to continue from a state that another join has written."""
        changes = find_changes(self.facts, facts)
        if changes:
            raise SnapshotError(
                f"this checkpoint belongs to another join: {'; '.join(changes)}. Its state cannot "
                "serve this one: go back to the join that began it, or start this one with a new "
                "checkpointLocation"
            )
        self.facts = facts  # the latest wording

    def of(self, side: Side) -> list[Segment]:
        """Return the segments of one side, oldest first."""
        return [segment for segment in self.segments if segment.side == side]


def read_entry(saved: list[Any]) -> Segment:
    """Read the entry of a segment; earlier ones have no runs."""
    segment = Segment(*saved)
    return segment._replace(runs=tuple((first, count) for first, count in segment.runs))


def write_segments(
    store: Store,
    manifest: Manifest,
    batch: int,
    side: Side,
    rows: pa.RecordBatch,
    last: int,
    runs: Sequence[Run] = (),
) -> None:
    """Write rows as a new segment of a micro-batch, or as several if they are many."""
    for part in split_by_bytes(rows, SEGMENT_BYTES):
        own, runs = cut_runs(runs, part.num_rows)
        data = pack_rows(copy_batch(part), codec="lz4")
        prefix = f"{batch}-{side}-"
        number = sum(each.id.startswith(prefix) for each in manifest.segments)
        id_ = f"{prefix}{number}-{digest(data)}"
        store.write(id_, data)
        manifest.segments.append(
            Segment(id_, side, part.num_rows, len(data), measure_rows(part), last, own)
        )


def cut_runs(runs: Sequence[Run], count: int) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Return the runs of the first ``count`` rows, and those of the others."""
    before: list[Run] = []
    for place, (first, size) in enumerate(runs):
        if size > count:
            cut = ((first, count),) if count else ()
            return (*before, *cut), ((first + count, size - count), *runs[place + 1 :])
        before.append((first, size))
        count -= size
    return tuple(before), ()


def join_runs(every: Iterable[Run]) -> list[Run]:
    """Return runs as fewer ones: two that follow each other are one."""
    joined: list[Run] = []
    for first, count in every:
        if joined and sum(joined[-1]) == first:
            first, count = joined[-1][0], joined.pop()[1] + count
        joined.append((first, count))
    return joined


def list_numbers(segments: Iterable[Segment]) -> Keys:
    """Return the numbers of the rows of segments."""
    runs = [np.arange(first, first + count) for each in segments for first, count in each.runs]
    return np.concatenate([np.empty(0, np.int64), *runs])


def expire_segments(store: Store, manifest: Manifest, needed: dict[Side, int]) -> None:
    """Remove the segments whose rows all come before the time, or ordinal, that is needed."""
    for segment in manifest.segments:
        if segment.last < needed[segment.side]:
            store.remove(segment.id)
    manifest.segments = [each for each in manifest.segments if each.last >= needed[each.side]]


def compact_segments(store: Store, manifest: Manifest, batch: int, side: Side) -> None:
    """Put small segments of a side together if there are many."""
    small = find_small(manifest.of(side))
    if len(small) <= SMALL_SEGMENTS:
        return
    count, rows, size = 1, small[-1].rows, small[-1].size
    while count < len(small):
        older = small[-count - 1]
        if older.rows > rows or size + older.size > SEGMENT_BYTES:
            break
        count, rows, size = count + 1, rows + older.rows, size + older.size
    joined = small[-max(count, 2) :]  # two are never too large
    whole = pa.concat_batches([read_segment(store, segment) for segment in joined])
    manifest.segments = [each for each in manifest.segments if each not in joined]
    for segment in joined:
        store.remove(segment.id)
    runs = join_runs(run for each in joined for run in each.runs)
    write_segments(store, manifest, batch, side, whole, max(each.last for each in joined), runs)


def find_small(segments: list[Segment]) -> list[Segment]:
    """Return the newest segments, up to the first that is large enough to stay as it is."""
    for place in range(len(segments), 0, -1):
        if 2 * segments[place - 1].size > SEGMENT_BYTES:
            return segments[place:]
    return segments


def group_segments(segments: list[Segment], most_bytes: int) -> list[list[Segment]]:
    """Group neighbouring segments; a group of several has at most ``most_bytes`` in memory."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if not groups or size + segment.size > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(segment)
        size += segment.size
    return groups


def read_segment(store: Store, segment: Segment) -> pa.RecordBatch:
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
    return unpack_rows(data)[0]
