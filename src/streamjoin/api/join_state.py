"""The state of a join, from its first row on: before both schemas are known, and after.

Until then rows and watermarks wait in the opening; with the second schema comes the engine, and
they are replayed through it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from streamjoin.api.conforming import conform_batch
from streamjoin.api.growth import Growth
from streamjoin.api.opening import Opening
from streamjoin.api.stats import JoinStats
from streamjoin.errors import StreamJoinError
from streamjoin.joins.build import make_engine
from streamjoin.joins.deliver import Delivery
from streamjoin.joins.engine import Engine, Step, leave
from streamjoin.joins.executor import Deliver
from streamjoin.kernels.interrupts import opened, provisional
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.batches import as_batch, owned
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

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of the result; None until both streams have been seen."""
        return None if self.engine is None else self.engine.schema

    @property
    def stats(self) -> JoinStats:
        """What the join tells about itself."""
        return self.opening.stats() if self.engine is None else JoinStats.of(self.engine)

    @property
    def is_streaming(self) -> bool:
        """Whether a source is being read."""
        return self.engine is not None and self.engine.streaming is not None

    @property
    def is_over(self) -> bool:
        """Whether it was told that no more rows come."""
        if self.engine is not None:
            return self.engine.is_over
        return any(step.is_last for step in self.opening.steps)

    def table(self, delivered: list[Delivery]) -> pa.Table:
        """Return joined rows as a table; until there are any, of the columns that are known."""
        rows = [rows for each in delivered for rows in each.rows]
        return pa.Table.from_batches(rows, self.known_schema)

    @property
    def known_schema(self) -> pa.Schema:
        """The schema of the result or, until both streams have been seen, of what there is."""
        return self.schema or next(iter(self.opening.schemas.values()), pa.schema([]))

    def check(self, left: Any, right: Any) -> tuple[Batches, bool]:
        """Return what was pushed as batches, and whether both are one."""
        if self.engine is not None:
            self.growth.watch(self.config, self.engine)
        is_self = left is right and left is not None
        batches: Batches = {}
        with opened():  # it may be a reader, which waits for more
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

    def push(self, left: Any, right: Any) -> list[Delivery]:
        """Add rows and return what they find."""
        batches, is_self = self.check(left, right)
        if self.engine is None:
            waited, found = self._begin(
                batches, is_self, lambda engine: self._push(engine, Step(batches))
            )
            return waited + found
        with self.engine.attempt():
            return self._push(self.engine, Step(batches))

    def find(self, left: Any, right: Any) -> list[Any]:
        """Add rows, and leave what they find where it is."""
        batches, is_self = self.check(left, right)
        if self.engine is not None:
            with self.engine.attempt():
                return self._find(self.engine, batches)
        _, found = self._begin(batches, is_self, lambda engine: self._find(engine, batches))
        return found

    def _find(self, engine: Engine, batches: Batches) -> list[Any]:
        return engine.find(batches) + self.follow(engine, leave)

    def submit(self, engine: Engine, left: Any, right: Any) -> None:
        """Send rows to the threads that join a source."""
        batches, _ = self.check(left, right)
        # Copies: the source may use its memory again before the cores are through with it.
        engine.submit({side: owned(batch) for side, batch in batches.items()})
        self.follow(engine)

    def flush(self) -> list[Delivery]:
        """Join the rows that wait in batch mode."""
        if self.engine is None:
            return []
        with self.engine.attempt():
            return self._flush(self.engine, self.engine.close)

    def advance(self, watermark: Any) -> list[Delivery]:
        """Set the watermark, and return what windows give that close."""
        if self.engine is None:
            self.opening.hold_watermark(watermark, self.config.time)
            return []
        key = to_key(watermark, time_type(self.engine.plan))
        with self.engine.attempt(settles=False):
            return self.engine.advance(key)

    def finish(self) -> list[Delivery]:
        """Close all windows, and return what they give."""
        if self.engine is None:
            self.opening.hold_end()
            return []
        with self.engine.attempt():
            return self._flush(self.engine, self.engine.finish)

    def follow(self, engine: Engine, deliver: Deliver | None = None) -> list[Any]:
        """Let the watermark follow the data, if it is to."""
        if self.config.delay_us is None:
            return []
        return engine.follow(ticks(self.config.delay_us, engine.plan), deliver)

    def _begin(
        self, batches: Batches, is_self: bool, join: Callable[[Engine], list[Any]]
    ) -> tuple[list[Delivery], list[Any]]:
        """Hold batches back until both schemas are known, then go through them all.

        Returns what those give that waited, no rows since they are of one side, and what ``join``
        gives, which is for the last ones.
        """
        opening = self.opening
        if not all(opening.is_seen(side, batches) for side in SIDES):
            opening.hold(batches)
            return [], []
        schemas = opening.schemas | {side: batch.schema for side, batch in batches.items()}
        engine = make_engine(self.config, schemas, is_self=is_self and not opening.has_rows)
        waited: list[Delivery] = []
        with provisional():  # an interrupt leaves all that waits, and no engine
            for step in opening.steps:
                fitting = {
                    side: conform_batch(batch, schemas[side], side)
                    for side, batch in step.batches.items()
                }
                try:
                    waited += self._push(engine, replace(step, batches=fitting))
                except StreamJoinError as error:
                    opening.steps.remove(step)
                    error.add_note(
                        "this is about rows pushed earlier, which are dropped; push again"
                    )
                    raise
            found = join(engine)
        self.opening, self.engine = Opening(schemas), engine
        return waited, found

    def _push(self, engine: Engine, step: Step) -> list[Delivery]:
        """Join batches at once or, in batch mode, once there are enough."""
        delivered: list[Delivery] = []
        if not engine.collector.is_on:
            delivered += engine.flow(step.batches)
        else:
            engine.collect({side: owned(batch) for side, batch in step.batches.items()})
            if engine.collector.is_due:
                delivered += self._flush(engine, engine.close)
        if step.watermark is not None:
            watermark = to_key(step.watermark, time_type(engine.plan))
            delivered = self._closing(delivered, lambda: engine.advance(watermark))
        if step.is_last:
            delivered = self._closing(delivered, lambda: self._flush(engine, engine.finish))
        return self._closing(delivered, lambda: self.follow(engine))

    def _flush(self, engine: Engine, close: Callable[[], list[Delivery]]) -> list[Delivery]:
        """Join the rows that wait, then close windows."""
        return self._closing(engine.flush(), close)

    def _closing(
        self, delivered: list[Delivery], close: Callable[[], list[Delivery]]
    ) -> list[Delivery]:
        """Add what windows give that close; should that fail, the error has what was found."""
        try:
            return delivered + close()
        except StreamJoinError as error:
            error.found = [*delivered, *error.found]
            raise
