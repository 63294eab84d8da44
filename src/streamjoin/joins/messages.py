"""What travels down to the join cores and what comes back.

::

    Work     down    a step to probe with, whether to insert it, and how far the streams have come
    Part     up      matches, and a star: all matches of arrivals before ``upto`` have been sent
    Gathered         the same of all cores together
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamjoin.joins.executor import Batches, Clock, Deliver
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.kernels.interrupts import Lent
from streamjoin.keys.operands import Side


@dataclass(frozen=True)
class Step:
    """Batches that look for matches together; their arrivals, if numbered, lie in [first, last)."""

    number: int
    batches: Batches
    interleaved: bool = False
    first: int = 0
    last: int = 1
    deliver: Deliver | None = None  # what becomes of matches, if not joined rows
    is_last: bool = False  # a mark without rows: when it comes back, so has all before it
    holder: Lent | None = None  # tells whether it has been interrupted
    clock: Clock | None = None  # how far the streams have come, once it is inserted

    def arrivals(self, side: Side, places: RowIds | slice = slice(None)) -> Keys:
        """Return the arrivals of rows, by their places in a batch."""
        return self.batches[side].arrivals[places]


@dataclass(frozen=True)
class Work:
    """What every core does next; ``living`` are the cores among which rows are shared out."""

    living: tuple[int, ...]
    step: Step | None = None
    inserts: bool = False  # the rows of the step that has probed last
    clock: Clock | None = None


@dataclass(frozen=True)
class Problem:
    """Why a core has not found all matches of a step; if it has died, how many rows are lost."""

    core: int
    error: Exception
    lost: int | None = None


@dataclass(frozen=True)
class Span:
    """When a core worked on a step, by `time.perf_counter`."""

    core: int
    begun: float
    ended: float


@dataclass(frozen=True)
class Part:
    """Some matches of a step and a star: those of arrivals before ``upto`` are complete."""

    step: Step
    upto: int
    found: Mapping[Side, list[Any]] = field(default_factory=dict)  # by the side that found them
    ends: bool = False  # whether it is the last part of its step
    problems: tuple[Problem, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Gathered:
    """Matches of all cores, and a star: of arrivals before ``upto`` no more come."""

    step: Step
    since: int  # the star before
    upto: int
    found: list[Any]
    ends: bool  # whether it is the last of its step
    problems: tuple[Problem, ...] = ()
    spans: tuple[Span, ...] = ()
