"""The four commands that a manager sends to its workers (PanJoin III-A).

They are all that ever happens to a subwindow::

    create    a chain gets an empty subwindow, the new newest; the one before is sealed
    insert    rows join a subwindow, or its side index if they come late
    probe     rows look for matches in subwindows of the other stream
    expire    a subwindow leaves its chain; of a whole window, some of the rows
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import MIN_KEY
from streamjoin.plans.prepared import Prepared

if TYPE_CHECKING:
    from streamjoin.joins.candidates import Check
    from streamjoin.joins.sliding.chain import Chain


@dataclass(frozen=True)
class Create:
    """Begin a subwindow for about ``capacity`` rows."""

    chain: "Chain"
    capacity: int
    start: int = MIN_KEY  # time windows: rows from this time on belong to it


@dataclass(frozen=True)
class Insert:
    """Add rows to the newest subwindow or, with ``late``, to the side index of an older one."""

    chain: "Chain"
    batch: Prepared
    late: Subwindow | None = None


@dataclass(frozen=True)
class Probe:
    """Look for the matches of a batch's rows ``first`` to ``last``, in key order."""

    batch: Prepared
    targets: "list[tuple[Subwindow, list[Check]]]"  # where to look, and what is left to check there
    first: int
    last: int
    mirrored: bool = False  # self-joins: each match (a, b) stands for (b, a) too


@dataclass(frozen=True)
class Expire:
    """Drop a subwindow whose rows have all left the window or, with ``before``, older rows."""

    chain: "Chain"
    subwindow: Subwindow
    before: int | None = None  # whole windows: a time, or an ordinal


Command = Create | Insert | Probe | Expire
