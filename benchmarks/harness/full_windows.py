"""Joins over windows that are full before anything is measured.

A window is filled without looking for matches, which a nested loop could not afford, but as the
join stores rows: in subwindows, in the turns of its cores, sorted by what its samples show to be
the best. This is where the benchmarks reach into the engine; suites ask for a join here and push
batches.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from benchmarks.harness.workloads import SCHEMA, SPAN, band_for, uniform_batch
from streamjoin.indexes.protocol import Index
from streamjoin.joins.build import make_engine
from streamjoin.joins.engine import Engine
from streamjoin.joins.messages import Step, Work
from streamjoin.joins.pairs.candidates import Found, check_pairs
from streamjoin.joins.pairs.deliver import Delivery, gather
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.split.executor import SplitExecutor
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.windows import CountWindow, Window

FILL_ROWS = 1 << 17  # per batch while a window is filled

Batches = Mapping[Side, pa.RecordBatch]
Deliver = Callable[[Found, pa.Schema], Iterator[Delivery]]


@runtime_checkable
class Fillable(Protocol):
    """An executor of a benchmark's own, which knows where it stores rows."""

    def fill(self, batches: dict[Side, Prepared]) -> None:
        """Store rows without looking for matches."""


def keep_ranges(found: Found, schema: pa.Schema) -> Iterator[Delivery]:
    """Leave the matches as ranges, expired rows of the oldest subwindow among them."""
    yield Delivery(len(found.matches))


def pair_ids(found: Found, schema: pa.Schema) -> Iterator[Delivery]:
    """Write every match out as a pair of row ids, and fetch no columns."""
    yield Delivery(sum(probes.size for probes, _ in check_pairs(found)))


def make_join(
    on: str,
    window: Window,
    schema: pa.Schema,
    time: str | None = None,
    deliver: Deliver = gather,
    **options: Any,
) -> Engine:
    """Make a join of two streams of one schema; options are those of `streamjoin.StreamJoin`."""
    config = JoinOptions.check(on, window, time, **options)
    return make_engine(config, dict.fromkeys(SIDES, schema), deliver=deliver)


def fill_windows(engine: Engine, batches: Batches) -> None:
    """Store rows where the join would, without looking for matches; no thread runs yet."""
    push = engine.prepare(batches)
    join = engine.executor
    if isinstance(join, Manager):
        join.restore(push.prepared)
    elif isinstance(join, SplitExecutor):
        for core in join.cores:
            core.take_turns(Step(0, push.prepared), join.living)
            for _ in core.run_work(Work(join.living, inserts=True)):
                pass  # storing gives nothing
    else:
        assert isinstance(join, Fillable)
        join.fill(push.prepared)
    engine.count(push)


class FullWindow:
    """A join over two full count windows, by a band if ``on`` says nothing else.

    Each step pushes a batch of either stream.
    """

    def __init__(
        self,
        window: int,
        batch: int,
        matches: float,
        algorithm: str,
        deliver: Deliver,
        seed: int,
        threads: int = 2,
        make_index: Callable[[int], Index] | None = None,
        on: str | None = None,
        span: int = SPAN,
    ) -> None:
        self.window, self.batch = CountWindow(window), batch
        on = on or band_for(window, matches)
        self.engine = make_join(
            on, self.window, SCHEMA, deliver=deliver, algorithm=algorithm, threads=threads
        )
        if make_index is not None:
            for chain in self.engine.chains.values():
                chain.make_index = lambda _, capacity: make_index(capacity)
        rng = np.random.default_rng(seed)
        for first in range(0, window, FILL_ROWS):
            rows = uniform_batch(rng, min(FILL_ROWS, window - first), span)
            fill_windows(self.engine, dict.fromkeys(SIDES, rows))
        steps = [{side: uniform_batch(rng, batch, span) for side in SIDES} for _ in range(8)]
        self.steps: Iterator[Batches] = cycle(steps)

    def run(self, steps: int) -> None:
        """Push ``steps`` batches of each stream."""
        for _ in range(steps):
            self.engine.push(next(self.steps))

    def raw_bytes(self) -> int:
        """Bytes of the window's keys and row ids and of its columns, and nothing else."""
        row = 8 + 4 + sum(field.type.bit_width // 8 for field in SCHEMA)
        return row * (self.window.left + self.window.right)

    def live_bytes(self) -> int:
        """Bytes that the engine holds."""
        return sum(chain.nbytes for chain in self.engine.chains.values())
