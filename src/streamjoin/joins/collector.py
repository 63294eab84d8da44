"""Batch mode: rows wait until there is a batch of them (PanJoin III-E).

Every push costs a sort, a search of all subwindows and an insert, and these cost less per row the
more rows share them. A collector holds pushes back until there are ``rows`` of them, or until the
first has waited for ``seconds``, whichever comes first. They come prepared: who is late, and what
place a row has in its stream, is decided when it is pushed, so the result is that of the pushes one
by one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from streamjoin.keys.operands import Side
from streamjoin.plans.prepared import Prepared, concatenate

Mark = tuple[dict[Side, list[Prepared]], dict[Side, int], float | None]


@dataclass
class Collector:
    """The rows that wait; with neither limit, none ever does."""

    rows: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = monotonic
    waiting: dict[Side, list[Prepared]] = field(default_factory=dict)
    since: float | None = None  # when the first of them came

    @property
    def is_on(self) -> bool:
        """Whether there is anything to wait for."""
        return self.rows is not None or self.seconds is not None

    @property
    def count(self) -> int:
        """How many rows wait."""
        return sum(len(batch) for batches in self.waiting.values() for batch in batches)

    def add(self, batches: Mapping[Side, Prepared]) -> None:
        """Let rows wait."""
        for side, batch in batches.items():
            if len(batch):
                self.waiting.setdefault(side, []).append(batch)
                if self.since is None:
                    self.since = self.clock()

    @property
    def is_due(self) -> bool:
        """Whether the rows have waited long enough."""
        if self.since is None:
            return False
        if self.rows is not None and self.count >= self.rows:
            return True
        return self.seconds is not None and self.clock() - self.since >= self.seconds

    def concatenate(self) -> dict[Side, Prepared]:
        """Return what waits, as one batch a side; it goes on waiting until `clear`."""
        return {side: concatenate(batches) for side, batches in self.waiting.items()}

    @property
    def mark(self) -> Mark:
        """What waits now, for `restore` to go back to."""
        lengths = {side: len(batches) for side, batches in self.waiting.items()}
        return self.waiting, lengths, self.since

    def restore(self, mark: Mark) -> None:
        """Forget the rows that came after a mark, and take back those that waited then."""
        waiting, lengths, self.since = mark
        self.waiting = {side: waiting[side][:length] for side, length in lengths.items()}

    def clear(self) -> None:
        """Forget what waited."""
        self.waiting, self.since = {}, None
