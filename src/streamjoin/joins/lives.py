"""The lives of rows: each arrives, is matched by some others or by none, and comes to its end.

An inner join needs none of this. Whatever gives rows that have *no* match (outer, anti and semi
joins) needs all of it, for every kind of window and executor. So an engine that has an observer
reports to it, in one place for each::

    arrival     `Engine.prepare_push`    all rows of a push, numbered on through their stream
    match       `Engine.take`            each pair that has passed every check, once
    end         `RowLives.end`           each row once, when no row can meet it any more

A row is named by its side and its *ordinal*, its place in its stream, which it keeps wherever it is
stored. It ends when the watermark, or the rows that came since, have passed its window; when its
tumbling window or session has closed; when the join is finished; and at its arrival if it is late,
or cannot match at all. It is *lost* if it was dropped by an error (a window, or a batch that
waited, on which the condition failed). All matches of a row are reported before its end.

When a row ends follows from the clock alone, so it is worked out here, from one key per row (the
last column), and not by the executors, which drop rows whenever it suits them. Only sessions know
their ends themselves::

    sliding     its time         before the watermark, less the reach of the window
    count       its ordinal      before the last n rows of its stream
    tumbling    its window       before the one that the watermark is in

What is reported is provisional: a step that fails, or is interrupted, is taken back to a `mark`, as
the engine itself is (`Engine.attempt`). Where a source is read ahead, arrivals are reported by one
thread and matches by another; a lock lets one report at a time through.

A row that only probes here, because another core stores it, has no end here. Rows that a snapshot
or a state brings back do not arrive again: an observer that is to survive has to be saved beside
them.

Cost without an observer: nothing. With one: 8 bytes a match, twice, and a sorted key a row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.joins.executor import Clock
from streamjoin.joins.pairs.candidates import Pairs
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Keys
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import window_numbers

AFTER_ALL = 2**64  # greater than any key


class LifeObserver(Protocol):
    """Gets to know what becomes of each row; see the module docstring."""

    def note_arrivals(self, side: Side, first: int, rows: pa.RecordBatch) -> None:
        """Rows have come, with the ordinals from ``first`` on."""
        ...

    def note_matches(self, pairs: Pairs) -> None:
        """Pairs of rows match."""
        ...

    def note_ends(self, side: Side, ordinals: Keys, are_lost: bool) -> None:
        """Rows have come to their end."""
        ...

    def mark(self) -> Any:
        """Return something to go back to with `undo`."""
        ...

    def undo(self, mark: Any) -> None:
        """Take back all that was noted since a mark."""
        ...

    def keep(self) -> None:
        """Note that no mark so far is gone back to."""
        ...


@dataclass
class LivingRows:
    """The rows of one side that have not ended: sorted runs of (key, ordinal), long ones first."""

    runs: list[tuple[Keys, Keys]] = field(default_factory=list)

    def add(self, keys: Keys, ordinals: Keys) -> None:
        """Add rows; each run is at least twice as long as the next."""
        while self.runs and self.runs[-1][0].size < 2 * keys.size:
            last_keys, last_ordinals = self.runs.pop()
            keys = np.concatenate([last_keys, keys])
            ordinals = np.concatenate([last_ordinals, ordinals])
        if keys.size:
            order = np.argsort(keys, kind="stable")
            self.runs.append((keys[order], ordinals[order]))

    def take_before(self, bound: int) -> Keys:
        """Remove the rows whose key is before a bound; return their ordinals."""
        taken, runs = [], []
        for keys, ordinals in self.runs:
            count = keys.size
            if int(keys[-1]) >= bound:
                count = int(keys.searchsorted(max(bound, MIN_KEY)))
            taken.append(ordinals[:count])
            if count < keys.size:
                runs.append((keys[count:], ordinals[count:]))
        self.runs = runs
        return np.concatenate([np.empty(0, np.int64), *taken])

    def take(self, ordinals: Keys) -> Keys:
        """Remove some rows, and return those that were there."""
        taken, runs = [], []
        for keys, held in self.runs:
            chosen = np.isin(held, ordinals)
            taken.append(held[chosen])
            if not chosen.all():
                runs.append((keys[~chosen], held[~chosen]))
        self.runs = runs
        return np.concatenate([np.empty(0, np.int64), *taken])


class RowLives:
    """Reports lives to an observer; the module docstring gives the design."""

    def __init__(self, plan: JoinPlan, observer: LifeObserver) -> None:
        self.plan, self.observer = plan, observer
        self.living = {side: LivingRows() for side in SIDES}
        self._reporting = RLock()

    def arrive(self, side: Side, first: int, rows: pa.RecordBatch, batch: Prepared) -> None:
        """Report rows that come; those that cannot match end at once."""
        assert batch.ordinals is not None
        with self._reporting:
            self.observer.note_arrivals(side, first, rows)
            alive = batch.stored
            assert alive.ordinals is not None
            unable = np.ones(rows.num_rows, np.bool_)
            unable[batch.ordinals - first] = False
            self._note_ends(side, first + np.flatnonzero(unable))
            self.living[side].add(self._end_keys(alive), alive.ordinals)

    def _end_keys(self, batch: Prepared) -> Keys:
        """Return what tells when rows end."""
        if self.plan.counted is None and self.plan.window_part is not None:
            return window_numbers(batch)
        if self.plan.counted is None and batch.times is not None:
            return batch.times
        assert batch.ordinals is not None
        return batch.ordinals

    def match(self, every: Sequence[Pairs]) -> None:
        """Report pairs that match."""
        with self._reporting:
            for pairs in every:
                if pairs.probing.size:
                    self.observer.note_matches(pairs)

    def end(self, clock: Clock, closed: Mapping[Side, Keys] | None = None) -> None:
        """Report the rows that have ended by now; of sessions, those that are ``closed``."""
        with self._reporting:
            for side, bound in self._bounds(clock).items():
                self._note_ends(side, self.living[side].take_before(bound))
            for side, ordinals in (closed or {}).items():
                self._note_ends(side, self.living[side].take(ordinals))

    def lose(self, side: Side, ordinals: Keys) -> None:
        """Report rows that were dropped by an error."""
        with self._reporting:
            self._note_ends(side, self.living[side].take(ordinals), are_lost=True)

    def _note_ends(self, side: Side, ordinals: Keys, are_lost: bool = False) -> None:
        if ordinals.size:
            self.observer.note_ends(side, ordinals, are_lost)

    def _bounds(self, clock: Clock) -> dict[Side, int]:
        """Return before which key rows have ended by now."""
        plan, watermark = self.plan, clock.watermark
        if clock.is_over or (watermark is not None and watermark > MAX_KEY):
            return dict.fromkeys(SIDES, AFTER_ALL)
        if plan.counted is not None:
            return {side: clock.arrived[side] - size for side, size in plan.counted.items()}
        if watermark is None or plan.longest_pause is not None:
            return {}
        if plan.window_part is not None:
            number = plan.window_part.numbers(np.array([max(watermark, MIN_KEY)]))[0]
            return dict.fromkeys(SIDES, int(number))
        return {} if plan.time_part is None else plan.needed_from(watermark)

    def mark(self) -> Callable[[], None]:
        """Return what takes all back that is reported from here on."""
        with self._reporting:
            mark = self.observer.mark()
            runs = {side: list(living.runs) for side, living in self.living.items()}

        def undo() -> None:
            with self._reporting:
                self.observer.undo(mark)
                self.living = {side: LivingRows(list(each)) for side, each in runs.items()}

        return undo

    def keep(self) -> None:
        """Note that what was reported is not taken back."""
        with self._reporting:
            self.observer.keep()
