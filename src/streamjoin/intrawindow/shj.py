"""SHJ, the symmetric hash join: two tables, and each tuple is built into one and probes the other.

What comes together is one step (3.2.1): left tuples probe right ones and are built in, then right
tuples do, so a pair within a step is found once, by its right tuple.
"""

from streamjoin.intrawindow.code_table import CodeTable
from streamjoin.intrawindow.phases import Phases
from streamjoin.intrawindow.pieces import Piece
from streamjoin.intrawindow.words import Words

STEP = 1 << 16  # tuples of a side that are built in at once, however many have come


class SHJ:
    """One core of the algorithm."""

    def __init__(self) -> None:
        self.phases = Phases()
        self.left, self.right = CodeTable(), CodeTable()

    def push(self, left: Words, right: Words) -> list[Piece]:
        """Take tuples in, and return what they and those before them match."""
        found = []
        for first in range(0, max(left.size, right.size), STEP):
            span = slice(first, first + STEP)
            found += self._step(left[span], right[span])
        return found

    def _step(self, left: Words, right: Words) -> list[Piece]:
        with self.phases.time("probe"):
            of_left = self.right.probe(left, "left") if left.size and len(self.right) else None
        with self.phases.time("build"):
            self.left.insert(left)
        with self.phases.time("probe"):
            of_right = self.left.probe(right, "right") if right.size and len(self.left) else None
        with self.phases.time("build"):
            self.right.insert(right)
        return [piece for piece in (of_left, of_right) if piece is not None]

    def close(self) -> list[Piece]:
        """Nothing is left to find."""
        return []

    @property
    def nbytes(self) -> int:
        """Bytes of both tables."""
        return self.left.nbytes + self.right.nbytes
