"""JM, the join matrix: left tuples go to all cores, right ones to one each in turn (3.2.2).

A core has a column of the matrix of all pairs, whatever the keys are::

              r0 r3 | r1 r4 | r2 r5          cores 0, 1, 2
    l0 l1 l2    x       x       x
"""

from collections.abc import Callable, Sequence

from streamjoin.joins.equality.phases import total_seconds
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.protocol import Eager
from streamjoin.joins.equality.words import Words
from streamjoin.kernels.threads import share, threads_for


class JoinMatrix:
    """Cores that each have all left tuples, and a share of the right ones."""

    def __init__(self, make_core: Callable[[], Eager], threads: int = 1) -> None:
        self.cores: Sequence[Eager] = [make_core() for _ in range(threads)]
        self.rows = 0  # right rows so far, which give the turn

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase, as if all cores were one."""
        return total_seconds(self.cores)

    def push(self, left: Words, right: Words) -> list[Piece]:
        """Take tuples in, and return matches."""
        count = len(self.cores)

        def step(number: int) -> list[Piece]:
            first = (number - self.rows) % count
            return self.cores[number].push(left, right[first::count].copy())

        found = share(step, range(count), threads_for(left.size + right.size, count))
        self.rows += right.size
        return [piece for pieces in found for piece in pieces]

    def close(self) -> list[Piece]:
        """Return the matches that are found only at the end."""
        found = share(lambda core: core.close(), self.cores, len(self.cores))
        return [piece for pieces in found for piece in pieces]

    @property
    def nbytes(self) -> int:
        """Bytes of all cores."""
        return sum(core.nbytes for core in self.cores)
