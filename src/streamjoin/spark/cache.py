"""Engines that stay in a worker process between micro-batches.

Spark reuses Python workers, but any of them may get any core, and a batch may fail after its engine
took in its rows. So an engine is kept under the token that its last step wrote into the state, and
taken out, not looked at, by whoever finds that token there: a core that moved, failed or was set
back finds nothing under its token and rebuilds its engine from the segments.
"""

from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

from streamjoin.joins.engine import Engine

UNUSED = 600.0  # seconds after which an engine is dropped


@dataclass
class Kept:
    """An engine, whose it is, and since when it waits."""

    owner: str
    engine: Engine
    since: float


_KEPT: OrderedDict[str, Kept] = OrderedDict()


def take(token: str) -> Engine | None:
    """Take the engine that goes with a state."""
    kept = _KEPT.pop(token, None)
    return None if kept is None else kept.engine


def keep(token: str, owner: str, engine: Engine) -> None:
    """Keep an engine for its owner's next batch, and none that the owner had before."""
    now = monotonic()
    gone = [key for key, kept in _KEPT.items() if kept.owner == owner or now - kept.since > UNUSED]
    for key in gone:
        del _KEPT[key]
    _KEPT[token] = Kept(owner, engine, now)
