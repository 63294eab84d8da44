"""What a window says about itself; the rest of the package asks it, and never tests its type.

A window is a frozen dataclass in its own file. It holds and checks its fields, reads and prints
itself as text and as JSON, and answers three yes-or-no questions (`Window.is_timed`,
`Window.closes`, `Window.follows_rows`). What a join does with it follows from its `Shape`: numbers
that `plans.binding` turns into parts of a plan, and `joins.sliding.sizes` into subwindows.

To add a window: one file here, one line in ``windows/__init__``, its name in the package's
``__init__``; and, if no `Shape` describes it, a field of that, its part of a plan, and a join.

Invariants of every window, checked by ``tests/windows/test_contract.py``:

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
    """How a window pairs rows, in numbers; a window sets exactly one of these fields.

    Times are in microseconds, and ``l.t - r.t`` is what a band bounds.
    """

    band_us: tuple[int, int] | None = None  # least and greatest l.t - r.t of a pair
    buckets_us: tuple[int, int] | None = None  # length and offset: pairs are in the same bucket
    gap_us: int | None = None  # the longest pause between neighbours of a session
    counts: tuple[int, int] | None = None  # how many left and right rows a row of the other meets


@dataclass(frozen=True)
class Window(ABC):
    """Which pairs are close enough in time, or in arrival, to be joined."""

    is_timed: ClassVar[bool] = True
    """Whether it looks at event times, and so needs time columns; otherwise it counts arrivals."""

    closes: ClassVar[bool] = False
    """Whether it ends as a whole, once the watermark has passed it; otherwise it slides."""

    follows_rows: ClassVar[bool] = False
    """Whether rows decide where it begins and ends, separately for each value of the keys.

    Then every row counts, even one that the condition does not let match.
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
        """How far apart rows may be (in sessions, neighbours); None if there is no limit."""

    @abstractmethod
    def flip(self) -> Self:
        """Return the same pairs, with left and right exchanged."""

    @classmethod
    @abstractmethod
    def from_text(cls, text: str) -> Self | None:
        """Read a text; None if it is not the text of such a window."""

    @classmethod
    @abstractmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Make a window from its fields."""

    def to_json(self) -> dict[str, int]:
        """Return the fields; their names identify the kind of window."""
        return asdict(self)

    def __str__(self) -> str:
        return repr(self).replace("'", "")
