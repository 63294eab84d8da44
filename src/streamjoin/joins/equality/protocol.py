"""What the algorithms of one window have in common."""

from typing import Protocol

from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.words import Words


class Lazy(Protocol):
    """An algorithm that waits until its window is closed, and then joins all of it."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        ...

    def join(self, left: Words, right: Words) -> list[Piece]:
        """Find all pairs of equal codes."""
        ...


class Eager(Protocol):
    """An algorithm that joins tuples as they come, or one of its cores; an object a window."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase; of all cores together."""
        ...

    def push(self, left: Words, right: Words) -> list[Piece]:
        """Take tuples in, whose rows go on counting, and return matches that are new."""
        ...

    def close(self) -> list[Piece]:
        """Return the matches that only the end of the window gives."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that the window takes."""
        ...
