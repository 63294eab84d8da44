"""A window of rows: the last ones that have arrived.

A `CountWindow` looks at arrival only: an arriving row meets the last ``left`` (or ``right``) rows
of the other stream that arrived before it::

    CountWindow(left=2, right=3)

    arrival    l1  l2  r1  l3  r2
                    x       x   ^        r2 meets the last two left rows

Invariant: ``1 <= left``, ``1 <= right``, both below 2**63.
"""

import re
from dataclasses import dataclass
from operator import index
from typing import Any, Self, SupportsIndex

from streamjoin.errors import WindowError
from streamjoin.windows.base import LARGEST, Shape, Window
from streamjoin.windows.durations import MOST_DIGITS

_COUNT = re.compile(r"count\s+(?P<left>\S+?)(?:\s*,\s*|\s+|$)(?P<right>\S+)?", re.IGNORECASE)


@dataclass(frozen=True, init=False, repr=False)
class CountWindow(Window):
    """An arriving row meets the last ``left`` or ``right`` rows of the other stream.

    >>> CountWindow(1000)
    CountWindow(left=1000, right=1000)
    >>> print(CountWindow(left=10, right=20).flip())
    CountWindow(left=20, right=10)
    """

    is_timed = False
    pairs = "each row meets the last n rows of the other stream"
    example = "CountWindow(1000)"
    texts = ("count 1000", "count 1000, 2000")

    left: int
    right: int

    def __init__(
        self,
        size: SupportsIndex | None = None,
        *,
        left: SupportsIndex | None = None,
        right: SupportsIndex | None = None,
    ) -> None:
        if size is not None and (left is not None or right is not None):
            raise WindowError(
                f"CountWindow({size!r}, left={left!r}, right={right!r}): give either one size, "
                "which means both sides, or left and right."
            )
        if size is not None:
            left = right = size
        if left is None or right is None:
            raise WindowError(
                f"CountWindow(left={left!r}, right={right!r}): both sides need a size. "
                "Give one size for both, e.g. CountWindow(1000), or left=... and right=...."
            )
        object.__setattr__(self, "left", _check_size(left))
        object.__setattr__(self, "right", _check_size(right))

    @property
    def shape(self) -> Shape:
        """How many rows of each side are in the window."""
        return Shape(counts=(self.left, self.right))

    @property
    def span_us(self) -> None:
        """Any time may lie between two rows."""
        return None

    def flip(self) -> "CountWindow":
        return CountWindow(left=self.right, right=self.left)

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read one size, or one for each side."""
        match = _COUNT.fullmatch(text)
        if match is None:
            return None
        left, right = match["left"], match["right"] or match["left"]
        if not (left + right).isdecimal() or max(len(left), len(right)) > MOST_DIGITS:
            raise WindowError(
                f"window {text[:80]!r}: a count is a whole number of rows, e.g. 'count 1000' "
                "or, left and right, 'count 1000, 2000'."
            )
        return cls(left=int(left), right=int(right))

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        return cls(left=fields["left"], right=fields["right"])

    def __repr__(self) -> str:
        return f"CountWindow(left={self.left}, right={self.right})"


def _check_size(value: SupportsIndex) -> int:
    """Return a size; refuse what is not a number of rows."""
    if not isinstance(value, bool):
        try:
            count = index(value)
        except TypeError:
            pass
        else:
            if 1 <= count <= LARGEST:
                return count
    raise WindowError(
        f"a CountWindow size of {value!r}: a size is a whole number of rows from 1 to 2**63 - 1, "
        "e.g. CountWindow(1000)."
    )
