"""The protocols of algorithms that join one window: lazy and eager (Zhang et al., 3)."""

from typing import Protocol

from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.words import Words


class Lazy(Protocol):
    """An algorithm that waits until its window closes, and then joins all of it."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        ...

    def join(self, left: Words, right: Words) -> list[Piece]:
        """Find all pairs of equal codes."""
        ...


class Eager(Protocol):
    """An algorithm that joins tuples as they arrive, or one of its cores; one object per window."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase, over all cores."""
        ...

    def push(self, left: Words, right: Words) -> list[Piece]:
        """Take in tuples, whose row numbers continue the earlier ones; return new matches."""
        ...

    def close(self) -> list[Piece]:
        """Return the matches that are found only at the end of the window."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that the window takes."""
        ...
