"""The lives of rows: each arrives, is matched by some others or by none, and comes to its end.

An inner join needs none of this. Whatever gives rows that have *no* match (outer, anti and semi
joins) needs all of it, for every kind of window and executor. So an engine that has an observer
reports to it, in one place for each::

    arrival     `Engine.arrive`          all rows of a push, numbered on through their stream
    match       `Engine.take`            each pair that has passed every check, once
    end         `Engine.end_lives`       each row once, when no row can meet it any more

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

Where a join is spread over Spark's cores, a row lives at one of them, and has its arrival and its
end there. At other cores it is a *guest*: it has a name, for the pairs that are found there, and no
end. So a pair is reported by one core alone, which may be the home of both rows, or of either::

    core 0    home of a, guest b     match (a, b)           end of a
    core 1    home of b                                     end of b

Each core counts the rows that reach it, so names hold for one core; they hold for all where all
rows reach all cores, in count windows and ordered results. A core that holds no rows any more may
forget what it has counted, and begin at 0 again. What outer joins have to add is the way home of
what a guest has found: a row's matches are all reported in the batch of its end or before, but not
all at its home.

Rows that a snapshot or a state brings back live on, and do not arrive again: an observer that is to
survive has to be saved beside them.

Cost without an observer: nothing. With one: 8 bytes a match, twice, and a sorted key a row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.joins.executor import Clock
from streamjoin.joins.pairs.candidates import Pairs
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Flags, Keys
from streamjoin.keys.operands import Side
from streamjoin.plans.batches import take_rows
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import window_numbers

AFTER_ALL = 2**64  # greater than any key


class LifeObserver(Protocol):
    """Gets to know what becomes of each row; see the module docstring."""

    def note_arrivals(self, side: Side, ordinals: Keys, rows: pa.RecordBatch) -> None:
        """Rows have come that live here."""
        ...

    def note_guests(self, side: Side, ordinals: Keys, rows: pa.RecordBatch) -> None:
        """Rows have come that live at another core, to find matches here."""
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

    def concatenate(self) -> tuple[Keys, Keys]:
        """Return the keys and the ordinals of all rows."""
        keys, ordinals = zip(*self.runs, strict=True) if self.runs else ((), ())
        none = np.empty(0, np.int64)
        return np.concatenate([none, *keys]), np.concatenate([none, *ordinals])

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

    def arrive(
        self, first: int, rows: pa.RecordBatch, batch: Prepared, is_home: Flags | None = None
    ) -> None:
        """Report rows that come, numbered from ``first`` on; those that cannot match end at once.

        ``is_home`` marks the rows that live here, which are all if it is None.
        """
        assert batch.ordinals is not None
        side, ordinals = batch.side, np.arange(first, first + rows.num_rows)
        ending = np.ones(rows.num_rows, np.bool_) if is_home is None else is_home.copy()
        ending[batch.ordinals - first] = False
        with self._reporting:
            if is_home is None:
                self.observer.note_arrivals(side, ordinals, rows)
            else:
                home, guests = np.flatnonzero(is_home), np.flatnonzero(~is_home)
                self.observer.note_arrivals(side, ordinals[home], take_rows(rows, home))
                self.observer.note_guests(side, ordinals[guests], take_rows(rows, guests))
            self._note_ends(side, ordinals[ending])
            stored = batch.stored
            assert stored.ordinals is not None
            self.take_back(stored, None if is_home is None else is_home[stored.ordinals - first])

    def take_back(self, batch: Prepared, is_home: Flags | None = None) -> None:
        """Let rows live on that were stored before; they do not arrive again."""
        assert batch.ordinals is not None
        keys, ordinals = self._end_keys(batch), batch.ordinals
        if is_home is not None:
            keys, ordinals = keys[is_home], ordinals[is_home]
        with self._reporting:
            self.living[batch.side].add(keys, ordinals)

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
            for side, ordinals in self._take_ended(clock, closed or {}):
                self._note_ends(side, ordinals)

    def forget(self, clock: Clock, closed: Mapping[Side, Keys] | None = None) -> None:
        """Drop the rows that had ended by then: their ends were reported before."""
        with self._reporting:
            for _ in self._take_ended(clock, closed or {}):
                pass

    def _take_ended(self, clock: Clock, closed: Mapping[Side, Keys]) -> Iterator[tuple[Side, Keys]]:
        """Remove the rows that have ended by now, and yield their ordinals."""
        for side, bound in self._bounds(clock).items():
            yield side, self.living[side].take_before(bound)
        for side, ordinals in closed.items():
            yield side, self.living[side].take(ordinals)

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
