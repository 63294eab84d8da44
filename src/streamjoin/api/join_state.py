"""The state of a join, from its first row on: before both schemas are known, and after.

Before, rows and watermarks wait in the opening. The second schema makes the engine, and they are
replayed through it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from streamjoin.api.conforming import conform_batch
from streamjoin.api.growth import Growth
from streamjoin.api.opening import Opening
from streamjoin.api.stats import JoinStats
from streamjoin.errors import StreamJoinError
from streamjoin.joins.build import make_engine
from streamjoin.joins.engine import Engine, Push
from streamjoin.joins.executor import Deliver
from streamjoin.joins.lives import LifeObserver
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivered, Delivery, leave_and_name
from streamjoin.kernels.interrupts import ignore_commits, pass_signals
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.batches import as_batch, copy_batch
from streamjoin.plans.limits import Limits, limits_in_use
from streamjoin.plans.plan import SIDES
from streamjoin.plans.times import ticks, time_type, to_key

Batches = dict[Side, pa.RecordBatch]


@dataclass
class JoinState:
    """What `StreamJoin` remembers, and what a snapshot holds."""

    config: JoinOptions
    opening: Opening = field(default_factory=Opening)
    engine: Engine | None = None
    growth: Growth = field(default_factory=Growth)
    observer: LifeObserver | None = None  # of what becomes of each row
    limits: Limits = field(default_factory=limits_in_use)  # a source may make the engine

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of the result; None until both streams have been seen."""
        return None if self.engine is None else self.engine.schema

    def fetch(self, found: Found) -> Iterator[Delivery]:
        """Fetch the rows of matches that were left where they are."""
        assert self.engine is not None
        return self.engine.outcome.fetch(found)

    @property
    def stats(self) -> JoinStats:
        return self.opening.stats() if self.engine is None else JoinStats.of(self.engine)

    @property
    def is_streaming(self) -> bool:
        """Whether a source is being read."""
        return self.engine is not None and self.engine.streaming is not None

    @property
    def is_over(self) -> bool:
        """Whether `finish` has said that no more rows come."""
        if self.engine is not None:
            return self.engine.is_over
        return any(step.is_last for step in self.opening.steps)

    def table(self, delivered: list[Delivery]) -> pa.Table:
        """Return joined rows as a table, with the columns known so far if there are no rows."""
        rows = [rows for each in delivered for rows in each.rows]
        return pa.Table.from_batches(rows, self.known_schema)

    @property
    def known_schema(self) -> pa.Schema:
        """The schema of the result, or of one side until both streams have been seen."""
        return self.schema or next(iter(self.opening.schemas.values()), pa.schema([]))

    def check(self, left: Any, right: Any) -> tuple[Batches, bool]:
        """Return what was pushed as batches, and whether both sides are the same object."""
        if self.engine is not None:
            self.growth.watch(self.config, self.engine)
        is_self = left is right and left is not None
        batches: Batches = {}
        with pass_signals():  # it may be a reader that waits for more
            if left is not None:
                batches["left"] = as_batch(left)
            if right is not None:  # a reader can be read only once
                batches["right"] = batches["left"] if is_self else as_batch(right)
        for side, batch in list(batches.items()):
            if not batch.num_columns and not batch.num_rows:  # [], or an empty frame of pandas
                del batches[side]
            else:
                batches[side] = self.opening.conform(side, batch, self.engine is not None)
        if self.engine is not None and self.engine.is_self_join and batches and not is_self:
            raise StreamJoinError(
                "this join began as a self-join, with the same batch as left and right; go on so, "
                "or make another StreamJoin whose first push has two different objects"
            )
        return batches, is_self

    def push(self, left: Any, right: Any) -> Delivered:
        """Add rows and return what they find."""
        batches, is_self = self.check(left, right)
        if self.engine is None:
            waited, found = self._begin(
                batches, is_self, lambda engine: self._push(engine, Push(batches))
            )
            return Delivered(waited + found)
        with self.engine.attempt():
            return self._push(self.engine, Push(batches))

    def find(self, left: Any, right: Any) -> list[Any]:
        """Add rows, and leave their matches in the windows."""
        batches, is_self = self.check(left, right)
        if self.engine is not None:
            with self.engine.attempt():
                return self._find(self.engine, batches).unwrap()
        _, found = self._begin(batches, is_self, lambda engine: self._find(engine, batches))
        return found

    def _find(self, engine: Engine, batches: Batches) -> Delivered:
        found = Delivered(engine.find(batches))
        return found.then(lambda: self.follow(engine, leave_and_name))

    def submit(self, engine: Engine, left: Any, right: Any) -> None:
        """Send rows to the threads that join a source."""
        batches, _ = self.check(left, right)
        # Copies: the source may reuse its memory before the cores are done with it.
        engine.submit({side: copy_batch(batch) for side, batch in batches.items()})
        self.follow(engine)

    def flush(self) -> Delivered:
        """Join the rows that wait in batch mode."""
        if self.engine is None:
            return Delivered()
        with self.engine.attempt():
            return self._flush(self.engine, self.engine.close)

    def advance(self, watermark: Any) -> Delivered:
        """Set the watermark, and return the matches of windows that close."""
        if self.engine is None:
            self.opening.hold_watermark(watermark, self.config.time)
            return Delivered()
        key = to_key(watermark, time_type(self.engine.plan))
        with self.engine.attempt(settles=False):
            return self.engine.advance(key)

    def finish(self) -> Delivered:
        """Close all windows, and return their matches."""
        if self.engine is None:
            self.opening.hold_end(self.config.how.alone)
            return Delivered()
        with self.engine.attempt():
            return self._flush(self.engine, self.engine.finish)

    def follow(self, engine: Engine, deliver: Deliver | None = None) -> Delivered:
        """Let the watermark follow the data, if the join has a ``delay``."""
        if self.config.delay_us is None:
            return Delivered()
        return engine.follow(ticks(self.config.delay_us, engine.plan), deliver)

    def _begin(
        self, batches: Batches, is_self: bool, join: Callable[[Engine], Delivered]
    ) -> tuple[list[Delivery], list[Any]]:
        """Hold batches back until both schemas are known, then replay them all.

        Returns what the held batches deliver (no rows, since they are all of one side), and what
        ``join`` returns for the last ones.
        """
        opening = self.opening
        if not all(opening.is_seen(side, batches) for side in SIDES):
            opening.hold(batches)
            return [], []
        schemas = opening.schemas | {side: batch.schema for side, batch in batches.items()}
        is_one = is_self and not opening.has_rows
        engine = make_engine(
            self.config, schemas, is_self=is_one, observer=self.observer, limits=self.limits
        )
        waited: list[Delivery] = []
        with ignore_commits(), engine.attempt_whole():  # on failure all goes on waiting, no engine
            for step in opening.steps:
                fitting = {
                    side: conform_batch(batch, schemas[side], side)
                    for side, batch in step.batches.items()
                }
                try:
                    waited += self._push(engine, replace(step, batches=fitting)).unwrap()
                except StreamJoinError as error:
                    opening.steps.remove(step)
                    error.add_note(
                        "this is about rows pushed earlier, which are dropped; push again"
                    )
                    raise
            found = join(engine).unwrap()
        self.opening, self.engine = Opening(schemas), engine
        return waited, found

    def _push(self, engine: Engine, step: Push) -> Delivered:
        """Join batches at once or, in batch mode, once there are enough."""
        if not engine.collector.is_on:
            delivered = Delivered(list(engine.push_iter(step.batches)))
        else:
            copies = {side: copy_batch(batch) for side, batch in step.batches.items()}
            delivered = Delivered(engine.collect(copies))
            if engine.collector.is_due:
                delivered = delivered.then(lambda: self._flush(engine, engine.close))
        if step.watermark is not None:
            watermark = to_key(step.watermark, time_type(engine.plan))
            delivered = delivered.then(lambda: engine.advance(watermark))
        if step.is_last:
            delivered = delivered.then(lambda: self._flush(engine, engine.finish))
        return delivered.then(lambda: self.follow(engine))

    def _flush(self, engine: Engine, close: Callable[[], Delivered]) -> Delivered:
        """Join the rows that wait, then close windows."""
        try:
            flushed = Delivered(engine.flush())
        except StreamJoinError as error:  # what the same push has given without waiting stays
            return Delivered(failure=error)
        return flushed.then(close)
