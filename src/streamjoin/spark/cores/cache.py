"""Engines that stay in a worker process between micro-batches.

Spark reuses Python workers, but any of them may get any core, and a task may fail after its engine
took in its rows. So an engine is cached with its last batch and the ids of the segments it holds,
and a core that wants to continue with it compares these with the state:

* an engine that is a batch ahead has dropped rows that are still needed: it is thrown away;
* segments that the engine lacks, because the core's last batch ran in another worker, are added;
* segments that only the engine has must have left the window. Otherwise a task that failed has left
  them there, and the engine is thrown away;
* so it is with the marks of rows that have matches (`state.mark_pages`): what the engine lacks is
  added, and it must have none that the state lacks;
* and with the newest time by which rows were given early: an engine must not be ahead of the state.

An engine is taken out while it is used, so one that fails in the middle of a step is gone.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from streamjoin.joins.engine import Engine
from streamjoin.keys.operands import Side
from streamjoin.spark.state.mark_pages import MarkBook
from streamjoin.spark.state.segments import Manifest, Segment

CACHE_BYTES = 1 << 30  # in one worker process, beside the engine used last


@dataclass
class CachedEngine:
    """An engine, the segments it holds, each with its greatest time or ordinal, and its batch."""

    engine: Engine
    segments: dict[str, tuple[Side, int]] = field(default_factory=dict)
    batch: int = -1
    book: MarkBook = field(default_factory=MarkBook)  # which rows are settled, if that counts
    newest: int | None = None  # the newest time by which it has given rows early

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and indexes."""
        return self.engine.executor.nbytes

    def note_segments(self, segments: Iterable[Segment]) -> None:
        """Note that the engine now holds these segments."""
        self.segments = {each.id: (each.side, each.last) for each in segments}

    def find_missing(self, segments: Iterable[Segment]) -> list[Segment]:
        """Return the segments of the state that the engine lacks."""
        return [each for each in segments if each.id not in self.segments]

    def find_extra(self, segments: Iterable[Segment]) -> list[tuple[Side, int]]:
        """Return side and greatest time or ordinal of the segments that only the engine has."""
        ids = {each.id for each in segments}
        return [held for id_, held in self.segments.items() if id_ not in ids]


_ENGINES: OrderedDict[str, CachedEngine] = OrderedDict()


def take_engine(owner: str, manifest: Manifest) -> CachedEngine | None:
    """Take a core's engine out, unless it is ahead of the batch that wrote the state."""
    cached = _ENGINES.pop(owner, None)
    if cached is None or cached.batch > manifest.batch:
        return None
    if cached.newest is not None and (manifest.newest is None or cached.newest > manifest.newest):
        return None
    return cached


def put_engine(owner: str, cached: CachedEngine) -> None:
    """Cache a core's engine; the engines unused for longest make room for it."""
    _ENGINES[owner] = cached
    most = CACHE_BYTES + cached.nbytes
    while len(_ENGINES) > 1 and sum(each.nbytes for each in _ENGINES.values()) > most:
        _ENGINES.popitem(last=False)
