"""JB, the join biclique: a tuple goes to the group of cores that its code belongs to (3.2.2).

Within a group it is as in a join matrix; groups of one core are a partition by hash::

    codes 0.. -> group 0: a matrix of g cores        codes 8.. -> group 1: another

The code of Zhang et al. records where it has sent each tuple, which is most of the cost there. Here
a tuple's code gives its group, and its turn gives its core, so nothing needs to be recorded.
"""

from collections.abc import Callable

from streamjoin.errors import StreamJoinError
from streamjoin.joins.equality.lazy.partitioning import split_evenly
from streamjoin.joins.equality.phases import Phases, total_seconds
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.protocol import Eager
from streamjoin.joins.equality.words import Words
from streamjoin.kernels.threads import share, threads_for


class JoinBiclique:
    """Groups of cores, each with the tuples of its codes."""

    def __init__(self, make_group: Callable[[], Eager], threads: int = 1, group: int = 1) -> None:
        if group < 1 or threads % group:
            raise StreamJoinError(
                f"group={group} cores do not divide {threads} threads into even groups; give a "
                f"divisor of {threads}"
            )
        self.threads, self.phases = threads, Phases()
        self.groups = [make_group() for _ in range(threads // group)]

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        return total_seconds([*self.groups, self.phases])

    def push(self, left: Words, right: Words) -> list[Piece]:
        """Take tuples in, and return matches."""
        count = len(self.groups)
        with self.phases.time("partition"):
            lefts, rights = (split_evenly(words, count, self.threads) for words in (left, right))
        found = share(
            lambda number: self.groups[number].push(lefts[number], rights[number]),
            range(count),
            threads_for(left.size + right.size, count),
        )
        return [piece for pieces in found for piece in pieces]

    def close(self) -> list[Piece]:
        """Return the matches that are found only at the end."""
        found = share(lambda group: group.close(), self.groups, len(self.groups))
        return [piece for pieces in found for piece in pieces]

    @property
    def nbytes(self) -> int:
        """Bytes of all groups."""
        return sum(group.nbytes for group in self.groups)
