"""SHJ, the symmetric hash join: each tuple is inserted into one table and probes the other.

Tuples pushed together are one step (3.2.1): left tuples probe the right table and are inserted,
then right tuples do the same, so a pair within a step is found once, by its right tuple.

Over a join matrix (JM), left tuples go to all cores and right ones to one each in turn, as in
`join_matrix`, so every core would have the same left table. They share one instead: while one
thread inserts left tuples, the others probe the cores' right tables; then all probe it::

              left tuples                          right tuples
    core 0    probe right table 0 |                probe left table, build into right table 0
    core 1    probe right table 1 | build in once  probe left table, build into right table 1
"""

from collections.abc import Callable
from functools import partial

from streamjoin.joins.equality.eager.code_table import CodeTable
from streamjoin.joins.equality.phases import Phases
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.words import Words
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.kernels.threads import share, threads_for
from streamjoin.keys.operands import Side

STEP_TUPLES = 1 << 16  # tuples of a side that are inserted at a time, however many there are
PART_TUPLES = 1 << 14  # left tuples that probe at a time while others are inserted


class SHJ:
    """Cores that share all left tuples, and have a part of the right ones each."""

    def __init__(self, threads: int = 1) -> None:
        self.phases = Phases()
        self.left, self.rights = CodeTable(), [CodeTable() for _ in range(threads)]
        self.rows = 0  # right rows so far, which give the turn

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase, as if all cores were one."""
        return self.phases.seconds

    def push(self, left: Words, right: Words) -> list[Piece]:
        """Take in tuples, and return their matches with each other and with earlier ones."""
        found: list[Piece | None] = []
        for first in range(0, max(left.size, right.size), STEP_TUPLES):
            checkpoint()
            span = slice(first, first + STEP_TUPLES)
            found += self._push_left(left[span]) if first < left.size else []
            found += self._push_right(right[span]) if first < right.size else []
        return [piece for piece in found if piece is not None]

    def _push_left(self, words: Words) -> list[Piece | None]:
        """Insert left tuples, and probe all right tables with them."""
        tasks: list[Callable[[], Piece | None]] = [partial(self._build, self.left, words)]
        for table in self.rights:
            if len(table):
                parts = (
                    words[first : first + PART_TUPLES]
                    for first in range(0, words.size, PART_TUPLES)
                )
                tasks += [partial(self._probe, table, part, "left") for part in parts]
        return share(lambda task: task(), tasks, threads_for(words.size, len(self.rights)))

    def _push_right(self, words: Words) -> list[Piece | None]:
        """Probe the left table, and insert right tuples; each core does its own."""
        count = len(self.rights)

        def work(core: int) -> Piece | None:
            own = words[(core - self.rows) % count :: count].copy()
            found = self._probe(self.left, own, "right") if own.size and len(self.left) else None
            self._build(self.rights[core], own)
            return found

        found = share(work, range(count), threads_for(words.size, count))
        self.rows += words.size
        return found

    def _probe(self, table: CodeTable, words: Words, probing: Side) -> Piece | None:
        with self.phases.time("probe"):
            return table.probe(words, probing)

    def _build(self, table: CodeTable, words: Words) -> None:
        with self.phases.time("build"):
            table.insert(words)

    def close(self) -> list[Piece]:
        """Nothing is left to find."""
        return []

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return self.left.nbytes + sum(table.nbytes for table in self.rights)
