"""Engines that stay in a worker process between micro-batches.

Spark reuses Python workers, but any of them may get any core, and a task may fail after its engine
took in its rows. So an engine is kept together with its last batch and the ids of the segments that
it holds, and whoever wants to go on with it compares these with the state:

* an engine that is a batch ahead has dropped rows that are still needed: it is thrown away;
* segments that the engine lacks, because the core's last batch ran in another worker, are added;
* segments that only the engine has must have left the window, or the engine is thrown away: a task
  that failed has left them.

An engine is taken out while it is used, so one that fails in the middle of a step is gone.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from streamjoin.joins.engine import Engine
from streamjoin.keys.operands import Side

MOST_BYTES = 1 << 30  # in one worker process, beside the engine used last


@dataclass
class Kept:
    """An engine, the segments it holds, each with its greatest time or ordinal, and its batch."""

    engine: Engine
    segments: dict[str, tuple[Side, int]] = field(default_factory=dict)
    batch: int = -1

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and indexes."""
        return self.engine.executor.nbytes


_KEPT: OrderedDict[str, Kept] = OrderedDict()


def take(owner: str) -> Kept | None:
    """Take a core's engine."""
    return _KEPT.pop(owner, None)


def keep(owner: str, kept: Kept) -> None:
    """Keep a core's engine; those that were not used for the longest time make room for it."""
    _KEPT[owner] = kept
    while len(_KEPT) > 1 and sum(each.nbytes for each in _KEPT.values()) > MOST_BYTES + kept.nbytes:
        _KEPT.popitem(last=False)


def clear() -> None:
    """Forget all engines."""
    _KEPT.clear()
