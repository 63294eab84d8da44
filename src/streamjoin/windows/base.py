"""What a window says of itself; the rest of the package asks it, and never for its type.

A window is a frozen dataclass in a file of its own. It holds its fields and checks them, reads and
prints itself as text and as JSON, and answers three questions with yes or no (`Window.is_timed`,
`Window.closes`, `Window.follows_rows`). What a join does with it follows from its `Shape`: numbers
that `plans.binding` turns into parts of a plan, and `joins.sliding.sizes` into subwindows.

To add a window: one file here, one line in ``windows/__init__``, its name in the package's
``__init__``; and, if no `Shape` describes it, a field of that, its part of a plan, and a join.

Invariants of every window, which ``tests/windows/test_contract.py`` holds each of them to:

1. ``window.flip().flip() == window``.
2. ``repr(window)`` builds an equal window; ``str(window)`` is the same without quotes.
3. ``read_window(window.to_json())`` is an equal window: no two windows have the same field names.
4. Each of ``texts`` is read as a window of this type.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

LARGEST = 2**63 - 1  # microseconds, or rows
EQUAL_TIMES = "To pair equal times only, put the equality into the condition, e.g. l.ts = r.ts"


@dataclass(frozen=True)
class Shape:
    """How a window pairs rows, in numbers; a window has one of these.

    Times are in microseconds, and ``l.t - r.t`` is what a band bounds.
    """

    band_us: tuple[int, int] | None = None  # least and greatest l.t - r.t of a pair
    buckets_us: tuple[int, int] | None = None  # length and offset: pairs are in the same bucket
    gap_us: int | None = None  # the longest pause between neighbours of a session
    counts: tuple[int, int] | None = None  # rows of left and right that a row of the other meets


@dataclass(frozen=True)
class Window(ABC):
    """Which pairs are close enough in time, or in arrival, to be joined."""

    is_timed: ClassVar[bool] = True
    """Whether it looks at event times, and so needs time columns; otherwise it counts arrivals."""

    closes: ClassVar[bool] = False
    """Whether it ends as a whole, once the watermark has passed it; otherwise it slides."""

    follows_rows: ClassVar[bool] = False
    """Whether rows decide where it begins and ends, those of equal keys for themselves.

    Then every row counts, also one that no condition lets match.
    """

    unit: ClassVar[str] = "window"  # what one of them is called
    pairs: ClassVar[str]  # which rows it pairs, in a few words
    example: ClassVar[str]  # a call
    texts: ClassVar[tuple[str, ...]]  # as it is written in text: one for each form

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """How it pairs rows, in numbers."""

    @property
    @abstractmethod
    def span_us(self) -> int | None:
        """How far apart rows of one window may be; of sessions, neighbours; None if any time."""

    @abstractmethod
    def flip(self) -> Self:
        """Return the same pairs, with left and right exchanged."""

    @classmethod
    @abstractmethod
    def from_text(cls, text: str) -> Self | None:
        """Read a text; None if it is not written like this window."""

    @classmethod
    @abstractmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Make a window of its fields."""

    def to_json(self) -> dict[str, int]:
        """Return the fields; their names tell which window it is."""
        return asdict(self)

    def __str__(self) -> str:
        return repr(self).replace("'", "")
