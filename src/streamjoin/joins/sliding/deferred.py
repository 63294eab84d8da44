"""Sliding windows whose left rows wait until nothing can change what they give.

With ``keep`` or ``aggregate``, a left row's result depends on all of its pairs. So rows are only
stored when they come, and a left row looks for its matches once, when the watermark has passed the
end of its window: all left rows that are final by then are one closed set (`outcomes.reduction`)::

    window        l.t - before <= r.t <= l.t + after
    watermark w   left rows with l.t < w - after are final: they probe right, and are given
                  right rows with r.t < w - after - before can match no other: they leave

Right rows stay that much longer (`JoinPlan.needed_from`), and if it counts whether they match, it
is told when they leave. Left rows need no index, since nothing looks for them: their chain keeps
them as they come. Its marks tell which of them have been given.

If the condition, or a distance, fails on a pair, the left rows that are final are joined in halves,
and these in halves, until a single row fails: it is dropped, and the others lose nothing.

`CountedManager` does the same for count windows. There, pairs come as rows do, and what they amount
to waits in a store, until the left row has left its window.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.errors import StreamJoinError
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings
from streamjoin.joins.outcomes.outcome import Alone, Settled, leftovers
from streamjoin.joins.outcomes.reduction import Reduction, Store, reduce_all
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared, concatenate
from streamjoin.plans.preparing import prepare


class DeferredManager(Manager):
    """Two chains, of which right's is probed by left rows that are final."""

    choosing: tuple[Side, ...] = ("right",)

    def __init__(
        self,
        plan: JoinPlan,
        chains: dict[Side, Chain],
        deliver: Deliver,
        threads: int = 1,
        chooses: bool = False,
        *,
        reduction: Reduction,
    ) -> None:
        super().__init__(plan, chains, deliver, threads, chooses)
        self.reduction = reduction

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Find nothing: rows wait."""
        self.learn(batches)
        return iter(())

    def close(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Give what left rows have that are final by now, and right rows that nothing matched."""
        errors: list[StreamJoinError] = []
        bound = self.due_bounds(clock).get("left")
        deliver = deliver or self.deliver
        waiting: list[Prepared] = []
        for held, rows in () if bound is None else self.chains["left"].take_due(bound):
            ids = rows.astype(np.int32)
            assert held.marks is not None
            taken = held.rows.take(ids)
            yield Alone("left", taken.slice(0, 0), Settled(held.marks, ids))
            ordinals = None if held.ordinals is None else held.ordinals_of(ids)
            for part in self._cut(taken, ordinals):
                waiting.append(part)
                if 2 * sum(map(len, waiting)) >= self.plan.limits.most_slice_rows:
                    yield from self._give(self._put_together(waiting), deliver, errors)
                    waiting = []
        if waiting:
            yield from self._give(self._put_together(waiting), deliver, errors)
        yield from super().take_due(clock)
        raise_dropped(errors)

    def take_due(self, clock: Clock) -> Iterator[Alone]:
        """Give nothing: `close` has."""
        return iter(())

    def _cut(self, rows: pa.RecordBatch, ordinals: Any) -> Iterator[Prepared]:
        """Prepare left rows that are final, not too many at a time."""
        most = self.plan.limits.most_slice_rows
        for first in range(0, rows.num_rows, most):
            left = prepare(self.plan, "left", rows.slice(first, most))
            if ordinals is not None:
                left.ordinals = ordinals[first : first + most]
            yield left

    def _put_together(self, parts: list[Prepared]) -> Prepared:
        """Make one closed set of left rows."""
        left = concatenate(parts)
        return left.follow() if "left" in self.plan.follows else left

    def _give(
        self, left: Prepared, deliver: Deliver, errors: list[StreamJoinError]
    ) -> Iterator[Any]:
        """Give what a closed set of left rows has; a row that fails adds to ``errors``."""
        try:
            given = self._reduce(left, deliver)
        except StreamJoinError as error:
            if len(left) == 1:
                errors.append(error)
                return
            middle = len(left) // 2
            yield from self._give(left.take(slice(0, middle)), deliver, errors)
            yield from self._give(left.take(slice(middle, None)), deliver, errors)
            return
        yield from given
        yield from leftovers({"left": left})

    def _reduce(self, left: Prepared, deliver: Deliver) -> Iterator[Any]:
        """Find what left rows have; what fails does so before anything is given."""
        reducer = self.reduction.begin(left)
        if len(self.chains["right"]):
            self.sort_batches([left])
            targets = [(left, self.chains["right"])]
            reduce_all(reducer, self.probe_targets(targets, reducer.reduce))
        return reducer.finish(deliver)


class CountedManager(DeferredManager):
    """Two chains of a count window, and a store of what left rows have so far."""

    choosing = SIDES

    def __init__(self, *others: Any, **named: Any) -> None:
        super().__init__(*others, **named)
        self._store = self.reduction.open_store(self.plan.schemas["right"])
        self.pending: list[Any] = []  # partials of a step whose rows are not stored

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Reduce what is found, until rows are stored; give nothing."""
        self.pending = []
        self.pending = list(self.search(batches, interleaved, self._store.reduce))
        return iter(())

    def insert(self, batches: Batches) -> None:
        """Store the rows, and what they have found."""
        super().insert(batches)
        for partial in self.pending:
            self._store.add(partial)
        self.pending = []

    @property
    def store(self) -> Store:
        """What left rows have found so far."""
        return self._store

    @property
    def holdings(self) -> Holdings:
        """What both chains and the store hold."""
        held = super().holdings
        return replace(held, nbytes=held.nbytes + self._store.nbytes)

    def undo(self) -> None:
        """Forget what a probe has found and learnt whose rows were not stored."""
        self.pending = []
        super().undo()

    def _reduce(self, left: Prepared, deliver: Deliver) -> Iterator[Any]:
        """Take what left rows have out of the store."""
        return self._store.take(left, deliver)


def raise_dropped(errors: list[StreamJoinError]) -> None:
    """Raise the first of the errors of left rows that have failed, if there are any."""
    if errors:
        failed = (
            "the left row that failed is" if len(errors) == 1 else f"{len(errors)} left rows are"
        )
        errors[0].add_note(f"{failed} dropped; the others are joined")
        raise errors[0]
